//! What a directory holds: written after each table, so that the next run knows which tables it need not generate again.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind as Io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Suite;
use super::table::ROWS_PER_PART;
use super::table_file::temporary_path;
use yeoul_base::ErrorKind;
use yeoul_disk::{RealDisk, replace_file};

use crate::error::{Error, Result};

/// Changes whenever the same suite and scale would give other bytes (another generator, another layout).
const GENERATION: u32 = 1;
/// A manifest is a few kilobytes; a longer file is not one.
const BYTES_MAX: u64 = 1 << 20;

/// The file `_yeoul-generate.json` in an output directory: readers of the directory as a table skip a leading `_`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// See [`GENERATION`].
    generation: u32,
    /// The suite of the tables.
    pub suite: Suite,
    /// Their scale factor.
    pub scale: f64,
    /// The complete tables, by name.
    pub tables: BTreeMap<String, Entry>,
}

/// A complete table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Manifest {
    /// A manifest of no tables yet.
    pub fn new(suite: Suite, scale: f64) -> Self {
        Self { generation: GENERATION, suite, scale, tables: BTreeMap::new() }
    }

    /// The manifest of `directory`, if it has one.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be parsed.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = Self::path(directory);
        let corrupt = || {
            Error::new(ErrorKind::Corrupt, format!("cannot understand {}", path.display()))
                .with_hint("--force generates the data again")
        };
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == Io::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        if length > BYTES_MAX {
            return Err(corrupt());
        }
        let bytes = fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|e| corrupt().with_source(e))
    }

    /// Whether these are the tables that `suite` at `scale` would give now.
    pub fn is_of(&self, suite: Suite, scale: f64) -> bool {
        self.generation == GENERATION && self.suite == suite && self.scale == scale
    }

    /// The entry of `table`, if its file still exists with the size that was written.
    pub fn has(&self, directory: &Path, table: &str) -> Option<Entry> {
        let entry = *self.tables.get(table)?;
        let metadata = fs::metadata(super::file_of(directory, table)).ok()?;
        (metadata.is_file() && metadata.len() == entry.bytes).then_some(entry)
    }

    /// Whether `directory` holds every table of the suite completely.
    pub fn is_complete(&self, directory: &Path) -> bool {
        let tables = self.suite.tables(self.scale, ROWS_PER_PART);
        tables.is_ok_and(|tables| tables.iter().all(|table| self.has(directory, table.name).is_some()))
    }

    /// Replaces the manifest of `directory` atomically.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = Self::path(directory);
        let temporary = temporary_path(&path);
        let mut bytes =
            serde_json::to_vec_pretty(self).expect("a manifest has only text keys and finite numbers");
        bytes.push(b'\n');
        replace_file(&RealDisk, &path, &temporary, |file| file.write_all(&bytes))
            .map_err(|failure| Error::io("write", &path, failure.source))?;
        Ok(())
    }

    /// The path of a directory's manifest.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join("_yeoul-generate.json")
    }
}
