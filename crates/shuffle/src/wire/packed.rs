//! Partition locations, alone and packed into parallel arrays.
//!
//! A packed list gives `input_location_size` locations and behind them the peers that those refer to; `peer_indexes[k]` is
//! the place of k's peer, counted from the front of the whole list, or 2147483647. Peers refer back.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::cursor::{DecodeError, Problem};
use super::proto;
use crate::ids::{LocationId, Mode, WorkerId};

/// The peer index that stands for "no peer".
pub const NO_PEER: i32 = i32::MAX;

/// Where a location's bytes are, as numbered in [`proto::StorageInfo`]. Larger numbers make a 0.5.4 client fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StorageKind {
    /// In the worker's memory. A client never tries to read such a file itself.
    #[default]
    Memory = 0,
    /// On a spinning disk.
    Hdd = 1,
    /// On a solid state disk.
    Ssd = 2,
}

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
            storage_info: Some(proto::StorageInfo::default()),
            map_id_bitmap: Bytes::new(),
        };
        let peer = self.peer_location().map(|peer| Box::new(alone(&peer)));
        proto::PartitionLocation { peer, ..alone(self) }
    }

    /// Reads a location out of its message.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn from_proto(message: &proto::PartitionLocation) -> Result<Self, DecodeError> {
        let peer = message.peer.as_deref().map(worker_of_location).transpose()?;
        Ok(Self {
            id: location_id(message.id, message.epoch)?,
            mode: mode(message.mode)?,
            worker: worker_of_location(message)?,
            peer,
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
            packed.types.push(StorageKind::Memory as i32);
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

    /// Unpacks the list, without the peers behind it.
    ///
    /// # Errors
    /// The arrays do not agree, or an index or a number is out of its range.
    pub fn unpack(pair: &proto::PackedPartitionLocationsPair) -> Result<Vec<Self>, DecodeError> {
        let empty = proto::PackedPartitionLocations::default();
        let packed = pair.locations.as_ref().unwrap_or(&empty);
        let total = packed.ids.len();
        let lens = [packed.epoches.len(), packed.worker_ids.len(), packed.modes.len()];
        if lens.iter().any(|len| *len != total) {
            return Err(error("packed locations", Problem::Malformed("arrays of one length")));
        }
        let size = usize::try_from(pair.input_location_size).ok().filter(|size| *size <= total);
        let size = size.ok_or_else(|| {
            error("input location size", Problem::Unexpected(pair.input_location_size.into()))
        })?;
        let workers: Vec<WorkerId> =
            packed.worker_ids_set.iter().map(|id| worker_of_text(id)).collect::<Result<_, _>>()?;
        let worker_at = |index: usize| {
            let worker = packed.worker_ids[index];
            let found = usize::try_from(worker).ok().and_then(|worker| workers.get(worker));
            found.cloned().ok_or_else(|| error("worker index", Problem::Unexpected(worker.into())))
        };
        let mut locations = Vec::with_capacity(size);
        for index in 0..size {
            let peer = match pair.peer_indexes.get(index).copied().unwrap_or(NO_PEER) {
                NO_PEER => None,
                peer => {
                    let place = usize::try_from(peer).ok().filter(|place| *place < total);
                    let place = place.ok_or_else(|| error("peer index", Problem::Unexpected(peer.into())))?;
                    Some(worker_at(place)?)
                }
            };
            locations.push(Self {
                id: location_id(packed.ids[index], packed.epoches[index])?,
                mode: mode(packed.modes[index])?,
                worker: worker_at(index)?,
                peer,
            });
        }
        Ok(locations)
    }
}

impl proto::ReserveSlots {
    /// All locations of the request, primaries and replicas, however they came.
    ///
    /// # Errors
    /// They are malformed.
    pub fn locations(&self) -> Result<Vec<Location>, DecodeError> {
        match &self.partition_locations_pair {
            Some(pair) if self.primary_locations.is_empty() && self.replica_locations.is_empty() => {
                Location::unpack(pair)
            }
            _ => {
                let primaries = self.primary_locations.iter().map(|location| (Mode::Primary, location));
                let replicas = self.replica_locations.iter().map(|location| (Mode::Replica, location));
                let locations = primaries
                    .chain(replicas)
                    .map(|(mode, location)| Ok(Location { mode, ..Location::from_proto(location)? }));
                locations.collect()
            }
        }
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

impl TryFrom<&proto::WorkerInfo> for WorkerId {
    type Error = DecodeError;

    fn try_from(info: &proto::WorkerInfo) -> Result<Self, Self::Error> {
        let ports = [info.rpc_port, info.push_port, info.fetch_port, info.replicate_port];
        worker(&info.host, ports)
    }
}

fn worker_of_location(message: &proto::PartitionLocation) -> Result<WorkerId, DecodeError> {
    worker(&message.host, [message.rpc_port, message.push_port, message.fetch_port, message.replicate_port])
}

fn worker(host: &str, ports: [i32; 4]) -> Result<WorkerId, DecodeError> {
    let port =
        |number: i32| u16::try_from(number).map_err(|_| error("port", Problem::Unexpected(number.into())));
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

fn error(field: &'static str, problem: Problem) -> DecodeError {
    DecodeError { field, offset: 0, problem }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).expect("a shuffle has fewer than 2^31 locations")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            (packed.map_id_bitmap.len(), packed.file_paths.len(), packed.final_result.len()),
            (5, 5, 5)
        );
        assert_eq!(Location::unpack(&pair).unwrap(), locations());
    }

    #[test]
    fn a_location_survives_its_own_message() {
        for location in locations() {
            assert_eq!(Location::from_proto(&location.to_proto()), Ok(location));
        }
    }

    #[test]
    fn arrays_that_disagree_are_refused() {
        let pair = Location::pack(&locations());
        let broken = |change: &dyn Fn(&mut proto::PackedPartitionLocationsPair)| {
            let mut pair = pair.clone();
            change(&mut pair);
            Location::unpack(&pair).unwrap_err().field
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
}
