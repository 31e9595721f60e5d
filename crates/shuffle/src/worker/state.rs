//! What a worker decides about one shuffle: which locations it holds, whether a batch may be appended, when a location
//! splits, what a commit answers. No bytes, no sockets, no clock; a driver asks under the shuffle's lock and acts at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::index::Winners;
use crate::ids::{AttemptId, DriverId, Epoch, FileName, LocationId, MapId, Mode, SplitMode};

/// A location that memory pressure splits has at least this much, so that a worker that is alone does not split in vain.
const PRESSURE_SPLIT_BYTES_MIN: u64 = 64 << 20;

/// Where a location's copy, its index and its bytes live: a number within the shuffle, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// When a location splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitPolicy {
    /// Whether the client can split at all.
    pub enabled: bool,
    /// Bytes above which it should.
    pub threshold_bytes: u64,
    /// How.
    pub mode: SplitMode,
    /// Bytes above which a soft split turns hard.
    pub hard_bytes: u64,
}

impl Default for SplitPolicy {
    fn default() -> Self {
        Self { enabled: true, threshold_bytes: 1 << 30, mode: SplitMode::Soft, hard_bytes: 2 << 30 }
    }
}

/// A location that a client wants to push to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Which copy of which location.
    pub file: FileName,
    /// `host:port` of the replicate listener that holds the replica, for a primary that has one.
    pub peer: Option<Arc<str>>,
    /// When it splits.
    pub split: SplitPolicy,
}

/// What the worker as a whole is going through while it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// The worker stops or leaves: nothing new is taken.
    pub leaving: bool,
    /// Memory is filling faster than it is emptied: large locations should go elsewhere.
    pub memory_tight: bool,
    /// Neither memory nor a directory has room.
    pub exhausted: bool,
}

/// How a batch arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushKind {
    /// A frame of its own.
    Single,
    /// In a frame with batches of other locations, which are accepted or refused together.
    Merged,
}

/// A batch that may be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// To which location.
    pub slot: Slot,
    /// The client should ask for a new location.
    pub soft_split: bool,
}

/// Why a batch must not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another attempt of the map has won: the client forgets the batch.
    MapEnded,
    /// The client gets a new location and sends the batch there.
    HardSplit,
    /// This worker has never heard of the location, or has lost it.
    NotFound,
}

/// Why locations were not reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveRefusal {
    /// The worker stops or leaves.
    Leaving,
    /// Neither memory nor a directory has room.
    NoSpace,
    /// The shuffle would hold more locations than a worker allows.
    TooMany,
    /// A location has batches here, or is committed: it was reserved before, perhaps by an earlier life of the application.
    Used(FileName),
    /// The shuffle is under way here, or committed, and its first locations are reserved again.
    Begun,
    /// The shuffle is another driver's, and more than reserved.
    OtherDriver,
}

/// A commit request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commit {
    /// Primaries to seal.
    pub primaries: Vec<LocationId>,
    /// Replicas to seal.
    pub replicas: Vec<LocationId>,
    /// The winner of each map, `NONE` where the map has not ended.
    pub attempts: Vec<AttemptId>,
}

/// What a commit says about each location: a location without a byte is in neither list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitOutcome {
    /// Readable from now on.
    pub committed: Vec<FileName>,
    /// Unknown here: what was pushed there is lost unless the other copy has it.
    pub failed: Vec<FileName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Takes batches.
    Open,
    /// Has refused a batch for good; a split stays split.
    Split,
    /// Committed: what it has is what readers get.
    Sealed,
}

#[derive(Debug, Clone)]
struct Location {
    slot: Slot,
    phase: Phase,
    bytes: u64,
    split: SplitPolicy,
    peer: Option<Arc<str>>,
    /// It has another copy, even where nobody knows any more on whom.
    replicated: bool,
}

impl Location {
    /// Whether it is as it was when it was reserved.
    fn is_untouched(&self) -> bool {
        self.phase == Phase::Open && self.bytes == 0
    }
}

