//! Slot requests: what a client gets when it registers a shuffle or (Sail) replaces a lost location.

use std::collections::BTreeSet;

use super::super::record::User;
use super::super::slots::{Candidate, Demand, allocate};
use super::image::registrations;
use super::{Decision, Link, Now, Refusal, Shuffle, Standing, State, Worker};
use crate::ids::{ApplicationId, PartitionId, ShuffleId, ShuffleKey, WorkerId};

/// A request for partition locations. A client may ask repeatedly for the same shuffle and even the same partitions (as
/// Sail's revive does): each request is answered by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// The application.
    pub application: ApplicationId,
    /// Its user: the JVM client of 0.5 sends it only here.
    pub user: User,
    /// The shuffle.
    pub shuffle: ShuffleId,
    /// The partitions; repeated ones count once.
    pub partitions: Vec<PartitionId>,
    /// Whether each partition gets a second location on another worker.
    pub replicate: bool,
    /// Whether that other worker should be in another rack.
    pub rack_aware: bool,
    /// The client's limit on workers; 0 is none.
    pub workers_max: usize,
    /// Workers that the client refuses.
    pub excluded: BTreeSet<WorkerId>,
    /// The driver's host, to be shown to people.
    pub driver: String,
    /// Whether the workers are to have tags (`celeborn.tags.tagsExpr` of a client from 0.6 on).
    pub tagged: bool,
    /// The connection on which it was sent.
    pub connection: u64,
}

/// Granted locations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGrant {
    /// The workers of the reply with their racks: first those used, then the spare ones. A worker that is used through
    /// several addresses is listed once for each.
    pub workers: Vec<(WorkerId, String)>,
    /// For each partition its primary and its replica, as indexes into `workers`.
    pub placements: Vec<(PartitionId, usize, Option<usize>)>,
}

