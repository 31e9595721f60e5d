//! Where each partition's next batch goes, as far as an executor has heard: decisions, without I/O.

use std::collections::BTreeSet;

use crate::ids::{Epoch, Mode, PartitionId, WorkerId};
use crate::wire::packed::Location;

/// The newest location of each partition that an executor knows, and the workers that batches should move away from.
#[derive(Debug)]
pub(in crate::client) struct KnownRoutes {
    /// By partition.
    current: Vec<Location>,
    shunned: BTreeSet<WorkerId>,
}

impl KnownRoutes {
    /// Begins with what the application says. `None` if that is not one primary for each partition.
    pub fn new(locations: Vec<Location>, shunned: Vec<WorkerId>) -> Option<Self> {
        let mut current = locations;
        current.sort_by_key(|location| location.id.partition);
        let is_one_each = (0_i32..).zip(&current).all(|(partition, location)| {
            location.id.partition == PartitionId(partition) && location.mode == Mode::Primary
        });
        is_one_each.then(|| Self { current, shunned: shunned.into_iter().collect() })
    }

    pub fn partitions(&self) -> usize {
        self.current.len()
    }

    /// Location that the next batch of a partition goes to.
    pub fn current(&self, partition: PartitionId) -> &Location {
        &self.current[partition.0.cast_unsigned() as usize]
    }

    /// The partition's current location, if it is newer than this epoch.
    pub fn newer_than(&self, partition: PartitionId, epoch: Epoch) -> Option<&Location> {
        Some(self.current(partition)).filter(|current| current.id.epoch > epoch)
    }

    /// True if batches should move away from a worker that already has a location.
    pub fn shuns(&self, worker: &WorkerId) -> bool {
        self.shunned.contains(worker)
    }

    /// Takes what the application says of a partition: answers may come in any order, so an older location changes
    /// nothing. Returns whether it is a primary of a partition that is known.
    pub fn learn(&mut self, location: Location, shunned: Vec<WorkerId>) -> bool {
        let at = usize::try_from(location.id.partition.0).ok();
        let Some(current) = at.and_then(|at| self.current.get_mut(at)) else { return false };
        if location.mode != Mode::Primary {
            return false;
        }
        if current.id.epoch < location.id.epoch {
            *current = location;
        }
        self.shunned = shunned.into_iter().collect();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LocationId;

    fn location(partition: i32, epoch: i32, mode: Mode) -> Location {
        let worker =
            WorkerId { host: "h".into(), rpc_port: 1, push_port: 2, fetch_port: 3, replicate_port: 4 };
        Location { id: LocationId::new(partition, epoch), mode, worker, peer: None }
    }

    #[test]
    fn answers_in_any_order_leave_the_newest_location() {
        let first = |partition| location(partition, 0, Mode::Primary);
        let mut routes = KnownRoutes::new(vec![first(1), first(0)], Vec::new()).unwrap();
        assert_eq!((routes.partitions(), routes.current(PartitionId(1))), (2, &first(1)));
        assert!(routes.learn(location(1, 3, Mode::Primary), Vec::new()));
        assert!(routes.learn(location(1, 2, Mode::Primary), vec![first(0).worker]));
        let newest = location(1, 3, Mode::Primary);
        assert_eq!(routes.current(PartitionId(1)), &newest);
        assert_eq!(routes.newer_than(PartitionId(1), Epoch(2)), Some(&newest));
        assert_eq!(routes.newer_than(PartitionId(1), Epoch(3)), None);
        assert!(routes.shuns(&first(0).worker), "what is said of workers counts all the same");
        assert!(routes.learn(first(0), Vec::new()) && !routes.shuns(&first(0).worker));
    }

    #[test]
    fn incomplete_or_doubled_descriptions_are_refused() {
        let of = |locations: &[Location]| KnownRoutes::new(locations.to_vec(), Vec::new());
        let first = |partition| location(partition, 0, Mode::Primary);
        assert!(
            of(&[first(0), first(0)]).is_none() && of(&[first(1)]).is_none() && of(&[first(-1)]).is_none()
        );
        assert!(of(&[location(0, 0, Mode::Replica)]).is_none());
        let mut routes = of(&[first(0)]).unwrap();
        for wrong in
            [location(1, 1, Mode::Primary), location(-1, 1, Mode::Primary), location(0, 1, Mode::Replica)]
        {
            assert!(!routes.learn(wrong.clone(), Vec::new()), "{wrong:?}");
        }
        assert_eq!(routes.current(PartitionId(0)), &first(0));
    }
}
