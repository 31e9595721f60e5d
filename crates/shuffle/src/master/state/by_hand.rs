//! Operators' orders: which workers are out of service, are to leave or to stay, or are to be forgotten. A worker may be
//! named by any of its addresses.

use std::collections::BTreeSet;

use super::super::record::Record;
use super::{Decision, LISTED_MAX, Now, State};
use crate::ids::WorkerId;
use crate::report::{Command, Phase};

/// An order was refused completely, because its list is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing was done: the list of such workers holds at most {LISTED_MAX}; take others from it first")]
pub struct ListFull;

impl State {
    /// Takes workers out of service and puts others back.
    ///
    /// # Errors
    /// [`ListFull`] if too many would be out of service.
    pub fn exclude_workers(
        &mut self,
        now: Now,
        add: &[WorkerId],
        remove: &[WorkerId],
    ) -> Decision<Result<(), ListFull>> {
        let mut decision = Decision::of(Ok(()));
        // A name may have been excluded before a worker had it.
        let mut removed = self.meant(remove);
        removed.extend(remove.iter().cloned());
        let mut added = self.meant(add);
        added.retain(|worker| !removed.contains(worker) && !self.excluded_by_hand.contains(worker));
        removed.retain(|worker| self.excluded_by_hand.contains(worker));
        if !added.is_empty() && self.excluded_by_hand.len() - removed.len() + added.len() > LISTED_MAX {
            decision.reply = Err(ListFull);
            return decision;
        }
        for worker in removed {
            self.commit(now, &mut decision, Record::WorkerIncluded { worker });
        }
        for worker in added {
            self.commit(now, &mut decision, Record::WorkerExcluded { worker });
        }
        decision
    }

    /// Removes workers from the list of those that were lost or have left, and cancels their orders to leave or to stay:
    /// such a worker may come back like any other. Returns those that it knew.
    pub fn forget_departed(&mut self, now: Now, workers: &[WorkerId]) -> Decision<Vec<WorkerId>> {
        let mut decision = Decision::of(Vec::new());
        for worker in self.meant(workers) {
            if self.workers.contains_key(&worker) {
                continue;
            }
            let records = decision.records.len();
            if self.departed.contains_key(&worker) {
                self.commit(now, &mut decision, Record::WorkerForgotten { worker: worker.clone() });
            }
            if self.leaving_by_hand.contains(&worker) {
                self.commit(now, &mut decision, Record::WorkerRecommissioned { worker: worker.clone() });
            }
            if self.staying_by_hand.contains(&worker) {
                self.commit(now, &mut decision, Record::WorkerStayed { worker: worker.clone() });
            }
            if decision.records.len() > records {
                decision.reply.push(worker);
            }
        }
        decision
    }

    /// Gives workers a command; returns those that are unknown. The order to leave for good is repeated to each process that
    /// starts under the worker's name, until it has left or is told to stay; the order to stay is repeated until the worker
    /// works again.
    ///
    /// # Errors
    /// [`ListFull`] if too many workers would be listed to leave, or to stay.
    pub fn command_workers(
        &mut self,
        now: Now,
        command: Command,
        workers: &[WorkerId],
    ) -> Decision<Result<Vec<WorkerId>, ListFull>> {
        let mut decision = Decision::of(Ok(Vec::new()));
        let is_to_stay = command == Command::Recommission;
        let list = if is_to_stay { &self.staying_by_hand } else { &self.leaving_by_hand };
        let meant = self.meant(workers);
        let kept: BTreeSet<WorkerId> =
            meant.iter().filter(|worker| self.keeps(command, worker)).cloned().collect();
        if !kept.is_empty() && list.len() + kept.len() > LISTED_MAX {
            decision.reply = Err(ListFull);
            return decision;
        }
        let is_known = |named: &WorkerId| {
            self.known_as(named).is_some() || (is_to_stay && (kept.contains(named) || list.contains(named)))
        };
        decision.reply = Ok(workers.iter().filter(|named| !is_known(named)).cloned().collect());
        for worker in meant {
            if let Some(held) = self.workers.get_mut(&worker) {
                held.orders.command(command);
                decision.wake.push(worker);
            }
        }
        for worker in kept {
            let record = if is_to_stay {
                Record::WorkerRecommissioned { worker }
            } else {
                Record::WorkerDecommissioned { worker }
            };
            self.commit(now, &mut decision, record);
        }
        decision
    }

