//! Goal: however many shards have the state of a query, each batch gives the same rows. Method: the same random batches through
//! queries of all kinds with 1, 2, 3 and 7 shards, which take turns at random or are threads.

use std::collections::VecDeque;

use super::*;
use crate::operators::{FromShard, ToShard};

/// Messages that wait for a shard in these tests: so few that there is often no room.
const ROOM: usize = 2;

/// Shards that work in turns, in a random order, whenever somebody waits for them.
pub(super) struct InTurns {
    shards: Vec<(Shard, VecDeque<ToShard>)>,
    told: VecDeque<FromShard>,
    random: Random,
}

impl InTurns {
    pub fn new(shards: Vec<Shard>, seed: u64) -> Self {
        let shards = shards.into_iter().map(|shard| (shard, VecDeque::new())).collect();
        Self { shards, told: VecDeque::new(), random: Random::new(seed) }
    }

    /// Has one that has something to do carry out a message.
    fn turn(&mut self) {
        let busy = self.shards.iter_mut().filter(|(_, messages)| !messages.is_empty());
        let mut busy: Vec<_> = busy.collect();
        if busy.is_empty() {
            return;
        }
        let at = self.random.below(busy.len());
        let (shard, messages) = &mut busy[at];
        let told = &mut self.told;
        let handled = shard.handle(messages.pop_front().unwrap(), &mut |what| {
            told.push_back(what);
            Ok(())
        });
        if let Err(error) = handled {
            self.told.push_back(FromShard::Failed(error));
        }
    }
}

impl Exchange for InTurns {
    fn offer(&mut self, shard: usize, message: ToShard) -> Result<Option<ToShard>> {
        let messages = &mut self.shards[shard].1;
        if messages.len() == ROOM {
            return Ok(Some(message));
        }
        messages.push_back(message);
        Ok(None)
    }

    fn take(&mut self, wait: Duration) -> Result<Option<FromShard>> {
        if self.told.is_empty() && (!wait.is_zero() || self.random.once_in(3)) {
            self.turn();
        }
        Ok(self.told.pop_front())
    }
}

const QUERIES: [&str; 16] = [
    "SELECT k, count(*) AS n, sum(v) AS s FROM l GROUP BY k EMIT UPDATES",
    "SELECT k, count(*) AS n FROM l GROUP BY k EMIT COMPLETE",
    "SELECT count(*) AS n, max(v) AS m FROM l EMIT UPDATES",
    "SELECT count(*) AS n FROM l EMIT COMPLETE",
    "SELECT window_end, k, count(*) AS n, min(v) AS m, first_value(v) AS f, last_value(v) AS l \
     FROM TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '20 ms') GROUP BY window_end, k",
    "SELECT window_end, count(*) AS n FROM HOP(TABLE l, DESCRIPTOR(ts), INTERVAL '10 ms', INTERVAL '30 ms') \
     GROUP BY window_end EMIT UPDATES",
    "SELECT DISTINCT k FROM l",
    "SELECT DISTINCT k, ts FROM (SELECT k, ts FROM l UNION ALL SELECT k, ts FROM r)",
    "SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES",
    "SELECT l.v, r.v AS other FROM l LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts - INTERVAL '15 ms' \
     AND l.ts <= r.ts + INTERVAL '10 ms'",
    "SELECT l.v, r.v AS other FROM l FULL JOIN r ON l.k = r.k AND l.ts >= r.ts - INTERVAL '15 ms' \
     AND l.ts <= r.ts + INTERVAL '10 ms'",
    "SELECT l.v FROM l LEFT SEMI JOIN r ON l.k = r.k AND l.ts >= r.ts - INTERVAL '15 ms' AND l.ts <= r.ts + INTERVAL '10 ms'",
    "SELECT * FROM probe(TABLE l PARTITION BY k, clock => 'machine') EMIT UPDATES",
    "SELECT * FROM probe(TABLE l PARTITION BY k, clock => 'event') EMIT UPDATES",
    "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE both_sides, DESCRIPTOR(ts), INTERVAL '40 ms') GROUP BY window_end",
    "SELECT window_end, sum(n) AS n FROM TUMBLE(TABLE small, DESCRIPTOR(at), INTERVAL '40 ms') GROUP BY window_end",
];

const VIEWS: &str = "CREATE VIEW both_sides AS SELECT l.ts, r.v AS other FROM l LEFT JOIN r ON l.k = r.k \
     AND r.ts >= l.ts - INTERVAL '25 ms' AND r.ts <= l.ts + INTERVAL '25 ms';\
     CREATE VIEW small AS SELECT window_time AS at, k, count(*) AS n \
     FROM TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '10 ms') GROUP BY window_time, k;";

