use std::io::{self, Write};

use serde::Serialize;
use tokio::task::block_in_place;
use yeoul_base::visible;

use crate::error::{Error, Kind, Result};

/// Who reads the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// People, and scripts that know Hadoop's shell.
    #[default]
    Text,
    /// Programs: an object of JSON on each line.
    Json,
}

/// Where a verb's results and complaints go. It is written to within a runtime of several threads.
pub struct Output<'o> {
    results: &'o mut (dyn Write + Send),
    tell: &'o mut (dyn FnMut(&Error) + Send),
    format: Format,
    shows_progress: bool,
    failures: usize,
    is_closed: bool,
}

impl<'o> Output<'o> {
    /// Results go to `results`, and what fails is handed to `tell`.
    pub fn new(
        results: &'o mut (dyn Write + Send),
        tell: &'o mut (dyn FnMut(&Error) + Send),
        format: Format,
        shows_progress: bool,
    ) -> Self {
        Self { results, tell, format, shows_progress, failures: 0, is_closed: false }
    }

    /// How many paths failed.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// True after the reader of the results has gone: it has what it wanted.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// True if programs read the results.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// True if somebody sees how far a copy is.
    pub fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    /// Tells of a path that failed, and goes on, unless the reader of the results has gone.
    ///
    /// # Errors
    /// The failure itself, if it is of the output.
    pub fn go_on(&mut self, done: Result<()>) -> Result<()> {
        let Err(error) = done else { return Ok(()) };
        if self.is_closed {
            return Err(error);
        }
        self.failures += 1;
        (self.tell)(&error);
        Ok(())
    }

    /// Writes a line, in which a name does nothing to the terminal.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(visible(text).as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes an object as a line of JSON.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn object(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::new(Kind::Internal, "a result is no JSON").with_source(error))?;
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        // Its reader may keep it waiting for ever.
        block_in_place(|| self.results.write_all(bytes)).map_err(|error| self.ended(error))
    }

    /// Sees to it that all has been written.
    ///
    /// # Errors
    /// The output takes no more.
    pub fn flush(&mut self) -> Result<()> {
        block_in_place(|| self.results.flush()).map_err(|error| self.ended(error))
    }

    fn ended(&mut self, error: io::Error) -> Error {
        self.is_closed |= error.kind() == io::ErrorKind::BrokenPipe;
        Error::new(Kind::of_io(&error), "cannot write the results").with_source(error)
    }
}
