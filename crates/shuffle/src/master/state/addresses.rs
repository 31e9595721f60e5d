//! The addresses of a worker. A worker takes pushes on several ports. Clients compare all five parts of a worker's identity,
//! so each address looks like a separate worker with limits of its own to them. Here they are one.

use super::{SlotGrant, State, Worker};
use crate::ids::WorkerId;

impl Worker {
    /// All identities under which clients know this worker, its own name first.
    pub(super) fn names<'a>(&'a self, worker: &'a WorkerId) -> impl Iterator<Item = WorkerId> + 'a {
        let further = self.push_ports.iter().map(|port| WorkerId { push_port: *port, ..worker.clone() });
        std::iter::once(worker.clone()).chain(further)
    }
}

impl State {
    /// Whether a registered worker has this name.
    pub fn is_registered(&self, named: &WorkerId) -> bool {
        self.known_as(named).is_some()
    }

    /// The registered worker that a client means by a name. The journal does not have a worker's push ports, so until it
    /// registers with this process any push port matches.
    pub(super) fn known_as(&self, named: &WorkerId) -> Option<&WorkerId> {
        if let Some((worker, _)) = self.workers.get_key_value(named) {
            return Some(worker);
        }
        let from = WorkerId { push_port: 0, fetch_port: 0, replicate_port: 0, ..named.clone() };
        let to =
            WorkerId { push_port: u16::MAX, fetch_port: u16::MAX, replicate_port: u16::MAX, ..named.clone() };
        let mut of_listener = self.workers.range(from..=to);
        let found = of_listener.find(|(worker, held)| {
            (worker.fetch_port, worker.replicate_port) == (named.fetch_port, named.replicate_port)
                && (held.incarnation.is_none() || held.push_ports.contains(&named.push_port))
        });
        found.map(|(worker, _)| worker)
    }

