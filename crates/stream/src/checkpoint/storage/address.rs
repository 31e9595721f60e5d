use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;
use yeoul_disk::RealDisk;

use super::{LocalFolder, ObjectStorage, Patience, Storage};
use crate::error::{Result, invalid};

/// Place of checkpoints: a directory, or an address of an object store such as `s3://bucket/prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointAddress {
    /// A directory.
    Folder(PathBuf),
    /// A prefix of an object store.
    Store(Url),
}

impl CheckpointAddress {
    /// The place that a user names: with `://` in it an address, where `file://` is a directory, too.
    ///
    /// # Errors
    /// `Invalid` for an address that is none, or of a store that cannot hold checkpoints.
    pub fn parse(name: &OsStr) -> Result<Self> {
        let Some(text) = name.to_str().filter(|text| text.contains("://")) else {
            return Ok(Self::Folder(name.into()));
        };
        let url = Url::parse(text)
            .map_err(|error| invalid(format!("'{text}' is no address: {error}")).with_source(error))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid(format!("the address '{text}' has a query or a fragment"))
                .with_hint("in a name, write '?' as %3F and '#' as %23"));
        }
        match url.scheme() {
            "file" => url.to_file_path().map(Self::Folder).map_err(|()| {
                invalid(format!("'{text}' is no path of this system"))
                    .with_hint("a directory is file:///var/lib/yeoul/orders, or without file://")
            }),
            "http" | "https" => Err(invalid(format!(
                "'{text}' cannot hold checkpoints: HTTP does not create a file only if it is absent"
            ))
            .with_hint("name a directory, or an address that begins with s3:// or hdfs://")),
            "s3" | "s3a" if url.host_str().unwrap_or_default().is_empty() => {
                Err(invalid(format!("'{text}' names no bucket")).with_hint("such as s3://bucket/prefix"))
            }
            "s3" | "s3a" | "hdfs" | "viewfs" => Ok(Self::Store(url)),
            other => Err(invalid(format!("'{text}' cannot hold checkpoints: no store speaks '{other}://'"))
                .with_hint("name a directory, or an address that begins with s3:// or hdfs://")),
        }
    }

    /// Opens the place. A store that fails is asked again with this patience.
    ///
    /// # Errors
    /// If its store has settings that are wrong.
    pub fn open(&self, patience: Patience) -> Result<Arc<dyn Storage>> {
        Ok(match self {
            Self::Folder(folder) => Arc::new(LocalFolder::new(Arc::new(RealDisk), folder)),
            Self::Store(url) => Arc::new(ObjectStorage::open(url, patience)?),
        })
    }
}

impl From<&Path> for CheckpointAddress {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl From<&PathBuf> for CheckpointAddress {
    fn from(folder: &PathBuf) -> Self {
        Self::Folder(folder.clone())
    }
}

impl From<&Self> for CheckpointAddress {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

impl fmt::Display for CheckpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Store(url) => url.as_str().trim_end_matches('/').fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn parse(text: &str) -> Result<CheckpointAddress> {
        CheckpointAddress::parse(OsStr::new(text))
    }

    #[test]
    fn a_directory_and_an_address_are_told_apart() {
        for (name, folder) in [("a/b", "a/b"), ("file:///a/b%20c", "/a/b c"), ("s3:/a", "s3:/a")] {
            assert_eq!(parse(name).unwrap(), CheckpointAddress::Folder(folder.into()));
        }
        for name in ["s3://bucket/a/b", "hdfs://host:8020/a", "hdfs:///a", "s3://bucket"] {
            let address = parse(name).unwrap();
            assert!(matches!(address, CheckpointAddress::Store(_)), "{name}");
            assert_eq!(address.to_string(), name);
        }
    }

    #[test]
    fn what_cannot_hold_a_checkpoint_is_refused_with_the_reason() {
        for (name, reason) in [
            ("http://host/a", "does not create a file only if it is absent"),
            ("https://host/a", "does not create a file only if it is absent"),
            ("gs://bucket/a", "no store speaks 'gs://'"),
            ("s3:///a", "names no bucket"),
            ("s3://bucket/a?x=1", "has a query"),
            ("s3://bucket/a#1", "a fragment"),
            ("file://host/a", "is no path of this system"),
            ("://", "is no address"),
        ] {
            let error = parse(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
