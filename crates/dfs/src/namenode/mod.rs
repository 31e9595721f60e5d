//! The NameNode: names, files, blocks, and where their replicas are.
//!
//! - decisions: [`state`] takes calls and makes records; [`namespace`], [`blocks`], [`leases`], [`datanodes`], [`placement`],
//!   [`policies`], [`repair`], [`recovery`], [`safe_mode`], [`checking`], [`retry_cache`] and the [`table`] of inodes and blocks are what it consists of, [`Rules`] what operators may set.
//! - drivers: `server` starts it, `service` carries calls to the state and keeps the records (`journal_record`),
//!   `clock` tells the time, `lost_and_found` copies remains of lost files, `topology` asks for the racks of DataNodes.

mod admin_state;
mod beans;
pub mod blocks;
pub mod checking;
mod clock;
mod console;
mod context;
pub mod datanodes;
#[cfg(test)]
mod faults;
pub mod hosts;
mod hosts_files;
mod journal_record;
pub mod leases;
mod lost_and_found;
pub mod namespace;
mod options;
mod pages;
pub mod placement;
pub mod policies;
pub mod recovery;
mod refused;
pub mod repair;
pub mod retry_cache;
mod rules;
pub mod safe_mode;
mod server;
mod service;
mod site;
pub mod state;
pub mod table;
mod topology;

pub use admin_state::AdminState;
pub use context::{Context, Now};
pub use hosts_files::HostsFiles;
pub use options::Options;
pub use rules::Rules;
pub use server::{Handle, Server};
pub use topology::Topology;
