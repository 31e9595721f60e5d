//! Partition locations, alone and packed into parallel arrays.
//!
//! A packed list holds `input_location_size` locations, followed by their peers; `peer_indexes[k]` is the index of k's
//! peer in the whole list, or 2147483647 if it has none. Peers refer back.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::cursor::{DecodeError, Problem};
use super::lists::{Received, exactly};
use super::{internal, proto, received};
use crate::ids::{FileName, LocationId, Mode, WorkerId};

type Pair = received::PackedPartitionLocationsPair;
type Packed = received::PackedPartitionLocations;

/// The peer index that stands for "no peer".
pub const NO_PEER: i32 = i32::MAX;

/// The fewest bytes that a worker or a location takes on the wire: a real one has at least a host and four ports.
/// Shorter ones are refused, so that the memory that a server needs for them stays in proportion to what was sent.
pub(super) const LEN_MIN: usize = 14;

/// The storage type of every location, as numbered in [`proto::StorageInfo`]: a hard disk, wherever the bytes are. Celeborn's
/// C++ client reads nothing but 1 and 2, a solid state disk; larger numbers make a 0.5.4 client fail.
pub const STORAGE_HDD: i32 = 1;

/// One copy of a partition location, with the worker that holds it and the worker that holds the other copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Which location of the shuffle.
    pub id: LocationId,
    /// Which copy.
    pub mode: Mode,
    /// Where this copy is.
    pub worker: WorkerId,
    /// Where the other copy is, if the shuffle is replicated.
    pub peer: Option<WorkerId>,
}

impl Location {
    /// The other copy, if there is one.
    pub fn peer_location(&self) -> Option<Self> {
        let mode = match self.mode {
            Mode::Primary => Mode::Replica,
            Mode::Replica => Mode::Primary,
        };
        let worker = self.peer.clone()?;
        Some(Self { id: self.id, mode, worker, peer: Some(self.worker.clone()) })
    }

    /// This copy and, if there is one, the other.
    pub fn copies(&self) -> impl Iterator<Item = Self> {
        std::iter::once(self.clone()).chain(self.peer_location())
    }

    /// The name of this copy.
    pub fn file(&self) -> FileName {
        FileName { location: self.id, mode: self.mode }
    }

