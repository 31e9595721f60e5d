//! Writes what a restarted worker needs besides the batches: which attempts won, and which committed locations are
//! completely on disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Store;
use super::copy::LocationCopy;
use super::directory::{Directory, STEP_MAX};
use super::record::Seal;
use super::shuffle::{Contents, Shuffle};
use super::target::Unwritten;
use crate::ids::FileName;
use crate::worker::state::Slot;

impl Store {
    /// Has the spiller write the seals of a committed shuffle.
    pub fn seal_later(&self, shuffle: &Arc<Shuffle>) {
        let mut unsealed = self.unsealed();
        if !unsealed.iter().any(|waiting| Arc::ptr_eq(waiting, shuffle)) {
            unsealed.push(Arc::clone(shuffle));
            drop(unsealed);
            self.memory().wake_spiller();
        }
    }

    /// Starts to write waiting seals, if a directory takes them. Returns whether it started any; a directory that comes back
    /// wakes the spiller.
    pub(super) fn write_waiting_seals(self: &Arc<Self>, jobs: &mut JoinSet<()>) -> bool {
        // Checked without going through all that waits: the spiller asks every few milliseconds.
        if !self.directories().iter().any(|directory| directory.takes_seals()) {
            return false;
        }
        let need_not_wait = |shuffle: &mut Arc<Shuffle>| {
            !shuffle.lock().wants_seals() || self.directory_for_seals(shuffle).is_some()
        };
        let waiting: Vec<_> = self.unsealed().extract_if(.., need_not_wait).collect();
        if waiting.is_empty() {
            return false;
        }
        let store = Arc::clone(self);
        jobs.spawn(async move {
            for shuffle in waiting {
                store.write_seals(&shuffle, STEP_MAX).await;
            }
        });
        true
    }

    /// Writes the winners and the seals of complete locations, so that a restarted worker serves them. Returns whether that
    /// is done; seals that no directory takes wait, and the locations are served from here meanwhile. A directory that takes
    /// longer than `within` without writing anything else counts as failed.
    pub(super) async fn write_seals(self: &Arc<Self>, shuffle: &Arc<Shuffle>, within: Duration) -> bool {
        while shuffle.lock().wants_seals() {
            let Some(directory) = self.directory_for_seals(shuffle) else {
                self.seal_later(shuffle);
                return false;
            };
            // A separate task: whenever the disk answers, its result is recorded.
            let store = Arc::clone(self);
            let mut sealed = tokio::spawn(store.write_seals_to(Arc::clone(&directory), Arc::clone(shuffle)));
            let mut bytes = directory.written();
            loop {
                let ended = tokio::select! {
                    biased;
                    ended = timeout(within, &mut sealed) => ended,
                    () = directory.until_failed() => break,
                };
                match ended {
                    Ok(Ok(())) => break,
                    // Queued after much other data, they wait long even on a disk that works.
                    Err(_) if std::mem::replace(&mut bytes, directory.written()) != directory.written() => {}
                    _ => break directory.hangs(),
                }
            }
            // A directory that failed takes no more seals, and one without file descriptors none for now, so this loop ends.
        }
        true
    }

    fn directory_for_seals(&self, shuffle: &Shuffle) -> Option<Arc<Directory>> {
        self.directory_for(shuffle, Directory::takes_seals)
    }

