use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use tempfile::{TempDir, TempPath};
use url::Url;
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// A `COPY … TO` the local disk that is written beside its target and moved there when it is whole.
///
/// DataFusion's sinks close their files properly even when the query fails, so that a part of an answer would stand under
/// the name of the whole. Dropping this without [`commit`](Self::commit) removes what was written, and what the target was
/// before stays.
#[derive(Debug)]
pub(crate) struct StagedCopy {
    target: PathBuf,
    staged: Staged,
}

#[derive(Debug)]
enum Staged {
    File(TempPath),
    Folder(TempDir),
}

impl StagedCopy {
    /// Leads the output of a `COPY` to the local disk aside. Other plans stay as they are.
    ///
    /// # Errors
    /// When nothing can be written beside the target.
    pub(crate) fn stage(plan: LogicalPlan) -> Result<(LogicalPlan, Option<Self>)> {
        let LogicalPlan::Copy(mut copy) = plan else { return Ok((plan, None)) };
        let Some(target) = local_path(&copy.output_url) else { return Ok((LogicalPlan::Copy(copy), None)) };
        let failed = |error: io::Error| denied(&target, error);
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // COPY makes the folders that are missing.
        fs::create_dir_all(parent).map_err(failed)?;
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The ending tells DataFusion the format, and that it is a file.
        let ending = format!("-{name}");
        let mut builder = tempfile::Builder::new();
        builder.prefix(".").suffix(&ending);
        let staged = if is_one_file(&copy) {
            Staged::File(builder.tempfile_in(parent).map_err(failed)?.into_temp_path())
        } else {
            Staged::Folder(builder.tempdir_in(parent).map_err(failed)?)
        };
        copy.output_url = match &staged {
            Staged::File(path) => path.to_string_lossy().into_owned(),
            Staged::Folder(folder) => format!("{}/", folder.path().to_string_lossy()),
        };
        Ok((LogicalPlan::Copy(copy), Some(Self { target, staged })))
    }

    /// Moves what was written to its target.
    ///
    /// # Errors
    /// When the target cannot be written; what was staged is removed.
    pub(crate) fn commit(self) -> Result<()> {
        let Self { target, staged } = self;
        let moved = match staged {
            Staged::File(path) => path.persist(&target).map_err(|error| error.error),
            Staged::Folder(folder) => move_into(folder.path(), &target),
        };
        moved.map_err(|error| denied(&target, error))
    }
}

/// Whether the output is one file, as DataFusion decides it.
fn is_one_file(copy: &CopyTo) -> bool {
    let named = !copy.output_url.ends_with('/') && Path::new(&copy.output_url).extension().is_some();
    named && copy.partition_by.is_empty()
}

/// The path on the local disk that an output address means.
fn local_path(address: &str) -> Option<PathBuf> {
    if !address.contains("://") {
        return Some(PathBuf::from(address));
    }
    Url::parse(address).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok())
}

/// Moves every file below `from` to the same place below `to`, where other files may be already.
fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            move_into(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), target)?;
        }
    }
    Ok(())
}

fn denied(target: &Path, source: io::Error) -> Error {
    let kind = match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::ResourceExhausted,
        _ => ErrorKind::Unavailable,
    };
    // tempfile adds the temporary name, which tells the reader nothing.
    let reason = io::Error::from(source.kind());
    Error::new(kind, format!("cannot write '{}': {reason}", target.display())).with_source(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_on_the_local_disk_are_staged() {
        for (address, path) in [
            ("out.parquet", Some("out.parquet")),
            ("/data/out.parquet", Some("/data/out.parquet")),
            ("file:///data/a%20b.csv", Some("/data/a b.csv")),
            ("s3://bucket/out.parquet", None),
            ("hdfs://host/out.parquet", None),
        ] {
            assert_eq!(local_path(address), path.map(PathBuf::from), "{address}");
        }
    }

    #[test]
    fn files_are_moved_among_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (name, text) in
            [("from/year=1/a", "new"), ("from/b", "b"), ("to/year=1/a", "old"), ("to/year=1/c", "c")]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        move_into(&from, &to).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        assert_eq!((read("year=1/a"), read("year=1/c"), read("b")), ("new".into(), "c".into(), "b".into()));
    }
}