    /// Whether a command to a worker must be written to the journal, because it has to outlive this process. A worker that
    /// is absent may be told to stay: it need not leave when it comes back.
    fn keeps(&self, command: Command, worker: &WorkerId) -> bool {
        let leaves = self.leaving_by_hand.contains(worker);
        let held = self.workers.get(worker);
        match command {
            Command::Decommission => held.is_some() && !leaves,
            Command::Recommission => {
                let drains = held.is_some_and(|held| held.report.phase == Phase::Decommissioning);
                leaves || (drains && !self.staying_by_hand.contains(worker))
            }
            Command::StopGracefully | Command::StopNow => false,
        }
    }

    /// The workers that these names stand for, each once; an unknown name stands for itself.
    fn meant(&self, named: &[WorkerId]) -> BTreeSet<WorkerId> {
        named.iter().map(|named| self.known_as(named).unwrap_or(named).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::super::scene::{Logged, NEWEST, at, id, registration, restarted, run, state_of};
    use super::*;
    use crate::report::{Registration, Report};

    /// A worker that was told to leave and was killed before it had left.
    fn killed() -> (Logged, u64) {
        let mut state = state_of(1);
        let _ = state.command_workers(at(0), Command::Decommission, &[id(0)]);
        let end = state.limits.worker_timeout.as_secs() + state.limits.unavailable_kept.as_secs() + 10;
        run(&mut state, 0..=end);
        assert!(state.workers().is_empty() && state.departed().is_empty());
        (state, end)
    }

    fn reports(phase: Phase) -> Registration {
        Registration { report: Report { phase, ..Report::default() }, ..registration(id(0), 0) }
    }

    /// The command that a worker gets when it registers; it confirms that.
    fn told(state: &mut Logged, phase: Phase) -> Option<Command> {
        assert!(state.register_worker(at(1), 1, reports(phase)).reply);
        let orders = state.worker_orders(NEWEST, &id(0), 0, 0).unwrap()?;
        assert_eq!(state.worker_orders(NEWEST, &id(0), 0, orders.sequence), Ok(None));
        orders.command
    }

    #[test]
    fn a_worker_that_is_gone_need_not_leave_any_more() {
        let (mut state, end) = killed();
        assert_eq!(state.command_workers(at(end), Command::StopNow, &[id(0)]).reply, Ok(vec![id(0)]));
        let stays = state.command_workers(at(end), Command::Recommission, &[id(0), id(9)]);
        assert_eq!((stays.reply, stays.records.len()), (Ok(vec![id(9)]), 1));
        let again = state.command_workers(at(end), Command::Recommission, &[id(0)]);
        assert_eq!((again.reply, again.records.len()), (Ok(vec![]), 0));
        for mut state in [restarted(&state, at(end)), state] {
            let _ = state.register_worker(at(end), 3, registration(id(0), 3));
            assert_eq!(state.standing(&id(0)), Some(Standing::Available));
        }
        let (mut state, end) = killed();
        let forgotten = state.forget_departed(at(end), &[id(0), id(9)]);
        assert_eq!((forgotten.reply, forgotten.records.len()), (vec![id(0)], 2));
        let again = state.forget_departed(at(end), &[id(0)]);
        assert_eq!((again.reply, again.records), (vec![], vec![]));
        assert!(state.staying_by_hand.is_empty());
        let _ = state.register_worker(at(end), 3, registration(id(0), 3));
        assert_eq!(state.standing(&id(0)), Some(Standing::Available));
        assert_eq!(state.forget_departed(at(end), &[id(0)]).reply, [], "it is there");
    }

    #[test]
    fn a_worker_forgotten_by_hand_is_forgotten_by_the_next_master_too() {
        let mut state = state_of(1);
        let lost = state.limits.worker_timeout.as_secs();
        run(&mut state, 0..=lost);
        assert!(restarted(&state, at(lost)).departed().contains_key(&id(0)));
        assert_eq!(state.forget_departed(at(lost), &[id(0)]).records.len(), 1);
        assert!(restarted(&state, at(lost)).departed().is_empty());
    }

    #[test]
    fn an_order_to_stay_outlives_the_master_until_it_is_heard() {
        for was_told_here in [false, true] {
            let mut state = state_of(1);
            if was_told_here {
                let _ = state.command_workers(at(0), Command::Decommission, &[id(0)]);
            }
            assert!(state.register_worker(at(0), 0, reports(Phase::Decommissioning)).reply);
            assert_eq!(state.command_workers(at(0), Command::Recommission, &[id(0)]).records.len(), 1);
            let mut state = restarted(&state, at(1));
            assert_eq!(told(&mut state, Phase::Decommissioning), Some(Command::Recommission));
            let mut state = restarted(&state, at(1));
            assert_eq!(told(&mut state, Phase::Decommissioning), Some(Command::Recommission), "still not");
            assert_eq!(told(&mut state, Phase::Normal), None);
            let mut state = restarted(&state, at(2));
            assert_eq!(told(&mut state, Phase::Decommissioning), None, "somebody told itself to leave");
        }
    }

    #[test]
    fn a_worker_that_works_only_because_it_heard_nothing_is_still_told_to_stay() {
        let mut state = state_of(1);
        let _ = state.command_workers(at(0), Command::Decommission, &[id(0)]);
        let _ = state.command_workers(at(0), Command::Recommission, &[id(0)]);
        let beat = state.worker_heartbeat(at(1), 0, &id(0), 0, Report::default());
        assert_eq!((beat.reply, beat.records), (Ok(()), vec![]));
        let mut state = restarted(&state, at(1));
        assert_eq!(told(&mut state, Phase::Decommissioning), Some(Command::Recommission));
    }

    #[test]
    fn a_worker_that_is_to_stop_gets_no_other_command_before_it_has() {
        use Command::{Decommission, Recommission, StopGracefully, StopNow};
        for stop in [StopGracefully, StopNow] {
            for (phase, earlier) in [(Phase::Decommissioning, Recommission), (Phase::Normal, Decommission)] {
                let mut state = state_of(1);
                assert!(state.register_worker(at(0), 0, reports(phase)).reply);
                let _ = state.command_workers(at(0), earlier, &[id(0)]);
                let _ = state.command_workers(at(0), stop, &[id(0)]);
                assert_eq!(told(&mut state, phase), Some(stop), "on its next connection");
                assert_eq!(told(&mut state, phase), Some(earlier), "it has heard the other");
            }
        }
    }

    #[test]
    fn a_worker_told_to_leave_again_need_not_stay() {
        let mut state = state_of(1);
        for command in [Command::Decommission, Command::Recommission, Command::Decommission] {
            let _ = state.command_workers(at(0), command, &[id(0)]);
        }
        let mut state = restarted(&state, at(1));
        assert_eq!(told(&mut state, Phase::Decommissioning), None);
        assert_eq!(told(&mut state, Phase::Normal), Some(Command::Decommission));
    }

    #[test]
    fn a_full_list_refuses_what_it_cannot_keep() {
        let many = || (1000..).map(|number| WorkerId { rpc_port: number, ..id(0) }).take(LISTED_MAX);
        let mut state = state_of(2);
        state.excluded_by_hand.extend(many());
        let refused = state.exclude_workers(at(0), &[id(0)], &[]);
        assert_eq!((refused.reply, refused.records), (Err(ListFull), vec![]));
        let first = many().next().unwrap();
        let both = state.exclude_workers(at(0), &[id(0)], &[first]);
        assert_eq!((both.reply, both.records.len()), (Ok(()), 2));
        assert_eq!(state.standing(&id(0)), Some(Standing::ExcludedByHand));

        state.leaving_by_hand.extend(many().skip(1));
        let refused = state.command_workers(at(0), Command::Decommission, &[id(0), id(1)]);
        assert_eq!((refused.reply, refused.records, refused.wake), (Err(ListFull), vec![], vec![]));
        let one = state.command_workers(at(0), Command::Decommission, &[id(1)]);
        assert_eq!((one.reply, one.wake), (Ok(vec![]), vec![id(1)]));
        assert_eq!(state.command_workers(at(0), Command::StopNow, &[id(0), id(1)]).reply, Ok(vec![]));
    }

    #[test]
    fn an_order_may_name_any_address_of_a_worker() {
        let mut state = state_of(0);
        let several = Registration { push_ports: vec![77], ..registration(id(0), 0) };
        assert!(state.register_worker(at(0), 0, several).reply);
        let names = [WorkerId { push_port: 77, ..id(0) }, WorkerId { push_port: 78, ..id(0) }];
        let told = state.command_workers(at(0), Command::Decommission, &names);
        assert_eq!((told.reply, told.wake), (Ok(vec![names[1].clone()]), vec![id(0)]));
        assert_eq!(state.standing(&id(0)), Some(Standing::Decommissioning));
    }
}
