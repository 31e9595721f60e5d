//! Decides who may take memory next. Every byte of the ledger is counted here, most of it for the [party](Party) that
//! brought it, and requests that have to wait stand in a line.
//!
//! A party's share is what can be shared, less a seat for the next party, divided by the number of active parties.
//! Three rules follow:
//! - Within its share a party takes what is free, and comes before everyone beyond theirs.
//! - Beyond its share it takes nothing above the mark at which spilling begins, which is half of what can be shared.
//!   Below the mark the first to come takes memory, because unused memory helps nobody; the other half is kept for
//!   parties within their shares, so that none of them waits for what others hold, until together they hold that half.
//! - A party that holds more waits longer: its request is passed over until others were granted as many bytes as it
//!   holds more than they do. Within a party a request is passed over until each waiting connection was granted about
//!   as much as it asks for; each has one request in line, because a connection reads one frame at a time.

use std::collections::{BTreeMap, HashMap};

use crate::{Party, Reserve};

/// A party that has asked for nothing for this long has no share until it asks again.
pub const ACTIVE_MS: u64 = 10_000;

/// Spilling begins above this part of the limit, in 1/16, and above it no party goes beyond its share.
const SPILL_SIXTEENTHS: u64 = 8;
/// Spilling ends below this part.
const REST_SIXTEENTHS: u64 = 4;
/// With more fixed bytes than this part, which no spill gives back, nothing new is taken once memory is tight.
const FIXED_SIXTEENTHS: u64 = 10;
/// There is no room for what would bring the fixed bytes above this part.
const FIXED_SIXTEENTHS_MAX: u64 = 14;
/// Memory is tight above this part.
const TIGHT_SIXTEENTHS: u64 = 13;
/// What parties that [leave](Reserve::Leaves) a reserve leave to those that [overtake](Reserve::Overtakes).
const RESERVE_SIXTEENTHS: u64 = 1;
/// The seat: the part that is kept for a party that has not come yet.
const SEAT_SIXTEENTHS: u64 = 2;

/// How full the ledger is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below the spill mark.
    Calm,
    /// The spiller moves cold batches to disk.
    Spilling,
    /// The spiller cannot keep up: what grows should go elsewhere.
    Tight,
    /// A request is waiting.
    Full,
}

/// A request's place in the line of its party: the least is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The party's virtual time at which its turn comes.
    order: u64,
    /// Unique, in order of arrival.
    number: u64,
}

/// A request that has got its turn: its bytes are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant<P> {
    /// The request whose turn it was.
    pub ticket: Ticket,
    /// For which party.
    pub party: P,
    /// How many bytes.
    pub bytes: u64,
}

/// What one party has and wants.
#[derive(Debug, Default)]
struct Account {
    /// Bytes charged to it that a spill or a reader gives back.
    held: u64,
    /// Bytes charged to it that none gives back.
    fixed: u64,
    /// When it last asked.
    asked_ms: u64,
    /// The ledger's virtual time when this party was last served or began to wait.
    mark: u64,
    /// Bytes granted to it so far: the virtual time of its own connections.
    got: u64,
    /// Waiting requests, and the bytes of each.
    line: BTreeMap<Ticket, u64>,
}

/// How the memory divides among the parties that are active.
#[derive(Debug, Clone, Copy)]
struct Division {
    /// What each may hold whatever the others hold.
    share: u64,
    /// `used` may not exceed this for a party that goes beyond its share.
    open: u64,
}

/// The numbers of a ledger, and its line.
#[derive(Debug)]
pub struct Shares<P> {
    limit: u64,
    used: u64,
    /// The part of `used` that no spill gives back.
    fixed: u64,
    high_water: u64,
    accounts: HashMap<P, Account>,
    /// Bytes granted to all parties so far: the ledger's virtual time.
    got: u64,
    waiting: usize,
    next_ticket: u64,
}

impl Account {
    fn is_active(&self, now_ms: u64) -> bool {
        !self.line.is_empty() || now_ms.saturating_sub(self.asked_ms) < ACTIVE_MS
    }
}

