//! The NameNode: names, files, blocks, and where their replicas are.
//!
//! - decisions: [`state`] takes calls and makes records; [`namespace`], [`blocks`], [`leases`], [`datanodes`], [`placement`],
//!   [`safe_mode`] and [`retry_cache`] are what it consists of, [`rules`] what operators may set.
//! - drivers: [`server`] takes connections, [`journal`] keeps the records, [`groups`] knows the groups of users.

pub mod blocks;
mod context;
pub mod datanodes;
pub mod groups;
pub mod journal;
pub mod leases;
pub mod namespace;
mod options;
pub mod placement;
mod refusal;
pub mod retry_cache;
pub mod rules;
pub mod safe_mode;
pub mod server;
pub mod state;

pub use context::{Context, Now};
pub use options::Options;
pub use refusal::Refusal;
pub use server::{Handle, Server};
