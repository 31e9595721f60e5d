use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use yeoul_base::failpoint;

use crate::checkpoint::wire::Manifest;
use crate::checkpoint::{CommitMarker, Marked};
use crate::error::{Error, ErrorKind, Result};

/// The thread that writes a query's checkpoints, while its rows go on. It has at most one to write: the coordinator begins none
/// before the one before is complete.
pub(super) struct Checkpointer {
    manifests: Option<Sender<Manifest>>,
    outcomes: Receiver<Result<Marked>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(mut marker: impl CommitMarker + 'static) -> Result<Self> {
        let (manifests, todo) = channel::<Manifest>();
        let (tell, outcomes) = channel();
        let work = move || {
            for manifest in todo {
                failpoint("stream-before-marker");
                let outcome = marker.mark(&manifest);
                failpoint("stream-after-marker");
                if tell.send(outcome).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("stream-checkpoint".to_owned()).spawn(work)?;
        Ok(Self { manifests: Some(manifests), outcomes, thread: Some(thread) })
    }

    /// Has a marker set.
    ///
    /// # Errors
    /// `Internal` if the thread broke.
    pub fn mark(&self, manifest: Manifest) -> Result<()> {
        let sent = self.manifests.as_ref().map(|manifests| manifests.send(manifest));
        if sent.is_some_and(|sent| sent.is_ok()) { Ok(()) } else { Err(broke()) }
    }

    /// What came of it, if it is known.
    ///
    /// # Errors
    /// If it cannot be known whether the marker is set.
    pub fn outcome(&self) -> Result<Option<Marked>> {
        match self.outcomes.try_recv() {
            Ok(outcome) => outcome.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(broke()),
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.manifests = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn broke() -> Error {
    Error::new(ErrorKind::Internal, "the thread that writes checkpoints broke")
}
