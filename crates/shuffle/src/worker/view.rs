//! A worker as its pages and its metrics show it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::node::Node;
use super::store::directory::Directory;
use super::store::shuffle::Shuffle;
use crate::api;
use crate::ids::{Mode, ShuffleKey};
use crate::metrics::Exposition;
use crate::report::{Health, Phase};

/// Who the worker is and what it is doing.
pub(super) fn worker(node: &Node) -> Value {
    let phase = node.phase();
    let state = match phase {
        Phase::Normal => "Normal",
        Phase::Stopping => "InGraceFul",
        Phase::Decommissioning => "InDecommission",
    };
    let directories = node.store.directories().iter().map(|directory| {
        let text = api::directory(directory.usable(), directory.total(), directory.health());
        (directory.root().display().to_string(), text)
    });
    let mut fields = api::worker(&node.id, state, node.open_locations() as u64, directories.collect());
    let memory = node.store.memory();
    let more = [
        ("isRegistered", json!(node.is_registered())),
        ("isShutdown", json!(phase == Phase::Stopping)),
        ("isDecommissioning", json!(phase == Phase::Decommissioning)),
        ("networkLocation", json!(node.options.network_location)),
        // Beyond Celeborn's fields:
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("memoryUsedBytes", json!(memory.used())),
        ("memoryLimitBytes", json!(memory.limit())),
        ("bytesAppended", json!(node.appended())),
    ];
    fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

/// Why it takes no shuffles; `None` while it does.
pub(super) fn ailment(node: &Node) -> Option<String> {
    match node.phase() {
        Phase::Stopping => return Some("the worker stops".to_owned()),
        Phase::Decommissioning => return Some("the worker is decommissioned".to_owned()),
        Phase::Normal => {}
    }
    if !node.is_registered() {
        return Some("no master knows the worker".to_owned());
    }
    let directories = node.store.directories();
    if directories.iter().any(|directory| directory.health() == Health::Healthy) {
        return None;
    }
    let health = directories.iter().map(|directory| {
        let health = if directory.health() == Health::Full { "is full" } else { "has failed" };
        format!("{} {health}", directory.root().display())
    });
    Some(format!("no directory takes batches: {}", health.collect::<Vec<_>>().join(", ")))
}

/// The shuffles that it holds.
pub(super) fn shuffles(node: &Node) -> Value {
    let keys: BTreeSet<String> = node.store.all().iter().map(|shuffle| shuffle.key().to_string()).collect();
    json!({ "shuffleIds": keys })
}

/// The applications of which it holds shuffles.
pub(super) fn applications(node: &Node) -> Value {
    json!({ "applications": running(node) })
}

fn running(node: &Node) -> BTreeSet<String> {
    node.store.all().iter().map(|shuffle| shuffle.key().application.to_string()).collect()
}

/// The locations of all shuffles, or of one.
///
/// # Errors
/// How many there are, if they are more than `locations_max`.
pub(super) fn partitions(
    node: &Node,
    only: Option<&ShuffleKey>,
    locations_max: usize,
) -> Result<Value, usize> {
    let mut shuffles = node.store.all();
    shuffles.retain(|shuffle| only.is_none_or(|only| shuffle.key() == only));
    let count = shuffles.iter().map(|shuffle| shuffle.lock().state.len()).sum();
    if count > locations_max {
        return Err(count);
    }
    let of_mode = |mode: Mode| -> Map<String, Value> {
        let locations =
            shuffles.iter().map(|shuffle| (shuffle.key().to_string(), locations(node, shuffle, mode)));
        locations.filter(|(_, locations)| locations.as_object().is_some_and(|all| !all.is_empty())).collect()
    };
    Ok(json!({
        "primaryPartitions": of_mode(Mode::Primary),
        "replicaPartitions": of_mode(Mode::Replica),
    }))
}

/// The locations of one shuffle by their names.
fn locations(node: &Node, shuffle: &Shuffle, mode: Mode) -> Value {
    let contents = shuffle.lock();
    let of_mode = contents.state.slots().filter(|(file, _)| file.mode == mode);
    let shown = of_mode.map(|(file, slot)| {
        let copy = contents.copies.get(&slot);
        let is_on_disk = copy.is_some_and(|copy| copy.index().bytes() > copy.resident());
        let location = file.location.to_string();
        let mut fields = json!({
            "idEpoch": location,
            "hostAndPorts": node.id.to_string(),
            "mode": if mode == Mode::Primary { "PRIMARY" } else { "REPLICA" },
            // A disk's kind is not known here; Celeborn calls it so where nobody says.
            "storage": if is_on_disk { "HDD" } else { "MEMORY" },
        });
        if let Some(peer) = contents.state.peer(file) {
            fields["peer"] = json!(&**peer);
        }
        (location, fields)
    });
    Value::Object(shown.collect())
}

/// What a worker has for Prometheus.
pub(super) fn metrics(node: &Node, connections: usize, exposition: &mut Exposition) {
    let (store, meters) = (&node.store, &node.meters);
    let shuffles = store.all();
    let sum = |of: fn(&Shuffle) -> u64| shuffles.iter().map(|shuffle| of(shuffle)).sum::<u64>();
    exposition.gauge("RegisteredShuffleCount", shuffles.len());
    exposition.gauge("RunningApplicationCount", running(node).len());
    exposition.gauge("ActiveShuffleSize", sum(|shuffle| shuffle.lock().bytes()));
    exposition.gauge("ActiveShuffleFileCount", sum(|shuffle| shuffle.lock().state.len() as u64));
    exposition.gauge("ActiveSlotsCount", sum(|shuffle| shuffle.lock().state.open_locations() as u64));
    exposition.gauge("MemoryFileStorageSize", sum(Shuffle::resident));
    exposition.gauge("ActiveChunkStreamCount", node.streams.len());
    exposition.gauge("IsDecommissioningWorker", u8::from(node.phase() == Phase::Decommissioning));
    exposition.counter("ActiveConnectionCount", connections);

    exposition.counter("SlotsAllocated", meters.slots.get());
    exposition.timer("ReserveSlotsTime", &meters.reservations);
    exposition.timer("CommitFilesTime", &meters.commits);
    exposition.timer("PrimaryPushDataTime", &meters.pushes);
    exposition.timer("ReplicaPushDataTime", &meters.copies);
    exposition.counter("WriteDataSuccessCount", meters.taken.get());
    exposition.counter("WriteDataHardSplitCount", meters.split.get());
    exposition.counter("WriteDataFailCount", meters.failed.get());
    let copies = &meters.failed_copies;
    let causes = [
        ("ReplicateDataCreateConnectionFailCount", copies.connect.get()),
        ("ReplicateDataConnectionExceptionCount", copies.connection.get()),
        ("ReplicateDataTimeoutCount", copies.timeout.get()),
        ("ReplicateDataWriteFailCount", copies.write.get()),
        ("ReplicateDataFailNonCriticalCauseCount", copies.other.get()),
    ];
    exposition.counter("ReplicateDataFailCount", causes.iter().map(|(_, count)| count).sum::<u64>());
    causes.into_iter().for_each(|(name, count)| exposition.counter(name, count));
    exposition.timer("OpenStreamTime", &meters.opens);
    exposition.counter("OpenStreamSuccessCount", meters.opens.count());
    exposition.counter("OpenStreamFailCount", meters.failed_opens.get());
    exposition.timer("FetchChunkTime", &meters.chunks);
    exposition.counter("FetchChunkSuccessCount", meters.chunks.count());
    exposition.counter("FetchChunkFailCount", meters.failed_chunks.get());
    // Celeborn counts how often all pushes paused. Here each push waits by itself.
    exposition.gauge("PausePushData", meters.waits.count());
    exposition.gauge("PausePushDataTime", meters.waits.total().as_millis());
    exposition.timer("FlushDataTime", store.spills());

    let memory = store.memory();
    let (used, limit) = (memory.used(), memory.limit());
    exposition.gauge("DirectMemoryUsageRatio", used as f64 / limit.max(1) as f64);
    // Beyond Celeborn's names:
    exposition.gauge("MemoryUsedBytes", used);
    exposition.gauge("MemoryLimitBytes", limit);
    exposition.counter("BytesAppended", node.appended());
    exposition.counter("BytesSpilled", store.spilled_bytes().get());

    let mut of_each = |name: &str, of: fn(&Directory) -> u64| {
        for directory in store.directories() {
            let root = directory.root().to_string_lossy();
            exposition.gauge_of(name, &[("device", &root)], of(directory));
        }
    };
    of_each("DeviceOSFreeBytes", Directory::free);
    of_each("DeviceCelebornTotalBytes", Directory::total);
    of_each("DeviceCelebornFreeBytes", Directory::usable);
    of_each("DeviceHealthy", |directory| u64::from(directory.health() == Health::Healthy));
}
