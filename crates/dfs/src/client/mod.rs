//! What uses the servers without a JVM: names through our own calls, bytes through the library `hdfs-native`.
//!
//! - [`FileSystem`]: a connection, with what can be done to files.
//! - [`Options`]: which NameNode, and what new files are like.
//! - [`RemotePath`]: a path as a person gives it.
//! - [`Policy`]: an erasure coding policy and where it is in force.

mod file_system;
mod options;
pub(crate) mod path;
mod policies;
mod refused;
mod report;
mod status;

pub use file_system::{FileSystem, NewFile, Reader, Writer};
pub use options::Options;
pub use path::RemotePath;
pub use policies::Policy;
pub use status::{EntryKind, Status, Summary};
