//! Brokers that lead the partitions of a simulated topic, and die, as their clients see it: what is in the log of a partition without a
//! leader can be neither fetched nor counted, and what is produced meanwhile is kept by its producer.

use yeoul_simulation::Random;

/// Brokers of a cluster.
const BROKERS: usize = 3;
/// Longest time for which a broker is away.
const AWAY_MS_MAX: usize = 6000;
/// Longest time until a partition with replicas has another leader that its clients know.
const ELECTION_MS_MAX: usize = 800;
/// Time after which a producer gives a row up that it cannot send: with the disorder of rows, less than the watermark waits. A row that
/// is in the log later than that is late for everybody.
const KEPT_MS_MAX: i64 = 1500;

pub(super) struct Brokers {
    /// True if brokers die in this world.
    pub are_mortal: bool,
    leaders: Vec<usize>,
    /// When the clients of each partition find its leader.
    found_ms: Vec<i64>,
    /// Rows of each partition, time and key, that are not in its log: when they were made, by the clock, stands before them.
    kept: Vec<Vec<(i64, (i64, i64))>>,
}

impl Brokers {
    pub(super) fn new(partitions: usize, random: &mut Random) -> Self {
        Self {
            are_mortal: random.once_in(4),
            leaders: (0..partitions).map(|_| random.below(BROKERS)).collect(),
            found_ms: vec![0; partitions],
            kept: vec![Vec::new(); partitions],
        }
    }

    /// A broker may die. True if one did that led a partition.
    pub(super) fn may_die(&mut self, now_ms: i64, random: &mut Random) -> bool {
        if !self.are_mortal || !random.once_in(600) || !self.have_leaders(now_ms) {
            return false;
        }
        let dead = random.below(BROKERS);
        let away_ms = 100 + random.below(AWAY_MS_MAX) as i64;
        for partition in 0..self.leaders.len() {
            if self.leaders[partition] != dead {
                continue;
            }
            // With replicas another broker leads it; without it comes back with its broker.
            let election_ms = 1 + random.below(ELECTION_MS_MAX) as i64;
            let has_replicas = random.once_in(2);
            if has_replicas && election_ms < away_ms {
                self.leaders[partition] = (dead + 1 + random.below(BROKERS - 1)) % BROKERS;
            }
            self.found_ms[partition] = now_ms + if has_replicas { election_ms.min(away_ms) } else { away_ms };
        }
        !self.have_leaders(now_ms)
    }

    /// True if a partition can be fetched from and written to.
    pub(super) fn has_leader(&self, partition: usize, now_ms: i64) -> bool {
        self.found_ms[partition] <= now_ms
    }

    /// True if brokers can tell the ends of all partitions.
    pub(super) fn have_leaders(&self, now_ms: i64) -> bool {
        self.found_ms.iter().all(|found_ms| *found_ms <= now_ms)
    }

    /// A producer keeps a row until its partition has a leader.
    pub(super) fn keep(&mut self, partition: usize, row: (i64, i64), now_ms: i64) {
        self.kept[partition].push((now_ms, row));
    }

    /// Rows that producers can send now, of a partition that has a leader again.
    pub(super) fn sent(&mut self, partition: usize, now_ms: i64) -> impl Iterator<Item = (i64, i64)> {
        let kept = if self.has_leader(partition, now_ms) {
            std::mem::take(&mut self.kept[partition])
        } else {
            Vec::new()
        };
        kept.into_iter().filter(move |(made_ms, _)| now_ms - made_ms <= KEPT_MS_MAX).map(|(_, row)| row)
    }

    /// Producers give up: time goes on by more than a row may be late.
    pub(super) fn give_up(&mut self) {
        self.kept.iter_mut().for_each(Vec::clear);
    }
}
