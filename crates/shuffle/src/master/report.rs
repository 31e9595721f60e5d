//! What workers tell the master about themselves.

use crate::ids::{ShuffleKey, WorkerId};

/// A worker's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its identity.
    pub worker: WorkerId,
    /// Drawn when its process started: another incarnation of the same identity has lost what was not on disk.
    pub incarnation: u64,
    /// Where its HTTP pages are.
    pub http_port: u16,
    /// Its rack, or empty.
    pub network_location: String,
    /// Its program's version.
    pub version: String,
    /// Its state.
    pub report: Report,
    /// Ports that take pushes besides the one of its identity.
    pub push_ports: Vec<u16>,
}

/// A worker's state at one moment; each report replaces the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it works, stops or leaves.
    pub phase: Phase,
    /// Its storage directories.
    pub directories: Vec<Directory>,
    /// What it may use for batches.
    pub memory_limit_bytes: u64,
    /// What it uses now.
    pub memory_used_bytes: u64,
    /// Every shuffle of which it holds something.
    pub shuffles: Vec<HeldShuffle>,
    /// It asks for no new partitions for the moment.
    pub saturated: bool,
    /// Bytes appended since it started.
    pub bytes_appended: u64,
    /// Locations that still accept pushes.
    pub open_locations: u64,
}

impl Report {
    /// What the worker can still store: free memory and the usable space of its healthy directories.
    pub fn bytes_usable(&self) -> u64 {
        let healthy = self.directories.iter().filter(|directory| directory.health == Health::Healthy);
        let disk = healthy.fold(0_u64, |sum, directory| sum.saturating_add(directory.bytes_usable));
        disk.saturating_add(self.memory_limit_bytes.saturating_sub(self.memory_used_bytes))
    }

    /// Whether it has directories and none of them takes anything.
    pub fn is_without_storage(&self) -> bool {
        !self.directories.is_empty()
            && self.directories.iter().all(|directory| directory.health != Health::Healthy)
    }
}

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Takes partitions.
    #[default]
    Normal,
    /// Stopping; comes back on the same ports with the same data.
    Stopping,
    /// Takes nothing new, leaves when its last shuffle has gone.
    Decommissioning,
}

/// A storage directory of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its path on the worker.
    pub path: String,
    /// Size of its file system.
    pub bytes_total: u64,
    /// Free space less the reserve.
    pub bytes_usable: u64,
    /// Whether it can be used.
    pub health: Health,
    /// Locations with bytes in it.
    pub locations: u64,
}

/// Whether a directory can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Health {
    /// Read and written.
    #[default]
    Healthy,
    /// Read only, for want of space.
    Full,
    /// Failed a probe or a write.
    Failed,
}

/// A shuffle that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldShuffle {
    /// Which.
    pub shuffle: ShuffleKey,
    /// Its partition locations there, open or committed.
    pub locations: u64,
    /// Bytes of its batches there.
    pub bytes: u64,
}

/// What the master wants a worker to do with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Hand over, flush, exit; it comes back on the same ports.
    StopGracefully,
    /// Take nothing new, exit when empty.
    Decommission,
    /// Back to normal work.
    Recommission,
    /// Exit at once.
    StopNow,
}
