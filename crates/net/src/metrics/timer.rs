//! Counters and timers that any thread adds to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts events since the process started.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds so many events.
    pub fn add(&self, times: u64) {
        self.0.fetch_add(times, Ordering::Relaxed);
    }

    /// The number of events.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Buckets per doubling of the time; a percentile is at most 1/8 too high.
const STEPS: u64 = 8;
/// Up to 2^43 microseconds, which is a hundred days; the last one also has longer times.
const BUCKETS: usize = 41 * STEPS as usize;

/// Times of an operation since the process started, in buckets.
#[derive(Debug)]
pub struct Timer {
    count: AtomicU64,
    sum_us: AtomicU64,
    max_us: AtomicU64,
    /// `u64::MAX` while nothing was counted.
    min_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Timer {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
            min_us: AtomicU64::new(u64::MAX),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Timer {
    /// Runs an operation and counts its time.
    pub fn time<T>(&self, operation: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let outcome = operation();
        self.record(begun.elapsed());
        outcome
    }

    /// Counts one operation.
    pub fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.max_us.fetch_max(us, Ordering::Relaxed);
        self.min_us.fetch_min(us, Ordering::Relaxed);
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many operations were counted.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What they took together.
    pub fn total(&self) -> Duration {
        Duration::from_micros(self.sum_us.load(Ordering::Relaxed))
    }

    /// What has been counted so far.
    pub fn read(&self) -> Reading {
        let max_us = self.max_us.load(Ordering::Relaxed);
        Reading {
            count: self.count.load(Ordering::Relaxed),
            sum_us: self.sum_us.load(Ordering::Relaxed),
            max_us,
            min_us: self.min_us.load(Ordering::Relaxed).min(max_us),
            buckets: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
        }
    }
}

/// What a timer has counted, at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Operations.
    pub count: u64,
    /// What they took together, in microseconds.
    pub sum_us: u64,
    /// The longest, in microseconds; 0 if there was none.
    pub max_us: u64,
    /// The shortest, in microseconds; 0 if there was none.
    pub min_us: u64,
    buckets: Vec<u64>,
}

impl Reading {
    /// A quantile of the times, in microseconds: at most 1/8 too long; 0 if nothing was counted.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        let rank = (total as f64 * part).ceil() as u64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if *count > 0 && below >= rank {
                return upper_us(index).min(self.max_us);
            }
        }
        0
    }
}

/// Which bucket a time falls into: exact below 8 µs, then [`STEPS`] for each doubling.
fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let exponent = u64::from(us.ilog2());
    let step = (us >> (exponent - 3)) - STEPS;
    (((exponent - 2) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (exponent, step) = (bucket / STEPS + 2, bucket % STEPS);
    ((STEPS + step + 1) << (exponent - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_that_ends_at_or_behind_it() {
        for us in
            (0..5000).chain((13..40).map(|shift| 1 << shift)).chain((13..40).map(|shift| (1 << shift) - 1))
        {
            let upper = upper_us(bucket(us));
            assert!(upper >= us && upper <= us + us / 8, "{us} in a bucket up to {upper}");
            assert!(bucket(us) == 0 || upper_us(bucket(us) - 1) < us, "{us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
