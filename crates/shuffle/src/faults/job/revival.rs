//! Revivals: a new location for a partition whose present one is split or cannot be reached. A JVM driver chooses among the
//! workers that were listed when the shuffle began; Sail's asks the master again, with the shuffle's first request for slots
//! cut down to the one partition.

use super::{BTreeSet, Event, Job, LocationId, PartitionId, Question, Scene, SlotGrant, Stage, WorkerId};
use crate::client::application::routes::Routes;
use crate::wire::packed::Location;

/// The new locations that a driver asks the master for.
#[derive(Default)]
pub struct Revivals {
    /// Whether its client asks the master at all.
    pub by_master: bool,
    /// Partitions for which it has yet to ask.
    pub wanted: BTreeSet<PartitionId>,
}

impl Job {
    /// A task asks for a newer location than this.
    pub(super) fn revive(
        &mut self,
        scene: &mut Scene,
        old: LocationId,
        avoid: &[WorkerId],
    ) -> Vec<(u64, Question)> {
        let Some(routes) = self.routes.as_mut().filter(|_| !self.reviving.contains(&old.partition)) else {
            return Vec::new();
        };
        if matches!(self.stage, Stage::Done | Stage::Failed)
            || routes.newer_than(old.partition, old.epoch).is_some()
        {
            return Vec::new();
        }
        if self.strict {
            avoid.iter().for_each(|worker| routes.exclude(worker));
        }
        if self.revivals.by_master {
            scene.count(Event::Revived);
            self.reviving.insert(old.partition);
            self.revivals.wanted.insert(old.partition);
            return Vec::new();
        }
        let draw = scene.random.next();
        let Some(proposed) = routes.propose(old.partition, draw) else {
            self.fail(scene);
            return Vec::new();
        };
        scene.count(Event::Revived);
        self.reviving.insert(old.partition);
        self.reserve(scene, vec![proposed], 0, Some(old.partition))
    }

    /// The partitions for which the master is to be asked now.
    pub fn take_wanted(&mut self) -> BTreeSet<PartitionId> {
        std::mem::take(&mut self.revivals.wanted)
    }

    /// The master has not answered.
    pub fn want_again(&mut self, partition: PartitionId) {
        self.revivals.wanted.insert(partition);
    }

    /// The master has granted a new location for a partition.
    pub fn revive_at(
        &mut self,
        scene: &mut Scene,
        partition: PartitionId,
        grant: &SlotGrant,
    ) -> Vec<(u64, Question)> {
        if matches!(self.stage, Stage::Done | Stage::Failed) {
            return Vec::new();
        }
        let Some(location) = self.routes.as_mut().and_then(|routes| granted_in(routes, partition, grant))
        else {
            self.fail(scene);
            return Vec::new();
        };
        scene.count(Event::RevivedByMaster);
        if self.is_again {
            scene.count(Event::NumberUsedAgainRevived);
        }
        self.reserve(scene, vec![location], 0, Some(partition))
    }
}

/// The location of the next epoch on the workers that the master has named.
fn granted_in(routes: &mut Routes, partition: PartitionId, grant: &SlotGrant) -> Option<Location> {
    let (_, primary, replica) = grant.placements.iter().find(|(of, _, _)| *of == partition)?;
    let worker = |at: usize| grant.workers[at].0.clone();
    let next = routes.propose(partition, 0)?;
    Some(Location { worker: worker(*primary), peer: replica.map(worker), ..next })
}
