//! Converts protobuf messages into the state's inputs, and its replies into protobuf messages.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{LifeId, User};
use super::state::{
    ApplicationHealth, ApplicationPulse, ApplicationRegistration, NAMED_MAX, OrderBatch, SlotGrant,
    SlotRequest,
};
use crate::ids::{ApplicationId, Epoch, LocationId, Mode, PartitionId, ShuffleId, ShuffleKey, WorkerId};
use crate::report::{Directory, HeldShuffle, Registration, Report};
use crate::wire::lists::{Messages, Numbers, exactly};
use crate::wire::packed::Location;
use crate::wire::{DecodeError, Problem, Received, Status, WORKER_SHUFFLES_MAX, internal, proto, received};

/// The longest application id that is read, so that one that is not taken can be refused by its name.
const APPLICATION_ID_LEN_MAX: usize = 1024;
/// The longest rack and version that a worker may name.
const WORKER_TEXT_LEN_MAX: usize = 1024;

/// An application's id from a message.
///
/// # Errors
/// It is empty or too long.
pub fn application_id(text: &str) -> Result<ApplicationId, DecodeError> {
    if text.is_empty() || text.len() > APPLICATION_ID_LEN_MAX {
        return Err(malformed("application id", "1 to 1024 bytes"));
    }
    Ok(ApplicationId::from(text))
}

/// The user from a message; the default user if there is none.
pub fn user(message: Option<&received::UserIdentifier>) -> User {
    let given = |text: &str, default: String| {
        if text.is_empty() || text.len() > WORKER_TEXT_LEN_MAX { default } else { text.to_owned() }
    };
    let default = User::default();
    match message {
        Some(user) => {
            User { tenant: given(&user.tenant_id, default.tenant), name: given(&user.name, default.name) }
        }
        None => default,
    }
}

/// An application's heartbeat.
///
/// # Errors
/// An id is malformed, or it names too many workers.
pub fn pulse(
    message: &Received<received::HeartbeatFromApplication>,
) -> Result<ApplicationPulse, DecodeError> {
    Ok(ApplicationPulse {
        application: application_id(&message.app_id)?,
        workers: workers(message, received::HeartbeatFromApplication::NEED_CHECKED_WORKER_LIST)?,
    })
}

/// The answer to an application's heartbeat. A client of 0.6 also expects to be told that its quota is not used up.
pub fn health(health: &ApplicationHealth) -> proto::HeartbeatFromApplicationResponse {
    let infos = |workers: &[WorkerId]| workers.iter().map(proto::WorkerInfo::from).collect();
    proto::HeartbeatFromApplicationResponse {
        status: Status::Success.code(),
        excluded_workers: infos(&health.excluded),
        unknown_workers: infos(&health.unknown),
        shutting_workers: infos(&health.shutting),
        registered_shuffles: health.shuffles.iter().map(|shuffle| shuffle.0).collect(),
        check_quota_response: Some(proto::CheckQuotaResponse { available: true, reason: String::new() }),
    }
}

/// The most workers that one request may name; each address of a worker counts as one.
const WORKERS_NAMED_MAX: usize = 1 << 17;

/// A list of workers.
///
/// # Errors
/// A port is out of range, or there are too many.
pub fn workers<M>(
    message: &Received<M>,
    list: Messages<M, received::WorkerInfo>,
) -> Result<Vec<WorkerId>, DecodeError> {
    check_count("workers", message.messages(list).count(), WORKERS_NAMED_MAX)?;
    message.messages(list).map(|info| WorkerId::try_from(&info?)).collect()
}

/// The most partitions of one request for slots, the same as a worker takes of one shuffle.
const PARTITIONS_MAX: usize = 1 << 20;

