//! Results on stdout, where a reader that has seen enough may close the pipe.

use std::io::{ErrorKind as Io, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Prints `text` and a line end. A closed pipe is success: the reader has what it wanted.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != Io::BrokenPipe => Err(Error::io("write to", Path::new("stdout"), e)),
        _ => Ok(()),
    }
}
