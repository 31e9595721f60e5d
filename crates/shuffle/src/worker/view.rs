//! A worker as its pages and its metrics show it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::meters::Meters;
use super::node::Node;
use super::store::directory::Directory;
use super::store::shuffle::Shuffle;
use crate::api;
use crate::ids::{Mode, ShuffleKey};
use crate::metrics::{Exposition, UnderWay};
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
    ailment_of_directories(node)
}

/// Why no directory takes batches; `None` while one does.
pub(super) fn ailment_of_directories(node: &Node) -> Option<String> {
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
    contents(node, connections, exposition);
    exposition.counter("ActiveConnectionCount", "connections that are open", connections);
    work(&node.meters, exposition);
    reads(&node.meters, exposition);
    storage(node, exposition);
}

fn contents(node: &Node, connections: usize, exposition: &mut Exposition) {
    let shuffles = node.store.all();
    let sum = |of: fn(&Shuffle) -> u64| shuffles.iter().map(|shuffle| of(shuffle)).sum::<u64>();
    let bytes = sum(|shuffle| shuffle.lock().bytes());
    let locations = sum(|shuffle| shuffle.lock().state.len() as u64);
    let open = sum(|shuffle| shuffle.lock().state.open_locations() as u64);
    let (in_memory, on_disk) = shuffles
        .iter()
        .map(|shuffle| copies(shuffle))
        .fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
    let is_leaving = node.phase() == Phase::Decommissioning;
    let is_saturated = node.is_saturated(node.store.shuffle_count(), connections);
    let leaves_behind = |count: u64| if node.phase() == Phase::Normal { 0 } else { count };
    let mut gauge = |name: &str, what: &str, value: u64| exposition.gauge(name, what, value);
    gauge("RegisteredShuffleCount", "shuffles of which it holds something", shuffles.len() as u64);
    gauge("RunningApplicationCount", "applications of which it holds something", running(node).len() as u64);
    gauge("ActiveShuffleSize", "bytes of the batches that it holds", bytes);
    gauge("ActiveShuffleFileCount", "partition locations that it holds, open or committed", locations);
    gauge("ActiveSlotsCount", "partition locations that take pushes", open);
    gauge("MemoryStorageFileCount", "partition locations with batches in memory", in_memory);
    gauge("EvictedFileCount", "partition locations with batches on a disk", on_disk);
    gauge("EvictedLocalFileCount", "partition locations with batches on a disk of this machine", on_disk);
    let held = shuffles.len() as u64;
    gauge(
        "UnreleasedShuffleCount",
        "shuffles that it still holds while it stops or is decommissioned, else 0",
        leaves_behind(held),
    );
    gauge(
        "UnreleasedPartitionLocationCount",
        "partition locations that it still holds while it stops or is decommissioned, else 0",
        leaves_behind(locations),
    );
    gauge("IsHighWorkload", "1 while masters prefer other workers, else 0", u64::from(is_saturated));
    gauge("MemoryFileStorageSize", "bytes of batches that are in memory", sum(Shuffle::resident));
    gauge("ActiveChunkStreamCount", "streams of readers that are open", node.streams.len() as u64);
    gauge("IsDecommissioningWorker", "1 while it is decommissioned, else 0", u64::from(is_leaving));
}