/// A request for slots, sent on a connection.
///
/// # Errors
/// An id is malformed, or it names too many partitions or workers.
pub fn slot_request(
    connection: u64,
    message: &Received<received::RequestSlots>,
) -> Result<SlotRequest, DecodeError> {
    let ids = || message.numbers(received::RequestSlots::PARTITION_ID_LIST);
    // Checked before decoding: a location takes a hundred times as much memory as its number takes on the wire.
    check_count("partitions", ids().count(), PARTITIONS_MAX)?;
    let partition = |id: Result<i32, DecodeError>| match id? {
        ..0 => Err(malformed("partition id", "a number from 0")),
        id => Ok(PartitionId(id)),
    };
    Ok(SlotRequest {
        application: application_id(&message.application_id)?,
        user: user(message.user_identifier.as_ref()),
        shuffle: shuffle_id(message.shuffle_id)?,
        partitions: exactly(ids().count(), ids().map(partition))?,
        replicate: message.should_replicate,
        rack_aware: message.should_rack_aware,
        workers_max: message.max_workers.try_into().unwrap_or(0),
        excluded: BTreeSet::from_iter(workers(message, received::RequestSlots::EXCLUDED_WORKER_SET)?),
        driver: message.hostname.clone(),
        tagged: !message.tags_expr.is_empty(),
        connection,
    })
}

/// Granted locations by worker, all of epoch 0; spare workers have empty lists.
pub fn slots(grant: &SlotGrant, packed: bool) -> proto::RequestSlotsResponse {
    let mut lists: Vec<Vec<Location>> = vec![Vec::new(); grant.workers.len()];
    for (partition, primary, replica) in &grant.placements {
        let id = LocationId { partition: *partition, epoch: Epoch(0) };
        let place = |worker: usize, mode, peer: Option<usize>| Location {
            id,
            mode,
            worker: grant.workers[worker].0.clone(),
            peer: peer.map(|peer| grant.workers[peer].0.clone()),
        };
        lists[*primary].push(place(*primary, Mode::Primary, *replica));
        if let Some(replica) = replica {
            lists[*replica].push(place(*replica, Mode::Replica, Some(*primary)));
        }
    }
    let mut response = proto::RequestSlotsResponse {
        status: Status::Success.code(),
        ..proto::RequestSlotsResponse::default()
    };
    for ((worker, rack), locations) in grant.workers.iter().zip(&lists) {
        let network_location = rack.clone();
        if packed {
            let location_pairs = Some(Location::pack(locations));
            let resource = proto::PackedWorkerResource { location_pairs, network_location };
            response.packed_worker_resource.insert(worker.to_string(), resource);
        } else {
            let of = |mode| {
                let chosen = locations.iter().filter(move |location| location.mode == mode);
                chosen.map(Location::to_proto).collect()
            };
            let resource = proto::WorkerResource {
                primary_partitions: of(Mode::Primary),
                replica_partitions: of(Mode::Replica),
                network_location,
            };
            response.worker_resource.insert(worker.to_string(), resource);
        }
    }
    response
}

/// A shuffle's number from a message.
///
/// # Errors
/// It is negative.
pub fn shuffle_id(number: i32) -> Result<ShuffleId, DecodeError> {
    if number < 0 { Err(malformed("shuffle id", "a number from 0")) } else { Ok(ShuffleId(number)) }
}

/// A worker's identity.
///
/// # Errors
/// It is missing, or a port is out of range.
pub fn worker(identity: Option<&received::WorkerIdentity>) -> Result<WorkerId, DecodeError> {
    WorkerId::try_from(identity.ok_or_else(|| malformed("worker", "its identity"))?)
}

/// A worker's registration.
///
/// # Errors
/// An id is malformed or a text too long.
pub fn registration(message: &Received<received::WorkerRegister>) -> Result<Registration, DecodeError> {
    let worker = worker(message.worker.as_ref())?;
    if message.network_location.len().max(message.version.len()) > WORKER_TEXT_LEN_MAX {
        return Err(malformed("network location or version", "at most 1024 bytes"));
    }
    let ports = || message.numbers(received::WorkerRegister::PUSH_PORTS);
    let count = ports().count();
    check_count("push ports", count, WorkerId::PUSH_PORTS_MAX)?;
    let port = |number: Result<i32, DecodeError>| {
        number?.try_into().map_err(|_| malformed("push port", "a number below 65536"))
    };
    let push_ports = exactly(count, ports().map(port))?;
    Ok(Registration {
        worker,
        incarnation: message.incarnation,
        http_port: message.http_port.try_into().unwrap_or(0),
        network_location: message.network_location.clone(),
        version: message.version.clone(),
        report: report(message.part(received::WorkerRegister::REPORT)?)?,
        push_ports,
    })
}

