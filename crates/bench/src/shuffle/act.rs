//! An act for `yeoul demo`: a whole shuffle service in this process, and a worker that dies in the middle of a shuffle.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use yeoul_base::SplitMix;

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_shuffle::client::{Application, Options as ClientOptions, Shuffle};
use yeoul_shuffle::ids::{AttemptId, MapId, PartitionId, ShuffleId, WorkerId};
use yeoul_shuffle::{master, worker};

/// How large the act is.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Workers, at least 3: two must be left for copies.
    pub workers: usize,
    /// Map tasks, which write at the same time.
    pub maps: i32,
    /// Partitions.
    pub partitions: i32,
    /// Bytes that all map tasks write together, copies aside.
    pub bytes: u64,
    /// The part of the bytes after which a worker is killed.
    pub kill_after: f64,
}

impl Default for Script {
    fn default() -> Self {
        Self { workers: 3, maps: 8, partitions: 24, bytes: 64 << 20, kill_after: 0.4 }
    }
}

/// What happened, and was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The worker that was killed.
    pub killed: WorkerId,
    /// Bytes that it held at that moment.
    pub bytes_killed: u64,
    /// Bytes that the map tasks had handed to the client at that moment, copies aside.
    pub bytes_before: u64,
    /// Bytes written in all, and read back right.
    pub bytes: u64,
    /// Batches written in all, and read back once each.
    pub batches: u64,
    /// From the first push to the last acknowledgement.
    pub write: Duration,
    /// From the commit to the last byte read.
    pub read: Duration,
}

