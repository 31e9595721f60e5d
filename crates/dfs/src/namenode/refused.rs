//! DataNodes that ask to be registered and are refused: each is logged once for each reason, and counted while it goes on asking.

use std::collections::HashMap;

/// How long a DataNode counts as one that asks: they do so each second.
const ASKING_MS: u64 = 10_000;
/// DataNodes that are kept.
const DATANODES_MAX: usize = 1_000;

/// DataNodes that were refused, by the names that they keep over restarts.
#[derive(Debug, Default)]
pub struct RefusedDatanodes(HashMap<String, Refused>);

#[derive(Debug)]
struct Refused {
    why: String,
    at_ms: u64,
}

impl RefusedDatanodes {
    /// Notes that a DataNode is refused: true if nobody has been told so for this reason.
    pub fn refuse(&mut self, uuid: &str, why: &str, steady_ms: u64) -> bool {
        if let Some(known) = self.0.get_mut(uuid) {
            known.at_ms = steady_ms;
            let is_new = known.why != why;
            why.clone_into(&mut known.why);
            return is_new;
        }
        if self.0.len() >= DATANODES_MAX {
            self.0.retain(|_, refused| refused.is_asking(steady_ms));
        }
        // Of so many, further ones tell an operator nothing new.
        let has_room = self.0.len() < DATANODES_MAX;
        if has_room {
            self.0.insert(uuid.to_owned(), Refused { why: why.to_owned(), at_ms: steady_ms });
        }
        has_room
    }

    /// Notes that a DataNode is registered.
    pub fn admit(&mut self, uuid: &str) {
        self.0.remove(uuid);
    }

    /// DataNodes that ask and are refused.
    pub fn count(&self, steady_ms: u64) -> usize {
        self.0.values().filter(|refused| refused.is_asking(steady_ms)).count()
    }
}

impl Refused {
    fn is_asking(&self, steady_ms: u64) -> bool {
        steady_ms.saturating_sub(self.at_ms) < ASKING_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_and_who_stops_asking_is_not_counted() {
        let mut refused = RefusedDatanodes::default();
        assert!(refused.refuse("a", "another pool", 0));
        assert!(!refused.refuse("a", "another pool", 1_000));
        assert!(refused.refuse("a", "another version", 2_000));
        assert!(refused.refuse("b", "another pool", 2_000));
        assert_eq!(refused.count(2_000), 2);
        refused.admit("b");
        assert_eq!(refused.count(11_999), 1);
        assert_eq!(refused.count(12_000), 0, "it has not asked for ten seconds");
    }

    #[test]
    fn however_many_ask_only_some_are_kept() {
        let mut refused = RefusedDatanodes::default();
        let told = (0..DATANODES_MAX + 10).filter(|number| refused.refuse(&number.to_string(), "why", 0));
        assert_eq!(told.count(), DATANODES_MAX);
        assert!(refused.refuse("later", "why", ASKING_MS), "those from before are gone");
        assert_eq!(refused.0.len(), 1);
    }
}
