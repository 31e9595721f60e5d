use std::fs::File;
use std::io::{BufRead, BufReader, Read, Take};

use super::PlannedFile;
use crate::error::{Error, ErrorKind, Result, invalid};

/// Most bytes of a line.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Lines of a file, as far as it was planned.
#[derive(Debug)]
pub(super) struct Lines {
    path: String,
    reader: BufReader<Take<File>>,
    line: i64,
    planned_bytes: u64,
}

impl Lines {
    /// Opens a file.
    ///
    /// # Errors
    /// `DataLoss` if it is gone or shorter than it was; `Invalid` if it is compressed.
    pub fn open(planned: &PlannedFile) -> Result<Self> {
        let path = &planned.path;
        let lost = |text: &str| {
            Error::new(ErrorKind::DataLoss, format!("the file '{path}' {text}"))
                .with_hint("a planned epoch needs its files as they were until its checkpoint is complete")
        };
        if [".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate"].iter().any(|end| path.ends_with(end)) {
            return Err(invalid(format!("the file '{path}' is compressed, which cannot be read yet")));
        }
        let file = File::open(path).map_err(|error| lost("cannot be read").with_source(error))?;
        let len = file.metadata().map_err(|error| lost("cannot be read").with_source(error))?.len();
        if len < planned.bytes {
            return Err(lost(&format!("has {len} bytes, and had {} when it was planned", planned.bytes)));
        }
        Ok(Self {
            path: path.clone(),
            reader: BufReader::with_capacity(1 << 16, file.take(planned.bytes)),
            line: 0,
            planned_bytes: planned.bytes,
        })
    }

    /// Path of the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Bytes by which the file is longer now than it was planned: nobody reads them.
    ///
    /// # Errors
    /// If the disk does not say.
    pub fn bytes_added(&self) -> Result<u64> {
        let file = self.reader.get_ref().get_ref();
        Ok(file.metadata()?.len().saturating_sub(self.planned_bytes))
    }

    /// Reads the next line that is not blank, without its end, and gives its number from 1 on.
    ///
    /// # Errors
    /// `Invalid` if it is too long; if the disk fails.
    pub fn next(&mut self, line: &mut Vec<u8>) -> Result<Option<i64>> {
        loop {
            line.clear();
            let read = self.reader.by_ref().take(LINE_BYTES_MAX + 2).read_until(b'\n', line)?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if line.len() as u64 > LINE_BYTES_MAX {
                let text =
                    format!("line {} of '{}' has more than {LINE_BYTES_MAX} bytes", self.line, self.path);
                return Err(invalid(text));
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(self.line));
            }
        }
    }
}
