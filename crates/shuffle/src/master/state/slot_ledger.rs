//! The ledger of slots: what was granted is what the registered shuffles have.
//!
//! Both sides are kept: the sums here, and what each [`Shuffle`] has, with its application. Where they differ a decision has
//! lost or invented a slot, and whatever is decided next would rest on it: the panic ends the process, and the next one goes
//! on from the journal.

use std::collections::BTreeMap;

use super::{Application, Shuffle, State};
use crate::ids::ApplicationId;

/// The sums over all registered shuffles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SlotLedger {
    shuffles: usize,
    /// Locations, primaries and replicas, that this process granted.
    granted: u64,
}

impl SlotLedger {
    /// How many shuffles are registered.
    pub fn shuffles(self) -> usize {
        self.shuffles
    }

    /// Counts a shuffle that has no slots yet.
    pub fn register(&mut self) {
        self.shuffles += 1;
    }

    /// Counts locations that a shuffle got.
    pub fn grant(&mut self, shuffle: &mut Shuffle, locations: u64) {
        shuffle.slots_granted += locations;
        self.granted += locations;
    }

    /// Takes back what a shuffle has that is no longer registered.
    ///
    /// # Panics
    /// If there is less than it has, or something is left when the last one goes.
    pub fn remove(&mut self, shuffle: &Shuffle) {
        assert!(self.shuffles > 0, "a shuffle is removed, and none is registered");
        let (granted, returned) = (self.granted, shuffle.slots_granted);
        assert!(granted >= returned, "{returned} slots are returned of {granted} that were granted");
        self.shuffles -= 1;
        self.granted -= returned;
        assert!(self.shuffles > 0 || self.granted == 0, "{} slots are nobody's", self.granted);
    }

    fn assert_equals(self, applications: &BTreeMap<ApplicationId, Application>) {
        let mut held = Self::default();
        for shuffle in applications.values().flat_map(|application| application.shuffles.values()) {
            held.shuffles += 1;
            held.granted += shuffle.slots_granted;
        }
        assert_eq!(self, held, "the slots that are counted and those that the applications hold");
    }
}

impl State {
    /// Compares the sums with what the applications hold: before a snapshot keeps it, and after the journal was read.
    ///
    /// # Panics
    /// If they differ.
    pub fn assert_slots(&self) {
        self.slots.assert_equals(&self.applications);
    }
}

#[cfg(test)]
pub(in crate::master) mod tests {
    use super::super::scene::{at, grant, state_of};
    use super::super::{SlotRequest, State};
    use crate::ids::{PartitionId, ShuffleId};

    /// Loses a slot, as a defect would.
    pub fn lose_a_slot(state: &mut State) {
        state.slots.granted -= 1;
    }

    #[test]
    fn both_sides_know_every_slot_until_its_shuffle_goes() {
        let mut state = state_of(3);
        let request = |shuffle, partitions, replicate| SlotRequest {
            shuffle: ShuffleId(shuffle),
            partitions: (0..partitions).map(PartitionId).collect(),
            replicate,
            ..super::super::scene::request(Default::default())
        };
        let mut granted = |shuffle, partitions, replicate| {
            state.request_slots(at(0), 5, request(shuffle, partitions, replicate)).reply.unwrap();
            state.assert_slots();
            (state.slots.shuffles, state.slots.granted)
        };
        assert_eq!(granted(1, 7, false), (1, 7));
        assert_eq!(granted(2, 4, true), (2, 15));
        assert_eq!(granted(1, 2, false), (2, 17), "each request is answered by itself");
        let application = request(1, 1, false).application;
        let _ = state.unregister_shuffles(at(0), &application, &[ShuffleId(1)]);
        assert_eq!((state.slots.shuffles, state.slots.granted), (1, 8));
        let _ = state.unregister_shuffles(at(0), &application, &[ShuffleId(2)]);
        assert_eq!((state.slots.shuffles, state.slots.granted), (0, 0));
    }

    #[test]
    #[should_panic(expected = "the slots that are counted and those that the applications hold")]
    fn a_slot_that_is_lost_is_found_before_a_snapshot_keeps_that() {
        let mut state = state_of(2);
        grant(&mut state, Default::default()).unwrap();
        state.records();
        let mut state = state.into_state();
        lose_a_slot(&mut state);
        state.records();
    }
}