/// The decisions about one shuffle on one worker.
#[derive(Debug, Default)]
pub struct ShuffleState {
    locations: HashMap<FileName, Location>,
    next_slot: u32,
    winners: Winners,
    /// The driver that reserved it, if it has said who it is.
    driver: Option<DriverId>,
    /// There is something of an earlier run of this worker: pushes from then are told to go elsewhere.
    recovered: bool,
}

impl ShuffleState {
    /// Reserves all locations or none. One that is reserved already, and has nothing, takes what is asked for now.
    ///
    /// An application may come back under its name after a crash, and begin with the same numbers of shuffles. Its batches
    /// must not end up among those of its earlier life, or be dropped as theirs. So nothing is reserved twice that has
    /// batches or is committed: every client pushes only once a reservation has succeeded. A driver reserves the first
    /// locations, those of epoch 0, before it uses any; and who it is tells later ones apart.
    ///
    /// # Errors
    /// Nothing changes when the worker leaves, has no room, or would hold more than `locations_max` for this shuffle; and
    /// where something of an earlier life may be.
    pub fn reserve(
        &mut self,
        driver: Option<DriverId>,
        reservations: &[Reservation],
        pressure: Pressure,
        locations_max: usize,
    ) -> Result<(), ReserveRefusal> {
        if pressure.leaving {
            return Err(ReserveRefusal::Leaving);
        }
        if pressure.exhausted {
            return Err(ReserveRefusal::NoSpace);
        }
        let is_new = |reservation: &&Reservation| !self.locations.contains_key(&reservation.file);
        if self.locations.len() + reservations.iter().filter(is_new).count() > locations_max {
            return Err(ReserveRefusal::TooMany);
        }
        let is_used = |file: &FileName| self.locations.get(file).is_some_and(|found| !found.is_untouched());
        let has_begun = self.has_begun();
        if has_begun {
            if let Some(Reservation { file, .. }) = reservations.iter().find(|wanted| is_used(&wanted.file)) {
                return Err(ReserveRefusal::Used(*file));
            }
            if reservations.iter().any(|reservation| reservation.file.location.epoch == Epoch::FIRST) {
                return Err(ReserveRefusal::Begun);
            }
            if driver.zip(self.driver).is_some_and(|(driver, known)| driver != known) {
                return Err(ReserveRefusal::OtherDriver);
            }
        }
        self.driver = if has_begun { self.driver.or(driver) } else { driver.or(self.driver) };
        reservations.iter().for_each(|reservation| self.reserve_one(reservation));
        Ok(())
    }

    /// Whether anything but reservations has happened to it.
    fn has_begun(&self) -> bool {
        !self.winners.attempts().is_empty()
            || self.locations.values().any(|location| !location.is_untouched())
    }

    fn reserve_one(&mut self, reservation: &Reservation) {
        let Reservation { file, ref peer, split } = *reservation;
        let slot = match self.locations.get(&file) {
            None => self.new_slot(),
            Some(location) => location.slot,
        };
        let (peer, replicated) = (peer.clone(), peer.is_some());
        self.locations.insert(file, Location { slot, phase: Phase::Open, bytes: 0, split, peer, replicated });
    }

    fn new_slot(&mut self) -> Slot {
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        slot
    }

    /// Takes in a location that was committed before the worker restarted, and whether it has another copy.
    pub fn restore(&mut self, file: FileName, bytes: u64, replicated: bool) -> Slot {
        self.recovered = true;
        let (slot, phase, split) = (self.new_slot(), Phase::Sealed, SplitPolicy::default());
        self.locations.insert(file, Location { slot, phase, bytes, split, peer: None, replicated });
        slot
    }

    /// Takes in the winners that a commit before the restart told, and the driver whose shuffle it is.
    pub fn restore_winners(&mut self, attempts: &[AttemptId], driver: Option<DriverId>) {
        self.winners.merge(attempts);
        self.driver = driver.or(self.driver);
        self.recovered = true;
    }

