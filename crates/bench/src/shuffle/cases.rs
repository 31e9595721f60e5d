//! The benchmark's cases: push and fetch through memory and disk, range opens, small shuffles.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use yeoul_base::ByteSize;

use super::Plan;
use super::baseline::{
    SMALL_FILES_BYTES, bytes_of_files, disk_read, disk_write, emptied, forget_cached, rate, sync_files,
    tcp_copy,
};
use super::cluster::Cluster;
use super::written::{Compare, PARTITIONS, TASKS, Written, lost};
use crate::findings::{Bar, Finding, Unit};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_shuffle::client::Shuffle;
use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId, ShuffleId};
use yeoul_shuffle::net::Client;
use yeoul_shuffle::wire::message::Message;
use yeoul_shuffle::wire::{Header, Received, proto, received};

/// Memory of the worker in the memory case, as a multiple of the shuffle: its bytes, and room.
const MEMORY_FACTOR: u64 = 3;
/// The part of the machine's memory for a shuffle in memory: a worker that has it all, and a client, need more.
const MACHINE_PART: u64 = 4;
/// Memory of the worker in the disk case, which most of the shuffle has to leave.
const MEMORY_LEAST: u64 = 64 << 20;
/// How long a worker may take to delete a shuffle that was unregistered.
const DELETED_WITHIN: Duration = Duration::from_secs(60);

/// The least bytes of a disk case.
pub(super) fn disk_bytes_min(rounds: usize) -> u64 {
    if rounds > 1 {
        // What the worker keeps in memory then matters little, and so does what a virtual machine's disk keeps in its
        // host's memory.
        2 << 30
    } else {
        // Most of it has to leave the worker's memory.
        4 * MEMORY_LEAST
    }
}

/// Push and fetch of one worker that keeps everything in memory, against a copy over loopback.
pub(super) async fn memory(plan: &Plan) -> Result<Vec<Finding>> {
    let machine = yeoul_base::machine_memory().map_or(u64::MAX, ByteSize::as_u64);
    let bytes = plan.bytes.min(machine / MACHINE_PART);
    let memory = (bytes * MEMORY_FACTOR).max(512 << 20);
    let cluster = Cluster::start(plan, "memory", memory).await?;
    let written = Written::new(bytes);
    let (mut push, mut fetch, mut copy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        copy.push(tcp_copy(written.bytes(), written.payloads()).await?);
        let shuffle = cluster
            .application
            .register(ShuffleId(round as i32), TASKS as usize, PARTITIONS as usize)
            .await?;
        push.push(push_all(&shuffle, &written, None).await?);
        let on_disk = bytes_of_files(&cluster.worker_dir)?;
        if on_disk > SMALL_FILES_BYTES {
            let text =
                format!("the worker has written {on_disk} bytes to disk: this does not measure memory");
            return Err(Error::new(ErrorKind::Internal, text));
        }
        shuffle.commit().await?;
        fetch.push(fetch_all(&shuffle, &written, Compare::Ends).await?);
        if round == 0 {
            fetch_all(&shuffle, &written, Compare::Whole).await?;
        }
        shuffle.unregister().await?;
    }
    let finding = |name: &'static str, ours| Finding {
        name: name.into(),
        unit: Unit::MibPerSecond,
        bytes: Some(written.bytes()),
        ours,
        peer: "TCP copy on loopback",
        peers: copy.clone(),
        bar: Bar::RatioAtLeast(0.6),
    };
    Ok(vec![finding("push to memory", push), finding("fetch from memory", fetch)])
}

