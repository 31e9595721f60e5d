use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use yeoul_base::ResidentSet;

use crate::freed;

/// How often the resident set size is read. At the few GB/s with which two cores can touch fresh memory, some 10 MB can
/// go unseen between two readings; the margin below is several times that.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(4);

/// What work that was stopped may still take until it has ended: a fiftieth of the promise, or this much if that is less.
const MARGIN_MIN: usize = 16 << 20;

/// The margin of a promise, in bytes: of a small one never so much that nothing lies between growth that is refused and work that
/// is stopped.
fn margin(promise: usize) -> usize {
    (promise / 50).max(MARGIN_MIN.min(promise / 100 * 6))
}

/// A promise is broken when it is passed by this part of it.
const BROKEN_PART: usize = 10;

/// How long work waits for the memory of what was stopped to go back to the system.
const SETTLE_MAX: Duration = Duration::from_millis(500);

/// The source of a process's size.
pub trait Resident: fmt::Debug + Send + Sync {
    /// The resident set size in bytes, if it is known.
    fn bytes(&self) -> Option<u64>;
}

impl Resident for ResidentSet {
    fn bytes(&self) -> Option<u64> {
        self.bytes()
    }
}

/// The resident set size of this process, and what is left of its promise, for work that is refused memory or stopped: a
/// thread reads the size every few milliseconds. For servers that never stop what they serve, see
/// [`Governor`](crate::Governor).
#[derive(Debug)]
pub struct ProcessMemory {
    resident: Option<Box<dyn Resident>>,
    /// The promise in bytes; `usize::MAX` for none.
    promise: usize,
    /// Freed memory goes back to the system from here on.
    near: usize,
    /// Growth is refused from here on.
    soft_limit: usize,
    /// The running work is stopped from here on.
    hard_limit: usize,
    sampled: AtomicUsize,
    peak: AtomicUsize,
    granted_since_sample: AtomicUsize,
    /// Bytes that are about to be taken, or being taken.
    claimed: AtomicUsize,
    /// What the process would have had, had it been granted what was refused last.
    wanted: AtomicUsize,
    exceeded: AtomicBool,
    on_exceeded: Notify,
    /// The end of the process.
    on_broken: Mutex<Option<End>>,
}

/// Called with the resident set size in bytes.
struct End(Box<dyn FnOnce(usize) + Send>);

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("End")
    }
}