    /// The message for this location, with its peer one level deep.
    pub fn to_proto(&self) -> proto::PartitionLocation {
        let alone = |location: &Self| proto::PartitionLocation {
            mode: location.mode.to_wire().into(),
            id: location.id.partition.0,
            epoch: location.id.epoch.0,
            host: location.worker.host.to_string(),
            rpc_port: location.worker.rpc_port.into(),
            push_port: location.worker.push_port.into(),
            fetch_port: location.worker.fetch_port.into(),
            replicate_port: location.worker.replicate_port.into(),
            peer: None,
            storage_info: Some(proto::StorageInfo { r#type: STORAGE_HDD, ..Default::default() }),
            map_id_bitmap: Bytes::new(),
        };
        let peer = self.peer_location().map(|peer| Box::new(alone(&peer)));
        proto::PartitionLocation { peer, ..alone(self) }
    }

    /// Reads a location out of its message.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn of_message(message: &Received<received::PartitionLocation>) -> Result<Self, DecodeError> {
        let peer = message.part(received::PartitionLocation::PEER)?;
        Ok(Self {
            id: location_id(message.id, message.epoch)?,
            mode: mode(message.mode)?,
            worker: worker_of_location(message)?,
            peer: peer.as_ref().map(worker_of_location).transpose()?,
        })
    }

    /// Packs a list. Every array has an entry for every location, because the client indexes them all.
    pub fn pack(locations: &[Self]) -> proto::PackedPartitionLocationsPair {
        let size = locations.len();
        let mut peers = Vec::new();
        let mut peer_indexes = Vec::with_capacity(2 * size);
        let mut back = Vec::new();
        for (index, location) in locations.iter().enumerate() {
            match location.peer_location() {
                Some(peer) => {
                    peer_indexes.push(count(size + peers.len()));
                    peers.push(peer);
                    back.push(count(index));
                }
                None => peer_indexes.push(NO_PEER),
            }
        }
        peer_indexes.append(&mut back);
        let mut packed = proto::PackedPartitionLocations::default();
        let mut workers = BTreeMap::new();
        packed.mount_points_set.push(String::new());
        for location in locations.iter().chain(&peers) {
            let next = workers.len();
            let worker = *workers.entry(&location.worker).or_insert_with(|| {
                packed.worker_ids_set.push(location.worker.to_string());
                next
            });
            packed.ids.push(location.id.partition.0);
            packed.epoches.push(location.id.epoch.0);
            packed.worker_ids.push(count(worker));
            packed.map_id_bitmap.push(Bytes::new());
            packed.types.push(STORAGE_HDD);
            packed.mount_points.push(0);
            packed.final_result.push(false);
            packed.file_paths.push(String::new());
            packed.available_storage_types.push(0);
            packed.modes.push(location.mode.to_wire().into());
            packed.file_sizes.push(0);
            packed.chunks_offsets.push(proto::ChunkOffsets::default());
        }
        proto::PackedPartitionLocationsPair {
            locations: Some(packed),
            peer_indexes,
            input_location_size: count(size),
        }
    }

    /// Calls `each` with the list's locations one after the other, without the peers behind them.
    ///
    /// # Errors
    /// The arrays do not agree, or an index or a number is out of its range.
    pub fn unpack(pair: &Received<Pair>, mut each: impl FnMut(Self)) -> Result<(), DecodeError> {
        let packed = pair.part(Pair::LOCATIONS)?.unwrap_or_default();
        let total = packed.numbers(Packed::IDS).count();
        let others = [Packed::EPOCHES, Packed::WORKER_IDS, Packed::MODES];
        if others.into_iter().any(|list| packed.numbers(list).count() != total) {
            return Err(error("packed locations", Problem::Malformed("arrays of one length")));
        }
        let size = usize::try_from(pair.input_location_size).ok().filter(|size| *size <= total);
        let size = size.ok_or_else(|| {
            error("input location size", Problem::Unexpected(pair.input_location_size.into()))
        })?;
        // A worker takes more memory as an id than as text, so the texts are kept: a peer may be anywhere in the list.
        for text in packed.texts(Packed::WORKER_IDS_SET) {
            worker_of_text(text?)?;
        }
        let workers = packed.texts(Packed::WORKER_IDS_SET).count();
        let workers = exactly(workers, packed.texts(Packed::WORKER_IDS_SET))?;
        let indexes: Vec<i32> = exactly(total, packed.numbers(Packed::WORKER_IDS))?;
        let worker_at = |place: usize| {
            let index = indexes[place];
            let found = usize::try_from(index).ok().and_then(|index| workers.get(index));
            worker_of_text(found.ok_or_else(|| error("worker index", Problem::Unexpected(index.into())))?)
        };
        let ids = packed.numbers(Packed::IDS).zip(packed.numbers(Packed::EPOCHES));
        let mut peers = pair.numbers(Pair::PEER_INDEXES);
        for (place, ((id, epoch), number)) in ids.zip(packed.numbers(Packed::MODES)).take(size).enumerate() {
            let peer = match peers.next().transpose()?.unwrap_or(NO_PEER) {
                NO_PEER => None,
                peer => {
                    let place = usize::try_from(peer).ok().filter(|place| *place < total);
                    let place = place.ok_or_else(|| error("peer index", Problem::Unexpected(peer.into())))?;
                    Some(worker_at(place)?)
                }
            };
            let (id, mode) = (location_id(id?, epoch?)?, mode(number?)?);
            each(Self { id, mode, worker: worker_at(place)?, peer });
        }
        Ok(())
    }
}

impl Received<received::ReserveSlots> {
    /// An upper bound for the number of locations in the request.
    ///
    /// # Errors
    /// They are malformed.
    pub fn location_count(&self) -> Result<usize, DecodeError> {
        Ok(match self.packed()? {
            Some(pair) => {
                let there =
                    pair.part(Pair::LOCATIONS)?.map_or(0, |packed| packed.numbers(Packed::IDS).count());
                there.min(pair.input_location_size.try_into().unwrap_or(0))
            }
            None => self.plain().count(),
        })
    }

    /// All locations of the request, primaries and replicas, packed or not.
    ///
    /// # Errors
    /// They are malformed.
    pub fn locations(&self, mut each: impl FnMut(Location)) -> Result<(), DecodeError> {
        if let Some(pair) = self.packed()? {
            return Location::unpack(&pair, each);
        }
        for location in self.plain() {
            let (mode, message) = location?;
            if message.wire_len() < LEN_MIN {
                return Err(too_short(message.wire_len()));
            }
            each(Location { mode, ..Location::of_message(&message)? });
        }
        Ok(())
    }

