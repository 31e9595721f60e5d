use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use yeoul_disk::{Disk, Failure, ModedDisk, RealDisk, make_folders};

use crate::BatchId;
use crate::connectors::Sink;
use crate::connectors::format::{CsvDialect, write_json_lines};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::OptionMap;

/// Begin of the names of files.
const BATCH: &str = "batch-";
/// Begin and end of the names of files that are not at their end: each process has epochs of its own, so no two write to one of them.
const UNFINISHED: (&str, &str) = (".batch", ".unfinished");

/// Options of a sink of files.
#[derive(Debug, Clone)]
pub struct FileSinkOptions {
    /// The directory.
    pub path: PathBuf,
    /// Form of the lines.
    pub format: FileFormat,
}

/// Form of the lines of files.
#[derive(Debug, Clone)]
pub enum FileFormat {
    /// Objects of JSON.
    Json,
    /// Records of CSV.
    Csv {
        /// Their form.
        dialect: CsvDialect,
        /// Columns that a header names, if there is to be one.
        header: Option<SchemaRef>,
    },
}

impl FileSinkOptions {
    /// Takes them, for rows of this schema.
    ///
    /// # Errors
    /// `Invalid` for one that is missing or wrong, and for columns that the format does not have.
    pub fn take(options: &mut OptionMap, schema: &Schema) -> Result<Self> {
        let path = options.require("path")?;
        let format = match options.take("format").as_deref() {
            Some("json") => FileFormat::Json,
            Some("csv") => {
                CsvDialect::check(options.owner(), schema)?;
                let dialect = CsvDialect::of_sink(options)?;
                let has_header = options.take_bool("header", false)?;
                FileFormat::Csv { dialect, header: has_header.then(|| SchemaRef::new(schema.clone())) }
            }
            other => return Err(options.wrong("format", other.unwrap_or_default(), "json or csv")),
        };
        Ok(Self { path: PathBuf::from(path.strip_prefix("file://").unwrap_or(&path)), format })
    }
}

impl FileFormat {
    /// End of the names of files.
    fn extension(&self) -> &'static str {
        match self {
            Self::Json => ".json",
            Self::Csv { .. } => ".csv",
        }
    }

    /// Text before the first row of a file.
    fn head(&self) -> Result<Vec<u8>> {
        match self {
            Self::Csv { dialect, header: Some(schema) } => dialect.header(schema),
            Self::Json | Self::Csv { .. } => Ok(Vec::new()),
        }
    }

    fn lines(&self, rows: &RecordBatch) -> Result<Vec<u8>> {
        match self {
            Self::Json => write_json_lines(rows),
            Self::Csv { dialect, .. } => dialect.lines(rows),
        }
    }
}

/// Sink that writes the rows of each epoch to a file of their own in a directory, `batch-N.json` or `batch-N.csv`, a line each; an epoch
/// without rows has an empty one, but for a header. A file comes as a whole at its epoch's end and is synced then. A process that goes on from a checkpoint
/// removes files of epochs after it, whose rows come again. The epoch that a process claims has no file.
#[derive(Debug)]
pub struct FileSink {
    folder: PathBuf,
    format: FileFormat,
    /// The epoch that is open.
    epoch: BatchId,
    /// The file of its rows, once it has some.
    file: Option<BufWriter<File>>,
    acknowledged: Option<BatchId>,
}

impl FileSink {
    /// Checks that a directory has no files of another query.
    ///
    /// # Errors
    /// `Conflict` if it has; if the directory cannot be read.
    pub fn check_unused(options: &FileSinkOptions) -> Result<()> {
        let folder = options.path.as_path();
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            if entry?.file_name().to_str().and_then(number_of).is_some() {
                let text = format!("the directory '{}' has files of another query", folder.display());
                return Err(Error::new(ErrorKind::Conflict, text)
                    .with_hint("take an empty directory for a query with a new checkpoint"));
            }
        }
        Ok(())
    }

    /// Opens the directory for the epochs from `open` on. Files of epochs after `rows_until` go, whose rows come again, and what
    /// processes before left unfinished.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn open(options: &FileSinkOptions, open: BatchId, rows_until: BatchId) -> Result<Self> {
        let (folder, format) = (options.path.as_path(), options.format.clone());
        make_folders(&ModedDisk::of_umask(), folder)?; // its readers are the user's
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_unfinished = name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1);
            if is_unfinished || number_of(name).is_some_and(|number| number > rows_until.0) {
                remove(&entry.path())?;
            }
        }
        Ok(Self { folder: folder.to_owned(), format, epoch: open, file: None, acknowledged: None })
    }

    /// Path of the file of the open epoch until it ends.
    fn unfinished(&self) -> PathBuf {
        self.folder.join(format!("{}-{}{}", UNFINISHED.0, self.epoch, UNFINISHED.1))
    }

    /// Path of the file of an epoch that has ended.
    fn finished(&self, batch: BatchId) -> PathBuf {
        self.folder.join(format!("{BATCH}{batch}{}", self.format.extension()))
    }

    fn file(&mut self) -> Result<&mut BufWriter<File>> {
        if self.file.is_none() {
            let path = self.unfinished();
            let mut file = BufWriter::new(File::create(&path).map_err(Failure::at(&path))?);
            file.write_all(&self.format.head()?).map_err(Failure::at(&path))?;
            self.file = Some(file);
        }
        Ok(self.file.as_mut().expect("it was just opened"))
    }
}

