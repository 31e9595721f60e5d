//! What workers tell the master about themselves, and what it tells them to do.

pub use yeoul_disk::Health;

use crate::ids::{ShuffleKey, WorkerId};
use crate::wire::{internal, received};

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
    /// Every shuffle that it holds something of.
    pub shuffles: Vec<HeldShuffle>,
    /// It asks for no new partitions for the moment.
    pub saturated: bool,
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

impl From<received::WorkerPhase> for Phase {
    fn from(phase: received::WorkerPhase) -> Self {
        match phase {
            received::WorkerPhase::WorkerNormal => Self::Normal,
            received::WorkerPhase::WorkerStopping => Self::Stopping,
            received::WorkerPhase::WorkerDecommissioning => Self::Decommissioning,
        }
    }
}

impl From<Phase> for internal::WorkerPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Normal => Self::WorkerNormal,
            Phase::Stopping => Self::WorkerStopping,
            Phase::Decommissioning => Self::WorkerDecommissioning,
        }
    }
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
}

impl From<received::DirectoryHealth> for Health {
    fn from(health: received::DirectoryHealth) -> Self {
        match health {
            received::DirectoryHealth::DirectoryHealthy => Self::Healthy,
            received::DirectoryHealth::DirectoryFull => Self::Full,
            received::DirectoryHealth::DirectoryFailed => Self::Failed,
        }
    }
}

impl From<Health> for internal::DirectoryHealth {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::DirectoryHealthy,
            Health::Full => Self::DirectoryFull,
            Health::Failed => Self::DirectoryFailed,
        }
    }
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

/// What the master orders a worker to do.
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

impl From<received::WorkerCommand> for Option<Command> {
    fn from(command: received::WorkerCommand) -> Self {
        match command {
            received::WorkerCommand::CommandNone => None,
            received::WorkerCommand::CommandStopGracefully => Some(Command::StopGracefully),
            received::WorkerCommand::CommandDecommission => Some(Command::Decommission),
            received::WorkerCommand::CommandRecommission => Some(Command::Recommission),
            received::WorkerCommand::CommandStopNow => Some(Command::StopNow),
        }
    }
}

impl From<Option<Command>> for internal::WorkerCommand {
    fn from(command: Option<Command>) -> Self {
        match command {
            None => Self::CommandNone,
            Some(Command::StopGracefully) => Self::CommandStopGracefully,
            Some(Command::Decommission) => Self::CommandDecommission,
            Some(Command::Recommission) => Self::CommandRecommission,
            Some(Command::StopNow) => Self::CommandStopNow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_on_has_the_number_that_it_was_received_with() {
        for number in 0..3 {
            let phase = Phase::from(received::WorkerPhase::try_from(number).unwrap());
            assert_eq!(internal::WorkerPhase::from(phase) as i32, number);
            let health = Health::from(received::DirectoryHealth::try_from(number).unwrap());
            assert_eq!(internal::DirectoryHealth::from(health) as i32, number);
        }
        for number in 0..5 {
            let command = Option::<Command>::from(received::WorkerCommand::try_from(number).unwrap());
            assert_eq!(internal::WorkerCommand::from(command) as i32, number);
        }
    }
}
