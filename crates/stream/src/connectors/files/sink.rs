use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use yeoul_disk::{Disk, ModedDisk, RealDisk, make_folders};

use crate::BatchId;
use crate::connectors::Sink;
use crate::connectors::format::{CsvDialect, write_json_lines};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::OptionMap;

/// Name of the file that an epoch's rows are written to until it ends.
const UNFINISHED: &str = ".batch.unfinished";

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
/// removes files of epochs after it, whose rows come again.
#[derive(Debug)]
pub struct FileSink {
    folder: PathBuf,
    format: FileFormat,
    open: Option<BufWriter<File>>,
    acknowledged: Option<BatchId>,
}

impl FileSink {
    /// Opens the directory for the epochs from `open` on.
    ///
    /// # Errors
    /// `Conflict` if a new query finds files of another one; if the directory cannot be used.
    pub fn open(options: &FileSinkOptions, open: BatchId) -> Result<Self> {
        let (folder, format) = (options.path.as_path(), options.format.clone());
        make_folders(&ModedDisk::of_umask(), folder)?; // its readers are the user's
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
        Ok(Self { folder: folder.to_owned(), format, open: None, acknowledged: None })
    }

    fn file(&mut self) -> Result<&mut BufWriter<File>> {
        if self.open.is_none() {
            let mut file = BufWriter::new(File::create(self.folder.join(UNFINISHED))?);
            file.write_all(&self.format.head()?)?;
            self.open = Some(file);
        }
        Ok(self.open.as_mut().expect("it was just opened"))
    }
}

/// Epoch of a file.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("batch-")?;
    number.strip_suffix(".json").or_else(|| number.strip_suffix(".csv"))?.parse().ok()
}

impl Sink for FileSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let text = self.format.lines(rows)?;
        Ok(self.file()?.write_all(&text)?)
    }

    fn barrier(&mut self, batch: BatchId) -> Result<()> {
        self.file()?;
        let file = self.open.take().expect("it is open");
        let file = file.into_inner().map_err(|error| Error::from(error.into_error()))?;
        file.sync_all()?;
        let name = self.folder.join(format!("batch-{}{}", batch.0, self.format.extension()));
        RealDisk.rename(&self.folder.join(UNFINISHED), &name)?;
        RealDisk.sync_folder(&self.folder)?;
        self.acknowledged = Some(batch);
        Ok(())
    }

    fn acknowledged(&mut self) -> Result<Option<BatchId>> {
        Ok(self.acknowledged)
    }
}