    /// The packed list, which is used if there is no other.
    fn packed(&self) -> Result<Option<Received<Pair>>, DecodeError> {
        let pair = self.part(received::ReserveSlots::PARTITION_LOCATIONS_PAIR)?;
        Ok(pair.filter(|_| self.plain().next().is_none()))
    }

    fn plain(
        &self,
    ) -> impl Iterator<Item = Result<(Mode, Received<received::PartitionLocation>), DecodeError>> {
        let lists = [
            (Mode::Primary, received::ReserveSlots::PRIMARY_LOCATIONS),
            (Mode::Replica, received::ReserveSlots::REPLICA_LOCATIONS),
        ];
        lists.into_iter().flat_map(|(mode, list)| {
            self.messages(list).map(move |location| location.map(|location| (mode, location)))
        })
    }
}

impl From<&WorkerId> for proto::WorkerInfo {
    fn from(worker: &WorkerId) -> Self {
        Self {
            host: worker.host.to_string(),
            rpc_port: worker.rpc_port.into(),
            push_port: worker.push_port.into(),
            fetch_port: worker.fetch_port.into(),
            replicate_port: worker.replicate_port.into(),
            ..Self::default()
        }
    }
}

impl TryFrom<&Received<received::WorkerInfo>> for WorkerId {
    type Error = DecodeError;

    fn try_from(info: &Received<received::WorkerInfo>) -> Result<Self, Self::Error> {
        if info.wire_len() < LEN_MIN {
            return Err(too_short(info.wire_len()));
        }
        worker(&info.host, [info.rpc_port, info.push_port, info.fetch_port, info.replicate_port])
    }
}

impl From<&WorkerId> for internal::WorkerIdentity {
    fn from(worker: &WorkerId) -> Self {
        Self {
            host: worker.host.to_string(),
            rpc_port: worker.rpc_port.into(),
            push_port: worker.push_port.into(),
            fetch_port: worker.fetch_port.into(),
            replicate_port: worker.replicate_port.into(),
        }
    }
}

impl TryFrom<&received::WorkerIdentity> for WorkerId {
    type Error = DecodeError;

