//! Slot requests: what a client gets when it registers a shuffle or, as Sail does, replaces a lost location.

use std::collections::BTreeSet;

use super::super::record::Record;
use super::super::slots::{Candidate, Demand, allocate};
use super::{Decision, Link, Now, State, Worker};
use crate::ids::{ApplicationId, PartitionId, ShuffleId, ShuffleKey, WorkerId};

/// A request for partition locations. The same shuffle may ask again and again, for the same partitions too (Sail's
/// revive does): each answer stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// Whose shuffle.
    pub application: ApplicationId,
    /// Which.
    pub shuffle: ShuffleId,
    /// The partitions; repeated ones count once.
    pub partitions: Vec<PartitionId>,
    /// Whether each partition gets a second location on another worker.
    pub replicate: bool,
    /// Whether that other worker should be in another rack.
    pub rack_aware: bool,
    /// The client's limit on workers; 0 is none.
    pub workers_max: usize,
    /// Workers that the client does not want.
    pub excluded: BTreeSet<WorkerId>,
    /// The driver's host, for people.
    pub driver: String,
}

/// Granted locations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGrant {
    /// The workers of the reply with their racks: those used, then the spare ones. One that is used through several of its
    /// addresses comes once for each.
    pub workers: Vec<(WorkerId, String)>,
    /// For each partition its primary and its replica, as indexes into `workers`.
    pub placements: Vec<(PartitionId, usize, Option<usize>)>,
}

/// Why there are no locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// No worker is there that may be used (status 27).
    #[error("no worker is available")]
    NoWorker,
    /// There are workers, but too few for replicas (status 6).
    #[error("too few workers are available for replicas on another worker")]
    TooFewWorkers,
    /// A limit on applications or shuffles is reached (status 2).
    #[error("the master's limit on applications or shuffles is reached")]
    Full,
}

impl State {
    /// Whether a shuffle could be registered now.
    pub fn has_available_worker(&self) -> bool {
        // A client asks this once for a shuffle, and does without us if the answer is no. A connection that was lost
        // comes back within seconds, and whoever does not is removed.
        self.workers.iter().any(|(worker, held)| self.may_serve(worker, held))
    }

    /// Grants locations and registers the shuffle. `random` is drawn anew for each request.
    pub fn request_slots(
        &mut self,
        now: Now,
        random: u64,
        request: SlotRequest,
    ) -> Decision<Result<SlotGrant, SlotRefusal>> {
        let mut decision = Decision::of(Err(SlotRefusal::Full));
        let replicate = request.replicate;
        let grant = match self.grant(&request, random) {
            Ok(grant) => grant,
            Err(refusal) => {
                decision.reply = Err(refusal);
                return decision;
            }
        };
        if !self.ensure_application(now, &request.application, &mut decision) {
            return decision;
        }
        let application = self.applications.get_mut(&request.application).expect("ensured above");
        application.heard = now.monotonic;
        application.workers_min = workers_min(replicate);
        if !application.shuffles.contains_key(&request.shuffle) {
            if self.shuffle_count >= self.limits.shuffles_max {
                return decision;
            }
            let shuffle = ShuffleKey { application: request.application.clone(), shuffle: request.shuffle };
            let record = Record::ShuffleRegistered { shuffle: shuffle.clone(), at_unix_ms: now.unix_ms };
            self.commit(now, &mut decision, record);
            // Registered in this life: from here on the list of its workers is complete.
            self.shuffle_mut(&shuffle).workers = Some(BTreeSet::new());
        }
        let key = ShuffleKey { application: request.application, shuffle: request.shuffle };
        let shuffle = self.shuffle_mut(&key);
        shuffle.driver = Some(request.driver).filter(|driver| driver.len() <= DRIVER_BYTES_MAX);
        if let Some(listed) = &mut shuffle.workers {
            listed.extend(grant.workers.iter().map(|(worker, _)| worker.clone()));
        }
        for (_, primary, replica) in &grant.placements {
            for index in std::iter::once(primary).chain(replica) {
                if let Some(worker) = self.workers.get_mut(&grant.workers[*index].0) {
                    worker.locations_granted += 1;
                }
            }
        }
        // Clients choose a lost location's new workers themselves, and would take two addresses for two workers.
        decision.reply = Ok(if replicate { grant } else { self.over_addresses(grant) });
        decision
    }

