use std::env;
use std::io::Cursor;
use std::path::PathBuf;

use rustyline::error::ReadlineError;

use super::command::is_command;
use super::editor::{LineEditor, line_editor};
use super::engine::Engine;
use super::history;
use super::names::Names;
use super::steps::{Console, Outcome, Shell, tell, terminal_width};
use crate::Place;

/// Why the interactive shell has to end.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The terminal failed.
    #[error("cannot read from the terminal")]
    Terminal(#[source] ReadlineError),
}

impl<E: Engine> Shell<E> {
    /// Reads lines from the terminal and runs them, until the user leaves.
    ///
    /// While it waits for a line it blocks the calling thread; the runtime's other threads go on.
    ///
    /// # Errors
    /// If the terminal cannot be read. Failures of statements are reported, and the shell goes on.
    pub async fn interact(&mut self, console: &mut Console<'_>) -> Result<Outcome, ShellError> {
        self.settings.interactive = true;
        let mut editor = line_editor(self.settings.quotes).map_err(ShellError::Terminal)?;
        let history = open_history(&mut editor, console);
        loop {
            if std::mem::take(&mut self.names_are_old)
                && let Some(assistant) = editor.helper_mut()
            {
                assistant.names = Names::read(&self.engine).await;
            }
            let line = match editor.readline("yeoul> ") {
                Ok(line) => line,
                // Ctrl-C drops the line; a change of the window's size redraws it.
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
                Err(ReadlineError::Eof) => return Ok(Outcome::Quit),
                Err(error) => return Err(ShellError::Terminal(error)),
            };
            remember(&mut editor, history.as_ref(), &line);
            self.settings.output.width = Some(terminal_width());
            self.interrupts.forget();
            match self.run_line(line, console).await {
                Outcome::Quit => return Ok(Outcome::Quit),
                Outcome::ReaderGone => return Ok(Outcome::ReaderGone),
                Outcome::Done | Outcome::Failed | Outcome::Interrupted => {}
            }
        }
    }

    /// Runs what was typed: a command, or statements up to the first that fails.
    async fn run_line(&mut self, line: String, console: &mut Console<'_>) -> Outcome {
        if is_command(&line) {
            return self.run_command(&line, None, Place::START, 0, console).await;
        }
        self.run_steps(Box::new(|| Ok(Cursor::new(line))), None, 0, console).await
    }
}

/// Loads the history. If that fails, the shell works without one, and says why once.
fn open_history(editor: &mut LineEditor, console: &mut Console<'_>) -> Option<PathBuf> {
    let path = history::path(|name| env::var_os(name).map(PathBuf::from))?;
    let opened =
        history::create_private(&path).map_err(ReadlineError::Io).and_then(|()| editor.load_history(&path));
    if let Err(error) = opened {
        tell(console, &format!("notice: no history is kept: {}: {error}\n", path.display()));
        return None;
    }
    Some(path)
}

/// Adds a line to the history, in memory and on disk, unless it may hold a secret.
fn remember(editor: &mut LineEditor, history: Option<&PathBuf>, line: &str) {
    if !history::may_keep(line) {
        return;
    }
    // The history is a convenience: the line runs even if it cannot be kept.
    let added = editor.add_history_entry(line).unwrap_or(false);
    if let Some(path) = history.filter(|_| added) {
        let _ = editor.append_history(path);
    }
}
