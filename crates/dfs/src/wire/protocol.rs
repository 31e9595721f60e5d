//! Names of the protocols that calls belong to, each in version 1.

/// A client's calls to the NameNode.
pub const CLIENT: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// A client's calls to the IPC port of a DataNode.
pub const CLIENT_DATANODE: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
/// What DataNodes tell the NameNode: ours, not Hadoop's.
pub const CLUSTER: &str = "yeoul.dfs.Cluster";
/// The version of each of them.
pub const VERSION: u64 = 1;
/// What our servers say of themselves to each other: a peer with another one is refused.
pub const LAYOUT_VERSION: u32 = 1;
/// Bits of the optional behaviours that this build knows; there are none yet.
pub const FEATURES: u64 = 0;