impl<P: Party> Shares<P> {
    /// Lets `limit` bytes be in use.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            used: 0,
            fixed: 0,
            high_water: 0,
            accounts: HashMap::new(),
            got: 0,
            waiting: 0,
            next_ticket: 0,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The most bytes that ever were in use.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Bytes that are charged to a party, without those that no spill gives back.
    pub fn held(&self, party: &P) -> u64 {
        self.accounts.get(party).map_or(0, |account| account.held)
    }

    /// Requests in line.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Changes the limit, and forgets parties that are gone.
    pub fn set_limit(&mut self, limit: u64, now_ms: u64) {
        self.limit = limit;
        self.accounts.retain(|_, account| account.held > 0 || account.fixed > 0 || account.is_active(now_ms));
    }

    /// How full the ledger is as a whole.
    pub fn level(&self) -> Level {
        self.level_if(self.waiting > 0, || false)
    }

    fn level_if(&self, waits: bool, is_at_its_end: impl FnOnce() -> bool) -> Level {
        match self.used {
            _ if waits => Level::Full,
            used if used > part(self.limit, TIGHT_SIXTEENTHS) || is_at_its_end() => Level::Tight,
            used if used > part(self.limit, SPILL_SIXTEENTHS) => Level::Spilling,
            _ => Level::Calm,
        }
    }

    /// How full it is for one party: beyond its share it is full earlier, and whether others wait does not matter.
    pub fn level_for(&self, party: &P, now_ms: u64) -> Level {
        let waits = self.accounts.get(party).is_some_and(|account| !account.line.is_empty());
        let held = self.held(party);
        self.level_if(waits, || {
            // Half of the limit is open to everyone: far below it there is nothing to divide.
            let is_open = self.used <= part(self.limit / 2, TIGHT_SIXTEENTHS);
            let Division { share, open } = if is_open { return false } else { self.divide(now_ms) };
            held > part(share, TIGHT_SIXTEENTHS) && self.used > part(open, TIGHT_SIXTEENTHS)
        })
    }

    /// Bytes that must be given back until the spiller may rest; zero below the mark at which it begins.
    pub fn excess(&self) -> u64 {
        if !self.wants_spill() {
            return 0;
        }
        // If fixed bytes exceed that, all there is to spill is the rest.
        self.used.saturating_sub(part(self.limit, REST_SIXTEENTHS).max(self.fixed))
    }

    /// Whether what no spill gives back takes most of the limit.
    pub fn is_mostly_fixed(&self) -> bool {
        self.fixed > part(self.limit, FIXED_SIXTEENTHS)
    }

    /// Whether a party has to do with what it has of fixed bytes: they take most of the limit, and it has more of that part
    /// than if all who have some had equally much; or they leave no room for anybody.
    pub fn has_its_part_of_fixed(&self, party: &P) -> bool {
        if !self.has_room_for_fixed(0) {
            return true;
        }
        let others = self.accounts.iter().filter(|(other, account)| *other != party && account.fixed > 0);
        let own = self.accounts.get(party).map_or(0, |account| account.fixed);
        self.is_mostly_fixed() && own > part(self.limit, FIXED_SIXTEENTHS) / (others.count() as u64 + 1)
    }

    /// Whether so many more fixed bytes leave room for others.
    pub fn has_room_for_fixed(&self, bytes: u64) -> bool {
        self.fixed.saturating_add(bytes) <= part(self.limit, FIXED_SIXTEENTHS_MAX)
    }

    /// Whether the spiller has work.
    pub fn wants_spill(&self) -> bool {
        self.waiting > 0 || self.used > part(self.limit, SPILL_SIXTEENTHS)
    }

    /// Joins the line; [`Shares::next`] says when it is its turn, which may be at once.
    pub fn join(&mut self, party: &P, bytes: u64, now_ms: u64) -> Ticket {
        let account = self.accounts.entry(party.clone()).or_default();
        account.asked_ms = now_ms;
        if account.line.is_empty() {
            account.mark = self.got;
        }
        // By that virtual time, each request in line was granted about as much as this one asks for.
        let passed = bytes.saturating_mul(account.line.len() as u64 + 1);
        let ticket = Ticket { order: account.got.saturating_add(passed), number: self.next_ticket };
        account.line.insert(ticket, bytes);
        self.next_ticket += 1;
        self.waiting += 1;
        ticket
    }

