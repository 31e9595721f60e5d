use crate::error::{Error, Kind, Result};

/// Bits of a mode that new files and directories do not get, as in Hadoop (`fs.permissions.umask-mode`).
const UMASK_DEFAULT: u16 = 0o022;

/// How a client reaches its NameNode, and what the files are like that it makes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The NameNode as `hdfs://host:port` (`fs.defaultFS`); none if nothing names one.
    pub default_fs: Option<String>,
    /// Copies of a block; none for the NameNode's default (`dfs.replication`).
    pub replication: Option<u16>,
    /// Bytes of a block; none for the NameNode's default (`dfs.blocksize`).
    pub block_size: Option<u64>,
    /// Bits of a mode that nothing new gets (`fs.permissions.umask-mode`).
    pub umask: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { default_fs: None, replication: None, block_size: None, umask: UMASK_DEFAULT }
    }
}

/// The port of a NameNode whose address has none, as in HDFS.
const PORT_DEFAULT: u16 = 8020;

/// `host:port` of a NameNode that is given as `hdfs://host:port`, with HDFS's port where there is none.
///
/// # Errors
/// `Invalid` for another scheme, and for an address without a host.
pub(super) fn authority_of(text: &str) -> Result<String> {
    let invalid = || {
        Error::new(Kind::Invalid, format!("'{text:.100}' is no address of a NameNode"))
            .with_hint("give it as hdfs://HOST:PORT, such as hdfs://10.0.0.1:8020")
    };
    let authority = text.strip_prefix("hdfs://").ok_or_else(invalid)?;
    let authority = authority.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().map_err(|_| invalid())?),
        _ => (authority, PORT_DEFAULT),
    };
    let is_host = !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
    if is_host && port > 0 { Ok(format!("{host}:{port}")) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namenode_is_named_as_in_hadoops_settings() {
        for (text, authority) in [
            ("hdfs://n1:9000", "n1:9000"),
            ("hdfs://n1", "n1:8020"),
            ("hdfs://10.0.0.1:8020/", "10.0.0.1:8020"),
            ("hdfs://[fd00::7]:1/a", "[fd00::7]:1"),
            ("hdfs://[fd00::7]", "[fd00::7]:8020"),
        ] {
            assert_eq!(authority_of(text).unwrap(), authority, "{text}");
        }
        for text in ["file:///", "n1:8020", "hdfs://", "hdfs://n1:70000", "hdfs://:8020", "hdfs://n1:0"] {
            assert_eq!(authority_of(text).unwrap_err().kind(), Kind::Invalid, "{text}");
        }
    }
}