    async fn write_seals_to(self: Arc<Self>, directory: Arc<Directory>, shuffle: Arc<Shuffle>) {
        let _turn = directory.writes.take().await;
        let (seals, winners, driver, birth, is_news, target, lease) = {
            let mut contents = shuffle.lock();
            if !contents.wants_seals() {
                return; // written meanwhile
            }
            contents.add_empty_copies();
            let seals: Vec<(Slot, Seal)> = contents.seals().collect();
            let (winners, driver) = (contents.state.winners().clone(), contents.state.driver());
            let is_news = winners != contents.winners_on_disk;
            let target = contents.target(&directory);
            (seals, winners, driver, contents.birth, is_news, target, contents.lease.clone())
        };
        let (key, place) = (shuffle.key().clone(), Arc::clone(&directory));
        let rows: Vec<_> = seals.iter().map(|(_, seal)| *seal).collect();
        let written = tokio::task::spawn_blocking(move || {
            // Repeated with each seal, so that every file says by itself whose batches count: the others may be on a missing
            // disk.
            let attempts = (is_news || !rows.is_empty()).then(|| (birth, winners.attempts(), driver));
            let (segment, ()) = target.write(&place, &key, |segment| segment.seal(attempts, &rows))?;
            Result::<_, Unwritten>::Ok((segment, winners))
        });
        let written = written.await.unwrap_or_else(|panic| Err(io::Error::other(panic).into()));
        let written = written.map_err(|unwritten| self.delete_left(unwritten, &lease));
        let mut contents = shuffle.lock();
        match written {
            Ok((segment, _)) if contents.gone => {
                drop(contents);
                self.delete_file(segment, lease);
            }
            Ok((segment, winners)) => {
                contents.adopt(&segment);
                contents.winners_on_disk = winners;
                for (slot, _) in &seals {
                    if let Some(copy) = contents.copies.get_mut(slot) {
                        copy.sealed_on_disk();
                    }
                }
            }
            Err(_) if contents.gone => {} // its file was deleted meanwhile
            Err(error) => {
                tracing::warn!(shuffle = %shuffle.key(), directory = %directory.root().display(), %error, "cannot seal");
                if directory.takes_seals() {
                    directory.refused(&error); // whatever the error, the next attempt must not run into it at once
                }
            }
        }
    }
}

impl Contents {
    /// Whether a restarted worker would not find something that is completely on disk, or would read it differently. A
    /// shuffle without files needs no seals, unless it is to be durable.
    pub(super) fn wants_seals(&self) -> bool {
        let has_files = !self.segments.is_empty();
        let has_news = || has_files && *self.state.winners() != self.winners_on_disk;
        !self.gone && (has_files || self.is_durable) && (has_news() || self.has_unsealed())
    }

    /// Whether every committed location is on disk where a restart finds it.
    pub(super) fn is_wholly_written(&self) -> bool {
        self.sealed_slots()
            .all(|(_, slot)| self.copies.get(&slot).is_some_and(LocationCopy::is_sealed_on_disk))
    }

    /// Whether a write may have left something to seal.
    pub(super) fn may_be_sealed(&self) -> bool {
        !self.gone && self.has_unsealed()
    }

    /// Whether a committed location is completely on disk, or empty, and has no seal.
    fn has_unsealed(&self) -> bool {
        self.sealed_slots().any(|(_, slot)| self.copies.get(&slot).is_none_or(LocationCopy::wants_seal))
    }

    /// Creates copies for committed locations without pushes, so that they have a life and are sealed once: readers open
    /// them like any other.
    fn add_empty_copies(&mut self) {
        let is_missing = |(_, slot): &(FileName, Slot)| !self.copies.contains_key(slot);
        let missing: Vec<_> = self.sealed_slots().filter(is_missing).collect();
        for (file, slot) in missing {
            self.copy_mut(slot, file);
        }
    }

    /// The seals that are to be written now.
    fn seals(&self) -> impl Iterator<Item = (Slot, Seal)> + '_ {
        self.sealed_slots().filter_map(|(file, slot)| {
            let copy = self.copies.get(&slot).filter(|copy| copy.wants_seal())?;
            Some((slot, copy.seal(self.order, self.state.has_peer(file))))
        })
    }

    pub(super) fn sealed_slots(&self) -> impl Iterator<Item = (FileName, Slot)> + '_ {
        self.state.slots().filter(|(file, _)| self.state.is_sealed(*file))
    }
}