/// Why there are no locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// No worker may be used (status 27).
    #[error("no worker is available")]
    NoWorker,
    /// There are workers, but too few for replicas (status 6).
    #[error("too few workers are available for replicas on another worker")]
    TooFewWorkers,
    /// The client wants workers with tags, and none has any (status 27, as a master of Celeborn's whose workers have none).
    #[error("the client asks for workers with tags by celeborn.tags.tagsExpr, and no worker has any")]
    NoTags,
    /// The application or its shuffle is not taken (status 2).
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl State {
    /// Grants locations and registers the shuffle. `random` is drawn anew for each request.
    pub fn request_slots(
        &mut self,
        now: Now,
        random: u64,
        request: SlotRequest,
    ) -> Decision<Result<SlotGrant, SlotRefusal>> {
        let mut decision = Decision::of(Err(Refusal::Full.into()));
        let replicate = request.replicate;
        let grant = match self.grant(&request, random) {
            Ok(grant) => grant,
            Err(refusal) => {
                decision.reply = Err(refusal);
                return decision;
            }
        };
        let application = match self.hear(now, &request.application, &mut decision) {
            Ok(application) => application,
            Err(refusal) => {
                decision.reply = Err(refusal.into());
                return decision;
            }
        };
        application.workers_min = workers_min(replicate);
        let is_registered = application.shuffles.contains_key(&request.shuffle);
        self.name_user(now, &request.application, request.user, &mut decision);
        if !is_registered {
            if self.slots.shuffles() >= self.limits.shuffles_max {
                return decision;
            }
            let shuffle = ShuffleKey { application: request.application.clone(), shuffle: request.shuffle };
            let is_again = self.removals.has_shuffle(&shuffle);
            let listed: Vec<WorkerId> =
                if is_again { names_of(&grant).cloned().collect() } else { Vec::new() };
            for record in registrations(&shuffle, now.unix_ms, &listed) {
                self.commit(now, &mut decision, record);
            }
            // Registered by this process, so from here on the list of its workers is complete.
            let registered = self.shuffle_mut(&shuffle);
            (registered.is_list_whole, registered.connection) = (true, Some(request.connection));
        }
        let key = ShuffleKey { application: request.application, shuffle: request.shuffle };
        self.list_workers(now, &key, &grant, &mut decision);
        self.shuffle_mut(&key).driver =
            Some(request.driver).filter(|driver| driver.len() <= DRIVER_BYTES_MAX);
        let mut granted = 0;
        for (_, primary, replica) in &grant.placements {
            assert_eq!(replica.is_some(), replicate, "a partition has as many copies as were asked for");
            for index in std::iter::once(primary).chain(replica) {
                let worker = self.workers.get_mut(&grant.workers[*index].0);
                worker.expect("slots are granted on workers that are registered").locations_granted += 1;
                granted += 1;
            }
        }
        let application = self.applications.get_mut(&key.application).expect("its application is registered");
        let shuffle = application.shuffles.get_mut(&key.shuffle).expect("it is registered");
        self.slots.grant(shuffle, granted);
        // Clients choose a lost location's new workers themselves, and would take two addresses of one worker for two
        // workers.
        decision.reply = Ok(if replicate { grant } else { self.over_addresses(grant) });
        decision
    }

    /// Remembers which workers a reply lists. That of a number which was used before is durable: without it a restarted master
    /// would take each of them for one that holds the earlier shuffle, and a running job would get no further location.
    fn list_workers<T>(&mut self, now: Now, key: &ShuffleKey, grant: &SlotGrant, decision: &mut Decision<T>) {
        let shuffle = self.shuffle_mut(key);
        let new: Vec<WorkerId> =
            names_of(grant).filter(|worker| !shuffle.listed.contains(*worker)).cloned().collect();
        if !shuffle.is_again {
            if shuffle.is_list_whole {
                shuffle.listed.extend(new);
            }
            return;
        }
        let at_unix_ms = shuffle.registered_unix_ms;
        if !new.is_empty() {
            for record in registrations(key, at_unix_ms, &new) {
                self.commit(now, decision, record);
            }
        }
    }

    fn shuffle_mut(&mut self, key: &ShuffleKey) -> &mut Shuffle {
        let application = self.applications.get_mut(&key.application).expect("its application is registered");
        application.shuffles.get_mut(&key.shuffle).expect("it is registered")
    }

    pub(super) fn grant(&self, request: &SlotRequest, random: u64) -> Result<SlotGrant, SlotRefusal> {
        if request.tagged && self.limits.tags_enabled {
            return Err(SlotRefusal::NoTags);
        }
        let mut choices = self.usable(request);
        if choices.is_empty() {
            return Err(SlotRefusal::NoWorker);
        }
        let tier = tier(&choices, workers_min(request.replicate));
        // A driver replaces a lost or split location only with a listed worker, so one that is briefly under pressure is
        // listed as a spare.
        choices.retain(|choice| choice.standing <= tier.max(Standing::Saturated));
        self.place(request, &choices, tier, random)
    }

    /// The workers that the request may get, whatever their standing.
    fn usable(&self, request: &SlotRequest) -> Vec<Choice<'_>> {
        let excluded: BTreeSet<&WorkerId> =
            request.excluded.iter().filter_map(|named| self.known_as(named)).collect();
        let has_earlier = self.earlier(request);
        let choice = |(worker, held)| Choice { worker, held, standing: self.standing_of(worker, held) };
        let usable = |choice: &Choice<'_>| {
            let is_wanted = choice.standing.may_serve() && !excluded.contains(choice.worker);
            is_wanted && !has_earlier(choice.worker, choice.held)
        };
        self.workers.iter().map(choice).filter(usable).collect()
    }

    /// Whether a worker may still have an earlier shuffle of the number that is asked for: its batches would be taken for
    /// this shuffle's.
    fn earlier(&self, request: &SlotRequest) -> impl Fn(&WorkerId, &Worker) -> bool {
        let shuffle = ShuffleKey { application: request.application.clone(), shuffle: request.shuffle };
        let application = self.applications.get(&request.application);
        let known = application.and_then(|application| application.shuffles.get(&request.shuffle));
        let is_over = self.removals.has_shuffle(&shuffle);
        move |worker, held| {
            let may_be_earlier = known.map_or(is_over, |known| known.is_earlier_on(worker) != Some(false));
            let may_have_it = held.may_hold(&shuffle) || held.orders.has_dropped();
            held.orders.deletes(&shuffle) || (may_be_earlier && may_have_it)
        }
    }

    /// Whether a worker that can be reached has yet to delete an earlier shuffle of the number that is asked for: it may be
    /// granted in a moment.
    pub fn awaits_deletion(&self, request: &SlotRequest) -> bool {
        let has_earlier = self.earlier(request);
        let is_up = |held: &Worker| matches!(held.link, Link::Up(_));
        self.workers.iter().any(|(worker, held)| is_up(held) && has_earlier(worker, held))
    }

    /// Deals the partitions to the choices of the tier; the others become spares.
    fn place(
        &self,
        request: &SlotRequest,
        choices: &[Choice<'_>],
        tier: Standing,
        random: u64,
    ) -> Result<SlotGrant, SlotRefusal> {
        let candidates: Vec<Candidate<'_>> = choices.iter().map(|choice| choice.candidate(tier)).collect();
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
        let mut position = vec![0; choices.len()];
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
        let named = |index: &usize| {
            let Choice { worker, held, .. } = &choices[*index];
            ((*worker).clone(), held.network_location.clone())
        };
        Ok(SlotGrant { workers: listed.iter().map(named).collect(), placements })
    }
}