/// The error of a file that cannot be put in its place. A process that takes the query over removes what it finds unfinished.
fn gone(path: &Path, error: io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return Failure::at(path)(error).into();
    }
    let text = format!(
        "'{}' is gone: another process has taken the query over, or removed the file",
        path.display()
    );
    Error::new(ErrorKind::Conflict, text).with_hint("run one process for a checkpoint").with_source(error)
}

/// Removes a file that may be gone.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::at(path)(error).into()),
        _ => Ok(()),
    }
}

/// Epoch of a file.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(BATCH)?;
    number.strip_suffix(".json").or_else(|| number.strip_suffix(".csv"))?.parse().ok()
}

impl Sink for FileSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let text = self.format.lines(rows)?;
        let path = self.unfinished();
        Ok(self.file()?.write_all(&text).map_err(Failure::at(&path))?)
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        assert_eq!(batch, self.epoch, "epochs end one after another");
        self.file()?;
        let file = self.file.take().expect("it is open");
        let path = self.unfinished();
        let file = file.into_inner().map_err(|error| Failure::at(&path)(error.into_error()))?;
        file.sync_all().map_err(Failure::of_sync(&path))?;
        RealDisk.rename(&path, &self.finished(batch)).map_err(|error| gone(&path, error))?;
        RealDisk.sync_folder(&self.folder).map_err(Failure::of_sync(&self.folder))?;
        self.epoch = batch.next();
        self.acknowledged = Some(batch);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        Ok(self.acknowledged)
    }

    fn withdraw(&mut self, batch: BatchId) -> Result<()> {
        remove(&self.finished(batch))?;
        remove(&self.unfinished())?;
        Ok(RealDisk.sync_folder(&self.folder)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn rows(value: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        RecordBatch::try_from_iter([("v", column)]).unwrap()
    }

    #[test]
    fn two_processes_do_not_write_to_each_others_files_and_the_first_takes_its_rows_back() {
        let place = tempfile::tempdir().unwrap();
        let options = FileSinkOptions { path: place.path().to_owned(), format: FileFormat::Json };
        let mut first = FileSink::open(&options, BatchId(5), BatchId(4)).unwrap();
        first.write(&rows(1)).unwrap();
        // It stands still, and the next process claims epoch 5.
        let mut second = FileSink::open(&options, BatchId(6), BatchId(4)).unwrap();
        second.write(&rows(1)).unwrap();
        let error = first.barrier(BatchId(5)).expect_err("its file is gone");
        assert!(
            error.kind() == ErrorKind::Conflict && error.to_string().contains("another process"),
            "{error}"
        );
        let mut third = FileSink::open(&options, BatchId(7), BatchId(4)).unwrap();
        let mut overtaken = FileSink::open(&options, BatchId(6), BatchId(4)).unwrap();
        overtaken.write(&rows(1)).unwrap();
        third.write(&rows(1)).unwrap();
        overtaken.barrier(BatchId(6)).unwrap();
        overtaken.write(&rows(2)).unwrap();
        third.barrier(BatchId(7)).unwrap();
        overtaken.withdraw(BatchId(6)).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["batch-7.json"]);
        assert_eq!(std::fs::read_to_string(place.path().join("batch-7.json")).unwrap(), "{\"v\":1}\n");
    }

    #[test]
    fn a_disk_that_is_full_says_which_file_it_has_no_room_for() {
        let place = tempfile::tempdir().unwrap();
        let options = FileSinkOptions { path: place.path().to_owned(), format: FileFormat::Json };
        let mut sink = FileSink::open(&options, BatchId(5), BatchId(4)).unwrap();
        // A file for which there is never room.
        std::os::unix::fs::symlink("/dev/full", sink.unfinished()).unwrap();
        let full = |error: Error, path: &Path| {
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: No space left", path.display())), "{text}");
        };
        let path = sink.unfinished();
        sink.write(&rows(1)).unwrap();
        full(sink.barrier(BatchId(5)).unwrap_err(), &path);
        // More than is gathered before a write.
        let mut sink = FileSink::open(&options, BatchId(5), BatchId(4)).unwrap();
        std::os::unix::fs::symlink("/dev/full", sink.unfinished()).unwrap();
        let outcome = (0..10_000).try_for_each(|value| sink.write(&rows(value)));
        full(outcome.unwrap_err(), &path);
    }
}
