//! Writes what a restarted worker needs besides the batches: which attempts won, and which committed locations are wholly
//! on disk.

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
    /// Has the spiller write the seals of a shuffle that was committed.
    pub fn seal_later(&self, shuffle: &Arc<Shuffle>) {
        let mut unsealed = self.unsealed();
        if !unsealed.iter().any(|waiting| Arc::ptr_eq(waiting, shuffle)) {
            unsealed.push(Arc::clone(shuffle));
            drop(unsealed);
            self.memory().wake_spiller();
        }
    }

    /// Begins to write the seals that wait, where a directory takes them. Returns whether there are any; a directory that
    /// comes back wakes the spiller.
    pub(super) fn write_waiting_seals(self: &Arc<Self>, jobs: &mut JoinSet<()>) -> bool {
        // Without looking through all that waits, which the spiller would do every few milliseconds.
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

    /// Writes the winners, and the seals of committed locations that are wholly on disk, so that a restarted worker serves
    /// them. Returns whether that is done; what no directory takes waits for one that does, and is served from here
    /// meanwhile. A directory that takes longer than `within` and writes nothing else meanwhile counts as failed.
    pub(super) async fn write_seals(self: &Arc<Self>, shuffle: &Arc<Shuffle>, within: Duration) -> bool {
        while shuffle.lock().wants_seals() {
            let Some(directory) = self.directory_for_seals(shuffle) else {
                self.seal_later(shuffle);
                return false;
            };
            // A task of its own: whenever the disk answers, somebody takes in what was written.
            let store = Arc::clone(self);
            let mut sealed = tokio::spawn(store.write_seals_to(Arc::clone(&directory), Arc::clone(shuffle)));
            let mut bytes = directory.written();
            loop {
                match timeout(within, &mut sealed).await {
                    Ok(Ok(())) => break,
                    // In line behind much that is being written they wait long on a disk that works.
                    Err(_) if std::mem::replace(&mut bytes, directory.written()) != directory.written() => {}
                    _ => break directory.hangs(),
                }
            }
            // A directory that failed takes no seals any more, and one that could open no file none for now, so this ends.
        }
        true
    }

    fn directory_for_seals(&self, shuffle: &Shuffle) -> Option<Arc<Directory>> {
        self.directory_for(shuffle, Directory::takes_seals)
    }

    async fn write_seals_to(self: Arc<Self>, directory: Arc<Directory>, shuffle: Arc<Shuffle>) {
        let _turn = directory.writes.acquire().await;
        let (seals, winners, birth, is_news, target, lease) = {
            let mut contents = shuffle.lock();
            if !contents.wants_seals() {
                return; // written meanwhile
            }
            contents.add_empty_copies();
            let seals: Vec<(Slot, Seal)> = contents.seals().collect();
            let winners = contents.state.winners().clone();
            let is_news = winners != contents.winners_on_disk;
            let target = contents.target(&directory);
            (seals, winners, contents.birth, is_news, target, contents.lease.clone())
        };
        let (key, place) = (shuffle.key().clone(), Arc::clone(&directory));
        let rows: Vec<_> = seals.iter().map(|(_, seal)| *seal).collect();
        let written = tokio::task::spawn_blocking(move || {
            // With each seal, so that a file says itself whose batches count: the others may be on a disk that is away.
            let attempts = (is_news || !rows.is_empty()).then(|| (birth, winners.attempts()));
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
                    directory.refused(&error); // whatever it was, the next attempt must not meet it at once
                }
            }
        }
    }
}

impl Contents {
    /// Whether a restarted worker would not find something that is wholly on disk, or not read it as it is read now. Where
    /// nothing of the shuffle is on disk nothing is wanted there, unless the worker is about to stop.
    pub(super) fn wants_seals(&self) -> bool {
        let has_files = !self.segments.is_empty();
        let has_news = || has_files && *self.state.winners() != self.winners_on_disk;
        !self.gone && (has_files || self.stopping) && (has_news() || self.has_unsealed())
    }

    /// Whether a committed location is wholly on disk, or empty, and no seal says so.
    pub(super) fn has_unsealed(&self) -> bool {
        self.sealed_slots().any(|(_, slot)| self.copies.get(&slot).is_none_or(LocationCopy::wants_seal))
    }

    /// Makes the copies of committed locations to which nobody has pushed, so that they have a life and are sealed once:
    /// readers open them as any other.
    fn add_empty_copies(&mut self) {
        let is_missing = |(_, slot): &(FileName, Slot)| !self.copies.contains_key(slot);
        let missing: Vec<_> = self.sealed_slots().filter(is_missing).collect();
        for (file, slot) in missing {
            self.copy_mut(slot, file);
        }
    }

    /// What seals would say now.
    fn seals(&self) -> impl Iterator<Item = (Slot, Seal)> + '_ {
        self.sealed_slots().filter_map(|(file, slot)| {
            let copy = self.copies.get(&slot).filter(|copy| copy.wants_seal())?;
            Some((slot, copy.seal(self.order, self.state.has_peer(file))))
        })
    }

    fn sealed_slots(&self) -> impl Iterator<Item = (FileName, Slot)> + '_ {
        self.state.slots().filter(|(file, _)| self.state.is_sealed(*file))
    }
}