/// Push and fetch of one worker with little memory, against a file of as many bytes on the same disk. Both are synced
/// within the measured time, of pushes only bytes that were synced count, and the kernel's cache of either is dropped
/// before it is read.
pub(super) async fn disk(plan: &Plan) -> Result<Vec<Finding>> {
    let cluster = Cluster::start(plan, "disk", MEMORY_LEAST).await?;
    let bytes = plan.disk_bytes();
    let written = Written::new(bytes);
    let path = plan.dir.join("plain-file");
    let (mut push, mut fetch, mut write, mut read) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let file = path.clone();
        write.push(on_a_thread(move || disk_write(&file, bytes)).await?);
        forget_cached(&path)?;
        let file = path.clone();
        read.push(on_a_thread(move || disk_read(&file)).await?);
        std::fs::remove_file(&path)?;
        let shuffle = cluster
            .application
            .register(ShuffleId(round as i32), TASKS as usize, PARTITIONS as usize)
            .await?;
        push.push(push_all(&shuffle, &written, Some(&cluster.worker_dir)).await?);
        shuffle.commit().await?;
        forget_cached(&cluster.worker_dir)?;
        fetch.push(fetch_all(&shuffle, &written, Compare::Ends).await?);
        if round == 0 {
            fetch_all(&shuffle, &written, Compare::Whole).await?;
        }
        shuffle.unregister().await?;
        emptied(&cluster.worker_dir, DELETED_WITHIN).await?;
    }
    let finding = |name: &'static str, ours, peer, peers| Finding {
        name: name.into(),
        unit: Unit::MibPerSecond,
        bytes: Some(written.bytes()),
        ours,
        peer,
        peers,
        bar: Bar::RatioAtLeast(0.6),
    };
    Ok(vec![
        finding("push through 64 MiB, with fsync", push, "file written with fsync", write),
        finding("fetch from segments", fetch, "file read", read),
    ])
}

/// Opens of map ranges, while pushes to the same worker go on.
pub(super) async fn range_opens(plan: &Plan) -> Result<Finding> {
    const OPENED: i32 = 1000;
    let cluster = Cluster::start(plan, "range", 512 << 20).await?;
    let shuffle = cluster.application.register(ShuffleId(0), TASKS as usize, OPENED as usize).await?;
    for map in 0..TASKS {
        let mut writer = shuffle.writer(MapId(map), AttemptId(0));
        for partition in 0..OPENED {
            writer.push(PartitionId(partition), vec![map as u8; 200]).await?;
        }
        writer.finish().await?;
    }
    shuffle.commit().await?;
    let busy = Busy::start(&cluster).await?;
    let client = Client::default();
    let address = cluster.worker.address(cluster.worker.fetch_port);
    let shuffle_key = format!("{}-0", cluster.application.id());
    let mut times = Vec::new();
    for partition in 0..OPENED {
        let open = proto::OpenStream {
            shuffle_key: shuffle_key.clone(),
            file_name: format!("{partition}-0-0"),
            start_index: 1,
            end_index: 2,
            ..Default::default()
        };
        let request = Message::of(&open).to_bare();
        let started = Instant::now();
        let answer = client
            .request(&address, Header::RpcRequest { request_id: 0 }, request, Duration::from_secs(30))
            .await;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        let answer = answer.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?;
        let handle: Received<received::StreamHandler> = Message::decode_bare(answer)?.parse()?;
        if handle.num_chunks != 1 {
            return Err(lost(format!(
                "partition {partition} has {} chunks of map 1, not 1",
                handle.num_chunks
            )));
        }
    }
    if busy.stop().await? == 0 {
        return Err(Error::new(ErrorKind::Internal, "nothing was pushed while locations were opened"));
    }
    Ok(Finding {
        name: "open of a map range while pushes go on".into(),
        unit: Unit::Milliseconds,
        bytes: None,
        ours: times,
        peer: "",
        peers: Vec::new(),
        bar: Bar::P99AtMost(1.0),
    })
}

