use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use tempfile::TempDir;
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
    /// What is written lies in here, with what the writer keeps beside an unfinished file.
    folder: TempDir,
    /// The name in the folder of an output that is one file.
    file: Option<OsString>,
}

impl StagedCopy {
    /// Leads the output of a `COPY` to the local disk aside. Other plans stay as they are.
    ///
    /// # Errors
    /// When nothing can be written beside the target.
    pub(crate) fn stage(plan: LogicalPlan) -> Result<(LogicalPlan, Option<Self>)> {
        let LogicalPlan::Copy(mut copy) = plan else { return Ok((plan, None)) };
        let Some(target) = local_path(&copy.output_url) else { return Ok((LogicalPlan::Copy(copy), None)) };
        // The name tells DataFusion that it is a file.
        let file = is_one_file(&copy).then(|| target.file_name().map(ToOwned::to_owned)).flatten();
        // COPY makes the folders that are missing.
        fs::create_dir_all(parent(&target)).map_err(|error| denied(&target, error))?;
        let staged = Self { folder: folder_beside(&target)?, target, file };
        copy.output_url = staged.address()?;
        Ok((LogicalPlan::Copy(copy), Some(staged)))
    }

    /// Forgets what was written, and leads `plan`, the `COPY` that was staged, to a new place. What a stopped run still
    /// writes goes to the old place, and is not mixed with what the next one writes.
    ///
    /// # Errors
    /// When nothing can be written beside the target.
    pub(crate) fn start_over(&mut self, plan: &mut LogicalPlan) -> Result<()> {
        self.folder = folder_beside(&self.target)?;
        if let LogicalPlan::Copy(copy) = plan {
            copy.output_url = self.address()?;
        }
        Ok(())
    }

    /// Where DataFusion shall write. A URL, because a path with `[`, `*` or `?` would be taken for a glob.
    fn address(&self) -> Result<String> {
        let folder = std::path::absolute(self.folder.path()).map_err(|error| denied(&self.target, error))?;
        let url = match &self.file {
            Some(name) => Url::from_file_path(folder.join(name)),
            None => Url::from_directory_path(&folder),
        };
        let what =
            || Error::new(ErrorKind::Invalid, format!("'{}' is no path to write to", self.target.display()));
        url.map(String::from).map_err(|()| what())
    }

    /// Moves what was written to its target.
    ///
    /// # Errors
    /// When the target cannot be written; what was staged is removed.
    pub(crate) fn commit(self) -> Result<()> {
        let Self { target, folder, file } = self;
        let moved = match file {
            Some(name) => fs::rename(folder.path().join(name), &target),
            None => move_into(folder.path(), &target),
        };
        moved.map_err(|error| denied(&target, error))
    }
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new hidden folder on the target's own file system, where a move is a rename.
fn folder_beside(target: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix(".").tempdir_in(parent(target)).map_err(|error| denied(target, error))
}

/// Whether the output is one file, as DataFusion decides it.
fn is_one_file(copy: &CopyTo) -> bool {
    let named = !copy.output_url.ends_with('/') && Path::new(&copy.output_url).extension().is_some();
    let told = copy.options.get("single_file_output").map(|told| told.trim() == "true");
    told.unwrap_or(named) && copy.partition_by.is_empty()
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

    fn copy_to(target: &Path) -> LogicalPlan {
        let rows = datafusion::logical_expr::LogicalPlanBuilder::empty(true).build().unwrap();
        let format = datafusion::datasource::file_format::csv::CsvFormatFactory::new();
        let file_type = datafusion::datasource::file_format::format_as_file_type(std::sync::Arc::new(format));
        let target = target.to_string_lossy().into_owned();
        datafusion::logical_expr::LogicalPlanBuilder::copy_to(
            rows,
            target,
            file_type,
            Default::default(),
            Vec::new(),
        )
        .unwrap()
        .build()
        .unwrap()
    }

    fn staged_at(plan: &LogicalPlan) -> PathBuf {
        let LogicalPlan::Copy(copy) = plan else { panic!("{plan}") };
        Url::parse(&copy.output_url).unwrap().to_file_path().unwrap()
    }

    #[test]
    fn a_second_run_keeps_nothing_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let (mut plan, staged) = StagedCopy::stage(copy_to(&target)).unwrap();
        let mut staged = staged.unwrap();
        let first = staged_at(&plan);
        fs::write(first.join("first.csv"), "1").unwrap();
        staged.start_over(&mut plan).unwrap();
        let second = staged_at(&plan);
        assert!(first != second && !first.exists());
        fs::write(second.join("second.csv"), "2").unwrap();
        staged.commit().unwrap();
        let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["second.csv"]);
    }

    #[test]
    fn what_the_writer_leaves_beside_an_unfinished_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, staged) = StagedCopy::stage(copy_to(&folder.path().join("out.csv"))).unwrap();
        let mut part = staged_at(&plan).into_os_string();
        part.push("#1");
        fs::write(part, "half").unwrap();
        drop(staged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
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
