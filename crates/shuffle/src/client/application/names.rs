//! The names of an application's shuffles: decisions, without I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::application::shuffle::too_many;
use crate::error::{Error, Kind, Result};
use crate::ids::ShuffleId;
use crate::wire::executor::{NAME_LEN_MAX, OPEN_PARTITIONS_MAX};

/// The most names at once. A shuffle whose name was given up counts until it is unregistered.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// The names, each with its shuffle of type `S`, or with a `W` by which to wait for the shuffle.
#[derive(Debug)]
pub(super) struct Names<S, W> {
    named: BTreeMap<Arc<str>, Entry<S, W>>,
    /// Shuffles whose names were given up, and that are still to be unregistered.
    given_up: BTreeMap<ShuffleId, S>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Entry<S, W> {
    partitions: u32,
    stage: Stage<S, W>,
}

#[derive(Debug)]
enum Stage<S, W> {
    /// The registration with this ticket goes on.
    Opening(Ticket, W),
    Open(S),
}

/// One registration of a name. Another one of the same name has another ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// State of a name, as it is found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<S, W> {
    Open(S),
    /// The registration goes on.
    Opening(W),
    /// Nothing: the caller is to register it.
    Nothing(Ticket),
}

impl<S, W> Default for Names<S, W> {
    fn default() -> Self {
        Self { named: BTreeMap::new(), given_up: BTreeMap::new(), next_ticket: 0 }
    }
}

impl<S: Clone, W: Clone> Names<S, W> {
    /// Looks a name up, and takes it for a registration if it is free; others wait for that by `waiting`. A shuffle that
    /// was unregistered without its name, as `is_ended` says, has it no more.
    ///
    /// # Errors
    /// `Conflict` if the name has another number of partitions; `ResourceExhausted` if there are too many names.
    pub fn open(
        &mut self,
        name: &str,
        partitions: u32,
        waiting: impl FnOnce() -> W,
        is_ended: impl Fn(&S) -> bool,
    ) -> Result<Found<S, W>> {
        let known = self.named.get(name);
        let known = known.filter(|known| !matches!(&known.stage, Stage::Open(shuffle) if is_ended(shuffle)));
        if let Some(known) = known {
            if known.partitions != partitions {
                let text = format!(
                    "shuffle `{name}` has {} partitions, and is opened with {partitions}",
                    known.partitions
                );
                return Err(Error::new(Kind::Conflict, text));
            }
            return Ok(match &known.stage {
                Stage::Open(shuffle) => Found::Open(shuffle.clone()),
                Stage::Opening(_, waiting) => Found::Opening(waiting.clone()),
            });
        }
        let is_new = !self.named.contains_key(name);
        if is_new && self.named.len() + self.given_up.len() >= NAMES_MAX {
            let text = format!("{NAMES_MAX} shuffles have names, expected no more");
            return Err(
                Error::new(Kind::ResourceExhausted, text).with_hint("give up names that are not used")
            );
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let stage = Stage::Opening(ticket, waiting());
        self.named.insert(name.into(), Entry { partitions, stage });
        Ok(Found::Nothing(ticket))
    }

    fn opening(&mut self, name: &str, ticket: Ticket) -> Option<&mut Entry<S, W>> {
        let entry = self.named.get_mut(name)?;
        let is_this = matches!(entry.stage, Stage::Opening(opening, _) if opening == ticket);
        is_this.then_some(entry)
    }

    /// Notes that a name is registered. Returns whether it has the name: if that was given up meanwhile, the shuffle is to be
    /// unregistered.
    pub fn opened(&mut self, name: &str, ticket: Ticket, number: ShuffleId, shuffle: S) -> bool {
        if let Some(entry) = self.opening(name, ticket) {
            entry.stage = Stage::Open(shuffle);
            return true;
        }
        self.give_up_shuffle(number, shuffle);
        false
    }

    /// Notes that the registration of a name has failed: the name is free again.
    pub fn failed(&mut self, name: &str, ticket: Ticket) {
        if self.opening(name, ticket).is_some() {
            self.named.remove(name);
        }
    }

    /// The names that there are, with those that are being registered.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.named.keys().cloned().collect()
    }

    /// Frees names. Their shuffles, whose numbers `number` says, are to be unregistered.
    pub fn give_up(&mut self, names: &[Arc<str>], number: impl Fn(&S) -> ShuffleId) {
        for name in names {
            if let Some(Entry { stage: Stage::Open(shuffle), .. }) = self.named.remove(name) {
                self.give_up_shuffle(number(&shuffle), shuffle);
            }
        }
    }

    fn give_up_shuffle(&mut self, number: ShuffleId, shuffle: S) {
        let before = self.given_up.insert(number, shuffle);
        assert!(before.is_none(), "shuffle {number} had one name");
    }

    /// Shuffles that are to be unregistered.
    pub fn given_up(&self) -> Vec<S> {
        self.given_up.values().cloned().collect()
    }

    /// Notes that a shuffle was unregistered.
    pub fn unregistered(&mut self, number: ShuffleId) {
        self.given_up.remove(&number);
    }
}

