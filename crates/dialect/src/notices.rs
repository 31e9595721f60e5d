//! Notices: what a person should know of a statement that is carried out without a part of it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::execution::SessionState;

/// The notices of a session, each of which is told once. They are an extension of its configuration.
#[derive(Debug, Default)]
pub struct Notices(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    all: BTreeSet<String>,
    /// Those of the statement that is read.
    pending: Vec<String>,
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a statement: notices of one that failed are told another time.
    pub(crate) fn begin(state: &SessionState) {
        if let Some(notices) = state.config().get_extension::<Self>() {
            let mut told = notices.lock();
            for pending in std::mem::take(&mut told.pending) {
                told.all.remove(&pending);
            }
        }
    }

    /// Adds a notice, unless the session had it before.
    pub(crate) fn add(state: &SessionState, text: String) {
        if let Some(notices) = state.config().get_extension::<Self>() {
            let mut told = notices.lock();
            if told.all.insert(text.clone()) {
                told.pending.push(text);
            }
        }
    }

    /// The notices of the statement that was read last.
    pub fn take(state: &SessionState) -> Vec<String> {
        let notices = state.config().get_extension::<Self>();
        notices.map(|notices| std::mem::take(&mut notices.lock().pending)).unwrap_or_default()
    }
}