impl ProcessMemory {
    /// Starts to watch this process. The watching thread ends with the last reference to the result.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn watch(promise: Option<usize>) -> io::Result<Arc<Self>> {
        Self::watch_by(promise, ResidentSet::open().map(|resident| Box::new(resident) as _))
    }

    /// Watches as [`watch`](Self::watch) does what says how large the process is; `None` says nothing.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn watch_by(promise: Option<usize>, resident: Option<Box<dyn Resident>>) -> io::Result<Arc<Self>> {
        let promise_bytes = promise.unwrap_or(usize::MAX);
        let process = Arc::new(Self {
            resident,
            promise: promise_bytes,
            near: promise_bytes / 100 * 70,
            soft_limit: promise_bytes / 100 * 92,
            hard_limit: promise_bytes - margin(promise_bytes),
            sampled: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            granted_since_sample: AtomicUsize::new(0),
            claimed: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            exceeded: AtomicBool::new(false),
            on_exceeded: Notify::new(),
            on_broken: Mutex::new(None),
        });
        process.sample();
        if promise.is_some() && process.resident.is_some() {
            let watched = Arc::downgrade(&process);
            thread::Builder::new()
                .name("yeoul-memory".to_owned())
                .spawn(move || watch_until_dropped(&watched))?;
        }
        Ok(process)
    }

    /// Has `end` called, once, when the process has passed its promise by a tenth: work that was told to end did not.
    pub fn on_broken(&self, end: impl FnOnce(usize) + Send + 'static) {
        *self.on_broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(End(Box::new(end)));
    }

    /// The resident set size in bytes, read now; 0 where the system does not say.
    pub fn sample(&self) -> usize {
        let granted = self.granted_since_sample.load(Ordering::Relaxed);
        let resident = self.resident.as_ref().and_then(|resident| resident.bytes()).unwrap_or(0) as usize;
        self.sampled.store(resident, Ordering::Relaxed);
        self.peak.fetch_max(resident, Ordering::Relaxed);
        // Only what was granted before the reading can be in it.
        let _ = self
            .granted_since_sample
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_sub(granted)));
        if resident > self.hard_limit && !self.exceeded.swap(true, Ordering::Relaxed) {
            self.on_exceeded.notify_waiters();
        } else if resident < self.soft_limit {
            self.exceeded.store(false, Ordering::Relaxed);
        }
        resident
    }

    /// Gives freed memory back to the system, and reads the resident set size in bytes.
    pub fn reclaim(&self) -> usize {
        freed::give_back();
        self.sample()
    }

    /// What the process may still take before growth is refused.
    pub fn free(&self) -> usize {
        if self.promise == usize::MAX {
            return usize::MAX;
        }
        let used = self.sampled.load(Ordering::Relaxed) + self.granted_since_sample.load(Ordering::Relaxed);
        self.soft_limit.saturating_sub(used)
    }

    /// Notes that `bytes` were granted and may soon be resident.
    pub fn granted(&self, bytes: usize) {
        self.granted_since_sample.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Holds `bytes` for work that is about to take them, if the process has so much left before work has to end.
    ///
    /// # Errors
    /// The bytes that it has left, if they are fewer.
    pub fn claim(self: &Arc<Self>, bytes: usize) -> Result<Claim, usize> {
        let claimed = self.claimed.fetch_add(bytes, Ordering::Relaxed);
        let claim = Claim { process: Arc::clone(self), bytes };
        let free = |resident| self.hard_limit.saturating_sub(resident).saturating_sub(claimed);
        let mut free_bytes = free(self.sample());
        if bytes > free_bytes {
            free_bytes = free(self.reclaim());
        }
        if bytes > free_bytes {
            self.refused(claimed.saturating_add(bytes));
            return Err(free_bytes);
        }
        Ok(claim)
    }

    /// A promise under which [`claim`](Self::claim) would have room for so many bytes now.
    pub fn promise_for(&self, bytes: usize) -> usize {
        let used = self.sample().saturating_add(self.claimed.load(Ordering::Relaxed)).saturating_add(bytes);
        used.saturating_add((used / 49).max(MARGIN_MIN)).saturating_add(50)
    }

    /// Notes that so many bytes were refused because the process had no room for them.
    pub fn refused(&self, bytes: usize) {
        self.wanted.store(self.sampled.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
    }

    /// What the process would have had, had it been granted what was refused last; 0 if nothing was since this was asked last.
    pub fn wanted(&self) -> usize {
        self.wanted.swap(0, Ordering::Relaxed)
    }

    /// The promise in bytes, if there is one.
    pub fn promise(&self) -> Option<usize> {
        (self.promise != usize::MAX).then_some(self.promise)
    }

    /// The largest resident set size seen.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Waits, at most [`SETTLE_MAX`], for freed memory to go back to the system: until half of the soft limit is free.
    pub async fn settle(&self) {
        let deadline = tokio::time::Instant::now() + SETTLE_MAX;
        while self.reclaim() > self.soft_limit / 2 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// Whether the process is so close to its promise that work has to end.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }

    /// Resolves when the process has come so close to its promise that the running work has to end.
    pub async fn exceeded(&self) {
        loop {
            let notified = self.on_exceeded.notified();
            if self.exceeded.load(Ordering::Relaxed) {
                return;
            }
            notified.await;
        }
    }
}

/// Bytes of the process that one piece of work holds until it is done.
#[derive(Debug)]
pub struct Claim {
    process: Arc<ProcessMemory>,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.process.claimed.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn watch_until_dropped(process: &Weak<ProcessMemory>) {
    while let Some(process) = process.upgrade() {
        let mut resident = process.sample();
        if resident > process.near {
            resident = process.reclaim();
        }
        if resident > process.promise.saturating_add(process.promise / BROKEN_PART) {
            let end = process.on_broken.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(End(end)) = end {
                end(resident);
            }
        }
        drop(process);
        thread::sleep(SAMPLE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_seen() {
        // Other tests of this process allocate and free memory meanwhile: only what is held is a safe lower bound.
        const HELD: usize = 256 << 20;
        let process = ProcessMemory::watch(None).unwrap();
        let bytes = std::hint::black_box(vec![1u8; HELD]);
        let resident = process.sample();
        assert!(resident >= HELD, "{resident} with {} bytes held", std::hint::black_box(&bytes).len());
        assert!(process.peak() >= resident);
    }

    #[test]
    fn a_broken_promise_calls_for_the_end_once() {
        // Any process is larger.
        let process = ProcessMemory::watch(Some(1 << 20)).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        process.on_broken(move |resident| tell.send(resident).unwrap());
        assert!(told.recv_timeout(Duration::from_secs(10)).unwrap() > 1 << 20);
        assert!(told.recv().is_err(), "it is called once, and dropped");
    }

    #[tokio::test]
    async fn coming_too_close_to_the_promise_is_told_to_those_who_wait() {
        let process = ProcessMemory::watch(Some(1 << 20)).unwrap();
        tokio::time::timeout(Duration::from_secs(5), process.exceeded())
            .await
            .expect("any process is larger");
        assert_eq!(process.free(), 0);
    }

    #[test]
    fn a_small_promise_has_a_margin_that_stopped_work_can_use() {
        const MIB: usize = 1 << 20;
        for (promise, rest) in [(128, 120), (256, 240), (512, 496), (1024, 1003)] {
            assert_eq!((promise * MIB - margin(promise * MIB)) / MIB, rest);
            assert!(promise * MIB - margin(promise * MIB) > promise * MIB / 100 * 92);
        }
    }

    #[test]
    fn the_promise_for_what_was_refused_has_room_for_it() {
        #[derive(Debug)]
        struct Steady;
        impl Resident for Steady {
            fn bytes(&self) -> Option<u64> {
                Some(70_000_001)
            }
        }
        for bytes in [1, 100 << 20, 700 << 20, (3 << 30) + 17] {
            let process = ProcessMemory::watch_by(Some(64 << 20), Some(Box::new(Steady))).unwrap();
            process.claim(bytes).unwrap_err();
            let promise = process.promise_for(bytes);
            ProcessMemory::watch_by(Some(promise), Some(Box::new(Steady))).unwrap().claim(bytes).unwrap();
        }
    }

    #[test]
    fn grants_count_until_the_next_reading() {
        let process = ProcessMemory::watch(None).unwrap();
        let limited =
            ProcessMemory { promise: 1 << 40, soft_limit: 1 << 40, ..Arc::into_inner(process).unwrap() };
        let free = limited.free();
        limited.granted(1 << 30);
        assert_eq!(limited.free(), free - (1 << 30));
        limited.sample();
        assert!(limited.free() > free - (1 << 29));
    }
}
