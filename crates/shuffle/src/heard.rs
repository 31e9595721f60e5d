//! What is logged to stderr, for tests that check it.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::{DefaultGuard, set_default};

/// The lines that a thread has logged: a level and a text each.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Captures what this thread logs for as long as the guard lives; tasks too, if one thread runs them all.
    pub fn begin() -> (Self, DefaultGuard) {
        let heard = Self::default();
        let to = heard.clone();
        let listener = tracing_subscriber::fmt().with_writer(move || to.clone()).with_ansi(false);
        (heard, set_default(listener.without_time().with_target(false).finish()))
    }

    /// All lines.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Heard {
    fn write(&mut self, said: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(said);
        Ok(said.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