    /// Whether a batch may be appended. Appends nothing: a merged frame asks for all its batches first.
    ///
    /// # Errors
    /// The refusal that the client is told.
    pub fn judge(
        &mut self,
        file: FileName,
        map: MapId,
        kind: PushKind,
        pressure: Pressure,
    ) -> Result<Admission, Refusal> {
        let Some(location) = self.locations.get_mut(&file) else {
            return Err(self.refuse_unwritable(map, false));
        };
        if location.phase == Phase::Sealed {
            return Err(self.refuse_unwritable(map, true));
        }
        if pressure.leaving || pressure.exhausted {
            // Not for good: space may return, and the client has what it needs to go elsewhere.
            return Err(Refusal::HardSplit);
        }
        if location.phase == Phase::Split {
            return Err(Refusal::HardSplit);
        }
        let slot = location.slot;
        // Replicas follow their primary, and merged frames cannot be split softly: neither looks at the threshold.
        let may_split = location.split.enabled && file.mode == Mode::Primary && kind == PushKind::Single;
        if !may_split {
            return Ok(Admission { slot, soft_split: false });
        }
        let outgrown = location.bytes > location.split.threshold_bytes;
        let hard = location.split.mode == SplitMode::Hard || location.bytes >= location.split.hard_bytes;
        if outgrown && hard {
            location.phase = Phase::Split;
            return Err(Refusal::HardSplit);
        }
        let shed = pressure.memory_tight && location.bytes >= PRESSURE_SPLIT_BYTES_MIN;
        Ok(Admission { slot, soft_split: outgrown || shed })
    }

    /// Whether a batch for a location would be looked at: what is refused here, [`ShuffleState::judge`] refuses too.
    pub fn is_writable(&self, file: FileName, pressure: Pressure) -> bool {
        let location = self.locations.get(&file);
        !pressure.leaving
            && !pressure.exhausted
            && location.is_some_and(|location| location.phase == Phase::Open)
    }

    fn refuse_unwritable(&self, map: MapId, was_here: bool) -> Refusal {
        // Where commits have told which maps ended, it can be said what became of a location.
        let is_committed = !self.winners.attempts().is_empty();
        if self.winners.of(map).is_some() {
            Refusal::MapEnded
        } else if was_here || is_committed || self.recovered {
            Refusal::HardSplit
        } else {
            Refusal::NotFound
        }
    }

    /// Counts an appended batch that [`ShuffleState::judge`] admitted under the same lock.
    pub fn appended(&mut self, file: FileName, bytes: u64) {
        if let Some(location) = self.locations.get_mut(&file) {
            assert_eq!(location.phase, Phase::Open, "{file} is appended to that takes nothing");
            location.bytes += bytes;
        }
    }

    /// The replicate listener of a location's other copy.
    pub fn peer(&self, file: FileName) -> Option<&Arc<str>> {
        self.locations.get(&file)?.peer.as_ref()
    }

    /// Seals locations and says what became of each. A client that asks again gets the same answer, because a sealed location
    /// stays as it is.
    pub fn commit(&mut self, commit: &Commit) -> CommitOutcome {
        self.winners.merge(&commit.attempts);
        let mut outcome = CommitOutcome::default();
        let mut named = HashSet::new();
        for file in commit.files().filter(|file| named.insert(*file)) {
            match self.locations.get_mut(&file) {
                None => outcome.failed.push(file),
                Some(location) => {
                    location.phase = Phase::Sealed;
                    if location.bytes > 0 {
                        outcome.committed.push(file);
                    }
                }
            }
        }
        outcome
    }

    /// Seals every location as it is, for a commit that comes after a restart. Returns how many took batches until now.
    pub fn seal_all(&mut self) -> usize {
        let open = self.locations.values_mut().filter(|location| location.phase != Phase::Sealed);
        open.map(|location| location.phase = Phase::Sealed).count()
    }

