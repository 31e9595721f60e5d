//! What all processes of a world share: time, randomness, and the network between them.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use yeoul_simulation::Network;

use super::message::{MasterAnswer, MasterCall, Message, Party, WorkerAnswer, WorkerCall};
use super::tally::{Event, Tally};
use crate::ids::{ApplicationId, ShuffleKey};

/// A message's connection is given up sooner than any timeout after which a process counts as dead, as on real networks.
const NETWORK: Network<Event> = Network {
    lost: Event::Lost,
    doubled: Event::Doubled,
    reordered: Event::Reordered,
    timed_out: Event::TimedOut,
    lost_percent: 5,
    doubled_percent: 5,
    flight_max: Duration::from_secs(15),
};

/// What all processes of a world share: a scene of messages, which knows the processes besides.
pub struct Scene {
    shared: yeoul_simulation::Scene<Message, Event>,
    /// The lives of each worker's process and of the master's; 0 while it is down.
    pub worker_lives: Vec<u64>,
    pub master_life: u64,
    /// Until when the master is cut off, together with the worker on its own machine, if there is one.
    pub master_cut_off: (Duration, Option<usize>),
    calls: u64,
}

impl Deref for Scene {
    type Target = yeoul_simulation::Scene<Message, Event>;

    fn deref(&self) -> &Self::Target {
        &self.shared
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.shared
    }
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        Self {
            shared: yeoul_simulation::Scene::new(seed, NETWORK),
            worker_lives: Vec::new(),
            master_life: 0,
            master_cut_off: (Duration::ZERO, None),
            calls: 0,
        }
    }

    pub fn into_tally(self) -> Tally {
        self.shared.tally
    }

    /// Whether a message in which a driver or its tasks name a shuffle is under way.
    pub fn names(&self, key: &ShuffleKey) -> bool {
        self.flying().any(|message| message.names(key))
    }

    /// Whether something that an application or its tasks sent is under way.
    pub fn has_of(&self, party: Party, application: &ApplicationId) -> bool {
        self.flying().any(|message| message.is_of(party, application))
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

    /// Delivers some message; `holds_up` are those whose receivers do not listen at the moment.
    pub fn arrive(&mut self, holds_up: impl Fn(&Message) -> bool) -> Option<Message> {
        self.shared.arrive(holds_up, |message| matches!(message, Message::LinkLost { .. }))
    }
}