    /// Takes bytes at once if nobody is in line and there is room: [`Shares::join`] and [`Shares::next`] in one.
    pub fn take_at_once(&mut self, party: &P, bytes: u64, now_ms: u64) -> bool {
        if self.waiting > 0 {
            return false;
        }
        // A party that asks is active, and has a share.
        let account = self.accounts.entry(party.clone()).or_default();
        account.asked_ms = now_ms;
        let held = account.held;
        let is_open = self.used.saturating_add(bytes) <= part(self.limit, SPILL_SIXTEENTHS);
        if !is_open && !self.fits(party, held, bytes, self.divide(now_ms)) {
            return false;
        }
        self.take(party, bytes);
        true
    }

    /// Leaves the line.
    pub fn leave(&mut self, party: &P, ticket: Ticket) {
        let account = self.accounts.get_mut(party);
        if account.is_some_and(|account| account.line.remove(&ticket).is_some()) {
            self.waiting -= 1;
        }
    }

    /// Grants the next request in line, if there is room for it. No other overtakes it, because then it could wait for
    /// ever, but one that [overtakes](Reserve::Overtakes) comes before one that [leaves](Reserve::Leaves) the reserve, within
    /// that.
    pub fn next(&mut self, now_ms: u64) -> Option<Grant<P>> {
        if self.waiting == 0 {
            return None;
        }
        let division = self.divide(now_ms);
        let first = self.first(division, |_| true)?;
        let grant = if self.has_room(&first, division) {
            first
        } else if first.party.reserve() == Reserve::Leaves {
            let overtakes = |party: &P| party.reserve() == Reserve::Overtakes;
            let next = self.first(division, overtakes)?;
            let all = self.accounts.iter().filter(|(party, _)| overtakes(party));
            let held = all.map(|(_, account)| account.held).sum::<u64>().saturating_add(next.bytes);
            let is_theirs = held <= part(self.limit, RESERVE_SIXTEENTHS);
            Some(next).filter(|next| is_theirs && self.has_room(next, division))?
        } else {
            return None;
        };
        self.leave(&grant.party, grant.ticket);
        self.take(&grant.party, grant.bytes);
        Some(grant)
    }

    /// The next request in line, among some parties.
    fn first(&self, division: Division, among: impl Fn(&P) -> bool) -> Option<Grant<P>> {
        let heads = self.accounts.iter().filter(|(party, _)| among(party)).filter_map(|(party, account)| {
            let (ticket, bytes) = account.line.first_key_value()?;
            let is_beyond = account.held.saturating_add(*bytes) > division.share;
            let order = (is_beyond, account.held.saturating_add(account.mark), ticket.number);
            Some((order, party, *ticket, *bytes))
        });
        let (_, party, ticket, bytes) = heads.min_by_key(|(order, ..)| *order)?;
        Some(Grant { ticket, party: party.clone(), bytes })
    }

    fn has_room(&self, grant: &Grant<P>, division: Division) -> bool {
        self.fits(&grant.party, self.held(&grant.party), grant.bytes, division)
    }

    /// Counts bytes of a party, without asking whether there is room.
    pub fn take(&mut self, party: &P, bytes: u64) {
        self.got += bytes;
        let account = self.accounts.entry(party.clone()).or_default();
        account.held += bytes;
        account.got += bytes;
        account.mark = self.got;
        self.count(bytes);
    }

    /// Counts bytes that are nobody's, without asking whether there is room.
    pub fn count(&mut self, bytes: u64) {
        self.used = self.used.checked_add(bytes).expect("a machine has fewer than 2^64 bytes");
        self.high_water = self.high_water.max(self.used);
    }