/// Starts a master and workers with directories under `dir`, shuffles with copies, kills a worker in the middle, and
/// compares what is read with what was written. `say` gets a line for each step.
///
/// # Errors
/// `DataLoss` if a batch is missing, doubled or wrong; `Internal` if the kill came too late to count; whatever the
/// service says if it fails.
pub async fn run(dir: &Path, script: &Script, mut say: impl FnMut(&str)) -> Result<Outcome> {
    if script.workers < 3 || script.maps < 1 || script.partitions < 1 {
        return Err(Error::new(ErrorKind::Invalid, "the act needs three workers, a map and a partition"));
    }
    let master = master::Server::start(master::Options::embedded()).await?;
    let mut workers = Vec::new();
    for number in 0..script.workers {
        let directory = dir.join(format!("worker-{number}"));
        let options = worker::Options {
            memory_bytes: (script.bytes * 2).max(128 << 20),
            ..worker::Options::embedded([master.address().to_string()], directory)
        };
        workers.push(worker::Server::start(options).await?);
    }
    master.wait_for_workers(script.workers, Duration::from_secs(10)).await?;
    say(&format!("a master at {} and {} workers, in this process", master.address(), workers.len()));

    let options = ClientOptions { replicate: true, ..ClientOptions::new([master.address().to_string()]) };
    let application = Application::start(options).await?;
    let shuffle =
        application.register(ShuffleId(0), script.maps as usize, script.partitions as usize).await?;
    let (maps, partitions) = (script.maps, script.partitions);
    say(&format!("{maps} map tasks write {partitions} partitions, each on two workers"));
    let written = Arc::new(AtomicU64::new(0));
    let threshold = (script.bytes as f64 * script.kill_after.clamp(0.0, 0.9)) as u64;
    let (kill, killed) = watch::channel(false);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for map in 0..script.maps {
        let gate = Gate { written: written.clone(), threshold, killed: killed.clone() };
        tasks.spawn(write_map(shuffle.clone(), map, script.clone(), gate));
    }

    while written.load(Ordering::Relaxed) < threshold {
        if let Some(ended) = tasks.try_join_next() {
            ended.map_err(panicked)??;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // There are two copies, so this is half of what a worker has when all of it has arrived.
    let (fullest, bytes_killed) = fullest(&workers, threshold / script.workers as u64).await?;
    let victim = workers.remove(fullest);
    let victim_id = victim.id().clone();
    drop(victim);
    unreachable_by_now(&victim_id).await?;
    let bytes_before = written.load(Ordering::Relaxed);
    kill.send_replace(true);
    let mib = |bytes: u64| bytes >> 20;
    say(&format!(
        "killed {victim_id} with {} MiB on it, when {} MiB were on their way",
        mib(bytes_killed),
        mib(bytes_before)
    ));
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(panicked)??;
    }
    let write = started.elapsed();
    if bytes_before >= script.bytes {
        return Err(Error::new(
            ErrorKind::Internal,
            "the kill did not hit a worker in the middle of its work",
        ));
    }

    let started = Instant::now();
    shuffle.commit().await?;
    let (mut bytes, mut batches) = (0, 0);
    for partition in 0..script.partitions {
        let read = read_partition(&shuffle, PartitionId(partition)).await?;
        let expected = expected(script, partition);
        if read != expected {
            let message = format!("partition {partition}: read {read:?}, written {expected:?}");
            return Err(Error::new(ErrorKind::DataLoss, message));
        }
        bytes += read.bytes;
        batches += read.batches;
    }
    let read = started.elapsed();
    say(&format!("read all {batches} batches back, {} MiB, each once and right", mib(bytes)));
    shuffle.unregister().await?;
    application.stop().await?;
    Ok(Outcome { killed: victim_id, bytes_killed, bytes_before, bytes, batches, write, read })
}

/// Waits until nobody listens there: the proof that the kill has happened.
async fn unreachable_by_now(worker: &WorkerId) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect((&*worker.host, worker.push_port)).await.is_ok() {
        if Instant::now() > deadline {
            return Err(Error::new(ErrorKind::Internal, format!("{worker} was killed and still listens")));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// The worker that holds the most, whose loss proves the most, and how many bytes that is; waits until that is `least`.
async fn fullest(workers: &[worker::Handle], least: u64) -> Result<(usize, u64)> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let held = |worker: &worker::Handle| {
            worker.node().store.all().iter().map(|shuffle| shuffle.lock().bytes()).sum()
        };
        let fullest = workers.iter().map(held).enumerate().max_by_key(|(_, bytes): &(usize, u64)| *bytes);
        if let Some(fullest) = fullest.filter(|(_, bytes)| *bytes >= least.max(1)) {
            return Ok(fullest);
        }
        if Instant::now() > deadline {
            return Err(Error::new(ErrorKind::Internal, "no worker got its part within 10 s"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a partition holds, whatever the order: a sum of hashes does not depend on it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Content {
    batches: u64,
    bytes: u64,
    hashes: u64,
}

impl Content {
    fn add(&mut self, map: i32, payload: &[u8]) {
        self.batches += 1;
        self.bytes += payload.len() as u64;
        let crc = u64::from(crc32fast::hash(payload));
        self.hashes = self.hashes.wrapping_add(mix(crc ^ ((map as u64) << 40) ^ payload.len() as u64));
    }
}

/// The batches of one map task, each with its partition: sizes from 1 byte to 32 KiB, no two alike.
fn batches_of(script: &Script, map: i32) -> impl Iterator<Item = (i32, u64, usize)> + use<> {
    let (partitions, budget) = (script.partitions as u64, script.bytes / script.maps as u64);
    let mut seed = mix(map as u64 + 1);
    let mut left = budget;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        seed = mix(seed);
        let len = (1 + seed % (32 << 10)).min(left);
        left -= len;
        Some((((seed >> 32) % partitions) as i32, seed, len as usize))
    })
}

fn payload(seed: u64, len: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(len + 8);
    let mut word = seed;
    while bytes.len() < len {
        word = mix(word);
        bytes.put_u64(word);
    }
    bytes.truncate(len);
    bytes
}

/// Neighbouring numbers give unrelated ones.
fn mix(number: u64) -> u64 {
    SplitMix::new(number).next_u64()
}

/// Holds the map tasks at the point of the kill until it has happened, with their last pushes in flight.
struct Gate {
    written: Arc<AtomicU64>,
    threshold: u64,
    killed: watch::Receiver<bool>,
}

impl Gate {
    async fn pass(&mut self, bytes: u64) -> Result<()> {
        if self.written.fetch_add(bytes, Ordering::Relaxed) + bytes >= self.threshold {
            let killed = self.killed.wait_for(|killed| *killed).await;
            killed.map_err(|error| {
                Error::new(ErrorKind::Internal, "the act was broken off").with_source(error)
            })?;
        }
        Ok(())
    }
}

async fn write_map(shuffle: Shuffle, map: i32, script: Script, mut gate: Gate) -> Result<()> {
    let mut writer = shuffle.writer(MapId(map), AttemptId(0));
    for (partition, seed, len) in batches_of(&script, map) {
        writer.push(PartitionId(partition), payload(seed, len)).await?;
        gate.pass(len as u64).await?;
    }
    writer.finish().await
}

async fn read_partition(shuffle: &Shuffle, partition: PartitionId) -> Result<Content> {
    let mut reader = shuffle.reader(partition, ..)?;
    let mut content = Content::default();
    while let Some(batch) = reader.next().await? {
        content.add(batch.header.map.0, &batch.payload);
    }
    Ok(content)
}

/// What a partition must hold, from the same seeds and nothing else.
fn expected(script: &Script, partition: i32) -> Content {
    let mut content = Content::default();
    for map in 0..script.maps {
        for (_, seed, len) in batches_of(script, map).filter(|(to, _, _)| *to == partition) {
            content.add(map, &payload(seed, len));
        }
    }
    content
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "a map task panicked").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_act_ends_well() {
        let dir = tempfile::tempdir().unwrap();
        let script = Script { bytes: 16 << 20, ..Script::default() };
        let mut lines = Vec::new();
        let outcome = run(dir.path(), &script, |line| lines.push(line.to_owned())).await.unwrap();
        assert_eq!(outcome.bytes, script.bytes);
        assert!(outcome.bytes_killed >= outcome.bytes / 10 && outcome.bytes_before < outcome.bytes);
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn the_check_notices_what_it_must() {
        let script = Script::default();
        let right = expected(&script, 3);
        let mut doubled = right;
        doubled.add(0, b"x");
        assert_ne!(doubled, right);
        let (mut one, mut other) = (Content::default(), Content::default());
        one.add(1, b"ab");
        other.add(2, b"ab");
        assert_ne!(one, other, "the map counts");
        let total: u64 = (0..script.partitions).map(|partition| expected(&script, partition).bytes).sum();
        assert_eq!(total, script.bytes);
    }
}