/// How many copies of a shuffle's locations have batches in memory, and how many on a disk.
fn copies(shuffle: &Shuffle) -> (u64, u64) {
    let contents = shuffle.lock();
    let counts = contents.copies.values().map(|copy| {
        let resident = copy.resident();
        (u64::from(resident > 0), u64::from(copy.index().bytes() > resident))
    });
    counts.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

/// Chunks by where their batches were. The panel of the longest time has another name than its neighbours.
fn reads(meters: &Meters, exposition: &mut Exposition) {
    for (place, what, read, failed) in [
        ("Local", "chunks read from a disk", &meters.disk_chunks, &meters.failed_disk_chunks),
        ("Memory", "chunks that were in memory", &meters.memory_chunks, &meters.failed_memory_chunks),
    ] {
        exposition.counter(&format!("Fetch{place}ChunkSuccessCount"), what, read.count());
        let of_failed = format!("{what}, as far as one can tell, and broke off");
        exposition.counter(&format!("Fetch{place}ChunkFailCount"), &of_failed, failed.get());
        exposition.timer(&format!("Fetch{place}ChunkTime"), what, read);
    }
    exposition.timer("LocalFetchChunkTime", "chunks read from a disk", &meters.disk_chunks);
    exposition.timer("FetchChunkTransferTime", "chunks, from the first byte to the last", &meters.transfers);
    exposition.sizes("FetchChunkTransferSize", "chunks that were sent", &meters.transfer_sizes);
}

fn work(meters: &Meters, exposition: &mut Exposition) {
    let mut counter = |name: &str, what: &str, value: u64| exposition.counter(name, what, value);
    counter("SlotsAllocated", "partition locations that were reserved", meters.slots.get());
    counter(
        "CommitFilesFailCount",
        "commits of which a location was not here or could not be synced",
        meters.failed_commits.get(),
    );
    counter(
        "RegisterWithMasterFailCount",
        "attempts to register that failed",
        meters.failed_registrations.get(),
    );
    counter("WriteDataSuccessCount", "pushes and copies that were taken", meters.taken.get());
    counter(
        "WriteDataHardSplitCount",
        "pushes and copies that were sent to another location",
        meters.split.get(),
    );
    counter("WriteDataFailCount", "pushes and copies that failed", meters.failed.get());
    let copies = &meters.failed_copies;
    let causes = [
        ("ReplicateDataCreateConnectionFailCount", "no connection to it", copies.connect.get()),
        ("ReplicateDataConnectionExceptionCount", "the connection broke off", copies.connection.get()),
        ("ReplicateDataTimeoutCount", "no answer in time", copies.timeout.get()),
        ("ReplicateDataWriteFailCount", "no disk took it", copies.write.get()),
        ("ReplicateDataFailNonCriticalCauseCount", "it refused", copies.other.get()),
    ];
    let all = causes.iter().map(|(_, _, count)| count).sum();
    let failed = "pushes of which the other worker's copy failed";
    counter("ReplicateDataFailCount", failed, all);
    // Beyond Celeborn's names:
    counter(
        "ReplicateDataForwardedCount",
        "large pushes whose copies were sent on while they arrived, and were answered",
        meters.forwarded.get(),
    );
    causes.into_iter().for_each(|(name, why, count)| counter(name, &format!("{failed}: {why}"), count));
    counter("OpenStreamSuccessCount", "streams that were opened for readers", meters.opens.count());
    counter("OpenStreamFailCount", "streams that could not be opened", meters.failed_opens.get());
    counter("FetchChunkSuccessCount", "chunks that were sent to readers", meters.chunks.count());
    counter("FetchChunkFailCount", "chunks that could not be read", meters.failed_chunks.get());
    // Beyond Celeborn's names:
    counter(
        "FetchChunkCorruptCount",
        "chunks that were not sent because a batch of their stream is damaged on disk",
        meters.corrupt_chunks.get(),
    );
    exposition.timer(
        "ReserveSlotsTime",
        "reservations, each of a shuffle's locations here",
        &meters.reservations,
    );
    exposition.timer("CommitFilesTime", "commits", &meters.commits);
    exposition.sizes("PartitionFileSizeBytes", "locations that were committed", &meters.committed_sizes);
    exposition.rpc(&meters.rpc);
    exposition.timer("PrimaryPushDataTime", "pushes, from head to answer", &meters.pushes);
    exposition.timer("ReplicaPushDataTime", "copies of pushes, from head to answer", &meters.copies);
    exposition.timer("OpenStreamTime", "streams opened for readers", &meters.opens);
    exposition.timer("FetchChunkTime", "chunks, from request to last byte", &meters.chunks);
    // Celeborn counts how often all pushes paused. Here each push waits by itself.
    let waits = &meters.waits;
    exposition.gauge("PausePushData", "pushes and copies that waited for memory", waits.count());
    exposition.gauge("PausePushDataTime", "how long they waited together, in ms", waits.total().as_millis());
    let is_waiting = |waiting: &UnderWay| u64::from(waiting.get() > 0);
    exposition.gauge(
        "PausePushDataStatus",
        "1 while a push or copy waits for memory, else 0",
        is_waiting(&meters.waiting),
    );
    exposition.timer("TakeBufferTime", "pushes and copies that waited for memory", waits);
    let copies = &meters.copy_waits;
    exposition.gauge("PausePushDataAndReplicate", "copies that waited for memory", copies.count());
    exposition.gauge(
        "PausePushDataAndReplicateTime",
        "how long copies waited for memory together, in ms",
        copies.total().as_millis(),
    );
    exposition.gauge(
        "PausePushDataAndReplicateStatus",
        "1 while a copy waits for memory, else 0",
        is_waiting(&meters.copies_waiting),
    );
}

fn storage(node: &Node, exposition: &mut Exposition) {
    let store = &node.store;
    exposition.timer("FlushDataTime", "writes of batches from memory to disk", store.spills());
    exposition.timer("FlushLocalDataTime", "writes of batches from memory to disk", store.spills());
    exposition.counter("LocalFlushCount", "writes of batches from memory to disk", store.spills().count());
    exposition.counter(
        "LocalFlushSize",
        "bytes of batches written from memory to disk",
        store.spilled_bytes().get(),
    );
    let (used, limit) = (store.memory().used(), store.memory().limit());
    let ratio = used as f64 / limit.max(1) as f64;
    exposition.gauge("DirectMemoryUsageRatio", "the part of the memory for batches that is used", ratio);
    // Beyond Celeborn's names:
    exposition.gauge("MemoryUsedBytes", "bytes of the memory for batches that are used", used);
    exposition.gauge("MemoryLimitBytes", "bytes of memory that there are for batches", limit);
    exposition.counter("BytesAppended", "bytes of batches that were taken", node.appended());
    exposition.counter(
        "BytesSpilled",
        "bytes of batches written from memory to disk",
        store.spilled_bytes().get(),
    );

    let mut of_each = |name: &str, what: &str, of: fn(&Directory) -> u64| {
        for directory in store.directories() {
            let root = directory.root().to_string_lossy();
            exposition.gauge_of(name, what, &[("device", &root)], of(directory));
        }
    };
    of_each("DeviceOSFreeBytes", "bytes free in a directory's file system", |one| one.free());
    of_each("DeviceCelebornTotalBytes", "bytes of a directory's file system", |one| one.total());
    of_each("DeviceCelebornFreeBytes", "bytes that may still be stored in a directory", |one| one.usable());
    of_each("FlushWorkingQueueSize", "1 while batches are written to a directory, else 0", |one| {
        u64::from(!one.is_idle())
    });
    of_each("DeviceHealthy", "1 while a directory takes batches, else 0", |directory| {
        u64::from(directory.health() == Health::Healthy)
    });
}
