use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::dml::CopyTo;
use tokio::task::spawn_blocking;
use url::Url;
use yeoul_base::ErrorKind;
use yeoul_disk::{Failure, RealDisk, folder_of, make_folders, place_files, sync_folder_of};

use crate::copy::file_target::FileTarget;
use crate::copy::staging_folder::StagingFolder;
use crate::{Error, Result};
use yeoul_dialect::error::{Shortage, TARGET_FULL, is_full};

/// The `COPY` that `plan` runs: the plan itself, or what `EXPLAIN ANALYZE` measures.
pub(crate) fn copy_in(plan: &mut LogicalPlan) -> Option<&mut CopyTo> {
    match plan {
        LogicalPlan::Copy(copy) => Some(copy),
        LogicalPlan::Analyze(analyze) => copy_in(Arc::make_mut(&mut analyze.input)),
        _ => None,
    }
}

/// A `COPY … TO` the local disk that is written into a hidden folder and moved to its target when it is complete.
///
/// DataFusion's sinks close their files properly even if the query fails, so a part of an answer would look like the whole.
/// Dropping this without [`commit`](Self::commit) removes what was written, and leaves the target as it was before.
#[derive(Debug)]
pub(crate) struct StagedCopy {
    target: Arc<Target>,
    folder: StagingFolder,
    /// Dropped after the folder, which may be in one of them.
    made: Option<MadeFolders>,
    committed: bool,
}

#[derive(Debug)]
enum Target {
    /// One file, and its name while it is staged.
    File(FileTarget, OsString),
    Folder(PathBuf),
}

impl Target {
    /// The folder on the target's own file system, where a move is a rename; a folder may be on another one than its parent.
    fn room(&self) -> &Path {
        match self {
            Self::File(target, _) => target.folder(),
            Self::Folder(path) => path,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(target, _) => target.path(),
            Self::Folder(path) => path,
        }
    }

    /// Each file staged in `data`, with its target.
    fn files(&self, data: &Path) -> io::Result<Vec<(PathBuf, FileTarget)>> {
        let mut files = Vec::new();
        match self {
            Self::File(target, name) => files.push((data.join(name), target.clone())),
            Self::Folder(path) => add_files_below(data, path, &mut files)?,
        }
        Ok(files)
    }

    /// Syncs each file staged in `data` to disk, and returns where it is and is to be.
    fn prepare(&self, data: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let files = self.files(data)?;
        files.iter().try_for_each(|(from, target)| target.prepare(from))?;
        Ok(files.into_iter().map(|(from, target)| (from, target.path().to_owned())).collect())
    }
}

/// Folders that were created for an output; those that are empty are removed when this is dropped.
#[derive(Debug)]
struct MadeFolders {
    topmost: PathBuf,
    deepest: PathBuf,
}

impl MadeFolders {
    /// Creates a folder and its missing parents.
    fn make(folder: &Path) -> io::Result<Option<Self>> {
        let missing =
            folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let made =
            missing.last().map(|topmost| Self { topmost: topmost.to_owned(), deepest: folder.to_owned() });
        fs::create_dir_all(folder)?;
        Ok(made)
    }

    /// Brings their names to the disk.
    fn sync(&self) -> Result<(), Failure> {
        for folder in self.deepest.ancestors() {
            sync_folder_of(&RealDisk, folder)?;
            if folder == self.topmost {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.deepest.ancestors() {
            match fs::remove_dir(folder) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Something else is in it by now: it stays.
                Err(_) => return,
            }
            if folder == self.topmost {
                return;
            }
        }
    }
}

impl StagedCopy {
    /// Redirects the output of a `COPY` to the local disk into a staging folder. Other plans stay as they are.
    ///
    /// # Errors
    /// If nothing can be written where the target will be.
    pub(crate) fn stage(plan: &mut LogicalPlan) -> Result<Option<Self>> {
        let Some(copy) = copy_in(plan) else { return Ok(None) };
        let Some(path) = local_path(&copy.output_url) else { return Ok(None) };
        // DataFusion recognises a file by its name.
        let file = is_one_file(copy).then(|| path.file_name().map(ToOwned::to_owned)).flatten();
        let failed = |error| denied(&path, error);
        if let Ok(there) = fs::metadata(&path) {
            check_replaceable(&path, &there, file.is_some())?;
        }
        let target = match file {
            Some(name) => Target::File(FileTarget::behind(&path).map_err(failed)?, name),
            None => Target::Folder(path.clone()),
        };
        // COPY creates missing folders.
        let made = MadeFolders::make(target.room()).map_err(failed)?;
        let folder = StagingFolder::create(target.room()).map_err(failed)?;
        let staged = Self { folder, target: Arc::new(target), made, committed: false };
        copy.output_url = staged.address()?;
        Ok(Some(staged))
    }

