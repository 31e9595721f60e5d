//! Keeps the process below its memory limit as the operating system sees it.
//!
//! A ledger counts every byte that grows with load, but not the allocator's slack, stacks, connections and code. So the
//! ledger's limit follows what the process really uses besides.

use std::time::{Duration, Instant};

use yeoul_base::ResidentSet;

use crate::{Buffers, Ledger, Party, accounted, shelved};

/// How often the process is measured while much comes in or a request waits. Between two measurements no more comes in
/// than a loopback connection carries.
const INTERVAL: Duration = Duration::from_millis(50);

/// How often it is measured while little comes in: each measurement wakes threads.
const INTERVAL_AT_EASE: Duration = Duration::from_millis(500);

/// How often it is measured while nothing comes in at all.
const INTERVAL_IDLE: Duration = Duration::from_secs(5);

/// One part in this many of the memory counts as much.
const MUCH: u64 = 64;

/// How long empty buffers are kept when nobody wants one.
const IDLE: Duration = Duration::from_secs(1);

/// The margin below the limit, in 1/32, for what comes between two measurements.
const MARGIN_32NDS: u64 = 2;

/// The least margin: connections, threads and code that is used for the first time do not grow with the limit.
const MARGIN_BYTES_MIN: u64 = 8 << 20;

/// Has the limit of a ledger follow what else the process uses.
#[derive(Debug, Clone, Copy)]
pub struct Governor {
    memory_bytes: u64,
}

impl Governor {
    /// Keeps a process within `memory_bytes`, as the operating system counts them (RSS).
    pub fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes }
    }

    /// The ledger's limit before the process was measured.
    pub fn first_limit(self) -> u64 {
        self.memory_bytes / 4 * 3
    }

    /// The ledger's limit, for a process that uses `rss` bytes of which the ledgers know `accounted`.
    ///
    /// Never below an eighth: a process that leaves less than that has too small a limit, and still has to go on. It must
    /// not be more, because what an allocator keeps of freed small pieces can be more than half of a small limit.
    pub fn limit(self, rss: u64, accounted: u64) -> u64 {
        let Self { memory_bytes } = self;
        let besides = rss.saturating_sub(accounted);
        let margin = (memory_bytes / 32 * MARGIN_32NDS).max(MARGIN_BYTES_MIN);
        memory_bytes.saturating_sub(margin).saturating_sub(besides).max(memory_bytes / 8)
    }

    /// Follows the process until it is dropped, or at once returns where the system does not say how much is resident.
    /// `set_limit` sets the limits of all ledgers of the server, which have the given bytes together; the process is looked
    /// at more often when much is taken of `ledger`.
    pub async fn run<P: Party>(self, ledger: &Ledger<P>, buffers: &Buffers, mut set_limit: impl FnMut(u64)) {
        let Some(resident_set) = ResidentSet::open() else { return };
        let mut looked = Instant::now();
        let mut taken_before = 0;
        loop {
            let taken = ledger.taken();
            let Some(rss) = resident_set.bytes() else { return };
            let (before, accounted) = (ledger.limit(), accounted() + shelved());
            let limit = self.limit(rss, accounted);
            tracing::trace!(rss, accounted, before, limit, "measured");
            set_limit(limit);
            buffers.shrink_to(ledger.limit().saturating_sub(ledger.used()));
            if looked.elapsed() >= IDLE {
                looked = Instant::now();
                buffers.shrink_if_idle();
            }
            tokio::time::sleep(INTERVAL).await;
            if ledger.excess() == 0 {
                let is_idle = taken == taken_before && shelved() == 0;
                let interval = if is_idle { INTERVAL_IDLE } else { INTERVAL_AT_EASE };
                let pressed = ledger.until_pressed(taken + self.memory_bytes / MUCH);
                let _ = tokio::time::timeout(interval - INTERVAL, pressed).await;
            }
            taken_before = taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_gives_way_to_what_else_the_process_uses() {
        let mib = 1 << 20;
        assert_eq!(Governor::new(256 * mib).limit(20 * mib, 0), 220 * mib);
        assert_eq!(Governor::new(256 * mib).limit(200 * mib, 150 * mib), 190 * mib);
        assert_eq!(Governor::new(256 * mib).limit(900 * mib, 150 * mib), 32 * mib);
        assert_eq!(Governor::new(64 * mib).limit(30 * mib, 10 * mib), 36 * mib);
    }
}
