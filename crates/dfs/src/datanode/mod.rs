//! A DataNode: keeps replicas, takes them in pipelines, and gives them back.
//!
//! - decisions: [`replicas`] is what there is, [`volume_choice`] where the next one goes, [`layout`] what files are called.
//! - drivers: [`store`] has the files, on [`volume`]s; `transfer` serves the data port with `receiver` and `sender`, `ipc` the
//!   port for calls; `link` tells the NameNode; `repairer` obeys its orders, with `rebuilding` for units of groups; `replacing`
//!   takes what a balancer moves; `scanner` looks for damage; `writers` who writes, and `joining` brings a DataNode into a pipeline that has lost one.

mod checked_plan;
mod checksums;
mod control;
mod copying;
mod identity;
mod ipc;
mod joining;
pub mod layout;
mod link;
mod moves;
mod notices;
mod options;
mod pace;
mod packets;
mod pages;
mod patience;
mod peer;
mod rebuilding;
mod receiver;
mod recoverer;
mod repairer;
mod repairs;
mod replacing;
pub mod replicas;
mod responder;
mod scanner;
mod sender;
mod server;
pub mod store;
#[cfg(test)]
mod test_peer;
mod throttle;
mod transfer;
pub mod volume;
pub mod volume_choice;
mod writers;

pub use options::{Options, SCAN_PERIOD};
pub use server::{Handle, Server};