    /// Discards what was written, and redirects `plan`, the `COPY` that was staged, to a new folder. What a stopped run
    /// still writes goes to the old folder, as long as it exists, and does not mix with what the next run writes.
    ///
    /// # Errors
    /// When nothing can be written where the target will be.
    pub(crate) fn start_over(&mut self, plan: &mut LogicalPlan) -> Result<()> {
        self.folder.give_up();
        let failed = |error| denied(self.target.path(), error);
        self.folder = StagingFolder::create(self.target.room()).map_err(failed)?;
        if let Some(copy) = copy_in(plan) {
            copy.output_url = self.address()?;
        }
        Ok(())
    }

    /// Where DataFusion writes to. A URL, because a path with `[`, `*` or `?` would be taken for a glob.
    fn address(&self) -> Result<String> {
        let target = self.target.path();
        let folder = std::path::absolute(self.folder.data()).map_err(|error| denied(target, error))?;
        let url = match self.target.as_ref() {
            Target::File(_, name) => Url::from_file_path(folder.join(name)),
            Target::Folder(_) => Url::from_directory_path(&folder),
        };
        let what =
            || Error::new(ErrorKind::Invalid, format!("'{}' is no path to write to", target.display()));
        url.map(String::from).map_err(|()| what())
    }

    /// Moves what was written to its target: first all files are synced to disk, which may take long and can be cancelled by
    /// dropping this; then all are renamed, and their names brought to the disk.
    ///
    /// # Errors
    /// If the target cannot be written; what was staged is removed.
    pub(crate) async fn commit(mut self) -> Result<()> {
        let (target, data) = (Arc::clone(&self.target), self.folder.data());
        let prepared = spawn_blocking(move || target.prepare(&data)).await;
        prepared
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
            .and_then(|moves| self.place(moves).map_err(|failure| failure.source))
            .map_err(|error| denied(self.target.path(), error))?;
        // An answer without rows is an empty folder, which stays.
        std::mem::forget(self.made.take());
        self.committed = true;
        Ok(())
    }

    fn place(&self, moves: Vec<(PathBuf, PathBuf)>) -> Result<(), Failure> {
        let folders: BTreeSet<&Path> = moves.iter().map(|(_, to)| folder_of(to)).collect();
        folders.into_iter().try_for_each(|folder| make_folders(&RealDisk, folder))?;
        place_files(&RealDisk, moves)?;
        self.made.iter().try_for_each(MadeFolders::sync)
    }
}

impl Drop for StagedCopy {
    fn drop(&mut self) {
        if !self.committed {
            // Writers of a failed or stopped query may still write for a moment.
            self.folder.give_up();
        }
    }
}

/// Checks that the output may take the place of what is there.
///
/// # Errors
/// `Invalid` unless the existing target can be replaced by a file, or written into as a folder.
fn check_replaceable(path: &Path, there: &Metadata, by_file: bool) -> Result<()> {
    let (what, hint) = match (by_file, there.is_file(), there.is_dir()) {
        (true, true, _) | (false, _, true) => return Ok(()),
        (true, _, true) => return Err(denied(path, io::ErrorKind::IsADirectory.into())),
        (false, true, _) => (
            "it is a file, and without an extension the name is that of a directory of files",
            "for one file, end the name with an extension such as '.csv'",
        ),
        _ => (
            "it is neither a file nor a directory",
            "COPY replaces files; -o and stdout take an answer as it comes",
        ),
    };
    Err(Error::new(ErrorKind::Invalid, format!("cannot write '{}': {what}", path.display())).with_hint(hint))
}

/// Whether the output is one file, decided as DataFusion does.
fn is_one_file(copy: &CopyTo) -> bool {
    let named = !copy.output_url.ends_with('/') && Path::new(&copy.output_url).extension().is_some();
    let told = copy.options.get("single_file_output").map(|told| told.trim() == "true");
    told.unwrap_or(named) && copy.partition_by.is_empty()
}

/// The path on the local disk that an output address stands for, if any.
fn local_path(address: &str) -> Option<PathBuf> {
    if !address.contains("://") {
        return Some(PathBuf::from(address));
    }
    Url::parse(address).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok())
}

/// Adds each file below `from`, sorted by name, with the same place below `to`, where other files may already be.
fn add_files_below(from: &Path, to: &Path, files: &mut Vec<(PathBuf, FileTarget)>) -> io::Result<()> {
    let mut entries = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            add_files_below(&entry.path(), &target, files)?;
        } else {
            files.push((entry.path(), FileTarget::behind(&target)?));
        }
    }
    Ok(())
}

