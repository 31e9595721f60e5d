//! What the failures of a call become for people.

use hdfs_native::HdfsError;

use crate::error::{Error, Kind};
use crate::rpc::CallError;

/// Simple names of Java classes, with what a caller can do.
const KINDS: &[(&str, Kind)] = &[
    ("AccessControlException", Kind::Denied),
    ("AlreadyBeingCreatedException", Kind::Conflict),
    ("FileAlreadyExistsException", Kind::Conflict),
    ("FileNotFoundException", Kind::NotFound),
    ("HadoopIllegalArgumentException", Kind::Invalid),
    ("InvalidPathException", Kind::Invalid),
    ("NoECPolicySetException", Kind::NotFound),
    ("NotReplicatedYetException", Kind::Unavailable),
    ("ParentNotDirectoryException", Kind::Conflict),
    ("PathIsNotEmptyDirectoryException", Kind::Conflict),
    ("RetriableException", Kind::Unavailable),
    ("RpcNoSuchMethodException", Kind::Invalid),
    ("SafeModeException", Kind::Unavailable),
    ("StandbyException", Kind::Unavailable),
    ("UnsupportedOperationException", Kind::Invalid),
];

/// The error for a call that a server refuses with a Java class and a message, of which the first line is for people.
fn refused(class: &str, message: &str) -> Error {
    let simple = class.rsplit(['.', '$']).next().unwrap_or_default();
    let kind = KINDS.iter().find(|(name, _)| *name == simple).map_or(Kind::Unavailable, |(_, kind)| *kind);
    let line = message.lines().next().unwrap_or_default().trim();
    let line = line.strip_prefix(class).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(line);
    Error::new(kind, if line.is_empty() { simple } else { line })
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match &error {
            CallError::Refused { class, message } => refused(class, message),
            CallError::Connection { .. } => Self::new(Kind::Unavailable, error.to_string())
                .with_hint("see that the NameNode runs, and that --fs or fs.defaultFS has its address")
                .with_source(error),
            CallError::Corrupt { .. } => Self::new(Kind::Corrupt, error.to_string()).with_source(error),
        }
    }
}

/// The error for what `hdfs-native` says of the bytes of a file.
pub(super) fn of_data(path: &str, error: HdfsError) -> Error {
    match &error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            let refused = refused(class, message);
            Error::new(refused.kind(), format!("{path}: {refused}"))
        }
        HdfsError::ChecksumError => Error::new(Kind::Corrupt, format!("{path}: {error}")),
        HdfsError::BlocksNotFound(_) => Error::new(Kind::DataLoss, format!("{path}: {error}")),
        HdfsError::FileNotFound(_) => {
            Error::new(Kind::NotFound, format!("{path}: no such file or directory"))
        }
        _ => Error::new(Kind::Unavailable, format!("{path}: {error}")).with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_class_and_told_by_its_first_line() {
        let error = refused("java.io.FileNotFoundException", "File does not exist: /a\n\tat x.Y(Z)");
        assert_eq!((error.kind(), error.to_string()), (Kind::NotFound, "File does not exist: /a".to_owned()));
        let class = "org.apache.hadoop.hdfs.protocol.NoECPolicySetException";
        assert_eq!(refused(class, &format!("{class}: none")).to_string(), "none");
        assert_eq!(refused("java.io.IOException", "full").kind(), Kind::Unavailable);
        assert_eq!(refused(class, "").to_string(), "NoECPolicySetException");
    }
}
