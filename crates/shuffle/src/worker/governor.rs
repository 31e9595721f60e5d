//! Keeps the process below its memory limit as the operating system sees it.
//!
//! The ledger knows every byte of batches, indexes and buffers; the allocator's slack, stacks, connections and code it
//! does not know. So the ledger's limit follows what the process really uses besides.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::buffers;
use super::memory;
use super::node::Node;

/// How often the process is measured. Between two measurements no more comes in than a loopback connection carries.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long empty buffers are kept when nobody wants one.
const IDLE: Duration = Duration::from_secs(1);

/// Left alone below the limit, in 1/32, for what comes between two measurements.
const MARGIN_32NDS: u64 = 2;

/// What a page has on the systems that we run on; the kernel counts RSS in pages.
const PAGE_BYTES: u64 = 4096;

/// The ledger's limit before the process was measured.
pub fn first_limit(memory_bytes: u64) -> u64 {
    memory_bytes / 4 * 3
}

/// The ledger's limit, for a process that uses `rss` bytes of which the ledgers know `accounted`.
///
/// Never below a quarter: a process that needs more than that besides has too small a limit, and still has to go on.
pub fn limit(memory_bytes: u64, rss: u64, accounted: u64) -> u64 {
    let besides = rss.saturating_sub(accounted);
    let margin = memory_bytes / 32 * MARGIN_32NDS;
    memory_bytes.saturating_sub(margin).saturating_sub(besides).max(memory_bytes / 4)
}

/// The resident set of this process, in bytes.
pub fn resident_set() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * PAGE_BYTES)
}

/// Follows the process for as long as the worker lives.
pub async fn run(node: Arc<Node>) {
    let mut looked = Instant::now();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A file of the kernel, not of a disk: it is read at once.
        let Some(rss) = resident_set() else { return };
        let (before, accounted) = (node.store.memory().limit(), memory::accounted() + buffers::shelved());
        let limit = limit(node.options.memory_bytes, rss, accounted);
        tracing::trace!(rss, accounted, before, limit, "measured");
        node.store.set_memory_bytes(limit);
        let (memory, buffers) = (node.store.memory(), node.store.buffers());
        buffers.shrink_to(memory.limit().saturating_sub(memory.used()));
        if looked.elapsed() >= IDLE {
            looked = Instant::now();
            buffers.shrink_if_idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_gives_way_to_what_else_the_process_uses() {
        let mib = 1 << 20;
        assert_eq!(limit(256 * mib, 20 * mib, 0), 220 * mib);
        assert_eq!(limit(256 * mib, 200 * mib, 150 * mib), 190 * mib);
        assert_eq!(limit(256 * mib, 900 * mib, 150 * mib), 64 * mib);
        assert!(resident_set().is_some_and(|rss| rss > mib));
    }
}
