use std::time::Duration;

use crate::random::Random;
use crate::tally::{Kind, Tally};

/// What a network does to messages, and how that is counted.
#[derive(Debug, Clone, Copy)]
pub struct Network<E> {
    /// A message never arrives.
    pub lost: E,
    /// A message arrives twice.
    pub doubled: E,
    /// A message arrives after one that was sent later.
    pub reordered: E,
    /// A message takes so long that nobody waits for it any more.
    pub timed_out: E,
    /// How many of a hundred messages are lost.
    pub lost_percent: u64,
    /// How many of a hundred messages are doubled.
    pub doubled_percent: u64,
    /// The longest that a message travels before its connection is given up.
    pub flight_max: Duration,
}

struct Flying<M> {
    message: M,
    number: u64,
    sent: Duration,
}

/// What all processes of a world share: time, randomness, and the network between them.
pub struct Scene<M, E> {
    /// Choices.
    pub random: Random,
    /// What has happened.
    pub tally: Tally<E>,
    /// The time; it passes only as the world says.
    pub time: Duration,
    /// No more faults: everything begun has to end.
    pub calm: bool,
    network: Network<E>,
    flying: Vec<Flying<M>>,
    sent: u64,
    newest_delivered: u64,
}

impl<M: Clone, E: Kind> Scene<M, E> {
    /// A scene in which nothing has happened yet.
    pub fn new(seed: u64, network: Network<E>) -> Self {
        Self {
            random: Random::new(seed),
            tally: Tally::default(),
            time: Duration::from_secs(1000),
            calm: false,
            network,
            flying: Vec::new(),
            sent: 0,
            newest_delivered: 0,
        }
    }

    /// Counts an event.
    pub fn count(&mut self, event: E) {
        self.tally.count(event);
    }

    /// Whether a fault with this probability happens now.
    pub fn fault(&mut self, percent: u64) -> bool {
        !self.calm && self.random.percent(percent)
    }

    /// Whether no message is under way.
    pub fn is_still(&self) -> bool {
        self.flying.is_empty()
    }

    /// The messages that are under way.
    pub fn flying(&self) -> impl Iterator<Item = &M> {
        self.flying.iter().map(|flying| &flying.message)
    }

    /// Sends a message, which may be lost or doubled.
    pub fn send(&mut self, message: M) {
        if self.fault(self.network.lost_percent) {
            self.count(self.network.lost);
            return;
        }
        if self.fault(self.network.doubled_percent) {
            self.count(self.network.doubled);
            self.put(message.clone());
        }
        self.put(message);
    }

    /// Sends a message that is certainly delivered, unless it is too late.
    pub fn put(&mut self, message: M) {
        self.sent += 1;
        self.flying.push(Flying { message, number: self.sent, sent: self.time });
    }

    /// Delivers some message, in any order. `holds_up` are those whose receivers do not listen at the moment, and `is_news`
    /// those that arrive however late they are.
    pub fn arrive(&mut self, holds_up: impl Fn(&M) -> bool, is_news: impl Fn(&M) -> bool) -> Option<M> {
        if self.flying.is_empty() {
            return None;
        }
        let at = self.random.below(self.flying.len());
        let Flying { message, sent, .. } = &self.flying[at];
        let overdue = self.time.saturating_sub(*sent) > self.network.flight_max;
        let is_news = is_news(message);
        if !overdue && holds_up(message) {
            return None;
        }
        let Flying { message, number, .. } = self.flying.swap_remove(at);
        if overdue && !is_news {
            self.count(self.network.timed_out);
            return None;
        }
        if number < self.newest_delivered {
            self.count(self.network.reordered);
        }
        self.newest_delivered = self.newest_delivered.max(number);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::events! {
        faults { Lost, Doubled, TimedOut, }
        others { Reordered, }
    }

    const NETWORK: Network<Event> = Network {
        lost: Event::Lost,
        doubled: Event::Doubled,
        reordered: Event::Reordered,
        timed_out: Event::TimedOut,
        lost_percent: 10,
        doubled_percent: 10,
        flight_max: Duration::from_secs(15),
    };

    fn arrived(scene: &mut Scene<u32, Event>) -> Vec<u32> {
        let mut arrived = Vec::new();
        while !scene.is_still() {
            arrived.extend(scene.arrive(|_| false, |_| false));
        }
        arrived
    }

    #[test]
    fn what_is_sent_arrives_as_the_tally_says() {
        let mut scene = Scene::new(3, NETWORK);
        (0..1000).for_each(|number| scene.send(number));
        assert_eq!(
            scene.flying().count(),
            1000 - scene.tally.of(Event::Lost) as usize + scene.tally.of(Event::Doubled) as usize
        );
        let mut found = arrived(&mut scene);
        assert!(scene.tally.of(Event::Reordered) > 100);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len() as u64, 1000 - scene.tally.of(Event::Lost));
        assert_eq!(scene.tally.of(Event::TimedOut), 0);

        scene.calm = true;
        (0..1000).for_each(|number| scene.send(number));
        assert_eq!(arrived(&mut scene).len(), 1000, "nothing is lost in a calm");
    }

    #[test]
    fn what_is_too_late_is_given_up_and_news_is_not() {
        let mut scene = Scene::new(5, NETWORK);
        (0..10).for_each(|number| scene.put(number));
        assert_eq!(scene.arrive(|_| true, |_| false), None);
        assert_eq!(scene.flying().count(), 10, "nobody listens");
        scene.time += NETWORK.flight_max + Duration::from_millis(1);
        let mut found = Vec::new();
        while !scene.is_still() {
            found.extend(scene.arrive(|_| true, |number| *number == 7));
        }
        assert_eq!((found, scene.tally.of(Event::TimedOut)), (vec![7], 9));
    }
}
