use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use yeoul_disk::{Disk, RealDisk, make_folders};

use crate::BatchId;
use crate::connectors::Sink;
use crate::connectors::format::write_json_lines;
use crate::error::{Error, ErrorKind, Result};

/// Name of the file that an epoch's rows are written to until it ends.
const UNFINISHED: &str = ".batch.unfinished";

/// Sink that writes the rows of each epoch to a file of their own in a directory, `batch-N.json`, a line of JSON each; an epoch without rows
/// has an empty one. A file comes as a whole at its epoch's end and is synced then. A process that goes on from a checkpoint
/// removes files of epochs after it, whose rows come again.
#[derive(Debug)]
pub struct FileSink {
    folder: PathBuf,
    open: Option<BufWriter<File>>,
    acknowledged: Option<BatchId>,
}

impl FileSink {
    /// Opens the directory for the epochs from `open` on.
    ///
    /// # Errors
    /// `Conflict` if a new query finds files of another one; if the directory cannot be used.
    pub fn open(folder: &Path, open: BatchId) -> Result<Self> {
        make_folders(&RealDisk, folder)?;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().and_then(number_of) else { continue };
            if open.0 <= 1 {
                let text = format!("the directory '{}' has files of another query", folder.display());
                return Err(Error::new(ErrorKind::Conflict, text)
                    .with_hint("take an empty directory for a query with a new checkpoint"));
            }
            // The epoch before `open` is the claim of this process: it has no rows.
            if number + 1 >= open.0 {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(Self { folder: folder.to_owned(), open: None, acknowledged: None })
    }

    fn file(&mut self) -> Result<&mut BufWriter<File>> {
        if self.open.is_none() {
            self.open = Some(BufWriter::new(File::create(self.folder.join(UNFINISHED))?));
        }
        Ok(self.open.as_mut().expect("it was just opened"))
    }
}

/// Epoch of a file.
fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("batch-")?.strip_suffix(".json")?.parse().ok()
}

impl Sink for FileSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let text = write_json_lines(rows)?;
        Ok(self.file()?.write_all(&text)?)
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.file()?;
        let file = self.open.take().expect("it is open");
        let file = file.into_inner().map_err(|error| Error::from(error.into_error()))?;
        file.sync_all()?;
        let name = self.folder.join(format!("batch-{}.json", batch.0));
        RealDisk.rename(&self.folder.join(UNFINISHED), &name)?;
        RealDisk.sync_folder(&self.folder)?;
        self.acknowledged = Some(batch);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        Ok(self.acknowledged)
    }
}
