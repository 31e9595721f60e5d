//! What all processes of a world share: time, randomness, and the network between them.

use std::time::Duration;

use super::message::{MasterAnswer, MasterCall, Message, Party, WorkerAnswer, WorkerCall};
use super::random::Random;
use super::tally::{Event, Tally};
use crate::ids::{ApplicationId, ShuffleKey};

/// The longest that a message travels before its connection is given up; shorter than any timeout after which a process
/// counts as dead, as on real networks.
const FLIGHT_MAX: Duration = Duration::from_secs(15);

struct Flying {
    message: Message,
    number: u64,
    sent: Duration,
}

/// What all processes of a world share.
pub struct Scene {
    pub random: Random,
    pub tally: Tally,
    pub time: Duration,
    /// No more faults: everything begun has to end.
    pub calm: bool,
    /// The lives of each worker's process and of the master's; 0 while it is down.
    pub worker_lives: Vec<u64>,
    pub master_life: u64,
    /// Until when the master is cut off, together with the worker on its own machine, if there is one.
    pub master_cut_off: (Duration, Option<usize>),
    flying: Vec<Flying>,
    sent: u64,
    newest_delivered: u64,
    calls: u64,
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            tally: Tally::default(),
            time: Duration::from_secs(1000),
            calm: false,
            worker_lives: Vec::new(),
            master_life: 0,
            master_cut_off: (Duration::ZERO, None),
            flying: Vec::new(),
            sent: 0,
            newest_delivered: 0,
            calls: 0,
        }
    }

    pub fn count(&mut self, event: Event) {
        self.tally.count(event);
    }

    /// Whether a fault with this probability happens now.
    pub fn fault(&mut self, percent: u64) -> bool {
        !self.calm && self.random.percent(percent)
    }

    pub fn is_still(&self) -> bool {
        self.flying.is_empty()
    }

    /// Whether a message in which a driver or its tasks name a shuffle is under way.
    pub fn names(&self, key: &ShuffleKey) -> bool {
        self.flying.iter().any(|flying| flying.message.names(key))
    }

    /// Whether something that an application or its tasks sent is under way.
    pub fn has_of(&self, party: Party, application: &ApplicationId) -> bool {
        self.flying.iter().any(|flying| flying.message.is_of(party, application))
    }

    /// Whether a process and the master are cut off from each other.
    pub fn is_cut_off(&self, party: Party) -> bool {
        let (until, beside) = self.master_cut_off;
        self.time < until && beside.map(Party::Worker) != Some(party)
    }

    pub fn number(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    pub fn call_master(&mut self, from: Party, what: MasterCall) -> u64 {
        let (call, life) = (self.number(), self.master_life);
        self.send(Message::ToMaster { life, call, from, what });
        call
    }

    pub fn call_worker(&mut self, from: Party, to: usize, what: WorkerCall) -> u64 {
        let (call, life) = (self.number(), self.worker_lives[to]);
        self.send(Message::ToWorker { to, life, call, from, what });
        call
    }

    pub fn answer_from_master(&mut self, call: u64, to: Party, answer: MasterAnswer) {
        self.send(Message::FromMaster { call, to, answer });
    }

    pub fn answer_from_worker(&mut self, call: u64, to: Party, answer: WorkerAnswer) {
        self.send(Message::FromWorker { call, to, answer });
    }

    /// A worker's connection to the master ends; the master notices that some time later.
    pub fn cut_link(&mut self, connection: u64) {
        let life = self.master_life;
        self.put(Message::LinkLost { life, connection });
    }

    fn send(&mut self, message: Message) {
        if self.fault(5) {
            self.count(Event::Lost);
            return;
        }
        if self.fault(5) {
            self.count(Event::Doubled);
            self.put(message.clone());
        }
        self.put(message);
    }

    /// Sends a message that is certainly delivered.
    fn put(&mut self, message: Message) {
        self.sent += 1;
        self.flying.push(Flying { message, number: self.sent, sent: self.time });
    }

    /// Delivers some message; `holds_up` are those whose receivers do not listen at the moment.
    pub fn arrive(&mut self, holds_up: impl Fn(&Message) -> bool) -> Option<Message> {
        if self.flying.is_empty() {
            return None;
        }
        let at = self.random.below(self.flying.len());
        let overdue = self.time.saturating_sub(self.flying[at].sent) > FLIGHT_MAX;
        let is_news = matches!(self.flying[at].message, Message::LinkLost { .. });
        if !overdue && holds_up(&self.flying[at].message) {
            return None;
        }
        let Flying { message, number, .. } = self.flying.swap_remove(at);
        if overdue && !is_news {
            self.count(Event::TimedOut);
            return None;
        }
        if number < self.newest_delivered {
            self.count(Event::Reordered);
        }
        self.newest_delivered = self.newest_delivered.max(number);
        Some(message)
    }
}