    /// Counts bytes that no spill gives back, without asking whether there is room.
    pub fn count_fixed(&mut self, party: Option<&P>, bytes: u64) {
        self.fixed += bytes;
        if let Some(party) = party {
            self.accounts.entry(party.clone()).or_default().fixed += bytes;
        }
        self.count(bytes);
    }

    /// Takes back what a party took.
    pub fn give_back(&mut self, party: &P, bytes: u64) {
        let account = self.accounts.get_mut(party).expect("who has something has an account");
        assert!(account.held >= bytes, "{party} gives back {bytes} bytes and has {}", account.held);
        account.held -= bytes;
        self.uncount(bytes);
    }

    /// Takes back what [`Shares::count`] counted.
    pub fn uncount(&mut self, bytes: u64) {
        assert!(self.used >= bytes, "{bytes} bytes are given back and {} in use", self.used);
        self.used -= bytes;
        assert!(self.used >= self.fixed, "{} bytes are in use, and {} of them fixed", self.used, self.fixed);
    }

    /// Takes back what [`Shares::count_fixed`] counted.
    pub fn uncount_fixed(&mut self, party: Option<&P>, bytes: u64) {
        assert!(self.fixed >= bytes, "{bytes} fixed bytes are given back of {}", self.fixed);
        self.fixed -= bytes;
        if let Some(party) = party {
            let account = self.accounts.get_mut(party).expect("who has something has an account");
            assert!(account.fixed >= bytes, "{party} gives back {bytes} bytes and has {}", account.fixed);
            account.fixed -= bytes;
        }
        self.uncount(bytes);
    }

    fn fits(&self, party: &P, held: u64, bytes: u64, division: Division) -> bool {
        if self.used == self.fixed {
            return true; // nothing will be given back: there will never be more room
        }
        let end = match party.reserve() {
            _ if held.saturating_add(bytes) > division.share => division.open,
            Reserve::Leaves => self.limit - part(self.limit, RESERVE_SIXTEENTHS),
            Reserve::Overtakes | Reserve::Takes => self.limit,
        };
        self.used.saturating_add(bytes) <= end
    }

    /// Divides what can be shared: all but fixed bytes, bytes that are nobody's, and those of inactive parties, until
    /// they are spilled.
    fn divide(&self, now_ms: u64) -> Division {
        let (mut count, mut held) = (0, 0);
        for account in self.accounts.values().filter(|account| account.is_active(now_ms)) {
            count += 1;
            held += account.held;
        }
        let shared = self.limit.saturating_sub(self.used - held);
        Division {
            share: (shared - part(shared, SEAT_SIXTEENTHS)) / count.max(1),
            open: self.limit - (shared - part(shared, SPILL_SIXTEENTHS)),
        }
    }
}

