//! Names of the protocols that calls belong to, each in version 1.

/// A client's calls to the NameNode.
pub const CLIENT: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// A client's calls to the IPC port of a DataNode.
pub const CLIENT_DATANODE: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
/// A balancer's calls to the NameNode.
pub const NAMENODE: &str = "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol";
/// The question for the groups of a user (`hdfs groups`).
pub const USER_MAPPINGS: &str = "org.apache.hadoop.tools.GetUserMappingsProtocol";
/// The order to ask for the groups of users anew (`hdfs dfsadmin -refreshUserToGroupsMappings`).
pub const REFRESH_USER_MAPPINGS: &str = "org.apache.hadoop.security.RefreshUserMappingsProtocol";
/// Hadoop's other protocols of a NameNode and a DataNode, none of whose calls are there.
pub const UNSUPPORTED: [&str; 9] = [
    "org.apache.hadoop.ha.HAServiceProtocol",
    "org.apache.hadoop.ha.ZKFCProtocol",
    "org.apache.hadoop.hdfs.protocol.ReconfigurationProtocol",
    "org.apache.hadoop.hdfs.server.protocol.DatanodeLifelineProtocol",
    "org.apache.hadoop.hdfs.server.protocol.DatanodeProtocol",
    "org.apache.hadoop.hdfs.server.protocol.InterDatanodeProtocol",
    "org.apache.hadoop.ipc.GenericRefreshProtocol",
    "org.apache.hadoop.ipc.RefreshCallQueueProtocol",
    "org.apache.hadoop.security.authorize.RefreshAuthorizationPolicyProtocol",
];
/// What DataNodes tell the NameNode: ours, not Hadoop's.
pub const CLUSTER: &str = "yeoul.dfs.Cluster";
/// The version of each of them.
pub const VERSION: u64 = 1;
/// What our servers say of themselves to each other: a peer with another one is refused.
pub const LAYOUT_VERSION: u32 = 1;
/// Bits of the optional behaviours that this build knows; there are none yet.
pub const FEATURES: u64 = 0;
