use std::path::PathBuf;

use crate::connectors::format::CsvDialect;
use crate::error::Result;
use crate::plan::OptionMap;

/// Options of a stream of a directory's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSourceOptions {
    /// The directory.
    pub path: PathBuf,
    /// Files of a planned epoch at most: `maxFilesPerTrigger`.
    pub epoch_files_max: usize,
    /// Newest files come first: `latestFirst`.
    pub is_latest_first: bool,
    /// Header that each file begins with.
    pub header: Option<CsvHeader>,
}

/// Header of files of CSV, which is no row: the names of the fields in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvHeader {
    /// Form of the files.
    pub dialect: CsvDialect,
    /// Names of the fields.
    pub fields: Vec<String>,
}

impl FileSourceOptions {
    /// Takes them.
    ///
    /// # Errors
    /// `Invalid` for one that is missing or wrong.
    pub fn take(options: &mut OptionMap) -> Result<Self> {
        let given = options.require("path")?;
        let path = given.strip_prefix("file://").unwrap_or(&given);
        if path.is_empty() || path.contains("://") {
            return Err(options.wrong("path", &given, "a local directory"));
        }
        // The log names files by their whole path, so that another working directory finds them.
        let path = std::path::absolute(path)
            .map_err(|error| options.wrong("path", &given, "a local directory").with_source(error))?;
        let files = options.take_number("maxFilesPerTrigger", 1, u64::MAX)?;
        Ok(Self {
            path,
            epoch_files_max: usize::try_from(files).unwrap_or(usize::MAX),
            is_latest_first: options.take_bool("latestFirst", false)?,
            header: None,
        })
    }
}