/// The most directories of a worker.
const DIRECTORIES_MAX: usize = 1024;
/// The most shuffles in a worker's report: far above the worker's own limit, which it may exceed a little when several
/// arrive at once; a worker whose report is refused is lost.
const HELD_SHUFFLES_MAX: usize = 2 * WORKER_SHUFFLES_MAX;

/// A worker's report; if absent, the worker holds nothing.
///
/// # Errors
/// An id is malformed, or there are too many directories or shuffles.
pub fn report(message: Option<Received<received::WorkerReport>>) -> Result<Report, DecodeError> {
    let message = message.unwrap_or_default();
    // Checked before decoding, as the partitions of a request for slots are.
    let directories = || message.messages(received::WorkerReport::DIRECTORIES);
    check_count("directories", directories().count(), DIRECTORIES_MAX)?;
    let shuffles = || message.messages(received::WorkerReport::SHUFFLES);
    check_count("held shuffles", shuffles().count(), HELD_SHUFFLES_MAX)?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let directory = |report: Result<Received<received::DirectoryReport>, _>| {
        let report = report?;
        Ok(Directory {
            path: report.path.clone(),
            bytes_total: count(report.bytes_total),
            bytes_usable: count(report.bytes_usable),
            health: report.health().into(),
        })
    };
    let held = |held: Result<Received<received::HeldShuffle>, _>| {
        let held = held?;
        let name = held.name.as_ref().ok_or_else(|| malformed("held shuffle", "its name"))?;
        Ok(HeldShuffle {
            shuffle: ShuffleKey {
                application: application_id(&name.application)?,
                shuffle: shuffle_id(name.shuffle)?,
            },
            locations: count(held.locations),
            bytes: count(held.bytes),
        })
    };
    Ok(Report {
        phase: message.phase().into(),
        memory_limit_bytes: count(message.memory_limit_bytes),
        memory_used_bytes: count(message.memory_used_bytes),
        shuffles: shuffles().map(held).collect::<Result<_, DecodeError>>()?,
        saturated: message.saturated,
        open_locations: count(message.open_locations),
        directories: directories().map(directory).collect::<Result<_, DecodeError>>()?,
    })
}

/// Orders to a worker.
pub fn orders(batch: &OrderBatch) -> internal::WorkerOrders {
    let name = |key: &ShuffleKey| internal::ShuffleName {
        application: key.application.to_string(),
        shuffle: key.shuffle.0,
    };
    internal::WorkerOrders {
        status: Status::Success.code(),
        sequence: batch.sequence,
        expired: batch.expired.iter().map(name).collect(),
        command: internal::WorkerCommand::from(batch.command).into(),
    }
}

/// A list of shuffles' numbers.
///
/// # Errors
/// One is negative, or there are too many.
pub fn shuffle_ids<M>(message: &Received<M>, list: Numbers<M, i32>) -> Result<Vec<ShuffleId>, DecodeError> {
    check_count("shuffle ids", message.numbers(list).count(), NAMED_MAX)?;
    message.numbers(list).map(|number| shuffle_id(number?)).collect()
}

/// The most properties that an application may send; fewer than these are kept.
const PROPERTIES_SENT_MAX: usize = 4096;

/// An application's registration, sent on a connection.
///
/// # Errors
/// The application's id is malformed, the request's too long, or there are too many properties.
pub fn application_registration(
    connection: u64,
    message: &Received<received::RegisterApplicationInfo>,
) -> Result<ApplicationRegistration, DecodeError> {
    if message.request_id.len() > LifeId::LEN_MAX {
        return Err(malformed("request id", "at most 128 bytes"));
    }
    Ok(ApplicationRegistration {
        application: application_id(&message.app_id)?,
        user: user(message.user_identifier.as_ref()),
        properties: properties(message)?,
        life: LifeId::new(&message.request_id),
        connection,
    })
}

/// Properties of an application, ordered by key; of two with one key the later counts.
///
/// # Errors
/// They are malformed or too many.
fn properties(
    message: &Received<received::RegisterApplicationInfo>,
) -> Result<Vec<(String, String)>, DecodeError> {
    let extra = || message.messages(received::RegisterApplicationInfo::EXTRA_INFO);
    check_count("extra info", extra().count(), PROPERTIES_SENT_MAX)?;
    let extra = extra().map(|entry| entry.map(|entry| (entry.key.clone(), entry.value.clone())));
    Ok(extra.collect::<Result<BTreeMap<_, _>, _>>()?.into_iter().collect())
}