/// A shuffle of 8 partitions of 50 bytes, from the first push to the last byte read.
pub(super) async fn small_shuffle(plan: &Plan) -> Result<Finding> {
    const SMALL: i32 = 8;
    let cluster = Cluster::start(plan, "small", 512 << 20).await?;
    let mut times = Vec::new();
    for round in 0..(plan.rounds as i32 * 20) {
        let shuffle = cluster.application.register(ShuffleId(round), 1, SMALL as usize).await?;
        let started = Instant::now();
        let mut writer = shuffle.writer(MapId(0), AttemptId(0));
        for partition in 0..SMALL {
            writer.push(PartitionId(partition), vec![(round + partition) as u8; 50]).await?;
        }
        writer.finish().await?;
        shuffle.commit().await?;
        for partition in 0..SMALL {
            let mut reader = shuffle.reader(PartitionId(partition), ..)?;
            let batch =
                reader.next().await?.ok_or_else(|| lost(format!("partition {partition} is empty")))?;
            if batch.payload[..] != [(round + partition) as u8; 50] || reader.next().await?.is_some() {
                return Err(lost(format!("partition {partition} of round {round} is not what was written")));
            }
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
        shuffle.unregister().await?;
    }
    Ok(Finding {
        name: "8 partitions of 50 bytes, first push to last byte read".into(),
        unit: Unit::Milliseconds,
        bytes: None,
        ours: times,
        peer: "",
        peers: Vec::new(),
        bar: Bar::MedianAtMost(5.0),
    })
}

/// Pushes until it is told to stop.
struct Busy {
    stopped: Arc<AtomicBool>,
    /// Gives the number of batches that it has pushed.
    task: tokio::task::JoinHandle<Result<u64>>,
    shuffle: Shuffle,
}

impl Busy {
    async fn start(cluster: &Cluster) -> Result<Self> {
        let shuffle = cluster.application.register(ShuffleId(1), 1, PARTITIONS as usize).await?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (flag, own) = (stopped.clone(), shuffle.clone());
        let task = tokio::spawn(async move {
            let mut writer = own.writer(MapId(0), AttemptId(0));
            let payload = Written::new(0).payload(0, 0);
            let (mut partition, mut pushed) = (0, 0);
            // The pause leaves some 60 MiB a second, so that the worker's memory is not what is measured.
            while !flag.load(Ordering::Relaxed) {
                partition = (partition + 1) % PARTITIONS;
                writer.push(PartitionId(partition), payload.clone()).await?;
                pushed += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            writer.finish().await.map(|()| pushed)
        });
        Ok(Self { stopped, task, shuffle })
    }

    /// Ends it, and gives the number of batches that it has pushed.
    async fn stop(self) -> Result<u64> {
        self.stopped.store(true, Ordering::Relaxed);
        let pushed = self.task.await.map_err(panicked)??;
        self.shuffle.unregister().await?;
        Ok(pushed)
    }
}

/// Pushes batches of 64 KiB from several map tasks at a time. With `synced`, then syncs the worker's files below it,
/// which must have all but what the worker's memory may hold, and counts no more bytes than they have. Returns the MiB a
/// second.
async fn push_all(shuffle: &Shuffle, written: &Written, synced: Option<&Path>) -> Result<f64> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for map in 0..TASKS {
        let (shuffle, written) = (shuffle.clone(), written.clone());
        tasks.spawn(async move {
            let mut writer = shuffle.writer(MapId(map), AttemptId(0));
            for batch in 0..written.batches() {
                writer.push(written.partition(batch), written.payload(map, batch)).await?;
            }
            writer.finish().await
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(panicked)??;
    }
    let on_disk = match synced.map(Path::to_owned) {
        Some(dir) => Some(on_a_thread(move || sync_files(&dir)).await?),
        None => None,
    };
    let counted = on_disk.map_or(written.bytes(), |on_disk| on_disk.min(written.bytes()));
    let rate = rate(counted, started);
    if let Some(on_disk) = on_disk.filter(|on_disk| on_disk + MEMORY_LEAST < written.bytes()) {
        let text = format!("only {on_disk} bytes of {} are in the worker's files", written.bytes());
        return Err(Error::new(ErrorKind::Internal, text));
    }
    Ok(rate)
}

/// Reads all partitions, several at a time, and checks that each batch comes once; returns the MiB a second.
async fn fetch_all(shuffle: &Shuffle, written: &Written, compare: Compare) -> Result<f64> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (shuffle, written) = (shuffle.clone(), written.clone());
        tasks.spawn(async move {
            for partition in (task..PARTITIONS).step_by(TASKS as usize).map(PartitionId) {
                let mut reader = shuffle.reader(partition, ..)?;
                let mut reading = written.read(partition, compare);
                while let Some(batch) = reader.next().await? {
                    reading.take(&batch.header, &batch.payload)?;
                }
                reading.end()?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(panicked)??;
    }
    Ok(rate(written.bytes(), started))
}

/// Runs disk work on a thread of its own, so that Ctrl-C does not have to wait for the disk.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(panicked)?
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "a task panicked").with_source(error)
}
