//! Where each partition's next batch goes: decisions, without I/O.

use std::collections::BTreeSet;

use crate::ids::{Epoch, LocationId, Mode, PartitionId, WorkerId};
use crate::wire::packed::Location;

/// The locations of a shuffle, of all epochs, and the workers on which more may be reserved.
#[derive(Debug)]
pub(crate) struct Routes {
    /// By partition, then in order of epoch.
    locations: Vec<Vec<Location>>,
    /// By partition: the newest epoch that was proposed, whether it came into use or not.
    proposed: Vec<Epoch>,
    candidates: Vec<WorkerId>,
    excluded: BTreeSet<WorkerId>,
    leaving: BTreeSet<WorkerId>,
    replicate: bool,
}

impl Routes {
    /// Begins with the master's locations. `None` if they are not one primary for each of `partitions`.
    pub fn new(
        primaries: Vec<Location>,
        partitions: usize,
        candidates: Vec<WorkerId>,
        replicate: bool,
    ) -> Option<Self> {
        let mut locations = vec![Vec::new(); partitions];
        for primary in primaries {
            let place = locations.get_mut(usize::try_from(primary.id.partition.0).ok()?)?;
            if !place.is_empty() || primary.mode != Mode::Primary {
                return None;
            }
            place.push(primary);
        }
        let proposed =
            locations.iter().map(|locations| Some(locations.last()?.id.epoch)).collect::<Option<_>>()?;
        let (excluded, leaving) = (BTreeSet::new(), BTreeSet::new());
        Some(Self { locations, proposed, candidates, excluded, leaving, replicate })
    }

    pub fn partitions(&self) -> usize {
        self.locations.len()
    }

    fn of(&self, partition: PartitionId) -> &[Location] {
        &self.locations[partition.0.cast_unsigned() as usize]
    }

    /// Location that the next batch of a partition goes to.
    pub fn current(&self, partition: PartitionId) -> &Location {
        self.of(partition).last().expect("each partition has a location from the beginning")
    }

    /// All locations that the partition has had.
    pub fn all(&self, partition: PartitionId) -> &[Location] {
        self.of(partition)
    }

    /// The partition's current location, if it is newer than this epoch.
    pub fn newer_than(&self, partition: PartitionId, epoch: Epoch) -> Option<&Location> {
        Some(self.current(partition)).filter(|current| current.id.epoch > epoch)
    }

    /// Keeps a worker from getting new locations, as long as there are others.
    pub fn exclude(&mut self, worker: &WorkerId) {
        self.excluded.insert(worker.clone());
    }

    /// Sets the workers that are leaving, which get no new locations. One that was leaving and is not any more has come
    /// back, and is no longer excluded.
    pub fn leave(&mut self, leaving: &[WorkerId]) {
        let before = std::mem::replace(&mut self.leaving, leaving.iter().cloned().collect());
        self.excluded.retain(|worker| !before.contains(worker) || self.leaving.contains(worker));
    }

    /// True if a new location goes to a worker that is excluded, because there are too few others.
    pub fn is_short(&self) -> bool {
        self.open().count() < if self.replicate { 2 } else { 1 }
    }

    /// True if batches should move away from a worker that already has a location.
    pub fn shuns(&self, worker: &WorkerId) -> bool {
        self.excluded.contains(worker) && !self.is_short()
    }

    /// The workers that batches should move away from.
    pub fn shunned(&self) -> Vec<WorkerId> {
        if self.is_short() { Vec::new() } else { self.excluded.iter().cloned().collect() }
    }

    /// The workers that are not excluded.
    fn open(&self) -> impl Iterator<Item = &WorkerId> {
        self.staying().filter(|worker| !self.excluded.contains(worker))
    }

    fn staying(&self) -> impl Iterator<Item = &WorkerId> {
        self.candidates.iter().filter(|worker| !self.leaving.contains(worker))
    }

    /// A new location for the partition; `draw` chooses among the workers, the excluded ones only if there are too few
    /// others: they may be back. `None` if there are too few of both.
    ///
    /// No epoch is proposed twice. A worker keeps the reservation that it has of a location: one that had taken a
    /// proposal that failed would go on copying to that proposal's replica, and the replica in use would stay empty,
    /// which a commit takes to mean that there was nothing to lose.
    pub fn propose(&mut self, partition: PartitionId, draw: u64) -> Option<Location> {
        let worker = self.pick(draw, None)?;
        let peer = if self.replicate { Some(self.pick(draw / 7, Some(&worker))?) } else { None };
        let newest = &mut self.proposed[partition.0.cast_unsigned() as usize];
        newest.0 += 1;
        let id = LocationId { partition, epoch: *newest };
        Some(Location { id, mode: Mode::Primary, worker, peer })
    }

    fn pick(&self, draw: u64, but: Option<&WorkerId>) -> Option<WorkerId> {
        let others = |worker: &&WorkerId| Some(*worker) != but;
        let mut workers: Vec<_> = self.open().filter(others).collect();
        if workers.is_empty() {
            workers = self.staying().filter(others).collect();
        }
        let at = draw.checked_rem(workers.len() as u64)?;
        Some(workers[at as usize].clone())
    }

