//! The standing of each worker, which decides who gets partitions and which workers drivers are told to avoid.

use super::{Link, State, Worker};
use crate::ids::WorkerId;
use crate::report::Phase;

/// What a worker is to the master, best first. If several apply, the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Gets partitions.
    Available,
    /// Asked for no new partitions for now: used only if too few others are available, else a spare.
    Saturated,
    /// Not heard since this master started, so it may have died meanwhile: used only if too few others were heard.
    Unconfirmed,
    /// Not known to be reachable: used only if too few others are; then the client finds out.
    Unreached,
    /// None of its directories takes data. From here on a worker gets no partitions.
    WithoutStorage,
    /// Taken out of service by an operator.
    ExcludedByHand,
    /// Stopping; will come back.
    Stopping,
    /// Leaving for good, or told to leave and may not have heard it yet.
    Decommissioning,
}

impl Standing {
    /// Whether it may get partitions at all.
    pub fn may_serve(self) -> bool {
        self <= Self::Unreached
    }

    /// Whether it may get partitions and can be reached, as far as is known.
    pub fn is_reached(self) -> bool {
        self <= Self::Saturated
    }

    /// Whether it takes nothing new because it is stopping or leaving.
    pub fn is_leaving(self) -> bool {
        self >= Self::Stopping
    }
}

impl State {
    /// The standing of a registered worker.
    pub fn standing(&self, worker: &WorkerId) -> Option<Standing> {
        self.workers.get(worker).map(|held| self.standing_of(worker, held))
    }

    /// The standings of all workers.
    pub(super) fn standings(&self) -> impl Iterator<Item = Standing> {
        self.workers.iter().map(|(worker, held)| self.standing_of(worker, held))
    }

    /// The only place that combines what a worker reports, what it was ordered, and its connection.
    pub(super) fn standing_of(&self, worker: &WorkerId, held: &Worker) -> Standing {
        match held.report.phase {
            Phase::Stopping => Standing::Stopping,
            Phase::Decommissioning => Standing::Decommissioning,
            // A new process under its name gets no partitions either.
            Phase::Normal if self.leaving_by_hand.contains(worker) => Standing::Decommissioning,
            Phase::Normal if self.excluded_by_hand.contains(worker) => Standing::ExcludedByHand,
            Phase::Normal if held.report.is_without_storage() => Standing::WithoutStorage,
            Phase::Normal if held.link == Link::Broken => Standing::Unreached,
            Phase::Normal if held.link == Link::Unconfirmed => Standing::Unconfirmed,
            Phase::Normal if held.report.saturated => Standing::Saturated,
            Phase::Normal => Standing::Available,
        }
    }

    /// How many workers may get partitions now.
    pub fn workers_available(&self) -> usize {
        self.standings().filter(|standing| standing.is_reached()).count()
    }

