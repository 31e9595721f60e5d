//! A distributed file system that speaks HDFS's protocols, so that the unmodified Hadoop client and `hdfs-native` use it.
//!
//! - [`ids`]: the identifiers, [`policy`]: the erasure coding policies, [`error`]: the public error.
//! - [`wire`]: bytes to values and back; no I/O.
//! - [`namenode`]: names, files, blocks and where their replicas are.
//! - [`datanode`]: keeps the replicas, takes them in pipelines and gives them back.
//! - [`rpc`]: Hadoop RPC over connections, of servers and of clients.
//! - [`client`]: files and clusters without a JVM; [`shell`]: the verbs of Hadoop's shell on it.
//! - [`report`]: what a cluster has and lacks.
//! - [`settings`]: Hadoop's files and keys; [`memory`]: the promise of `--memory`.
//! - [`local`]: a whole cluster in one process.

mod beans;
pub mod client;
pub mod datanode;
mod display;
pub mod error;
mod http;
pub mod ids;
pub mod local;
pub mod memory;
pub mod namenode;
pub mod policy;
pub mod report;
pub mod rpc;
pub mod settings;
pub mod shell;
pub mod storage_policy;
pub mod wire;

pub use error::{Error, Kind, Result};
