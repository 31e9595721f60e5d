//! Places of a listener: who is connected, from where, and who has to leave when there is no room for a newcomer.
//!
//! A connection is *waiting* while its peer has yet to send a whole request, or has an answer that it does not read, and
//! *working* otherwise. A newcomer that finds no room takes the place of a connection that waits: the one that has waited
//! longest, of the address that has most of them. So whoever only occupies places loses them to whoever comes with a
//! request, and loses them first to itself.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Part of a listener's places, in quarters, that one address may have. Executors behind one NAT have thousands; and there
/// is always room for another address.
const ADDRESS_QUARTERS: usize = 3;

/// Bits of an IPv6 address that one machine is given: all below them are its own.
const IPV6_PREFIX_BITS: u32 = 64;

/// An entry of the table, unique within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry(u64);

/// Where a newcomer gets its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has one of its own.
    Entered(Entry),
    /// It has the place of this other one, which is no longer in the table and has to be closed.
    Replaced(Entry, Entry),
    /// There is none for it: all are working.
    Full,
    /// There is none for its address, which has as many as it may.
    AddressFull,
}

/// The table of places. It decides, and knows nothing of sockets.
#[derive(Debug)]
pub(crate) struct Places {
    places_max: usize,
    address_max: usize,
    open: usize,
    addresses: HashMap<IpAddr, Address>,
    /// Which address an entry is from, and since when it waits, in turns.
    entries: HashMap<Entry, (IpAddr, Option<u64>)>,
    next_entry: u64,
    turn: u64,
}

/// The connections from one address.
#[derive(Debug, Default)]
struct Address {
    open: usize,
    /// Those that wait, by the turn since which they do.
    waiting: BTreeMap<u64, Entry>,
}

impl Places {
    /// A table of so many places.
    pub fn new(places_max: usize) -> Self {
        let address_max = (places_max * ADDRESS_QUARTERS).div_ceil(4);
        Self {
            places_max,
            address_max,
            open: 0,
            addresses: HashMap::new(),
            entries: HashMap::new(),
            next_entry: 0,
            turn: 0,
        }
    }

    /// How many places there are, and how many of them one address may have.
    pub fn limits(&self) -> (usize, usize) {
        (self.places_max, self.address_max)
    }

    /// Lets a connection in, which waits at first. `has_room` says whether there is memory for one more.
    pub fn enter(&mut self, peer: IpAddr, has_room: impl FnOnce() -> bool) -> Admission {
        let address = group_of(peer);
        let from_here = self.addresses.get(&address).map_or(0, |address| address.open);
        let gone = if from_here >= self.address_max {
            match self.longest_waiting_of(address) {
                Some(gone) => Some(gone),
                None => return Admission::AddressFull,
            }
        } else if self.open >= self.places_max || !has_room() {
            match self.longest_waiting() {
                Some(gone) => Some(gone),
                None => return Admission::Full,
            }
        } else {
            None
        };
        if let Some(gone) = gone {
            self.leave(gone);
        }
        let entry = Entry(self.next_entry);
        self.next_entry += 1;
        self.open += 1;
        self.entries.insert(entry, (address, None));
        self.addresses.entry(address).or_default().open += 1;
        self.set_waiting(entry, true);
        self.assert_counts(address);
        gone.map_or(Admission::Entered(entry), |gone| Admission::Replaced(entry, gone))
    }

    /// A connection begins or ends to wait. One that has lost its place does neither.
    pub fn set_waiting(&mut self, entry: Entry, waits: bool) {
        let Some((address, since)) = self.entries.get_mut(&entry) else { return };
        let here = self.addresses.get_mut(address).expect("an entry's address is in the table");
        match (waits, *since) {
            (true, None) => {
                let turn = self.turn;
                self.turn += 1;
                *since = Some(turn);
                here.waiting.insert(turn, entry);
            }
            (false, Some(turn)) => {
                *since = None;
                here.waiting.remove(&turn);
            }
            _ => {}
        }
    }

    /// A connection has ended, or loses its place. True if it had one.
    pub fn leave(&mut self, entry: Entry) -> bool {
        self.set_waiting(entry, false);
        let Some((address, _)) = self.entries.remove(&entry) else { return false };
        self.open -= 1;
        let here = self.addresses.get_mut(&address).expect("an entry's address is in the table");
        here.open -= 1;
        if here.open == 0 {
            assert!(here.waiting.is_empty(), "nobody from {address} is here, and somebody waits");
            self.addresses.remove(&address);
        }
        true
    }

    fn longest_waiting_of(&self, address: IpAddr) -> Option<Entry> {
        self.addresses.get(&address)?.waiting.first_key_value().map(|(_, entry)| *entry)
    }