    fn shuffle_mut(&mut self, key: &ShuffleKey) -> &mut super::Shuffle {
        let application = self.applications.get_mut(&key.application).expect("its application is registered");
        application.shuffles.get_mut(&key.shuffle).expect("it is registered")
    }

    fn grant(&self, request: &SlotRequest, random: u64) -> Result<SlotGrant, SlotRefusal> {
        let excluded: BTreeSet<&WorkerId> =
            request.excluded.iter().filter_map(|named| self.known_as(named)).collect();
        let shuffle = ShuffleKey { application: request.application.clone(), shuffle: request.shuffle };
        // Where a shuffle of this number is still to be deleted, its batches would be taken for those of this one.
        let is_over = self.tombstones.has_shuffle(&shuffle);
        let may_have_it = |held: &Worker| {
            let has_it = || held.report.shuffles.iter().any(|held| held.shuffle == shuffle);
            held.orders.deletes(&shuffle) || (is_over && (held.incarnation.is_none() || has_it()))
        };
        let wanted = |worker: &WorkerId, held: &Worker| !excluded.contains(worker) && !may_have_it(held);
        let workers_min = workers_min(request.replicate);
        let who = |may: &dyn Fn(&WorkerId, &Worker) -> bool| -> Vec<(&WorkerId, &Worker)> {
            self.workers.iter().filter(|(worker, held)| wanted(worker, held) && may(worker, held)).collect()
        };
        // Workers under pressure are left alone unless there is nobody else, and then those of whom we do not know
        // whether they can be reached: the client finds out.
        let mut pool = who(&|worker, held| self.is_eligible(worker, held) && !held.report.saturated);
        if pool.len() < workers_min {
            pool = who(&|worker, held| self.is_eligible(worker, held));
        }
        if pool.len() < workers_min {
            pool = who(&|worker, held| self.may_serve(worker, held));
        }
        if pool.is_empty() {
            return Err(SlotRefusal::NoWorker);
        }
        let candidates: Vec<Candidate<'_>> = pool
            .iter()
            .map(|(_, held)| Candidate {
                rack: &held.network_location,
                bytes_usable: held.report.bytes_usable(),
                locations: held.report.open_locations.saturating_add(held.locations_granted),
            })
            .collect();
        let mut seen = BTreeSet::new();
        let partitions: Vec<PartitionId> =
            request.partitions.iter().copied().filter(|partition| seen.insert(*partition)).collect();
        let demand = Demand {
            partitions: &partitions,
            replicate: request.replicate,
            rack_aware: request.rack_aware,
            workers_max: request.workers_max,
        };
        let known = self.applications.get(&request.application);
        let policy = self.limits.slots.for_size(known.and_then(|application| application.location_bytes));
        let allocation = allocate(&demand, &candidates, &policy, random).ok_or(SlotRefusal::TooFewWorkers)?;
        let listed: Vec<usize> = allocation.used.iter().chain(&allocation.spare).copied().collect();
        let mut position = vec![0; pool.len()];
        for (at, index) in listed.iter().enumerate() {
            position[*index] = at;
        }
        let placements = allocation
            .placements
            .iter()
            .map(|placed| {
                (placed.partition, position[placed.primary], placed.replica.map(|index| position[index]))
            })
            .collect();
        let workers =
            listed.iter().map(|index| (pool[*index].0.clone(), pool[*index].1.network_location.clone()));
        Ok(SlotGrant { workers: workers.collect(), placements })
    }

    /// Whether a worker may get partitions and can be reached, as far as known.
    pub(super) fn is_eligible(&self, worker: &WorkerId, held: &Worker) -> bool {
        held.link != Link::Broken && self.may_serve(worker, held)
    }

    /// Whether a worker may get partitions at all.
    fn may_serve(&self, worker: &WorkerId, held: &Worker) -> bool {
        !self.is_leaving(worker, held)
            && !held.report.is_without_storage()
            && !self.excluded_by_hand.contains(worker)
    }

    /// Whether a worker says that it leaves, or was told to and may not have heard it: a new process under its name takes
    /// nothing either.
    pub(super) fn is_leaving(&self, worker: &WorkerId, held: &Worker) -> bool {
        held.is_leaving() || self.leaving_by_hand.contains(worker)
    }
}

/// The longest driver host that is remembered.
const DRIVER_BYTES_MAX: usize = 255;

/// Two copies are never on one worker.
fn workers_min(replicate: bool) -> usize {
    if replicate { 2 } else { 1 }
}
