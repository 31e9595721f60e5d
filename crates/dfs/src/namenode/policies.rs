//! The erasure coding policies that a NameNode knows, and what each is good for.

use std::collections::BTreeMap;

use crate::policy::{Policy, PolicyId};

/// State of a policy, by HDFS's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyState {
    /// Files that have it.
    Disabled = 1,
    /// New files, too.
    Enabled = 2,
    /// Files that have it, until an operator enables it again.
    Removed = 3,
}

/// All policies, by number. A policy is never forgotten, because files may have it.
#[derive(Clone, Debug)]
pub struct Policies {
    known: BTreeMap<PolicyId, (Policy, PolicyState)>,
}

impl Default for Policies {
    /// HDFS's own, of which [`PolicyId::DEFAULT`] is enabled.
    fn default() -> Self {
        let state = |policy: &Policy| match policy.id {
            PolicyId::DEFAULT => PolicyState::Enabled,
            _ => PolicyState::Disabled,
        };
        let known = Policy::built_in().iter().map(|policy| (policy.id, (policy.clone(), state(policy))));
        Self { known: known.collect() }
    }
}

impl Policies {
    /// The policy with a number; none for [`PolicyId::NONE`], [`PolicyId::REPLICATION`] and unknown ones.
    pub fn of(&self, id: PolicyId) -> Option<&Policy> {
        self.known.get(&id).map(|(policy, _)| policy)
    }

    /// The policy with a name, and its state.
    pub fn named(&self, name: &str) -> Option<(&Policy, PolicyState)> {
        self.all().find(|(policy, _)| &*policy.name == name)
    }

    /// All policies with their states, by number.
    pub fn all(&self) -> impl Iterator<Item = (&Policy, PolicyState)> {
        self.known.values().map(|(policy, state)| (policy, *state))
    }

    /// The policies that new files may have.
    pub fn enabled(&self) -> impl Iterator<Item = &Policy> {
        self.all().filter(|(_, state)| *state == PolicyState::Enabled).map(|(policy, _)| policy)
    }

    /// The number that the next policy of a user gets; none if all have been given out.
    pub fn next_id(&self) -> Option<PolicyId> {
        let next = self.known.keys().next_back().map_or(PolicyId::USER_MIN, |last| PolicyId(last.0 + 1));
        Some(next.max(PolicyId::USER_MIN)).filter(|next| *next <= PolicyId::USER_MAX)
    }

    /// Adds a policy, which is disabled.
    ///
    /// # Panics
    /// The number or the name is known already.
    pub fn add(&mut self, policy: Policy) {
        assert!(self.named(&policy.name).is_none(), "policy {} is new", policy.name);
        let before = self.known.insert(policy.id, (policy, PolicyState::Disabled));
        assert!(before.is_none(), "the number of a policy is new");
    }

    /// Changes the state of a policy.
    ///
    /// # Panics
    /// There is no such policy.
    pub fn set_state(&mut self, id: PolicyId, state: PolicyState) {
        self.known.get_mut(&id).expect("a known policy changes its state").1 = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::geometry_of;

    #[test]
    fn users_policies_have_the_numbers_from_64_to_127() {
        let mut policies = Policies::default();
        for id in 64..=127 {
            assert_eq!(policies.next_id(), Some(PolicyId(id)));
            let name = format!("RS-6-3-{id}k");
            policies.add(Policy::new(PolicyId(id), geometry_of(&name).unwrap()));
        }
        assert_eq!(policies.next_id(), None);
        policies.set_state(PolicyId(70), PolicyState::Removed);
        assert_eq!(policies.next_id(), None, "files may have it");
        assert_eq!(policies.of(PolicyId(70)).map(|policy| &*policy.name), Some("RS-6-3-70k"));
        assert_eq!((policies.of(PolicyId::NONE), policies.of(PolicyId::REPLICATION)), (None, None));
    }
}