    /// That of the address that has most of them; of two such addresses, the one that has waited longer.
    fn longest_waiting(&self) -> Option<Entry> {
        let first = |here: &Address| here.waiting.first_key_value().map(|(turn, entry)| (*turn, *entry));
        let most =
            self.addresses.values().filter_map(|here| first(here).map(|first| (here.waiting.len(), first)));
        let most = most.max_by_key(|(waiting, (turn, _))| (*waiting, std::cmp::Reverse(*turn)));
        most.map(|(_, (_, entry))| entry)
    }

    fn assert_counts(&self, address: IpAddr) {
        let here = self.addresses.get(&address).map_or(0, |here| here.open);
        assert!(self.open <= self.places_max && here <= self.address_max, "{here} of {} places", self.open);
        assert_eq!(self.open, self.entries.len(), "each place has an entry");
    }
}

/// What counts as one address: an IPv4 address, also where it is written as IPv6, or the network of an IPv6 address.
fn group_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let bits = address.to_bits() & (u128::MAX << (u128::BITS - IPV6_PREFIX_BITS));
            Ipv6Addr::from_bits(bits).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: fn() -> bool = || true;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[track_caller]
    fn entered(admission: Admission) -> Entry {
        match admission {
            Admission::Entered(entry) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_address_gets_three_quarters_and_loses_what_waits_longest_to_itself() {
        let mut places = Places::new(8);
        let first: Vec<Entry> = (0..6).map(|_| entered(places.enter(peer(1), ROOM))).collect();
        places.set_waiting(first[0], false);
        assert!(matches!(places.enter(peer(1), ROOM), Admission::Replaced(_, gone) if gone == first[1]));
        assert!(!places.leave(first[1]), "it has left already");
        // Those that begin to wait again are the last to go.
        places.set_waiting(first[2], false);
        places.set_waiting(first[2], true);
        assert!(matches!(places.enter(peer(1), ROOM), Admission::Replaced(_, gone) if gone == first[3]));
        entered(places.enter(peer(2), ROOM));
        entered(places.enter(peer(2), ROOM));
        assert_eq!(places.open, 8);
    }

    #[test]
    fn whoever_works_keeps_its_place() {
        let mut places = Places::new(4);
        for _ in 0..3 {
            let entry = entered(places.enter(peer(1), ROOM));
            places.set_waiting(entry, false);
        }
        assert_eq!(places.enter(peer(1), ROOM), Admission::AddressFull);
        let last = entered(places.enter(peer(2), ROOM));
        places.set_waiting(last, false);
        assert_eq!(places.enter(peer(3), ROOM), Admission::Full);
        assert!(places.leave(last));
        entered(places.enter(peer(3), ROOM));
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_address_with_most_that_wait_also_for_want_of_memory() {
        let mut places = Places::new(100);
        let honest = entered(places.enter(peer(1), ROOM));
        let flood: Vec<Entry> = (0..70).map(|_| entered(places.enter(peer(2), ROOM))).collect();
        for (at, gone) in flood.iter().enumerate().take(60) {
            let peer = if at % 2 == 0 { peer(2) } else { peer(3) };
            match places.enter(peer, || false) {
                // Those of peer 3 work at once.
                Admission::Replaced(entry, left) => {
                    places.set_waiting(entry, at % 2 == 0);
                    assert_eq!(left, *gone);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(places.leave(honest), "it has its place still");
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_ipv4_is_ipv4_however_it_is_written() {
        let [a, b, c] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"]
            .map(|text| group_of(text.parse().unwrap()));
        assert!(a == b && a != c);
        assert_eq!(group_of("::ffff:10.0.0.1".parse().unwrap()), peer(1));
        assert_ne!(group_of("::1".parse().unwrap()), group_of("::2".parse().unwrap()));
    }

    #[test]
    fn the_table_is_empty_when_all_have_left_whatever_they_did() {
        let mut random = yeoul_simulation::Random::new(7);
        let mut places = Places::new(20);
        let mut inside = Vec::new();
        for _ in 0..20_000 {
            match random.below(4) {
                0 | 1 => match places.enter(peer(random.below(5) as u8), ROOM) {
                    Admission::Entered(entry) => inside.push(entry),
                    Admission::Replaced(entry, gone) => {
                        inside.retain(|other| *other != gone);
                        inside.push(entry);
                    }
                    Admission::Full | Admission::AddressFull => {}
                },
                2 if !inside.is_empty() => {
                    let entry = inside[random.below(inside.len())];
                    places.set_waiting(entry, random.below(2) == 0);
                }
                _ if !inside.is_empty() => {
                    let at = random.below(inside.len());
                    assert!(places.leave(inside.swap_remove(at)));
                }
                _ => {}
            }
            assert_eq!(places.open, inside.len());
        }
        inside.into_iter().for_each(|entry| assert!(places.leave(entry)));
        assert!(places.addresses.is_empty() && places.entries.is_empty());
    }
}
