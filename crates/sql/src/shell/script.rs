use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

use super::statement::{Quotes, STATEMENT_BYTES_MAX, SplitError, Splitter, Statement};
use crate::Place;

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A statement for the engine.
    Statement(Statement),
    /// A command for the shell, such as `.timer on`, which has its line to itself.
    Command {
        /// The line, trimmed.
        text: String,
        /// Where it starts.
        place: Place,
    },
}

/// Why reading a script ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be opened.
    #[error("cannot open '{name}': {source}")]
    Open {
        /// The file, as the user named it.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The reading thread ended before the script did.
    #[error("reading the script ended in an unforeseen way")]
    Lost,
    /// The file or pipe failed.
    #[error("cannot read the script")]
    Read(#[source] io::Error),
    /// A line is not UTF-8.
    #[error("line {line} is not UTF-8 text")]
    NotText {
        /// The line, from 1.
        line: u64,
    },
    /// The text cannot be split into statements.
    #[error(transparent)]
    Split(#[from] SplitError),
}

impl ScriptError {
    /// Where the error is, if it is at some place of the text.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Open { .. } | Self::Lost | Self::Read(_) => None,
            Self::NotText { line } => Some(Place { line: *line, column: 1 }),
            Self::Split(error) => Some(error.place()),
        }
    }
}

/// Reads a script step by step, holding only a line and the statement that it is part of.
///
/// A line that begins with a dot is a command, unless it is inside a statement.
pub struct Script<R> {
    reader: R,
    splitter: Splitter,
    ready: VecDeque<Step>,
    ended: bool,
}

impl<R: BufRead> Script<R> {
    /// Reads from `reader`.
    pub fn new(reader: R, quotes: Quotes) -> Self {
        Self { reader, splitter: Splitter::new(quotes), ready: VecDeque::new(), ended: false }
    }

    /// The next step, or `None` at the end.
    ///
    /// # Errors
    /// If reading fails. Steps before that have been returned.
    pub fn next_step(&mut self) -> Result<Option<Step>, ScriptError> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            if self.ended {
                return Ok(None);
            }
            self.read_line()?;
        }
    }

    fn read_line(&mut self) -> Result<(), ScriptError> {
        let place = self.splitter.place();
        let mut line = Vec::new();
        // One byte more than a statement may have, so that the splitter can see that it is too long.
        let mut bounded = (&mut self.reader).take(STATEMENT_BYTES_MAX as u64 + 1);
        bounded.read_until(b'\n', &mut line).map_err(ScriptError::Read)?;
        if line.is_empty() {
            self.ended = true;
            self.ready.extend(self.splitter.finish()?.map(Step::Statement));
            return Ok(());
        }
        let text = std::str::from_utf8(&line).map_err(|_| ScriptError::NotText { line: place.line })?;
        let text = if place == Place::START { text.trim_start_matches('\u{feff}') } else { text };
        if text.trim_start().starts_with('.') && self.splitter.is_between_statements() {
            self.ready.push_back(Step::Command { text: text.trim().to_owned(), place });
            // Only the newline, so that the places after it are right.
            self.splitter.push("\n")?;
            return Ok(());
        }
        let pushed = self.splitter.push(text);
        self.ready.extend(std::iter::from_fn(|| self.splitter.pop()).map(Step::Statement));
        if let Err(error) = pushed {
            self.ended = true;
            return Err(error.into());
        }
        Ok(())
    }
}

/// A function that opens a script.
pub(super) type Opener<R> = Box<dyn FnOnce() -> Result<R, ScriptError> + Send>;

/// The steps of a script, read on a thread of its own, one step ahead.
pub(super) struct Steps(Receiver<Result<Option<Step>, ScriptError>>);

impl Steps {
    /// Opens and reads the script on a thread, because neither can be cancelled if it is a pipe. The thread ends with the
    /// script, at the first failure, or when it has read a step that nobody waits for.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub(super) fn read<R: BufRead + 'static>(open: Opener<R>, quotes: Quotes) -> Result<Self, ScriptError> {
        let (sender, steps) = channel(1);
        let read = move || {
            let mut script = match open() {
                Ok(reader) => Script::new(reader, quotes),
                // There may be no receiver any more.
                Err(error) => return drop(sender.blocking_send(Err(error))),
            };
            loop {
                let step = script.next_step();
                let is_last = !matches!(step, Ok(Some(_)));
                if sender.blocking_send(step).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("yeoul-sql-script".to_owned()).spawn(read).map_err(ScriptError::Read)?;
        Ok(Self(steps))
    }

    /// The next step, or `None` at the end.
    ///
    /// # Errors
    /// If reading fails. Steps before that have been returned.
    pub(super) async fn next(&mut self) -> Result<Option<Step>, ScriptError> {
        // The thread sends `None` at the end: if the channel closes before that, the thread ended early.
        self.0.recv().await.unwrap_or(Err(ScriptError::Lost))
    }
}

/// Opens a file of statements.
///
/// # Errors
/// `Open` if it cannot be opened.
pub(super) fn open(path: &Path) -> Result<BufReader<File>, ScriptError> {
    let opened = File::open(path).and_then(|file| {
        if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
    });
    opened
        .map(BufReader::new)
        .map_err(|source| ScriptError::Open { name: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(script: &[u8]) -> (Vec<String>, Option<String>) {
        let mut script = Script::new(script, Quotes::Own);
        let mut steps = Vec::new();
        loop {
            match script.next_step() {
                Ok(Some(Step::Statement(s))) => {
                    steps.push(format!("{}:{} {}", s.place.line, s.place.column, s.text))
                }
                Ok(Some(Step::Command { text, place })) => {
                    steps.push(format!("{}: command {text}", place.line))
                }
                Ok(None) => return (steps, None),
                Err(error) => return (steps, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn statements_and_commands_come_in_order_with_their_places() {
        let script = "\u{feff}select 1;select 2;\n.timer on\n -- note\n  .mode csv  \r\nselect\n.5;\n.quit";
        let (steps, error) = steps(script.as_bytes());
        assert_eq!(error, None);
        let expected = [
            "1:1 select 1",
            "1:10 select 2",
            "2: command .timer on",
            "4: command .mode csv",
            "5:1 select\n.5",
            "7: command .quit",
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn what_comes_before_an_error_is_returned_first() {
        assert_eq!(
            steps(b"select 1;\nselect 'a"),
            (
                vec!["1:1 select 1".to_owned()],
                Some("the quoted string that starts here is not closed".to_owned())
            )
        );
        assert_eq!(
            steps(b"select 1;\nselect '\xff';"),
            (vec!["1:1 select 1".to_owned()], Some("line 2 is not UTF-8 text".to_owned()))
        );
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_held() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(b'x');
                Ok(buffer.len())
            }
        }
        let mut script = Script::new(io::BufReader::with_capacity(1 << 20, Endless), Quotes::Own);
        let error = script.next_step().unwrap_err();
        assert_eq!(error.to_string(), "the statement that starts here is longer than 64 MiB");
        assert!(script.next_step().unwrap().is_none());
    }
}