    /// Forgets locations; the driver drops what the slots hold. Locations that are not here count as gone.
    pub fn destroy(&mut self, files: impl IntoIterator<Item = FileName>) -> Vec<Slot> {
        let gone = files.into_iter().filter_map(|file| self.locations.remove(&file));
        gone.map(|location| location.slot).collect()
    }

    /// The slot of a location, open or sealed.
    pub fn find(&self, file: FileName) -> Option<Slot> {
        Some(self.locations.get(&file)?.slot)
    }

    /// Bytes of the batches of a location.
    pub fn bytes(&self, file: FileName) -> u64 {
        self.locations.get(&file).map_or(0, |location| location.bytes)
    }

    /// Whether a location is committed.
    pub fn is_sealed(&self, file: FileName) -> bool {
        self.locations.get(&file).is_some_and(|location| location.phase == Phase::Sealed)
    }

    /// Whether a location is replicated, so that its other copy may hold other batches.
    pub fn has_peer(&self, file: FileName) -> bool {
        self.locations.get(&file).is_some_and(|location| location.replicated)
    }

    /// The driver that reserved it, if it has said who it is.
    pub fn driver(&self) -> Option<DriverId> {
        self.driver
    }

    /// The winners that commits told so far.
    pub fn winners(&self) -> &Winners {
        &self.winners
    }

    /// Copies of locations held.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Copies that still take batches; a graceful stop waits for zero.
    pub fn open_locations(&self) -> usize {
        self.locations.values().filter(|location| location.phase != Phase::Sealed).count()
    }

    /// Every location with its slot, in no order.
    pub fn slots(&self) -> impl Iterator<Item = (FileName, Slot)> + '_ {
        self.locations.iter().map(|(file, location)| (*file, location.slot))
    }
}