impl Shuffle {
    /// Whether what a worker holds under this number is of an earlier shuffle. A restarted master cannot tell that of one
    /// that is not listed, because power may have failed between a reply and the disk.
    pub(super) fn is_earlier_on(&self, worker: &WorkerId) -> Option<bool> {
        if !self.is_again || self.listed.contains(worker) {
            return Some(false);
        }
        self.is_list_whole.then_some(true)
    }
}

impl Worker {
    /// Whether it may hold something of a shuffle, by what it has reported since this master started.
    fn may_hold(&self, shuffle: &ShuffleKey) -> bool {
        self.incarnation.is_none() || self.holds(shuffle)
    }
}

/// A worker that a request may get.
struct Choice<'a> {
    worker: &'a WorkerId,
    held: &'a Worker,
    standing: Standing,
}

impl<'a> Choice<'a> {
    fn candidate(&self, tier: Standing) -> Candidate<'a> {
        Candidate {
            rack: &self.held.network_location,
            bytes_usable: self.held.report.bytes_usable(),
            locations: self.held.report.open_locations.saturating_add(self.held.locations_granted),
            spare_only: self.standing > tier,
        }
    }
}

/// The standing down to which workers are used: the best one with enough of them, else all.
///
/// After a restart of this master, workers are heard again one by one, within about two seconds. Until half of them are, the
/// others are used too: a shuffle stays on the workers that it begins with, so the first would have all of a large one.
fn tier(choices: &[Choice<'_>], workers_min: usize) -> Standing {
    let mut standings: Vec<Standing> = choices.iter().map(|choice| choice.standing).collect();
    standings.sort_unstable();
    let tier = standings.get(workers_min - 1).copied().unwrap_or(Standing::Unreached);
    let heard = standings.partition_point(|standing| standing.is_reached());
    let unconfirmed = standings.partition_point(|standing| *standing <= Standing::Unconfirmed) - heard;
    if unconfirmed > heard { tier.max(Standing::Unconfirmed) } else { tier }
}

/// The workers that a grant lists.
fn names_of(grant: &SlotGrant) -> impl Iterator<Item = &WorkerId> {
    grant.workers.iter().map(|(worker, _)| worker)
}

/// The longest driver host that is remembered.
const DRIVER_BYTES_MAX: usize = 255;

/// Two copies of a partition are never on one worker.
fn workers_min(replicate: bool) -> usize {
    if replicate { 2 } else { 1 }
}