/// Refuses what cannot be opened. Returns the number of partitions.
///
/// # Errors
/// `Invalid` for a name that is empty or longer than [`NAME_LEN_MAX`], and for more partitions than
/// [`OPEN_PARTITIONS_MAX`].
pub(in crate::client) fn check_opened(name: &str, partitions: usize) -> Result<u32> {
    if !(1..=NAME_LEN_MAX).contains(&name.len()) {
        let text = format!("a name of {} bytes, expected 1 to {NAME_LEN_MAX}", name.len());
        return Err(Error::new(Kind::Invalid, text));
    }
    let count = u32::try_from(partitions).ok().filter(|partitions| *partitions <= OPEN_PARTITIONS_MAX);
    count.ok_or_else(|| {
        too_many(format!("{partitions} partitions"))
            .with_hint(format!("one that is opened by its name has {OPEN_PARTITIONS_MAX} at most"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shuffle is its number here.
    type Table = Names<ShuffleId, &'static str>;

    fn open(names: &mut Table, name: &str, partitions: u32) -> Result<Found<ShuffleId, &'static str>> {
        names.open(name, partitions, || "soon", |_| false)
    }

    fn ticket(found: Result<Found<ShuffleId, &'static str>>) -> Ticket {
        match found.unwrap() {
            Found::Nothing(ticket) => ticket,
            found => panic!("{found:?}"),
        }
    }

    fn register(names: &mut Table, name: &str, number: i32) {
        let ticket = ticket(open(names, name, 4));
        assert!(names.opened(name, ticket, ShuffleId(number), ShuffleId(number)));
    }

    fn give_up(names: &mut Table, name: &str) {
        names.give_up(&[name.into()], |number| *number);
    }

    #[test]
    fn a_name_is_registered_once_and_has_one_number_of_partitions() {
        let mut names = Table::default();
        let first = ticket(open(&mut names, "a", 4));
        assert_eq!(open(&mut names, "a", 4).unwrap(), Found::Opening("soon"));
        assert_eq!(open(&mut names, "a", 5).unwrap_err().kind(), Kind::Conflict);
        ticket(open(&mut names, "b", 5));
        assert!(names.opened("a", first, ShuffleId(7), ShuffleId(7)));
        assert_eq!(open(&mut names, "a", 4).unwrap(), Found::Open(ShuffleId(7)));
        assert_eq!(open(&mut names, "a", 5).unwrap_err().kind(), Kind::Conflict);
        let ended = names.open("a", 5, || "soon", |number| *number == ShuffleId(7));
        assert_ne!(ticket(ended), first, "its shuffle was unregistered, so the name is free");
    }

    #[test]
    fn a_registration_that_fails_leaves_the_name_free() {
        let mut names = Table::default();
        let first = ticket(open(&mut names, "a", 4));
        names.failed("a", first);
        let second = ticket(open(&mut names, "a", 5));
        names.failed("a", first);
        assert_eq!(open(&mut names, "a", 5).unwrap(), Found::Opening("soon"), "that is the second one's");
        assert!(names.opened("a", second, ShuffleId(1), ShuffleId(1)));
        names.failed("a", second);
        assert_eq!(open(&mut names, "a", 5).unwrap(), Found::Open(ShuffleId(1)));
    }

    #[test]
    fn a_name_that_is_given_up_is_free_and_its_shuffle_is_remembered() {
        let mut names = Table::default();
        register(&mut names, "a", 1);
        register(&mut names, "b", 2);
        give_up(&mut names, "a");
        give_up(&mut names, "a");
        assert_eq!((names.given_up(), names.names()), (vec![ShuffleId(1)], vec!["b".into()]));
        register(&mut names, "a", 3);
        give_up(&mut names, "a");
        assert_eq!(names.given_up(), [1, 3].map(ShuffleId), "the first was not unregistered yet");
        names.unregistered(ShuffleId(1));
        assert_eq!(names.given_up(), [ShuffleId(3)]);
    }

    #[test]
    fn a_name_that_is_given_up_while_it_is_registered_does_not_come_back() {
        let mut names = Table::default();
        let first = ticket(open(&mut names, "a", 4));
        give_up(&mut names, "a");
        let second = ticket(open(&mut names, "a", 9));
        assert!(!names.opened("a", first, ShuffleId(1), ShuffleId(1)));
        assert_eq!(names.given_up(), [ShuffleId(1)]);
        assert!(names.opened("a", second, ShuffleId(2), ShuffleId(2)));
        assert_eq!(open(&mut names, "a", 9).unwrap(), Found::Open(ShuffleId(2)));
    }

    #[test]
    fn so_many_names_and_no_more() {
        let mut names = Table::default();
        for number in 0..NAMES_MAX as i32 {
            register(&mut names, &number.to_string(), number);
        }
        let full = |names: &mut Table| open(names, "more", 1).unwrap_err().kind() == Kind::ResourceExhausted;
        assert!(full(&mut names));
        assert_eq!(open(&mut names, "7", 4).unwrap(), Found::Open(ShuffleId(7)), "it has its name");
        give_up(&mut names, "7");
        assert!(full(&mut names), "the service still has it");
        names.unregistered(ShuffleId(7));
        ticket(open(&mut names, "more", 1));
        ticket(names.open("8", 4, || "soon", |_| true));
    }

    #[test]
    fn names_and_partitions_have_limits() {
        let most = OPEN_PARTITIONS_MAX as usize;
        assert_eq!(check_opened(&"n".repeat(NAME_LEN_MAX), most).unwrap(), OPEN_PARTITIONS_MAX);
        for (name, partitions) in
            [("", 1), (&*"n".repeat(NAME_LEN_MAX + 1), 1), ("a", most + 1), ("a", usize::MAX)]
        {
            assert_eq!(check_opened(name, partitions).unwrap_err().kind(), Kind::Invalid, "{name}");
        }
    }
}