    fn try_from(identity: &received::WorkerIdentity) -> Result<Self, Self::Error> {
        let received::WorkerIdentity { host, rpc_port, push_port, fetch_port, replicate_port } = identity;
        worker(host, [*rpc_port, *push_port, *fetch_port, *replicate_port])
    }
}

fn worker_of_location(message: &Received<received::PartitionLocation>) -> Result<WorkerId, DecodeError> {
    worker(&message.host, [message.rpc_port, message.push_port, message.fetch_port, message.replicate_port])
}

/// The longest host name that DNS allows, in bytes.
const HOST_LEN_MAX: usize = 255;

fn worker(host: &str, ports: [i32; 4]) -> Result<WorkerId, DecodeError> {
    let port =
        |number: i32| u16::try_from(number).map_err(|_| error("port", Problem::Unexpected(number.into())));
    if host.is_empty() || host.len() > HOST_LEN_MAX {
        return Err(error("host", Problem::Malformed("1 to 255 bytes")));
    }
    let [rpc, push, fetch, replicate] = ports;
    Ok(WorkerId {
        host: host.into(),
        rpc_port: port(rpc)?,
        push_port: port(push)?,
        fetch_port: port(fetch)?,
        replicate_port: port(replicate)?,
    })
}

fn worker_of_text(text: &str) -> Result<WorkerId, DecodeError> {
    text.parse().map_err(|_| error("worker id", Problem::Malformed("`host:rpc:push:fetch:replicate`")))
}

fn location_id(partition: i32, epoch: i32) -> Result<LocationId, DecodeError> {
    if partition < 0 || epoch < 0 {
        return Err(error("location", Problem::Unexpected(partition.min(epoch).into())));
    }
    Ok(LocationId::new(partition, epoch))
}

fn mode(number: i32) -> Result<Mode, DecodeError> {
    Mode::from_wire(number).ok_or_else(|| error("mode", Problem::Unexpected(number.into())))
}

fn too_short(found: usize) -> DecodeError {
    error("worker or location", Problem::Truncated { needed: LEN_MIN, found })
}

fn error(field: &'static str, problem: Problem) -> DecodeError {
    DecodeError { field, offset: 0, problem }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("a shuffle has fewer than 2^31 locations")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message as a peer receives it.
    fn received<M: prost::Message + Default>(message: &impl prost::Message) -> Received<M> {
        Received::decode(message.encode_to_vec().into()).unwrap()
    }

    fn unpack(pair: &proto::PackedPartitionLocationsPair) -> Result<Vec<Location>, DecodeError> {
        let mut locations = Vec::new();
        Location::unpack(&received(pair), |location| locations.push(location)).map(|()| locations)
    }

    fn worker_at(port: u16) -> WorkerId {
        WorkerId {
            host: "h".into(),
            rpc_port: port,
            push_port: port + 1,
            fetch_port: port + 2,
            replicate_port: port + 3,
        }
    }

    fn locations() -> Vec<Location> {
        let location = |partition, mode, worker, peer: Option<u16>| Location {
            id: LocationId::new(partition, 1),
            mode,
            worker: worker_at(worker),
            peer: peer.map(worker_at),
        };
        vec![
            location(0, Mode::Primary, 10, Some(20)),
            location(1, Mode::Primary, 10, None),
            location(2, Mode::Replica, 10, Some(30)),
        ]
    }

    #[test]
    fn a_packed_list_has_whole_arrays_and_unpacks() {
        let pair = Location::pack(&locations());
        assert_eq!(pair.peer_indexes, [3, NO_PEER, 4, 0, 2]);
        let packed = pair.locations.as_ref().unwrap();
        assert_eq!(packed.ids, [0, 1, 2, 0, 2]);
        assert_eq!(packed.worker_ids, [0, 0, 0, 1, 2]);
        assert_eq!(packed.modes, [0, 0, 1, 1, 0]);
        assert_eq!(packed.types, [1; 5], "a C++ client reads HDD and SSD only");
        assert_eq!(
            (packed.map_id_bitmap.len(), packed.file_paths.len(), packed.final_result.len()),
            (5, 5, 5)
        );
        assert_eq!(unpack(&pair), Ok(locations()));
    }

    #[test]
    fn a_location_survives_its_own_message() {
        for location in locations() {
            assert_eq!(location.to_proto().storage_info.unwrap().r#type, 1);
            assert_eq!(Location::of_message(&received(&location.to_proto())), Ok(location));
        }
    }

    #[test]
    fn arrays_that_disagree_are_refused() {
        let pair = Location::pack(&locations());
        let broken = |change: &dyn Fn(&mut proto::PackedPartitionLocationsPair)| {
            let mut pair = pair.clone();
            change(&mut pair);
            unpack(&pair).unwrap_err().field
        };
        assert_eq!(broken(&|pair| pair.input_location_size = 6), "input location size");
        assert_eq!(broken(&|pair| pair.peer_indexes[0] = 5), "peer index");
        assert_eq!(broken(&|pair| pair.locations.as_mut().unwrap().worker_ids[1] = -1), "worker index");
        assert_eq!(broken(&|pair| pair.locations.as_mut().unwrap().modes[1] = 2), "mode");
        assert_eq!(broken(&|pair| pair.locations.as_mut().unwrap().epoches.truncate(1)), "packed locations");
        assert_eq!(
            broken(&|pair| pair.locations.as_mut().unwrap().worker_ids_set[0] = "x".into()),
            "worker id"
        );
    }

    #[test]
    fn what_is_too_short_to_be_real_is_refused() {
        let smallest = WorkerId { rpc_port: 1024, push_port: 1024, ..worker_at(1024) };
        let info = |worker: &WorkerId| received(&proto::WorkerInfo::from(worker));
        assert_eq!(WorkerId::try_from(&info(&smallest)), Ok(smallest));
        let error = WorkerId::try_from(&received(&proto::WorkerInfo::default())).unwrap_err();
        assert_eq!(error.field, "worker or location");
        let request = |location| proto::ReserveSlots {
            primary_locations: vec![location],
            ..proto::ReserveSlots::default()
        };
        let read = |request: &proto::ReserveSlots| {
            let mut locations = Vec::new();
            let request: Received<received::ReserveSlots> = received(request);
            assert_eq!(request.location_count(), Ok(1));
            request.locations(|location| locations.push(location)).map(|()| locations)
        };
        assert_eq!(read(&request(locations()[1].to_proto())), Ok(vec![locations()[1].clone()]));
        assert!(read(&request(proto::PartitionLocation::default())).is_err());
    }
}