fn part(of: u64, sixteenths: u64) -> u64 {
    of / 16 * sixteenths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_party::TestParty;

    fn app(number: usize) -> TestParty {
        TestParty::new(&format!("app-{number}"), Reserve::Leaves)
    }

    fn overtaking() -> TestParty {
        TestParty::new("app-0", Reserve::Overtakes)
    }

    /// Serves the line as far as it goes.
    fn serve(shares: &mut Shares<TestParty>, now_ms: u64) -> Vec<Grant<TestParty>> {
        std::iter::from_fn(|| shares.next(now_ms)).collect()
    }

    #[test]
    fn who_is_alone_leaves_a_seat() {
        let mut shares = Shares::new(1600);
        assert!(shares.take_at_once(&app(0), 1400, 0));
        assert!(!shares.take_at_once(&app(0), 1, 0));
        assert!(shares.take_at_once(&app(1), 100, 0), "it finds its seat");
        assert!(!shares.take_at_once(&app(1), 1, 0), "which has room for copies, too");
        let copies = overtaking();
        assert!(shares.take_at_once(&copies, 100, 0));
        assert_eq!([app(0), app(1), copies].map(|party| shares.held(&party)), [1400, 100, 100]);
    }

    #[test]
    fn who_has_most_of_the_fixed_bytes_has_its_part_and_the_others_have_not() {
        let mut shares = Shares::new(1600);
        let parts =
            |shares: &Shares<TestParty>| [0, 1, 2].map(|number| shares.has_its_part_of_fixed(&app(number)));
        shares.count_fixed(Some(&app(0)), 1000);
        assert_eq!(parts(&shares), [false; 3], "at the part, not above");
        shares.count_fixed(Some(&app(0)), 1);
        assert_eq!(parts(&shares), [true, false, false]);
        shares.count_fixed(Some(&app(1)), 399);
        assert_eq!(parts(&shares), [true, false, false]);
        shares.count_fixed(None, 1);
        assert_eq!(parts(&shares), [true; 3], "there is no room for anybody");
        shares.uncount_fixed(Some(&app(0)), 500);
        assert_eq!(parts(&shares), [false; 3]);
        shares.uncount_fixed(Some(&app(0)), 501);
        shares.uncount_fixed(Some(&app(1)), 399);
        shares.uncount_fixed(None, 1);
        assert_eq!((shares.used(), shares.is_mostly_fixed()), (0, false));
    }

    #[test]
    #[should_panic(expected = "gives back 2 bytes and has 1")]
    fn nobody_gives_back_what_another_has() {
        let mut shares = Shares::new(1600);
        shares.take(&app(0), 1);
        shares.take(&app(1), 9);
        shares.give_back(&app(0), 2);
    }

    #[test]
    fn copies_have_their_part_whoever_waits() {
        let mut shares = Shares::new(16_000);
        for number in 0..3 {
            assert!(shares.take_at_once(&app(number), 0, 0));
        }
        for number in 0..3 {
            shares.take(&app(number), 5000); // up to what pushes may take
        }
        let modest = shares.join(&app(3), 100, 0);
        let copies = overtaking();
        let waiting: Vec<_> = (0..20).map(|_| shares.join(&copies, 100, 0)).collect();
        let granted = serve(&mut shares, 0);
        assert_eq!(granted.iter().map(|grant| grant.ticket).collect::<Vec<_>>(), waiting[..10]);
        assert_eq!((shares.used(), shares.waiting()), (16_000, 11));
        shares.give_back(&app(0), 1200);
        assert_eq!(
            serve(&mut shares, 0).first().map(|grant| grant.ticket),
            Some(modest),
            "it is not forgotten"
        );
    }

    #[test]
    fn beyond_its_share_an_application_takes_half_of_the_memory_and_no_more() {
        let mut shares = Shares::new(1600);
        assert!((0..4).all(|number| shares.take_at_once(&app(number), 0, 0)), "four are active");
        assert!(shares.take_at_once(&app(0), 800, 0), "up to the mark all of it is for whoever comes");
        let greedy = shares.join(&app(0), 1, 0);
        assert!(serve(&mut shares, 0).is_empty());
        for number in 1..3 {
            let modest = shares.join(&app(number), 350, 0);
            assert_eq!(serve(&mut shares, 0).first().map(|grant| grant.ticket), Some(modest), "its share");
        }
        assert_eq!(shares.level_for(&app(0), 0), Level::Full);
        assert_eq!(
            shares.level_for(&app(3), 0),
            Level::Tight,
            "of itself it waits for nobody, but room is short"
        );
        shares.give_back(&app(1), 350);
        assert_eq!(serve(&mut shares, 0), [], "what a modest one gives back is not for the greedy one");
        shares.give_back(&app(0), 451);
        assert_eq!(serve(&mut shares, 0).first().map(|grant| grant.ticket), Some(greedy));
    }

    #[test]
    fn an_application_that_asks_for_nothing_any_more_has_no_share() {
        let mut shares = Shares::new(1600);
        assert!(shares.take_at_once(&app(1), 100, 0));
        assert!(shares.take_at_once(&app(0), 700, 0));
        shares.join(&app(0), 100, 0);
        assert_eq!(serve(&mut shares, ACTIVE_MS - 1), []);
        assert_eq!(
            serve(&mut shares, ACTIVE_MS).len(),
            1,
            "it may have all but the seat and what the other holds"
        );
    }

    #[test]
    fn connections_that_bring_more_wait_longer_and_get_about_as_many_bytes() {
        for others in [1, 31] {
            let mut shares = Shares::new(16_000);
            assert!(shares.take_at_once(&app(0), 14_000, 0));
            // One connection brings 40 bytes at a time, the others 10; as soon as one is served it comes again.
            let mut large = shares.join(&app(0), 40, 0);
            for _ in 0..others {
                shares.join(&app(0), 10, 0);
            }
            let (mut large_bytes, mut small_bytes) = (0, 0);
            for _ in 0..10_000 {
                shares.give_back(&app(0), 10);
                for grant in serve(&mut shares, 0) {
                    if grant.ticket == large {
                        large_bytes += grant.bytes;
                        large = shares.join(&app(0), 40, 0);
                    } else {
                        small_bytes += grant.bytes;
                        shares.join(&app(0), 10, 0);
                    }
                }
            }
            assert!(
                large_bytes + small_bytes > 99_950,
                "what is given back is granted, but for what is too little"
            );
            let each = small_bytes / others;
            assert!(
                (each / 2..each * 2).contains(&large_bytes),
                "{large_bytes}, and {each} each of {others} others"
            );
        }
    }

    #[test]
    fn who_holds_more_is_passed_by_for_no_more_than_the_difference() {
        let mut shares = Shares::new(16_000);
        assert!((0..4).all(|number| shares.take_at_once(&app(number), 0, 0)), "four are active");
        assert!(shares.take_at_once(&app(0), 3_600, 0));
        shares.count(4_000);
        // Both ask for more than their shares. What the light one gets is spilled at once, so it never holds anything.
        let heavy = shares.join(&app(0), 3_100, 0);
        shares.join(&app(1), 3_100, 0);
        assert_eq!(shares.next(0), None);
        shares.uncount(2_000);
        let mut passed = 0;
        loop {
            let grant = shares.next(0).expect("there is room for one");
            if grant.ticket == heavy {
                break;
            }
            assert_eq!(shares.next(0), None, "but not for two");
            shares.give_back(&grant.party, grant.bytes);
            passed += grant.bytes;
            shares.join(&app(1), 3_100, 0);
        }
        assert!((3_600..3_600 + 3_100).contains(&passed), "{passed} bytes passed by");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask(usize, u64),
        GiveBack(usize),
        Leave(usize),
        Wait(u64),
    }

    fn steps(applications: usize) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            // The first of them is greedy: it asks as often as all the others together.
            4 => (1..applications.max(2), 1..200u64).prop_map(|(number, bytes)| Step::Ask(number, bytes)),
            4 => (1..200u64).prop_map(|bytes| Step::Ask(0, bytes)),
            4 => (0..64usize).prop_map(Step::GiveBack),
            1 => (0..64usize).prop_map(Step::Leave),
            1 => (0..ACTIVE_MS).prop_map(Step::Wait),
        ];
        prop::collection::vec(step, 1..300)
    }

    /// What the ledger should know: a plain list of who holds and who waits.
    #[derive(Default)]
    struct Model {
        held: Vec<(usize, u64)>,
        waiting: Vec<(Ticket, usize, u64)>,
    }

    impl Model {
        fn held_by(&self, number: usize) -> u64 {
            self.held.iter().filter(|(holder, _)| *holder == number).map(|(_, bytes)| bytes).sum()
        }

        fn step(&mut self, shares: &mut Shares<TestParty>, step: &Step, now_ms: &mut u64) {
            match *step {
                Step::Ask(number, bytes) => {
                    if shares.take_at_once(&app(number), bytes, *now_ms) {
                        self.held.push((number, bytes));
                    } else {
                        self.waiting.push((shares.join(&app(number), bytes, *now_ms), number, bytes));
                    }
                }
                Step::GiveBack(which) if !self.held.is_empty() => {
                    let (number, bytes) = self.held.swap_remove(which % self.held.len());
                    shares.give_back(&app(number), bytes);
                }
                Step::Leave(which) if !self.waiting.is_empty() => {
                    let (ticket, number, _) = self.waiting.swap_remove(which % self.waiting.len());
                    shares.leave(&app(number), ticket);
                }
                Step::Wait(by_ms) => *now_ms += by_ms,
                _ => {}
            }
        }

        fn granted(&mut self, grant: &Grant<TestParty>) -> (usize, u64) {
            let at = self.waiting.iter().position(|(ticket, ..)| *ticket == grant.ticket).expect("it waited");
            let (_, number, bytes) = self.waiting.swap_remove(at);
            assert_eq!((&grant.party, grant.bytes), (&app(number), bytes));
            self.held.push((number, bytes));
            (number, bytes)
        }
    }

    const LIMIT: u64 = 1600;

    proptest! {
        /// Whatever comes and goes: what is counted is what is held and never above the limit, no party beyond its
        /// share is served while one within its share waits, and all are served when all is given back.
        #[test]
        fn the_line_is_just_and_ends(steps in steps(5)) {
            let (mut shares, mut model, mut now_ms) = (Shares::new(LIMIT), Model::default(), 0);
            for step in &steps {
                model.step(&mut shares, step, &mut now_ms);
                loop {
                    let share = shares.divide(now_ms).share;
                    let is_within = |number, bytes| model.held_by(number) + bytes <= share;
                    let within_wait = (0..5).any(|number| {
                        let account = shares.accounts.get(&app(number));
                        let head = account.and_then(|account| account.line.first_key_value());
                        head.is_some_and(|(_, bytes)| is_within(number, *bytes))
                    });
                    let Some(grant) = shares.next(now_ms) else { break };
                    let held = model.held_by((0..5).find(|number| app(*number) == grant.party).unwrap());
                    prop_assert!(held + grant.bytes <= share || !within_wait, "{grant:?} passed by");
                    model.granted(&grant);
                }
                prop_assert_eq!(shares.used(), model.held.iter().map(|(_, bytes)| bytes).sum::<u64>());
                prop_assert_eq!(shares.waiting(), model.waiting.len());
                prop_assert!((0..5).all(|number| shares.held(&app(number)) == model.held_by(number)));
                prop_assert!(shares.used() <= LIMIT);
            }
            while !model.waiting.is_empty() {
                let before = model.waiting.len();
                for (number, bytes) in std::mem::take(&mut model.held) {
                    shares.give_back(&app(number), bytes);
                }
                for grant in serve(&mut shares, now_ms) {
                    model.granted(&grant);
                }
                prop_assert!(model.waiting.len() < before, "nothing is held, and still they wait");
            }
        }

        /// Among applications that are always active, one within its share waits only when those within their shares
        /// together hold what is kept for them, whatever others hold. With two that means never.
        #[test]
        fn within_its_share_nobody_waits_for_another(applications in 1..6usize, steps in steps(5)) {
            let (mut shares, mut model, mut now_ms) = (Shares::new(LIMIT), Model::default(), 0);
            (0..applications).for_each(|number| assert!(shares.take_at_once(&app(number), 0, 0)));
            let share = shares.divide(0).share;
            for step in &steps {
                match step {
                    Step::Ask(number, _) if *number >= applications => continue,
                    Step::Wait(_) => continue,
                    step => model.step(&mut shares, step, &mut now_ms),
                }
                for grant in serve(&mut shares, 0) {
                    model.granted(&grant);
                }
                let modest = |number: &usize| model.held_by(*number) <= share;
                let modest_hold: u64 = (0..applications).filter(modest).map(|number| model.held_by(number)).sum();
                // Behind the head of its line a request waits for its own application.
                let heads = shares.accounts.values().filter_map(|account| {
                    let (_, bytes) = account.line.first_key_value()?;
                    (account.held + bytes <= share).then_some(*bytes)
                });
                if let Some(most) = heads.max() {
                    prop_assert!(applications > 2, "one of two waits within its share");
                    prop_assert!(modest_hold + most > LIMIT / 16 * 7, "{modest_hold} and {most} of {LIMIT}");
                }
            }
        }
    }
}
