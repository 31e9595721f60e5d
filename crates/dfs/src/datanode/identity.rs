use std::collections::BTreeMap;
use std::path::Path;

use super::layout::is_pool_name;
use crate::error::{Error, Kind, Result};

/// The file that says which cluster and which DataNode a volume belongs to, as HDFS's `current/VERSION`: Java properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The DataNode, which keeps its name over restarts.
    pub datanode: String,
    /// The volume.
    pub storage: String,
    /// The cluster; empty before the DataNode has registered for the first time.
    pub cluster: String,
    /// The block pool; empty before the DataNode has registered for the first time.
    pub pool: String,
}

/// Checks the names that a NameNode has for its pool and cluster before they become a folder's and a line's.
///
/// # Errors
/// `Invalid` for others than HDFS gives.
pub fn check_names(pool: &str, cluster: &str) -> Result<()> {
    if is_pool_name(pool) && !cluster.contains(char::is_control) {
        return Ok(());
    }
    let text =
        format!("the NameNode has a block pool {pool:?} of cluster {cluster:?}, which cannot be names");
    let hint = "a pool is called like BP-1234-10.0.0.1-1700000000000: is it a NameNode of yours?";
    Err(Error::new(Kind::Invalid, text).with_hint(hint))
}

/// The version of the folder tree that HDFS 3 writes.
const LAYOUT_VERSION: &str = "-57";

impl Identity {
    /// The file's text.
    pub fn encode(&self) -> String {
        let Self { datanode, storage, cluster, pool } = self;
        format!(
            "storageID={storage}\nclusterID={cluster}\ncTime=0\ndatanodeUuid={datanode}\nstorageType=DATA_NODE\n\
             layoutVersion={LAYOUT_VERSION}\nblockpoolID={pool}\n"
        )
    }

    /// Reads the file's text; `path` is for the error.
    pub fn decode(text: &str, path: &Path) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let fields: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
        let field = |name: &str| {
            let missing = || Error::new(Kind::Corrupt, format!("{} has no {name}", path.display()));
            fields.get(name).map(|value| value.trim().to_owned()).ok_or_else(missing)
        };
        let layout = field("layoutVersion")?;
        if layout != LAYOUT_VERSION {
            let message =
                format!("{} has layout version {layout}, expected {LAYOUT_VERSION}", path.display());
            return Err(Error::new(Kind::Invalid, message)
                .with_hint("another version wrote it: use that one, or another directory"));
        }
        Ok(Self {
            datanode: field("datanodeUuid")?,
            storage: field("storageID")?,
            cluster: field("clusterID")?,
            pool: field("blockpoolID")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_and_another_layout_is_refused() {
        let identity = Identity {
            datanode: "d".to_owned(),
            storage: "DS-1".to_owned(),
            cluster: "CID-1".to_owned(),
            pool: "BP-1-127.0.0.1-5".to_owned(),
        };
        let text = identity.encode();
        assert_eq!(Identity::decode(&text, Path::new("VERSION")).unwrap(), identity);
        let other = text.replace("-57", "-58");
        let error = Identity::decode(&other, Path::new("VERSION")).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        let error = Identity::decode("", Path::new("VERSION")).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}
