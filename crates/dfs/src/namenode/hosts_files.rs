//! The files of hosts that a NameNode reads when it starts and when an operator says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tracing::warn;

use super::hosts::{FILE_BYTES_MAX, Hosts};
use crate::error::{Error, Kind, Result};

/// How long the look-up of a name may take.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// The files that name hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostsFiles {
    /// The hosts that may have DataNodes (`dfs.hosts`).
    pub included: Option<PathBuf>,
    /// The hosts whose DataNodes are to leave (`dfs.hosts.exclude`).
    pub excluded: Option<PathBuf>,
    /// The first file is JSON, and has all there is to say (`dfs.namenode.hosts.provider.classname`: `CombinedHostFileManager`).
    pub is_combined: bool,
}

impl HostsFiles {
    /// Reads the files, and looks up the addresses of the names in them.
    ///
    /// # Errors
    /// A file cannot be read, or has something else in it; `Invalid` for a list of hosts to exclude beside JSON.
    pub async fn read(&self) -> Result<Hosts> {
        let included = text_of(self.included.as_deref()).await?;
        let mut hosts = if self.is_combined {
            if let Some(excluded) = &self.excluded {
                let message = format!("'{}' is not read beside the JSON of dfs.hosts", excluded.display());
                return Err(Error::new(Kind::Invalid, message).with_hint("leave dfs.hosts.exclude out"));
            }
            Hosts::of_json(&included)
        } else {
            let excluded = text_of(self.excluded.as_deref()).await?;
            Hosts::of_lists(&included, &excluded)
        }?;
        for host in hosts.iter_mut() {
            match tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((host.name.as_str(), 0))).await {
                Ok(Ok(found)) => {
                    host.addresses = found.map(|address| address.ip().to_string()).collect::<BTreeSet<_>>()
                }
                // It is known by its name alone, if its DataNode says it.
                Ok(Err(error)) => warn!(host = host.name, %error, "a name in a file of hosts is unknown"),
                Err(_) => warn!(host = host.name, "a name in a file of hosts is not looked up in time"),
            }
        }
        Ok(hosts)
    }
}

async fn text_of(path: Option<&Path>) -> Result<String> {
    let Some(path) = path else { return Ok(String::new()) };
    let cannot = |error: std::io::Error| {
        let message = format!("cannot read the file of hosts '{}': {error}", path.display());
        Error::new(Kind::of_io(&error), message).with_source(error)
    };
    let file = tokio::fs::File::open(path).await.map_err(cannot)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).await.map_err(cannot)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let message = format!("the file of hosts '{}' has more than {FILE_BYTES_MAX} bytes", path.display());
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namenode::hosts::Duty;

    #[tokio::test]
    async fn names_in_files_are_looked_up_and_files_that_are_not_there_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Some(dir.path().join(name));
        std::fs::write(dir.path().join("excluded"), "localhost:9866\n").unwrap();
        let files = HostsFiles { excluded: path("excluded"), ..HostsFiles::default() };
        let hosts = files.read().await.unwrap();
        assert_eq!(hosts.duty_of("dn", "127.0.0.1", 9866), Some(Duty::Leave));
        assert_eq!(hosts.duty_of("dn", "127.0.0.1", 9867), Some(Duty::Serve));
        let missing = HostsFiles { included: path("none"), ..files.clone() };
        assert_eq!(missing.read().await.unwrap_err().kind(), Kind::NotFound);
        std::fs::write(dir.path().join("json"), "[{\"hostName\": \"localh").unwrap();
        let cut = HostsFiles { included: path("json"), excluded: None, is_combined: true };
        assert_eq!(cut.read().await.unwrap_err().kind(), Kind::Invalid);
        let lines = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
        std::fs::write(dir.path().join("large"), "\n".repeat(lines)).unwrap();
        let large = HostsFiles { excluded: path("large"), ..HostsFiles::default() };
        assert!(large.read().await.unwrap_err().to_string().contains("has more than 16777216 bytes"));
        let both = HostsFiles { is_combined: true, ..files };
        assert!(both.read().await.unwrap_err().to_string().contains("is not read"));
    }
}