impl Commit {
    /// Every copy that the request names, primaries first.
    pub fn files(&self) -> impl Iterator<Item = FileName> + '_ {
        let primaries = self.primaries.iter().map(|id| FileName { location: *id, mode: Mode::Primary });
        primaries.chain(self.replicas.iter().map(|id| FileName { location: *id, mode: Mode::Replica }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn primary(partition: i32, epoch: i32) -> FileName {
        FileName { location: LocationId::new(partition, epoch), mode: Mode::Primary }
    }

    fn reservation(file: FileName, threshold_bytes: u64, mode: SplitMode) -> Reservation {
        let split = SplitPolicy { threshold_bytes, mode, ..SplitPolicy::default() };
        Reservation { file, peer: None, split }
    }

    fn commit(partitions: &[i32], attempts: &[i32]) -> Commit {
        Commit {
            primaries: partitions.iter().map(|id| LocationId::new(*id, 0)).collect(),
            replicas: Vec::new(),
            attempts: attempts.iter().copied().map(AttemptId).collect(),
        }
    }

    const CALM: Pressure = Pressure { leaving: false, memory_tight: false, exhausted: false };

    fn push(state: &mut ShuffleState, file: FileName, map: i32, bytes: u64) -> Result<bool, Refusal> {
        let admission = state.judge(file, MapId(map), PushKind::Single, CALM)?;
        state.appended(file, bytes);
        Ok(admission.soft_split)
    }

    #[test]
    fn reserving_is_all_or_nothing_and_may_be_repeated_while_nothing_is_there() {
        let mut state = ShuffleState::default();
        let wanted = [reservation(primary(0, 0), 1 << 30, SplitMode::Soft)];
        let leaving = Pressure { leaving: true, ..CALM };
        assert_eq!(state.reserve(None, &wanted, leaving, 10), Err(ReserveRefusal::Leaving));
        let exhausted = Pressure { exhausted: true, ..CALM };
        assert_eq!(state.reserve(None, &wanted, exhausted, 10), Err(ReserveRefusal::NoSpace));
        assert_eq!(state.reserve(None, &wanted, CALM, 0), Err(ReserveRefusal::TooMany));
        assert!(state.is_empty());
        assert_eq!(state.reserve(None, &wanted, CALM, 1), Ok(()));
        assert_eq!(state.reserve(None, &wanted, CALM, 1), Ok(()), "it is here already");
        assert_eq!((state.find(primary(0, 0)), state.len()), (Some(Slot(0)), 1));
    }

    #[test]
    fn what_has_batches_or_is_committed_is_not_reserved_again() {
        let at = |partition, epoch| reservation(primary(partition, epoch), 1 << 30, SplitMode::Soft);
        let mut state = ShuffleState::default();
        state.reserve(None, &[at(0, 0), at(1, 0), at(1, 1)], CALM, 10).unwrap();
        assert_eq!(push(&mut state, primary(0, 0), 0, 7), Ok(false));
        let used = Err(ReserveRefusal::Used(primary(0, 0)));
        assert_eq!(state.reserve(None, &[at(2, 1), at(0, 0)], CALM, 10), used, "it has batches");
        assert_eq!(state.len(), 3, "nothing has changed");
        state.commit(&Commit { primaries: vec![LocationId::new(1, 1)], ..Commit::default() });
        let used = Err(ReserveRefusal::Used(primary(1, 1)));
        assert_eq!(state.reserve(None, &[at(1, 1)], CALM, 10), used, "it is committed, and empty");
        // The first locations are reserved together, before any is used.
        assert_eq!(state.reserve(None, &[at(2, 1), at(1, 0)], CALM, 10), Err(ReserveRefusal::Begun));
        assert_eq!(state.reserve(None, &[at(2, 1), at(3, 0)], CALM, 10), Err(ReserveRefusal::Begun));
        assert_eq!(state.reserve(None, &[at(2, 1)], CALM, 10), Ok(()), "a partition moves here");
        assert_eq!(state.reserve(None, &[at(2, 1)], CALM, 10), Ok(()), "asked again");
        assert_eq!(state.commit(&commit(&[0], &[0])).committed, [primary(0, 0)], "the bytes are still there");

        let mut gone = ShuffleState::default();
        gone.reserve(None, &[at(0, 1)], CALM, 10).unwrap();
        gone.commit(&Commit { attempts: vec![AttemptId(0)], ..Commit::default() });
        gone.destroy([primary(0, 1)]);
        assert_eq!(gone.reserve(None, &[at(0, 0)], CALM, 10), Err(ReserveRefusal::Begun), "map 0 has ended");
        let mut recovered = ShuffleState::default();
        recovered.restore(primary(0, 0), 5, false);
        for file in [(0, 0), (1, 0)] {
            assert!(recovered.reserve(None, &[at(file.0, file.1)], CALM, 10).is_err());
        }
        assert_eq!(recovered.reserve(None, &[at(1, 1)], CALM, 10), Ok(()));
    }

    #[test]
    fn another_driver_takes_over_what_is_only_reserved_and_nothing_else() {
        let at = |partition, epoch| reservation(primary(partition, epoch), 1 << 30, SplitMode::Soft);
        let [first, second] = [1, 2].map(|port| Some(DriverId::at(b"host", port)));
        let mut state = ShuffleState::default();
        state.reserve(first, &[at(0, 0)], CALM, 10).unwrap();
        assert_eq!(state.reserve(second, &[at(0, 0)], CALM, 10), Ok(()), "nothing has happened to it");
        push(&mut state, primary(0, 0), 0, 7).unwrap();
        let elsewhere = [at(1, 1)];
        assert_eq!(state.reserve(first, &elsewhere, CALM, 10), Err(ReserveRefusal::OtherDriver));
        assert_eq!((state.len(), state.driver()), (1, second));
        assert_eq!(state.reserve(second, &elsewhere, CALM, 10), Ok(()));
        assert_eq!(state.reserve(None, &[at(2, 1)], CALM, 10), Ok(()), "it does not say who it is");
        assert_eq!(state.driver(), second);
        let mut recovered = ShuffleState::default();
        recovered.restore_winners(&[AttemptId(0)], second);
        recovered.restore_winners(&[AttemptId(0)], None);
        assert_eq!(recovered.reserve(first, &elsewhere, CALM, 10), Err(ReserveRefusal::OtherDriver));
        assert_eq!(recovered.reserve(second, &elsewhere, CALM, 10), Ok(()));
    }

    #[test]
    fn a_location_changes_its_other_copy_while_it_has_nothing() {
        let mut state = ShuffleState::default();
        let at = |peer: &str, threshold| Reservation {
            peer: Some(peer.into()),
            ..reservation(primary(0, 0), threshold, SplitMode::Soft)
        };
        state.reserve(None, &[at("a:1", 1 << 30)], CALM, 10).unwrap();
        state.reserve(None, &[at("b:1", 0)], CALM, 10).unwrap();
        assert_eq!(state.peer(primary(0, 0)).unwrap().as_ref(), "b:1");
        push(&mut state, primary(0, 0), 0, 7).unwrap();
        assert_eq!(push(&mut state, primary(0, 0), 0, 7), Ok(true), "it splits as asked for last");
        let used = Err(ReserveRefusal::Used(primary(0, 0)));
        assert_eq!(state.reserve(None, &[at("b:1", 0)], CALM, 10), used);
        assert_eq!(state.reserve(None, &[at("c:1", 0)], CALM, 10), used);
        assert_eq!(state.find(primary(0, 0)), Some(Slot(0)));
    }

    #[test]
    fn a_push_to_a_location_that_is_not_writable_is_told_why() {
        let mut state = ShuffleState::default();
        assert_eq!(push(&mut state, primary(0, 0), 0, 1), Err(Refusal::NotFound));
        state.reserve(None, &[reservation(primary(0, 0), 1 << 30, SplitMode::Soft)], CALM, 10).unwrap();
        push(&mut state, primary(0, 0), 0, 1).unwrap();
        state.commit(&commit(&[0], &[4, -1]));
        assert_eq!(push(&mut state, primary(0, 0), 0, 1), Err(Refusal::MapEnded));
        assert_eq!(push(&mut state, primary(0, 0), 1, 1), Err(Refusal::HardSplit));
        assert_eq!(push(&mut state, primary(9, 0), 1, 1), Err(Refusal::HardSplit), "unknown, maps known");
        let mut recovered = ShuffleState::default();
        recovered.restore(primary(0, 0), 5, false);
        assert_eq!(push(&mut recovered, primary(1, 0), 0, 1), Err(Refusal::HardSplit));
    }

    #[test]
    fn a_soft_split_accepts_and_a_hard_one_stays() {
        let mut state = ShuffleState::default();
        let mib = 1 << 20;
        let soft = reservation(primary(0, 0), 2 * mib, SplitMode::Soft);
        let hard = reservation(primary(1, 0), 2 * mib, SplitMode::Hard);
        state.reserve(None, &[soft, hard], CALM, 10).unwrap();
        for (partition, expected) in [(0, Ok(true)), (1, Err(Refusal::HardSplit))] {
            assert_eq!(push(&mut state, primary(partition, 0), 0, 2 * mib), Ok(false));
            assert_eq!(
                push(&mut state, primary(partition, 0), 0, 1),
                Ok(false),
                "at the threshold, not above"
            );
            assert_eq!(push(&mut state, primary(partition, 0), 0, 1), expected);
        }
        let merged = state.judge(primary(1, 0), MapId(0), PushKind::Merged, CALM);
        assert_eq!(merged, Err(Refusal::HardSplit), "a split stays split for merged frames too");
        push(&mut state, primary(0, 0), 0, 2 << 30).unwrap();
        assert_eq!(push(&mut state, primary(0, 0), 0, 1), Err(Refusal::HardSplit), "2 GiB is the end");
    }

    #[test]
    fn merged_frames_and_replicas_do_not_split_at_the_threshold() {
        let mut state = ShuffleState::default();
        let replica = FileName { location: LocationId::new(0, 0), mode: Mode::Replica };
        let wanted = [primary(0, 0), replica].map(|file| reservation(file, 0, SplitMode::Hard));
        state.reserve(None, &wanted, CALM, 10).unwrap();
        for Reservation { file, .. } in wanted {
            state.appended(file, 5 << 20);
        }
        assert!(state.judge(primary(0, 0), MapId(0), PushKind::Merged, CALM).is_ok());
        assert!(state.judge(replica, MapId(0), PushKind::Single, CALM).is_ok());
    }

    #[test]
    fn pressure_sheds_large_locations_and_refuses_when_nothing_is_left() {
        let mut state = ShuffleState::default();
        let wanted = [0, 1].map(|id| reservation(primary(id, 0), 1 << 40, SplitMode::Soft));
        state.reserve(None, &wanted, CALM, 10).unwrap();
        state.appended(primary(1, 0), PRESSURE_SPLIT_BYTES_MIN);
        let tight = Pressure { memory_tight: true, ..CALM };
        let split = |state: &mut ShuffleState, id, pressure| {
            state
                .judge(primary(id, 0), MapId(0), PushKind::Single, pressure)
                .map(|admission| admission.soft_split)
        };
        assert_eq!(split(&mut state, 0, tight), Ok(false));
        assert_eq!(split(&mut state, 1, tight), Ok(true));
        let exhausted = Pressure { exhausted: true, ..CALM };
        assert_eq!(split(&mut state, 0, exhausted), Err(Refusal::HardSplit));
        assert_eq!(split(&mut state, 0, CALM), Ok(false), "space came back");
    }

    #[test]
    fn a_commit_classifies_each_location_and_answers_again_what_it_answered() {
        let mut state = ShuffleState::default();
        let wanted = [0, 1].map(|id| reservation(primary(id, 0), 1 << 30, SplitMode::Soft));
        state.reserve(None, &wanted, CALM, 10).unwrap();
        push(&mut state, primary(0, 0), 0, 10).unwrap();
        let asked = commit(&[0, 1, 2, 0], &[0]);
        let outcome = state.commit(&asked);
        assert_eq!(outcome.committed, [primary(0, 0)]);
        assert_eq!(outcome.failed, [primary(2, 0)], "unknown fails; empty is in neither list");
        assert_eq!(state.commit(&asked), outcome);
        state.destroy([primary(0, 0)]);
        assert_eq!(state.commit(&asked).failed, [primary(0, 0), primary(2, 0)], "it is gone");
        // And what was reserved since is sealed as well.
        state.reserve(None, &[reservation(primary(0, 1), 1 << 30, SplitMode::Soft)], CALM, 10).unwrap();
        push(&mut state, primary(0, 1), 1, 10).unwrap();
        let moved =
            Commit { primaries: vec![LocationId::new(0, 1), LocationId::new(1, 0)], ..commit(&[], &[]) };
        assert_eq!(state.commit(&moved).committed, [primary(0, 1)]);
        assert_eq!(state.open_locations(), 0);
    }

    #[test]
    fn what_is_sealed_for_a_restart_waits_for_its_commit() {
        let mut state = ShuffleState::default();
        let wanted = [0, 1, 2].map(|id| reservation(primary(id, 0), 1 << 30, SplitMode::Soft));
        state.reserve(None, &wanted, CALM, 10).unwrap();
        push(&mut state, primary(0, 0), 0, 10).unwrap();
        push(&mut state, primary(1, 0), 0, 10).unwrap();
        state.commit(&commit(&[1], &[]));
        assert_eq!((state.seal_all(), state.open_locations(), state.seal_all()), (2, 0, 0));
        assert_eq!(
            push(&mut state, primary(0, 0), 0, 1),
            Err(Refusal::HardSplit),
            "no map is known to have ended"
        );
        assert_eq!(state.commit(&commit(&[0, 2], &[0])).committed, [primary(0, 0)]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Reserve(i32),
        Push { partition: i32, map: i32, merged: bool, bytes: u64 },
        Commit { partitions: Vec<i32>, attempts: Vec<i32>, twice: bool },
        Destroy(i32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (0..6i32).prop_map(Step::Reserve),
            8 => (0..6i32, 0..4i32, any::<bool>(), 1..(1u64 << 20))
                .prop_map(|(partition, map, merged, bytes)| Step::Push { partition, map, merged, bytes }),
            2 => (prop::collection::vec(0..6i32, 0..4), prop::collection::vec(-1..2i32, 0..4), any::<bool>())
                .prop_map(|(partitions, attempts, twice)| Step::Commit { partitions, attempts, twice }),
            1 => (0..6i32).prop_map(Step::Destroy),
        ]
    }

    proptest! {
        /// Against a model of plain maps: no accepted byte is missing from a commit, nothing is accepted behind a commit
        /// or a hard split, and an unknown location is never called committed.
        #[test]
        fn accepted_bytes_are_committed_and_nothing_else(steps in prop::collection::vec(step(), 1..80)) {
            #[derive(Default)]
            struct Copy { bytes: u64, sealed: bool, split: bool }
            let mut model: BTreeMap<i32, Copy> = BTreeMap::new();
            let (mut state, mut maps_told) = (ShuffleState::default(), false);
            let primary = |partition: i32, _: i32| primary(partition, partition % 2);
            for step in steps {
                match step {
                    Step::Reserve(partition) => {
                        let file = primary(partition, 0);
                        let reserved = state.reserve(None, &[reservation(file, 2 << 20, SplitMode::Hard)], CALM, 10);
                        let is_touched = |copy: &Copy| copy.bytes > 0 || copy.sealed;
                        let is_used = model.get(&partition).is_some_and(is_touched);
                        let has_begun = maps_told || model.values().any(is_touched);
                        prop_assert_eq!(reserved.is_err(), is_used || (has_begun && partition % 2 == 0));
                        if reserved.is_ok() {
                            model.entry(partition).or_default();
                        }
                    }
                    Step::Push { partition, map, merged, bytes } => {
                        let kind = if merged { PushKind::Merged } else { PushKind::Single };
                        let verdict = state.judge(primary(partition, 0), MapId(map), kind, CALM);
                        if verdict.is_ok() {
                            let copy = model.get_mut(&partition).expect("accepted without a reservation");
                            prop_assert!(!copy.sealed && !copy.split);
                            state.appended(primary(partition, 0), bytes);
                            copy.bytes += bytes;
                        } else if let Some(copy) = model.get_mut(&partition) {
                            prop_assert!(verdict != Err(Refusal::NotFound), "it is here");
                            prop_assert!(copy.sealed || copy.bytes > 2 << 20, "refused for nothing");
                            copy.split |= !copy.sealed;
                        }
                    }
                    Step::Commit { partitions, attempts, twice } => {
                        let request = Commit {
                            primaries: partitions.iter().map(|id| primary(*id, 0).location).collect(),
                            ..commit(&[], &attempts)
                        };
                        maps_told |= !attempts.is_empty();
                        let outcome = state.commit(&request);
                        for partition in partitions {
                            let file = primary(partition, 0);
                            let known = model.get_mut(&partition).map(|copy| { copy.sealed = true; copy.bytes });
                            prop_assert_eq!(outcome.failed.contains(&file), known.is_none());
                            prop_assert_eq!(outcome.committed.contains(&file), known.is_some_and(|bytes| bytes > 0));
                        }
                        if twice {
                            prop_assert_eq!(&state.commit(&request), &outcome);
                        }
                    }
                    Step::Destroy(partition) => {
                        let gone = state.destroy([primary(partition, 0)]);
                        prop_assert_eq!(gone.len(), usize::from(model.remove(&partition).is_some()));
                    }
                }
            }
        }
    }
}
