//! The Java classes by which clients know what went wrong.

/// A class that the stock client constructs from its name and a message, as `Class.getName()` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is called as the class that it stands for
pub enum Exception {
    AccessControl,
    Acl,
    AlreadyBeingCreated,
    Authorization,
    DsQuotaExceeded,
    FileAlreadyExists,
    FileNotFound,
    HadoopIllegalArgument,
    IllegalArgument,
    Io,
    InvalidPath,
    LeaseExpired,
    NoEcPolicySet,
    NoSuchMethod,
    NoSuchProtocol,
    NotReplicatedYet,
    NsQuotaExceeded,
    ParentNotDirectory,
    PathComponentTooLong,
    PathIsNotDirectory,
    PathIsNotEmptyDirectory,
    MaxDirectoryItemsExceeded,
    RecoveryInProgress,
    ReplicaNotFound,
    Retriable,
    SafeMode,
    /// An `IOException` for the client; the server may try again before it answers.
    TooFewDatanodes,
    UnsupportedOperation,
    VersionMismatch,
    XAttrNotFound,
}

impl Exception {
    /// The name that goes over the wire.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::AccessControl => "org.apache.hadoop.security.AccessControlException",
            Self::Acl => "org.apache.hadoop.hdfs.protocol.AclException",
            Self::AlreadyBeingCreated => "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException",
            Self::Authorization => "org.apache.hadoop.security.authorize.AuthorizationException",
            Self::DsQuotaExceeded => "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException",
            Self::NsQuotaExceeded => "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException",
            Self::PathIsNotDirectory => "org.apache.hadoop.fs.PathIsNotDirectoryException",
            Self::FileAlreadyExists => "org.apache.hadoop.fs.FileAlreadyExistsException",
            Self::FileNotFound => "java.io.FileNotFoundException",
            Self::HadoopIllegalArgument => "org.apache.hadoop.HadoopIllegalArgumentException",
            Self::IllegalArgument => "java.lang.IllegalArgumentException",
            Self::Io | Self::TooFewDatanodes => "java.io.IOException",
            Self::InvalidPath => "org.apache.hadoop.fs.InvalidPathException",
            Self::LeaseExpired => "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException",
            Self::NoEcPolicySet => "org.apache.hadoop.hdfs.protocol.NoECPolicySetException",
            Self::NoSuchMethod => "org.apache.hadoop.ipc.RpcNoSuchMethodException",
            Self::NoSuchProtocol => "org.apache.hadoop.ipc.RpcNoSuchProtocolException",
            Self::NotReplicatedYet => "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException",
            Self::ParentNotDirectory => "org.apache.hadoop.fs.ParentNotDirectoryException",
            Self::PathComponentTooLong => {
                "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException"
            }
            Self::PathIsNotEmptyDirectory => "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
            Self::MaxDirectoryItemsExceeded => {
                "org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException"
            }
            Self::RecoveryInProgress => "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException",
            Self::ReplicaNotFound => "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException",
            Self::Retriable => "org.apache.hadoop.ipc.RetriableException",
            Self::SafeMode => "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
            Self::UnsupportedOperation => "java.lang.UnsupportedOperationException",
            Self::VersionMismatch => "org.apache.hadoop.ipc.RPC$VersionMismatch",
            Self::XAttrNotFound => "org.apache.hadoop.hdfs.protocol.XAttrNotFoundException",
        }
    }

    /// The number in the header of an answer that says where the call failed.
    pub fn error_detail(self) -> i32 {
        match self {
            Self::NoSuchMethod => 2,
            Self::NoSuchProtocol => 3,
            Self::VersionMismatch => 6,
            _ => 1, // the application
        }
    }
}
