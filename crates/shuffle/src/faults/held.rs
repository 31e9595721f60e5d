//! A shuffle on a worker: the real decisions and the real index, with what of them is on the modelled disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ids::{AttemptId, DriverId, FileName};
use crate::worker::index::Index;
use crate::worker::state::{Commit, CommitOutcome, ShuffleState, Slot};

/// A copy of a location: its batches, and how many of them, from the front, are on disk.
#[derive(Default)]
pub struct Copy {
    pub index: Index,
    pub on_disk: usize,
    pub seal_on_disk: bool,
    /// Its number of batches at the commit, which may never grow.
    pub sealed_at: Option<usize>,
}

/// A shuffle on a worker.
#[derive(Default)]
pub struct Held {
    /// Its job: shuffles may have the same number one after the other.
    pub job: u64,
    pub state: ShuffleState,
    pub copies: HashMap<Slot, Copy>,
    pub winners_on_disk: Vec<AttemptId>,
    pub driver_on_disk: Option<DriverId>,
    /// The model's winner of each map, as told by a commit: now, and as on disk.
    pub told: BTreeMap<i32, i32>,
    pub told_on_disk: BTreeMap<i32, i32>,
    /// Locations that were sealed without a commit.
    pub uncommitted: BTreeSet<FileName>,
    /// Locations that refused a batch because they had exceeded their threshold.
    pub split: BTreeSet<FileName>,
}

impl Held {
    /// Seals what is open, for a commit after the restart.
    pub fn seal_all(&mut self) {
        let open = self.state.slots().filter(|(file, _)| !self.state.is_sealed(*file));
        self.uncommitted = open.map(|(file, _)| file).collect();
        for (_, slot) in self.state.slots() {
            if let Some(copy) = self.copies.get_mut(&slot) {
                copy.sealed_at.get_or_insert(copy.index.len() as usize);
            }
        }
        self.state.seal_all();
    }

    /// Seals what a commit names.
    pub fn commit(&mut self, commit: &Commit) -> CommitOutcome {
        for (map, attempt) in commit.attempts.iter().enumerate().filter(|(_, attempt)| attempt.0 >= 0) {
            self.told.entry(map as i32).or_insert(attempt.0);
        }
        let outcome = self.state.commit(commit);
        for file in &outcome.committed {
            if let Some(slot) = self.state.find(*file)
                && let Some(copy) = self.copies.get_mut(&slot)
            {
                copy.sealed_at.get_or_insert(copy.index.len() as usize);
            }
        }
        outcome
    }

    /// Winners and seals are written together, the winners first.
    pub fn spill(&mut self, file: FileName, batches: usize) {
        let slot = self.state.find(file);
        let Some(copy) = slot.and_then(|slot| self.copies.get_mut(&slot)) else { return };
        copy.on_disk = (copy.on_disk + batches).min(copy.index.len() as usize);
        if copy.on_disk == copy.index.len() as usize && self.state.is_sealed(file) {
            copy.seal_on_disk = true;
            self.winners_on_disk = self.state.winners().attempts().to_vec();
            self.driver_on_disk = self.state.driver();
            self.told_on_disk = self.told.clone();
        }
    }

    /// Brings everything committed to disk.
    pub fn flush(&mut self) {
        let files: Vec<FileName> = self.state.slots().map(|(file, _)| file).collect();
        files.into_iter().for_each(|file| self.spill(file, usize::MAX / 2));
    }
}