fn denied(target: &Path, source: io::Error) -> Error {
    let reason = io::Error::from(source.kind());
    let is_full = is_full(&source);
    let error =
        Error::new(ErrorKind::of_io(&source), format!("cannot write '{}': {reason}", target.display()))
            .with_source(source);
    if is_full {
        return error.with_shortage(Shortage::TargetDisk).with_hint(TARGET_FULL);
    }
    error
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

    fn commit(staged: StagedCopy) -> Result<()> {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(staged.commit())
    }

    fn staged_at(plan: &LogicalPlan) -> PathBuf {
        let LogicalPlan::Copy(copy) = plan else { panic!("{plan}") };
        Url::parse(&copy.output_url).unwrap().to_file_path().unwrap()
    }

    #[test]
    fn a_second_run_keeps_nothing_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let mut plan = copy_to(&target);
        let mut staged = StagedCopy::stage(&mut plan).unwrap().unwrap();
        let first = staged_at(&plan);
        fs::write(first.join("first.csv"), "1").unwrap();
        staged.start_over(&mut plan).unwrap();
        let second = staged_at(&plan);
        assert!(first != second && !first.exists());
        fs::write(second.join("second.csv"), "2").unwrap();
        commit(staged).unwrap();
        let names: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["second.csv"]);
    }

    #[test]
    fn what_the_writer_leaves_beside_an_unfinished_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = copy_to(&folder.path().join("out.csv"));
        let staged = StagedCopy::stage(&mut plan).unwrap();
        let mut part = staged_at(&plan).into_os_string();
        part.push("#1");
        fs::write(part, "half").unwrap();
        drop(staged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_written_within_itself_and_goes_if_it_is_new() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_new) in [("old", false), ("new/deep", true)] {
            let target = folder.path().join(name);
            if !is_new {
                fs::create_dir(&target).unwrap();
            }
            let mut plan = copy_to(&target);
            let staged = StagedCopy::stage(&mut plan).unwrap();
            assert!(staged_at(&plan).starts_with(&target), "{}", staged_at(&plan).display());
            fs::write(staged_at(&plan).join("part.csv"), "half").unwrap();
            drop(staged);
            assert_eq!(target.exists(), !is_new);
        }
        assert_eq!(fs::read_dir(folder.path().join("old")).unwrap().count(), 0);
        assert!(!folder.path().join("new").exists());
    }

    #[test]
    fn folders_that_were_made_for_a_file_go_unless_something_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let stage =
            || StagedCopy::stage(&mut copy_to(&folder.path().join("a/b/c/out.csv"))).unwrap().unwrap();
        drop(stage());
        assert!(!folder.path().join("a").exists());
        let staged = stage();
        fs::write(folder.path().join("a/theirs"), "kept").unwrap();
        drop(staged);
        assert!(folder.path().join("a/theirs").exists() && !folder.path().join("a/b").exists());
    }

    #[test]
    fn what_is_neither_file_nor_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        let pipe = folder.path().join("pipe.csv");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        for (path, says) in [
            (pipe.as_path(), "neither a file nor a directory"),
            (Path::new("/dev/stdout"), "neither a file nor a directory"),
            (Path::new("/dev/null"), "neither a file nor a directory"),
            (file.as_path(), "it is a file"),
        ] {
            let error = StagedCopy::stage(&mut copy_to(path)).unwrap_err();
            let text = error.to_string();
            // If stdout is a file, this path is one, too.
            assert!(text.contains(says) || path.ends_with("stdout"), "{}: {text}", path.display());
            assert!(error.hint().is_some(), "{}: {text}", path.display());
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "kept");
    }

    #[test]
    fn a_file_is_replaced_behind_its_link_and_keeps_its_mode() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.csv"), folder.path().join("link.csv"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("real.csv", &link).unwrap();
        let mut plan = copy_to(&link);
        let staged = StagedCopy::stage(&mut plan).unwrap().unwrap();
        fs::write(staged_at(&plan), "new").unwrap();
        commit(staged).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_where_a_file_shall_be_is_refused_before_the_query_runs() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.csv");
        fs::create_dir(&target).unwrap();
        let error = StagedCopy::stage(&mut copy_to(&target)).unwrap_err();
        assert!(error.to_string().ends_with("is a directory"), "{error}");
    }

    #[test]
    fn files_are_moved_among_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let to = folder.path().join("to");
        write(to.join("year=1/a"), "old");
        write(to.join("year=1/c"), "c");
        let mut plan = copy_to(&to);
        let staged = StagedCopy::stage(&mut plan).unwrap().unwrap();
        let from = staged_at(&plan);
        write(from.join("year=1/a"), "new");
        write(from.join("b"), "b");
        write(from.join("year=2/month=3/d"), "d");
        commit(staged).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        assert_eq!((read("year=1/a"), read("year=1/c"), read("b")), ("new".into(), "c".into(), "b".into()));
        assert_eq!(read("year=2/month=3/d"), "d");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 3);
    }

    #[test]
    fn nothing_is_moved_before_all_is_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        fs::create_dir(&target).unwrap();
        let mut plan = copy_to(&target);
        let staged = StagedCopy::stage(&mut plan).unwrap().unwrap();
        let from = staged_at(&plan);
        for name in ["a.csv", "b.csv"] {
            fs::write(from.join(name), name).unwrap();
        }
        // The last one cannot be opened, even by root.
        std::os::unix::fs::symlink("nowhere", from.join("z.csv")).unwrap();
        let error = commit(staged).unwrap_err();
        assert!(error.to_string().contains("out"), "{error}");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn what_grows_is_nobody_elses_business() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("private.csv");
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        let mut plan = copy_to(&target);
        let _staged = StagedCopy::stage(&mut plan).unwrap().unwrap();
        let room = staged_at(&plan).parent().unwrap().to_owned();
        assert_eq!(fs::metadata(room).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