/// Refuses a list that is too long.
fn check_count(field: &'static str, found: usize, max: usize) -> Result<(), DecodeError> {
    if found <= max {
        return Ok(());
    }
    let problem = Problem::TooLong { found: found as u64, max: max as u64 };
    Err(DecodeError { field, offset: 0, problem })
}

fn malformed(field: &'static str, expected: &'static str) -> DecodeError {
    DecodeError { field, offset: 0, problem: Problem::Malformed(expected) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::Message;

    fn grant() -> SlotGrant {
        let worker =
            |number: u16| (format!("w{number}:1:2:3:{number}").parse().unwrap(), format!("/rack{number}"));
        SlotGrant {
            workers: vec![worker(0), worker(1), worker(2)],
            placements: vec![(PartitionId(4), 0, Some(1)), (PartitionId(9), 1, Some(0))],
        }
    }

    /// The locations of each worker, as a client reads them.
    fn read(response: &proto::RequestSlotsResponse) -> BTreeMap<String, (String, Vec<Location>)> {
        type Response = received::RequestSlotsResponse;
        let response: Received<Response> = Message::of(response).parse().unwrap();
        let mut workers = BTreeMap::new();
        for entry in response.messages(Response::PACKED_WORKER_RESOURCE) {
            let entry = entry.unwrap();
            let resource = entry.part(received::request_slots_response::PackedWorkerResourceEntry::VALUE);
            let resource = resource.unwrap().unwrap();
            let pair = resource.part(received::PackedWorkerResource::LOCATION_PAIRS).unwrap().unwrap();
            let mut locations = Vec::new();
            Location::unpack(&pair, |location| locations.push(location)).unwrap();
            workers.insert(entry.key.clone(), (resource.network_location.clone(), locations));
        }
        for entry in response.messages(Response::WORKER_RESOURCE) {
            let entry = entry.unwrap();
            let resource = entry.part(received::request_slots_response::WorkerResourceEntry::VALUE);
            let resource = resource.unwrap().unwrap();
            let primaries = resource.messages(received::WorkerResource::PRIMARY_PARTITIONS);
            let both = primaries.chain(resource.messages(received::WorkerResource::REPLICA_PARTITIONS));
            let locations = both.map(|location| Location::of_message(&location.unwrap()).unwrap());
            workers.insert(entry.key.clone(), (resource.network_location.clone(), locations.collect()));
        }
        workers
    }

    #[test]
    fn a_request_for_more_partitions_than_there_can_be_is_refused_before_it_takes_memory() {
        let asked = |count: usize| {
            let request = proto::RequestSlots {
                application_id: "app".to_owned(),
                partition_id_list: vec![7; count],
                ..Default::default()
            };
            slot_request(7, &Message::of(&request).parse().unwrap())
        };
        assert_eq!(asked(PARTITIONS_MAX).unwrap().partitions.len(), PARTITIONS_MAX);
        assert!(asked(PARTITIONS_MAX + 1).is_err());
    }

    #[test]
    fn lists_that_are_too_long_are_refused_before_they_take_memory() {
        let with = |directories: usize| {
            let directories = vec![internal::DirectoryReport::default(); directories];
            let report = internal::WorkerReport { directories, ..Default::default() };
            let beat = internal::WorkerHeartbeat { report: Some(report), ..Default::default() };
            let beat: Received<received::WorkerHeartbeat> = Message::of(&beat).parse().unwrap();
            report_of(&beat).map(|report| report.directories.len())
        };
        assert_eq!(with(DIRECTORIES_MAX).unwrap(), DIRECTORIES_MAX);
        assert!(with(DIRECTORIES_MAX + 1).is_err());

        let holding = |shuffles: usize| {
            let name = internal::ShuffleName { application: "a".to_owned(), shuffle: 1 };
            let held = internal::HeldShuffle { name: Some(name), ..Default::default() };
            let report = internal::WorkerReport { shuffles: vec![held; shuffles], ..Default::default() };
            let beat = internal::WorkerHeartbeat { report: Some(report), ..Default::default() };
            let beat: Received<received::WorkerHeartbeat> = Message::of(&beat).parse().unwrap();
            report_of(&beat).map(|report| report.shuffles.len())
        };
        assert_eq!(holding(7).unwrap(), 7);
        let error = holding(HELD_SHUFFLES_MAX + 1).unwrap_err().to_string();
        assert_eq!(error, "held shuffles at offset 0: length 131073 is above the limit of 131072");

        let listing = |shuffles: usize| {
            let request =
                proto::BatchUnregisterShuffles { shuffle_ids: vec![7; shuffles], ..Default::default() };
            let request: Received<received::BatchUnregisterShuffles> = Message::of(&request).parse().unwrap();
            shuffle_ids(&request, received::BatchUnregisterShuffles::SHUFFLE_IDS).map(|ids| ids.len())
        };
        assert_eq!(listing(NAMED_MAX).unwrap(), NAMED_MAX);
        assert!(listing(NAMED_MAX + 1).is_err());

        let saying = |entries: usize| {
            let extra_info = (0..entries).map(|entry| (entry.to_string(), String::new())).collect();
            let request = proto::RegisterApplicationInfo { extra_info, ..Default::default() };
            properties(&Message::of(&request).parse().unwrap()).map(|properties| properties.len())
        };
        assert_eq!(saying(PROPERTIES_SENT_MAX).unwrap(), PROPERTIES_SENT_MAX);
        assert!(saying(PROPERTIES_SENT_MAX + 1).is_err());
    }

    #[test]
    fn more_workers_than_there_can_be_are_refused_before_they_take_memory() {
        let asks = |workers: usize| {
            let worker: WorkerId = "w:1000:1000:1000:1000".parse().unwrap();
            let need_checked_worker_list = vec![proto::WorkerInfo::from(&worker); workers];
            let app_id = "app".to_owned();
            let beat =
                proto::HeartbeatFromApplication { app_id, need_checked_worker_list, ..Default::default() };
            pulse(&Message::of(&beat).parse().unwrap()).map(|pulse| pulse.workers.len())
        };
        assert_eq!(asks(WORKERS_NAMED_MAX).unwrap(), WORKERS_NAMED_MAX);
        assert!(asks(WORKERS_NAMED_MAX + 1).is_err());
    }

    fn report_of(beat: &Received<received::WorkerHeartbeat>) -> Result<Report, DecodeError> {
        report(beat.part(received::WorkerHeartbeat::REPORT)?)
    }

    #[test]
    fn a_worker_that_the_journal_could_not_name_is_refused() {
        let named = |host: &str| {
            let identity = received::WorkerIdentity { host: host.to_owned(), ..Default::default() };
            worker(Some(&identity)).is_ok()
        };
        assert!(named("w") && named(&"w".repeat(255)));
        assert!(!named("") && !named(&"w".repeat(256)));
    }

    #[test]
    fn packed_and_unpacked_replies_say_the_same() {
        let packed = slots(&grant(), true);
        let plain = slots(&grant(), false);
        assert!(packed.worker_resource.is_empty() && plain.packed_worker_resource.is_empty());
        let (packed, mut plain) = (read(&packed), read(&plain));
        assert_eq!(packed.len(), 3, "the spare worker is listed");
        for (_, locations) in plain.values_mut() {
            locations.sort_by_key(|location| location.id);
        }
        assert_eq!(packed, plain);
        let (rack, locations) = &packed["w0:1:2:3:0"];
        let modes: Vec<(i32, Mode)> = locations.iter().map(|l| (l.id.partition.0, l.mode)).collect();
        assert_eq!(modes, [(4, Mode::Primary), (9, Mode::Replica)]);
        assert_eq!(rack, "/rack0");
    }

    #[test]
    fn malformed_ids_are_refused() {
        let request = |app: &str, shuffle, partition| {
            let request = proto::RequestSlots {
                application_id: app.to_owned(),
                shuffle_id: shuffle,
                partition_id_list: vec![partition],
                ..proto::RequestSlots::default()
            };
            Message::of(&request).parse().unwrap()
        };
        assert!(slot_request(7, &request("app", 0, 0)).is_ok());
        assert!(slot_request(7, &request("", 0, 0)).is_err());
        assert!(slot_request(7, &request(&"a".repeat(1025), 0, 0)).is_err());
        assert!(slot_request(7, &request("app", -1, 0)).is_err());
        assert!(slot_request(7, &request("app", 0, -1)).is_err());
        assert!(registration(&Received::default()).is_err());
    }
}