    /// Takes a reserved location into use.
    pub fn adopt(&mut self, location: Location) {
        let locations = &mut self.locations[location.id.partition.0.cast_unsigned() as usize];
        let is_newest = locations.last().is_none_or(|last| last.id.epoch < location.id.epoch);
        assert!(is_newest, "the locations of a partition are used in the order of their epochs");
        locations.push(location);
    }

    /// Replaces a location that could not be reserved by a proposal, before anything was pushed to it.
    pub fn replace(&mut self, refused: LocationId, location: Location) {
        let locations = &mut self.locations[location.id.partition.0.cast_unsigned() as usize];
        locations.retain(|known| known.id != refused);
        locations.push(location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(port: u16) -> WorkerId {
        WorkerId { host: "h".into(), rpc_port: port, push_port: 1, fetch_port: 2, replicate_port: 3 }
    }

    fn routes(replicate: bool) -> Routes {
        let primary = |partition, port, peer: u16| Location {
            id: LocationId::new(partition, 0),
            mode: Mode::Primary,
            worker: worker(port),
            peer: replicate.then(|| worker(peer)),
        };
        let workers = vec![worker(10), worker(20), worker(30)];
        Routes::new(vec![primary(1, 20, 10), primary(0, 10, 20)], 2, workers, replicate).unwrap()
    }

    #[test]
    fn a_partition_moves_to_workers_that_are_not_excluded() {
        let mut routes = routes(true);
        routes.exclude(&worker(10));
        for draw in 0..50 {
            let next = routes.propose(PartitionId(0), draw).unwrap();
            assert_eq!(next.id, LocationId::new(0, draw as i32 + 1));
            let peer = next.peer.clone().unwrap();
            assert!(next.worker != worker(10) && peer != worker(10) && peer != next.worker);
        }
        let next = routes.propose(PartitionId(0), 3).unwrap();
        assert!(routes.newer_than(PartitionId(0), Epoch(0)).is_none());
        routes.adopt(next.clone());
        assert_eq!(routes.newer_than(PartitionId(0), Epoch(0)), Some(&next));
        assert_eq!(routes.all(PartitionId(0)).len(), 2);
        assert_eq!(routes.current(PartitionId(1)).worker, worker(20), "the other partition stays");
        assert!(!routes.is_short());
        routes.exclude(&worker(20));
        assert!(routes.is_short(), "a copy needs a second worker");
        for draw in 0..50 {
            let next = routes.propose(PartitionId(0), draw).unwrap();
            assert_eq!(next.worker, worker(30), "the only one that is not excluded");
            assert_ne!(next.peer, Some(worker(30)), "and one of those that may be back");
        }
        routes.leave(&[worker(10), worker(20)]);
        assert_eq!(routes.propose(PartitionId(0), 3), None, "who leaves gets nothing");
    }

    #[test]
    fn a_worker_that_has_come_back_gets_locations_again() {
        let mut routes = routes(true);
        routes.leave(&[worker(10), worker(30)]);
        assert_eq!(routes.propose(PartitionId(0), 0), None);
        // It refused what it was asked for while it was leaving.
        routes.exclude(&worker(10));
        assert!(routes.is_short());
        routes.leave(&[worker(30)]);
        assert!(!routes.is_short());
        for draw in 0..50 {
            let next = routes.propose(PartitionId(0), draw).unwrap();
            assert!(next.worker != worker(30) && next.peer != Some(worker(30)));
        }
    }

    #[test]
    fn no_epoch_is_proposed_twice() {
        let mut routes = routes(true);
        let refused = routes.propose(PartitionId(1), 0).unwrap();
        let next = routes.propose(PartitionId(1), 1).unwrap();
        assert_eq!((refused.id, next.id), (LocationId::new(1, 1), LocationId::new(1, 2)));
        // Nor when it takes the place of one of the first locations, which some worker may have taken.
        let first = routes.current(PartitionId(0)).id;
        let instead = routes.propose(PartitionId(0), 0).unwrap();
        routes.replace(first, instead.clone());
        assert_eq!(routes.all(PartitionId(0)), std::slice::from_ref(&instead));
        assert_eq!(instead.id, LocationId::new(0, 1));
        assert_eq!(routes.propose(PartitionId(0), 0).unwrap().id, LocationId::new(0, 2));
    }

    #[test]
    fn incomplete_or_doubled_answers_of_a_master_are_refused() {
        let location = routes(false).current(PartitionId(0)).clone();
        assert!(Routes::new(vec![location.clone()], 2, vec![], false).is_none());
        assert!(Routes::new(vec![location.clone(), location.clone()], 1, vec![], false).is_none());
        let replica = Location { mode: Mode::Replica, ..location };
        assert!(Routes::new(vec![replica], 1, vec![], false).is_none());
    }
}