/// Rows of more keys than there are shards, of which some times are late.
fn rows_of_many_keys(random: &mut Random, step: i64, numbers: &mut i64) -> Vec<Row> {
    let count = if random.once_in(5) { 0 } else { random.below(40) };
    let mut row = || {
        *numbers += 1;
        let key = (!random.once_in(20)).then(|| random.below(30) as i64);
        let value = if *numbers == 13 { 14 } else { *numbers };
        let time = (1000 + step * 10 + random.below(50) as i64 - 35) * 1000 + random.below(3) as i64 * 499;
        (key, value, (!random.once_in(20)).then_some(time))
    };
    (0..count).map(|_| row()).collect()
}

#[test]
fn each_batch_gives_the_same_rows_whatever_the_number_of_shards() {
    let mut given = 0;
    for (number, select) in QUERIES.iter().enumerate() {
        for seed in 0..6_u64 {
            let is_gathering = seed % 2 == 0;
            let text = format!("{VIEWS} INSERT INTO out {select}");
            let mut lives = [1, 2, 3, 7].map(|shards| {
                let mut life = Life::with_shards(&text, &[shards]);
                life.has_threads = seed >= 4;
                life.is_gathering = is_gathering;
                life.begin_anew();
                life
            });
            let (mut random, mut numbers) = (Random::new(seed * 100 + number as u64), 0);
            for step in 0..40_i64 {
                let sides = [0, 1].map(|_| rows_of_many_keys(&mut random, step, &mut numbers));
                let (order, restarts) = (random.next(), random.once_in(8));
                let mut all = Vec::new();
                for life in &mut lives {
                    life.operators.set_now_ms(1000 + step * 7);
                    let wants_empty_batch = life.operators.wants_empty_batch();
                    let out = life.batch(&mut Random::new(order), [&sides[0], &sides[1]]);
                    let mut state: Vec<_> = life.operators.take_usages();
                    let is_chain = state.len() > 1;
                    for (_, usage, counts) in &mut state {
                        usage.memory_bytes = 0;
                        if is_chain {
                            // They go by batches of rows, of which shards before a step make more.
                            (counts.updated, counts.late) = (0, 0);
                        }
                    }
                    given += out.len();
                    all.push((out, state, life.operators.watermarks_ms(), wants_empty_batch));
                    if restarts {
                        life.restart();
                    }
                }
                for (other, life) in all[1..].iter().zip(&lives[1..]) {
                    let shards = &life.shards;
                    assert_eq!(other, &all[0], "{select}, seed {seed}, step {step}, {shards:?} shards");
                }
            }
        }
    }
    assert!(given > 100_000, "{given} rows");
}

#[test]
fn rows_of_a_step_without_a_key_are_all_in_one_shard() {
    let shards = |select: &str| {
        let mut query = query(&format!("INSERT INTO out {select}"));
        query.settings.parallelism = 5;
        Operators::table_parts(&query).unwrap().len()
    };
    assert_eq!(shards("SELECT count(*) AS n FROM l EMIT UPDATES"), 1);
    assert_eq!(shards("SELECT k, count(*) AS n FROM l GROUP BY k EMIT UPDATES"), 5);
    assert_eq!(shards("SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES"), 10);
}

#[test]
fn what_a_shard_fails_with_is_the_error_of_the_query() {
    for has_threads in [false, true] {
        let mut life = Life::with_shards(
            "INSERT INTO out SELECT * FROM probe(TABLE l PARTITION BY k, clock => 'machine') EMIT UPDATES",
            &[3],
        );
        life.has_threads = has_threads;
        life.begin_anew();
        life.operators.push(batch(&[(Some(1), 3, None), (Some(9), 13, None), (Some(4), 4, None)])).unwrap();
        let error = life.operators.end_batch().unwrap_err();
        assert_eq!(error.to_string(), "the state function 'probe' failed: a value of 13");
    }
}

#[test]
fn state_is_the_same_after_restarts_with_other_numbers_of_shards() {
    let mut lives = [&[1][..], &[1, 3, 2, 1, 7, 128]].map(|shards| {
        let select = "SELECT k, count(*) AS n, sum(v) AS s FROM l GROUP BY k EMIT UPDATES";
        let mut life = Life::with_shards(&format!("INSERT INTO out {select}"), shards);
        life.has_threads = true;
        life.begin_anew();
        life
    });
    let (mut random, mut numbers) = (Random::new(3), 0);
    for step in 0..30_i64 {
        let rows = rows_of_many_keys(&mut random, step, &mut numbers);
        let [one, many] = lives.each_mut().map(|life| life.batch(&mut Random::new(7), [&rows, &[]]));
        assert_eq!(one, many);
        if step % 3 == 2 {
            lives.iter_mut().for_each(Life::restart);
            // Also one that restarts before it has written a checkpoint.
            if step % 2 == 0 {
                lives.iter_mut().for_each(Life::restart);
            }
        }
    }
    let [one, many] = lives.each_mut().map(|life| life.batch(&mut Random::new(7), [&[], &[]]));
    assert_eq!(one, many);
    let files = &lives[1].files;
    let mut sets: Vec<_> = files.iter().map(|file| file.partitions).collect();
    sets.sort();
    sets.dedup();
    assert_eq!(sets.len(), lives[1].query.settings.parallelism, "no file of another number is left");
}