    /// Deals each worker's partitions over as many addresses as are needed for [`SlotPolicy::push_addresses`] in total.
    ///
    /// [`SlotPolicy::push_addresses`]: crate::master::slots::SlotPolicy::push_addresses
    pub(super) fn over_addresses(&self, grant: SlotGrant) -> SlotGrant {
        let mut primaries = vec![0_usize; grant.workers.len()];
        grant.placements.iter().for_each(|(_, primary, _)| primaries[*primary] += 1);
        let used = primaries.iter().filter(|count| **count > 0).count();
        let each = self.limits.slots.push_addresses.div_ceil(used.max(1)).max(1);
        let most = primaries.iter().max().map_or(1, |primaries| each.min(*primaries).max(1));
        let mut workers = Vec::with_capacity(grant.workers.len());
        // For each worker of the grant: where its addresses begin in `workers`, and how many there are.
        let mut spans = Vec::with_capacity(grant.workers.len());
        for ((worker, rack), primaries) in grant.workers.iter().zip(&primaries) {
            let begin = workers.len();
            let names = self.workers[worker].names(worker);
            // A driver that needs another worker picks among all addresses, so a spare lists as many as a used one.
            let count = if *primaries == 0 { most } else { each.min(*primaries) };
            workers.extend(names.take(count).map(|name| (name, rack.clone())));
            spans.push((begin, workers.len() - begin));
        }
        let mut dealt = vec![0; spans.len()];
        let placements = grant.placements.into_iter().map(|(partition, primary, _)| {
            let (begin, count) = spans[primary];
            dealt[primary] += 1;
            (partition, begin + (dealt[primary] - 1) % count, None)
        });
        let placements = placements.collect();
        SlotGrant { workers, placements }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::ids::{PartitionId, ShuffleId};
    use crate::master::record::User;
    use crate::master::slots::SlotPolicy;
    use crate::master::state::{ApplicationHealth, ApplicationPulse, Limits, Now, SlotRefusal, SlotRequest};
    use crate::report::{Phase, Registration, Report};

    const NOW: Now = Now { monotonic: Duration::ZERO, unix_ms: 0 };

    fn id(host: u16, push_port: u16) -> WorkerId {
        format!("w{host}:1:{push_port}:3:4").parse().unwrap()
    }

    fn register(state: &mut State, host: u16, ports: u16) {
        let registration = Registration {
            worker: id(host, 100),
            incarnation: 1,
            http_port: 0,
            network_location: format!("/rack{host}"),
            version: String::new(),
            report: Report { memory_limit_bytes: 1 << 30, ..Report::default() },
            push_ports: (101..100 + ports).collect(),
        };
        assert!(state.register_worker(NOW, host.into(), registration).reply);
    }

    fn state(workers: u16, ports: u16) -> State {
        let slots = SlotPolicy { partitions_per_worker: 4, ..SlotPolicy::default() };
        let mut state = State::new(Limits { slots, ..Limits::default() });
        (0..workers).for_each(|host| register(&mut state, host, ports));
        state
    }

    fn ask(
        state: &mut State,
        partitions: i32,
        replicate: bool,
        excluded: &[WorkerId],
    ) -> Result<SlotGrant, SlotRefusal> {
        let request = SlotRequest {
            application: "app".into(),
            user: User::default(),
            shuffle: ShuffleId(0),
            partitions: (0..partitions).map(PartitionId).collect(),
            replicate,
            rack_aware: false,
            workers_max: 0,
            excluded: excluded.iter().cloned().collect(),
            driver: String::new(),
            tagged: false,
            connection: 0,
        };
        state.request_slots(NOW, 7, request).reply
    }

    /// How many partitions each address has.
    fn dealt(grant: &SlotGrant) -> BTreeMap<&WorkerId, usize> {
        let mut dealt: BTreeMap<_, _> = grant.workers.iter().map(|(worker, _)| (worker, 0)).collect();
        assert_eq!(dealt.len(), grant.workers.len(), "none comes twice");
        for (_, primary, _) in &grant.placements {
            *dealt.get_mut(&grant.workers[*primary].0).unwrap() += 1;
        }
        dealt
    }

    fn pulse(state: &mut State, workers: &[WorkerId]) -> ApplicationHealth {
        let pulse = ApplicationPulse { application: "app".into(), workers: workers.into() };
        state.application_heartbeat(NOW, pulse).reply.unwrap()
    }

    #[test]
    fn partitions_of_few_workers_go_over_their_addresses() {
        let mut state = state(2, 8);
        let grant = ask(&mut state, 16, false, &[]).unwrap();
        let dealt = dealt(&grant);
        assert_eq!(dealt.len(), 8, "eight of the two workers together");
        assert!(dealt.values().all(|count| *count == 2), "{dealt:?}");
        assert!(grant.workers.iter().all(|(worker, rack)| rack[5..] == worker.host[1..]));
        let granted: Vec<u64> = state.workers.values().map(|held| held.locations_granted).collect();
        assert_eq!(granted, [8, 8], "they count for their worker");
    }

    #[test]
    fn a_small_shuffle_has_no_address_without_a_partition() {
        let mut state = state(3, 8);
        let grant = ask(&mut state, 3, false, &[]).unwrap();
        let used: Vec<usize> = dealt(&grant).into_values().filter(|count| *count > 0).collect();
        assert_eq!(used, [1, 1, 1]);
        assert_eq!(grant.workers.len(), 9, "and two spare workers, each as often");
    }

    #[test]
    fn a_spare_worker_is_drawn_as_often_as_another() {
        let mut state = state(3, 8);
        let grant = ask(&mut state, 8, false, &[]).unwrap();
        let dealt = dealt(&grant);
        let mut of_host = BTreeMap::new();
        dealt.keys().for_each(|worker| *of_host.entry(&*worker.host).or_insert(0) += 1);
        assert_eq!(of_host.into_values().collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(dealt.values().filter(|count| **count > 0).count(), 8);
    }

    #[test]
    fn many_workers_have_addresses_enough() {
        let grant = ask(&mut state(8, 8), 64, false, &[]).unwrap();
        let own: BTreeSet<u16> = grant.workers.iter().map(|(worker, _)| worker.push_port).collect();
        assert_eq!((grant.workers.len(), own), (8, BTreeSet::from([100])));
    }

    #[test]
    fn copies_go_to_another_worker_and_not_to_another_address() {
        let grant = ask(&mut state(2, 8), 16, true, &[]).unwrap();
        assert_eq!(grant.workers.len(), 2);
        assert!(
            grant.placements.iter().all(|(_, primary, replica)| replica.is_some_and(|to| to != *primary))
        );
    }

    #[test]
    fn a_name_of_any_address_means_the_worker() {
        let mut state = state(2, 4);
        let grant = ask(&mut state, 16, false, &[id(0, 102)]).unwrap();
        assert!(grant.workers.iter().all(|(worker, _)| &*worker.host == "w1"));
        assert_eq!(ask(&mut state, 16, false, &[id(0, 101), id(1, 103)]).unwrap_err(), SlotRefusal::NoWorker);
        assert_eq!(pulse(&mut state, &[id(0, 103), id(0, 104)]).unknown, [id(0, 104)]);
        state.workers_reported_failed(&[id(0, 101)]);
        assert_eq!(pulse(&mut state, &[]).excluded, (100..104).map(|port| id(0, port)).collect::<Vec<_>>());
        state.workers_reported_failed(&[id(1, 103)]);
        assert_eq!(pulse(&mut state, &[]).excluded, [], "a driver without any worker fails its tasks");
        let left = state.worker_leaves(NOW, &id(1, 100), 1, Phase::Stopping, false);
        assert!(left.reply.is_ok());
        assert_eq!(pulse(&mut state, &[]).shutting, (100..104).map(|port| id(1, port)).collect::<Vec<_>>());
    }

    #[test]
    fn an_operator_may_use_any_name_of_a_worker() {
        let mut state = state(2, 4);
        let _ = state.exclude_workers(NOW, &[id(0, 102)], &[]);
        assert!(
            ask(&mut state, 16, false, &[]).unwrap().workers.iter().all(|(worker, _)| &*worker.host == "w1")
        );
        let _ = state.exclude_workers(NOW, &[], &[id(0, 103)]);
        assert_eq!(pulse(&mut state, &[]).excluded, []);

        let _ = state.exclude_workers(NOW, &[id(2, 101)], &[]);
        register(&mut state, 2, 4);
        let _ = state.exclude_workers(NOW, &[], &[id(2, 101)]);
        assert!(state.excluded_by_hand.is_empty(), "it was excluded before it was a worker's name");
    }

    #[test]
    fn without_several_addresses_each_worker_has_its_own() {
        let mut state = state(2, 4);
        state.limits.slots.push_addresses = 0;
        let grant = ask(&mut state, 16, false, &[]).unwrap();
        assert!(grant.workers.iter().map(|(worker, _)| worker).eq(&[id(0, 100), id(1, 100)]));
    }

    #[test]
    fn until_a_worker_is_back_at_a_restarted_master_each_of_its_ports_is_known() {
        let records = state(1, 4).records();
        let mut restarted = State::new(Limits::default());
        records.iter().for_each(|record| restarted.apply(NOW, record));
        assert_eq!(pulse(&mut restarted, &[id(0, 103)]).unknown, []);
        assert_eq!(pulse(&mut restarted, &[id(9, 103)]).unknown, [id(9, 103)]);
        register(&mut restarted, 0, 2);
        assert_eq!(pulse(&mut restarted, &[id(0, 101), id(0, 103)]).unknown, [id(0, 103)]);
    }
}
