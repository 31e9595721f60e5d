//! Where each partition's next batch goes: decisions, without I/O.

use std::collections::BTreeSet;

use crate::ids::{Epoch, LocationId, Mode, PartitionId, WorkerId};
use crate::wire::packed::Location;

/// The locations of a shuffle, of all epochs, and the workers on which more may be reserved.
#[derive(Debug)]
pub(crate) struct Routes {
    /// By partition, then by epoch in the order of their making.
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

    /// Where the next batch of a partition goes.
    pub fn current(&self, partition: PartitionId) -> &Location {
        self.of(partition).last().expect("each partition has a location from the beginning")
    }

    /// All locations that the partition has had.
    pub fn all(&self, partition: PartitionId) -> &[Location] {
        self.of(partition)
    }

    /// Whether a newer location has been made than the one of this epoch.
    pub fn newer_than(&self, partition: PartitionId, epoch: Epoch) -> Option<&Location> {
        Some(self.current(partition)).filter(|current| current.id.epoch > epoch)
    }

    /// Keeps a worker from getting new locations.
    pub fn exclude(&mut self, worker: &WorkerId) {
        self.excluded.insert(worker.clone());
    }

    /// Keeps those workers from getting new locations that leave now, and others no more.
    pub fn leave(&mut self, leaving: &[WorkerId]) {
        self.leaving = leaving.iter().cloned().collect();
    }

    /// A location for the partition behind its current one; `draw` chooses among the workers. `None` if there are too
    /// few that may get it.
    ///
    /// No epoch is proposed twice. Workers keep what they have of a location that they know: one that took part in a
    /// proposal that came to nothing would go on copying to the worker of that proposal, and the replica in use would
    /// stay empty, which in a commit means that there was nothing to lose.
    pub fn propose(&mut self, partition: PartitionId, draw: u64) -> Option<Location> {
        let open: Vec<&WorkerId> =
            self.candidates.iter().filter(|worker| self.may_get_more(worker)).collect();
        let primary = open.get((draw % (open.len().max(1) as u64)) as usize)?;
        let peer = if self.replicate {
            let others: Vec<_> = open.iter().filter(|worker| worker != &primary).collect();
            let peer = others.get((draw / 7 % (others.len().max(1) as u64)) as usize)?;
            Some((**peer).clone())
        } else {
            None
        };
        let worker = (*primary).clone();
        let newest = &mut self.proposed[partition.0.cast_unsigned() as usize];
        newest.0 += 1;
        let id = LocationId { partition, epoch: *newest };
        Some(Location { id, mode: Mode::Primary, worker, peer })
    }

    fn may_get_more(&self, worker: &WorkerId) -> bool {
        !self.excluded.contains(worker) && !self.leaving.contains(worker)
    }

    /// Takes a reserved location into use.
    pub fn adopt(&mut self, location: Location) {
        let locations = &mut self.locations[location.id.partition.0.cast_unsigned() as usize];
        debug_assert!(locations.last().is_none_or(|last| last.id.epoch < location.id.epoch));
        locations.push(location);
    }

    /// Puts a proposal in the place of a location that could not be reserved, before anything was pushed to it.
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
        routes.exclude(&worker(20));
        assert_eq!(routes.propose(PartitionId(0), 3), None, "a copy needs a second worker");
    }

    #[test]
    fn a_worker_that_has_come_back_gets_locations_again() {
        let mut routes = routes(true);
        routes.leave(&[worker(10), worker(30)]);
        assert_eq!(routes.propose(PartitionId(0), 0), None);
        routes.leave(&[worker(30)]);
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