    /// Whether a shuffle could be registered now.
    pub fn has_available_worker(&self) -> bool {
        // A client asks once per shuffle, and falls back to its own on a no; a lost connection is back within seconds, so it
        // does not count.
        self.standings().any(Standing::may_serve)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::scene::{Logged, at, grant, health_of, id, registration, request, restarted, state_of};
    use super::super::{SlotRefusal, SlotRequest};
    use super::*;
    use crate::ids::PartitionId;
    use crate::report::{Directory, Health};

    /// Everything that a worker's standing depends on.
    #[derive(Debug, Clone, Copy)]
    struct Circumstances {
        phase: Phase,
        is_told_to_leave: bool,
        is_excluded: bool,
        is_without_storage: bool,
        link: Link,
        is_saturated: bool,
    }

    impl Circumstances {
        const PHASES: [Phase; 3] = [Phase::Normal, Phase::Stopping, Phase::Decommissioning];
        const LINKS: [Link; 3] = [Link::Up(1), Link::Unconfirmed, Link::Broken];
        const COUNT: usize = 3 * 3 * 16;

        fn nth(number: usize) -> Self {
            let bit = |bit: usize| (number / 9) & (1 << bit) != 0;
            Self {
                phase: Self::PHASES[number % 3],
                link: Self::LINKS[number / 3 % 3],
                is_told_to_leave: bit(0),
                is_excluded: bit(1),
                is_without_storage: bit(2),
                is_saturated: bit(3),
            }
        }

        /// The worst of the conditions that hold. A worker that stops is stopping, whatever it was told.
        fn worst(self) -> Standing {
            let leaves = self.phase == Phase::Decommissioning;
            let conditions = [
                (self.is_saturated, Standing::Saturated),
                (self.link == Link::Unconfirmed, Standing::Unconfirmed),
                (self.link == Link::Broken, Standing::Unreached),
                (self.is_without_storage, Standing::WithoutStorage),
                (self.is_excluded, Standing::ExcludedByHand),
                (self.phase == Phase::Stopping, Standing::Stopping),
                (leaves || (self.is_told_to_leave && self.phase == Phase::Normal), Standing::Decommissioning),
            ];
            let holding = conditions.into_iter().filter(|(holds, _)| *holds).map(|(_, standing)| standing);
            holding.max().unwrap_or(Standing::Available)
        }

        /// One that may serve, by its link and whether it is saturated.
        fn serving((link, saturated): (usize, usize)) -> usize {
            3 * link + 9 * 8 * saturated
        }

        fn befall(self, state: &mut State, worker: &WorkerId) {
            let directory =
                |health| Directory { path: "/d".to_owned(), bytes_total: 9, bytes_usable: 9, health };
            let second = if self.is_without_storage { Health::Failed } else { Health::Healthy };
            let held = state.workers.get_mut(worker).unwrap();
            held.link = self.link;
            held.report.phase = self.phase;
            held.report.saturated = self.is_saturated;
            held.report.directories = vec![directory(Health::Full), directory(second)];
            if self.is_told_to_leave {
                state.leaving_by_hand.insert(worker.clone());
            }
            if self.is_excluded {
                state.excluded_by_hand.insert(worker.clone());
            }
        }
    }

    #[test]
    fn of_all_that_holds_the_worst_counts() {
        for number in 0..Circumstances::COUNT {
            let mut state = state_of(1);
            let circumstances = Circumstances::nth(number);
            circumstances.befall(&mut state, &id(0));
            let standing = state.standing(&id(0)).unwrap();
            assert_eq!(standing, circumstances.worst(), "{circumstances:?}");
            assert_eq!(state.has_available_worker(), standing.may_serve());
            assert_eq!(state.workers_available(), usize::from(standing.is_reached()));
        }
    }

    #[test]
    fn a_worker_under_pressure_is_listed_as_a_spare() {
        let mut state = state_of(3);
        state.workers.get_mut(&id(2)).unwrap().report.saturated = true;
        let partitions = (0..8).map(PartitionId).collect();
        let mut request = SlotRequest { partitions, replicate: true, ..request([].into()) };
        for random in 0..20 {
            let grant = state.grant(&request, random).unwrap();
            let listed: Vec<&WorkerId> = grant.workers.iter().map(|(worker, _)| worker).collect();
            assert_eq!((listed.len(), listed[2]), (3, &id(2)));
            assert!(grant.placements.iter().all(|(_, primary, replica)| *primary < 2 && *replica < Some(2)));
        }
        request.replicate = false;
        state.workers.get_mut(&id(2)).unwrap().link = Link::Broken;
        assert_eq!(state.grant(&request, 1).unwrap().workers.len(), 2, "a driver could not reach it");
    }

    /// A restarted master of some workers, of which the first `heard` have registered again.
    fn restarted_with(workers: u16, heard: u16) -> Logged {
        let mut state = restarted(&state_of(workers), at(1));
        for number in 0..heard {
            assert!(
                state.register_worker(at(1), number.into(), registration(id(number), number.into())).reply
            );
        }
        state
    }

    #[test]
    fn a_worker_that_was_not_heard_since_a_restart_gets_nothing_if_others_suffice() {
        for (workers, heard, replicate, expected) in [
            (2, 0, false, 2),
            (2, 0, true, 2),
            (2, 1, false, 1),
            (2, 1, true, 2),
            (4, 1, false, 4), // it would have all of a large shuffle to the end
            (4, 2, false, 2),
            (4, 2, true, 2),
            (4, 3, true, 3),
        ] {
            let mut state = restarted_with(workers, heard);
            assert_eq!(state.workers_available(), usize::from(heard));
            let granted =
                state.request_slots(at(1), 5, SlotRequest { replicate, ..request([].into()) }).reply;
            let granted = granted.expect("it is there, most likely").workers.len();
            assert_eq!(granted, expected, "{heard} of {workers} heard, with copies: {replicate}");
        }
    }

    #[test]
    fn a_driver_is_not_told_to_leave_a_worker_alone_that_was_not_heard_since_a_restart() {
        let mut state = restarted_with(3, 2);
        let health = health_of(&mut state, vec![id(0), id(1), id(2)]);
        assert_eq!((health.excluded, health.unknown, health.shutting), (vec![], vec![], vec![]));
        assert!(state.has_available_worker());
        assert_eq!(state.worker_link_lost(0), [id(0)]);
        assert!(grant(&mut state, [id(1), id(2)].into()).is_ok(), "if nothing else is left");
        let granted = grant(&mut state, [].into()).unwrap();
        assert!(granted.workers.iter().all(|(worker, _)| *worker != id(0)), "it is known to be away");
    }

    proptest! {
        /// Workers that may not serve are never listed, and one with a worse standing only if there are too few better ones.
        #[test]
        fn a_grant_takes_the_best_that_suffice(
            numbers in prop::collection::vec(
                prop_oneof![
                    3 => (0..3_usize, 0..2_usize).prop_map(Circumstances::serving),
                    1 => 0..Circumstances::COUNT,
                ],
                0..8,
            ),
            partitions in 0_i32..40,
            replicate: bool,
            random: u64,
        ) {
            let mut state = state_of(numbers.len() as u16);
            for (worker, number) in numbers.iter().enumerate() {
                Circumstances::nth(*number).befall(&mut state, &id(worker as u16));
            }
            let mut serving: Vec<Standing> = state.standings().filter(|standing| standing.may_serve()).collect();
            serving.sort_unstable();
            let workers_min = if replicate { 2 } else { 1 };
            let partitions = (0..partitions).map(PartitionId).collect();
            let request = SlotRequest { partitions, replicate, ..request([].into()) };
            let grant = match state.grant(&request, random) {
                Ok(grant) => grant,
                Err(refusal) => {
                    prop_assert!(serving.len() < workers_min);
                    prop_assert_eq!(serving.is_empty(), refusal == SlotRefusal::NoWorker);
                    return Ok(());
                }
            };
            // Few may be heard only because the master has just started, and a shuffle stays where it begins.
            let heard = serving.iter().filter(|standing| standing.is_reached()).count();
            let waits = serving.iter().filter(|standing| **standing == Standing::Unconfirmed).count() > heard;
            let tier = serving[workers_min - 1].max(if waits { Standing::Unconfirmed } else { Standing::Available });
            let standing = |at: usize| state.standing(&grant.workers[at].0).unwrap();
            for (_, primary, replica) in &grant.placements {
                prop_assert!(standing(*primary) <= tier);
                prop_assert!(replica.is_none_or(|replica| standing(replica) <= tier));
            }
            let listed_max = tier.max(Standing::Saturated);
            prop_assert!((0..grant.workers.len()).all(|at| standing(at) <= listed_max));
        }
    }
}
