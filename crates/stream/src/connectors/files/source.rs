use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{BinaryBuilder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use super::lines::Lines;
use super::listing::unseen_files;
use super::plan_log::PlanLog;
use super::{CsvHeader, FileSourceOptions, PlannedFile};
use crate::checkpoint::storage::Storage;
use crate::connectors::{Polled, Source};
use crate::error::{Error, ErrorKind, Result, computing, corrupt, invalid};

/// Most rows that one poll gives.
const POLL_ROWS_MAX: usize = 8192;
/// Bytes of values after which a poll gives what it has.
const POLL_BYTES_MAX: usize = 4 << 20;

/// Source of the lines of a directory's files: each file once, in planned epochs whose files a log in the checkpoint names before
/// any of their rows is given.
///
/// The offset is the number of the last entry of the log whose rows were all given, in the form of Spark's file source; -1 at first.
#[derive(Debug)]
pub struct FileSource {
    options: FileSourceOptions,
    log: PlanLog,
    /// Entries of the log that are known to be there. One that another process adds is found when it is to be written.
    logged: u64,
    /// Entries of the log whose rows were all given.
    done: u64,
    /// Paths in all entries of the log.
    seen: HashSet<String>,
    /// Files that are to be planned, of a query that ends with what is there.
    last: Option<VecDeque<PlannedFile>>,
    /// Rest of the planned epoch.
    planned: Option<Planned>,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Planned {
    files: VecDeque<PlannedFile>,
    lines: Option<Lines>,
}

impl FileSource {
    /// Columns: the line, and from where it is.
    pub fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("value", DataType::Binary, false),
            Field::new("path", DataType::Utf8, false),
            Field::new("line", DataType::Int64, false),
        ]))
    }

    /// The offset before the first file.
    pub fn initial_offset() -> Value {
        json!({"logOffset": -1})
    }

    /// Checks that its directory is there.
    ///
    /// # Errors
    /// `Invalid` if not.
    pub fn check(options: &FileSourceOptions) -> Result<()> {
        if options.path.is_dir() {
            return Ok(());
        }
        Err(invalid(format!("'{}' is no directory", options.path.display())))
    }

    /// Goes on at an offset, with its log in a place.
    ///
    /// # Errors
    /// `Corrupt` if it is no offset, or the log does not reach it; `Invalid` if there is no such directory.
    pub fn at(options: FileSourceOptions, offset: &Value, log: Arc<dyn Storage>) -> Result<Self> {
        let given =
            offset.get("logOffset").and_then(Value::as_i64).and_then(|last| u64::try_from(last + 1).ok());
        let done = given.ok_or_else(|| corrupt(format!("{offset} is no offset of a source of files")))?;
        Self::check(&options)?;
        let log = PlanLog::open(log)?;
        let (mut seen, mut number) = (HashSet::new(), 0);
        while let Some(files) = log.read(number)? {
            seen.extend(files.into_iter().map(|file| file.path));
            number += 1;
        }
        if number < done {
            let text = format!(
                "'{}' has no entry {number}, and the checkpoint is of entry {}",
                log.place(),
                done - 1
            );
            return Err(corrupt(text).with_hint("without it files would be read again"));
        }
        Ok(Self { options, log, logged: number, done, seen, last: None, planned: None, warnings: Vec::new() })
    }

    /// Files of the next epoch, which are in the log.
    fn next_files(&mut self) -> Result<Vec<PlannedFile>> {
        if self.done < self.logged
            && let Some(files) = self.log.read(self.done)?
        {
            return Ok(files);
        }
        let max = self.options.epoch_files_max;
        let mut files: Vec<PlannedFile> = match &mut self.last {
            Some(last) => last.drain(..max.min(last.len())).collect(),
            None => unseen_files(&self.options, &self.seen)?,
        };
        files.truncate(max);
        if files.is_empty() {
            return Ok(files);
        }
        files.iter_mut().for_each(|file| file.batch_id = self.done);
        let files = self.log.write(self.done, files)?;
        self.logged = self.done + 1;
        Ok(files)
    }
}

impl Source for FileSource {
    fn poll(&mut self, _: Duration) -> Result<Polled> {
        let Some(planned) = &mut self.planned else { return Ok(Polled { rows: None, is_at_end: true }) };
        let (mut values, mut paths, mut numbers) =
            (BinaryBuilder::new(), StringBuilder::new(), Int64Builder::new());
        let (mut line, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let mut is_at_end = false;
        while rows < POLL_ROWS_MAX && bytes < POLL_BYTES_MAX {
            let Some(lines) = &mut planned.lines else {
                let Some(file) = planned.files.pop_front() else {
                    is_at_end = true;
                    break;
                };
                let mut lines = Lines::open(&file)?;
                if let Some(header) = &self.options.header {
                    skip_header(&mut lines, header, &mut line)?;
                }
                planned.lines = Some(lines);
                continue;
            };
            let Some(number) = lines.next(&mut line)? else {
                let bytes = lines.bytes_added()?;
                if bytes > 0 {
                    self.warnings.push(format!(
                        "the file '{}' has grown since its rows were planned: {bytes} bytes of it are not read; files have to come \
                         into the directory whole, by renaming",
                        lines.path()
                    ));
                }
                planned.lines = None;
                continue;
            };
            values.append_value(&line);
            paths.append_value(lines.path());
            numbers.append_value(number);
            (rows, bytes) = (rows + 1, bytes + line.len());
        }
        if is_at_end {
            self.planned = None;
            self.done += 1;
        }
        if rows == 0 {
            return Ok(Polled { rows: None, is_at_end });
        }
        let columns = vec![
            Arc::new(values.finish()) as _,
            Arc::new(paths.finish()) as _,
            Arc::new(numbers.finish()) as _,
        ];
        let rows = RecordBatch::try_new(Self::schema(), columns).map_err(computing)?;
        Ok(Polled { rows: Some(rows), is_at_end })
    }

    fn position(&self) -> Value {
        let last = i64::try_from(self.done).unwrap_or(i64::MAX) - 1;
        json!({"logOffset": last})
    }

    fn stop_at_latest(&mut self) -> Result<()> {
        self.last = Some(unseen_files(&self.options, &self.seen)?.into());
        Ok(())
    }

    fn plan(&mut self, _: Option<u64>) -> Result<u64> {
        if self.planned.is_some() {
            return Err(Error::new(
                ErrorKind::Internal,
                "an epoch of files was planned before the one before was read",
            ));
        }
        let files = self.next_files()?;
        if files.is_empty() {
            return Ok(0);
        }
        self.seen.extend(files.iter().map(|file| file.path.clone()));
        let count = files.len() as u64;
        self.planned = Some(Planned { files: files.into(), lines: None });
        Ok(count)
    }

    fn lift_plan(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn is_planned_only(&self) -> bool {
        true
    }

    fn has_logged_plan(&self) -> Result<bool> {
        Ok(self.done < self.logged)
    }
}

/// Reads the header of a file; one without any line has none.
fn skip_header(lines: &mut Lines, header: &CsvHeader, line: &mut Vec<u8>) -> Result<()> {
    if lines.next(line)?.is_none() {
        return Ok(());
    }
    header.dialect.check_header(&header.fields, line).map_err(|error| {
        invalid(format!("the file '{}': {error}", lines.path()))
            .with_source(error)
            .with_hint("its columns have to be those of the stream in their order; 'header' = 'false' reads files without one")
    })
}

#[cfg(test)]
mod tests;
