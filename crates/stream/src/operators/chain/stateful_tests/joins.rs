//! Joins beside a model that looks at every pair of rows.

use super::*;

/// A join whose condition on times is `l.ts >= r.ts - before AND l.ts <= r.ts + after`, or strict.
struct JoinModel {
    kind: JoinKind,
    before_ms: i64,
    after_ms: i64,
    is_strict: bool,
    /// True if left rows with odd values fail the part of the condition that is about them alone.
    drops_odd: bool,
    times: Times,
    rows: [Vec<(Row, bool)>; 2],
}

impl JoinModel {
    fn holds(&self, left: &Row, right: &Row) -> bool {
        let (Some(l), Some(r)) = (left.2, right.2) else { return false };
        let (low, high) = (r - self.before_ms * 1000, r + self.after_ms * 1000);
        let in_range = if self.is_strict { low < l && l < high } else { low <= l && l <= high };
        left.0.is_some() && left.0 == right.0 && in_range && !(self.drops_odd && left.1 % 2 != 0)
    }

    fn pair(left: Option<&Row>, right: Option<&Row>) -> Given {
        let value = |row: Option<&Row>| row.map(|row| row.1);
        vec![value(left), value(right)]
    }

    fn batch(&mut self, new: [&[Row]; 2]) -> Vec<Given> {
        let mut out = Vec::new();
        let begin = [self.rows[0].len(), self.rows[1].len()];
        for side in [0, 1] {
            self.times.observe(side, new[side]);
            for row in new[side].iter().filter(|row| !self.times.is_late(row.2)) {
                if side == 0 && self.drops_odd && row.1 % 2 != 0 {
                    // It has no match, and waits for nothing.
                    if self.kind.gives_unmatched(0) {
                        out.push(Self::pair(Some(row), None));
                    }
                    continue;
                }
                self.rows[side].push((*row, false));
            }
        }
        for left in 0..self.rows[0].len() {
            for right in 0..self.rows[1].len() {
                let is_new = left >= begin[0] || right >= begin[1];
                if !is_new || !self.holds(&self.rows[0][left].0, &self.rows[1][right].0) {
                    continue;
                }
                match self.kind {
                    JoinKind::LeftSemi if self.rows[0][left].1 => {}
                    JoinKind::LeftSemi => out.push(vec![Some(self.rows[0][left].0.1)]),
                    _ => out.push(Self::pair(Some(&self.rows[0][left].0), Some(&self.rows[1][right].0))),
                }
                self.rows[0][left].1 = true;
                self.rows[1][right].1 = true;
            }
        }
        let inclusive = i64::from(!self.is_strict);
        let until_ms =
            [self.before_ms, self.after_ms].map(|offset| self.times.current_ms - offset - inclusive);
        for side in [0, 1] {
            let is_over = |row: &Row| row.2.is_some_and(|us| us <= until_ms[side] * 1000);
            let (over, kept) =
                std::mem::take(&mut self.rows[side]).into_iter().partition(|(row, _)| is_over(row));
            self.rows[side] = kept;
            let over: Vec<(Row, bool)> = over;
            for (row, _) in over.iter().filter(|(_, had_match)| !had_match && self.kind.gives_unmatched(side))
            {
                out.push(if side == 0 { Self::pair(Some(row), None) } else { Self::pair(None, Some(row)) });
            }
        }
        self.times.end(2);
        out.sort();
        out
    }
}

#[test]
fn joins_give_what_spark_gives_batch_by_batch() {
    let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::LeftSemi];
    let (mut pairs, mut unmatched, mut restarts, mut evicted) = (0, 0, 0, 0);
    for seed in 0..100_u64 {
        let mut random = Random::new(seed);
        let kind = kinds[seed as usize % kinds.len()];
        let (is_strict, drops_odd) = (seed % 3 == 0, seed % 2 == 0);
        let (before_ms, after_ms) = (random.below(30) as i64, 1 + random.below(30) as i64);
        let [more, less] = if is_strict { [">", "<"] } else { [">=", "<="] };
        let odd = if drops_odd { "AND l.v % 2 = 0" } else { "" };
        let columns = if kind == JoinKind::LeftSemi { "l.v" } else { "l.v, r.v AS other" };
        let mut life = Life::new(&format!(
            "INSERT INTO out SELECT {columns} FROM l {} JOIN r ON l.k = r.k AND l.ts {more} r.ts - INTERVAL '{before_ms} ms' \
             AND l.ts {less} r.ts + INTERVAL '{after_ms} ms' {odd}",
            kind.name()
        ));
        // Inner and semi joins have the filter before the watermark, which then hides rows from it.
        let is_before = drops_odd && !kind.gives_unmatched(0);
        let mut model = JoinModel {
            kind,
            before_ms,
            after_ms,
            is_strict,
            drops_odd,
            times: Times::default(),
            rows: [Vec::new(), Vec::new()],
        };
        let mut numbers = 0;
        for step in 0..60 {
            let mut rows = [0, 1].map(|_| random_rows(&mut random, 40 + step * 9, &mut numbers));
            if is_before {
                rows[0].retain(|row| row.1 % 2 == 0);
            }
            if kind == JoinKind::Inner || kind == JoinKind::LeftSemi {
                // The same is true of null keys.
                rows.iter_mut().for_each(|rows| rows.retain(|row| row.0.is_some()));
            } else {
                let nullable: &[usize] = match kind {
                    JoinKind::Left => &[1],
                    JoinKind::Right => &[0],
                    _ => &[],
                };
                nullable.iter().for_each(|side| rows[*side].retain(|row| row.0.is_some()));
            }
            let sides = [rows[0].as_slice(), rows[1].as_slice()];
            let ours = life.batch(&mut random, sides);
            let expected = model.batch(sides);
            assert_eq!(ours, expected, "seed {seed}, {kind:?}, step {step}");
            assert_eq!(
                life.operators.watermarks_ms(),
                (model.times.current_ms, model.times.late_ms),
                "seed {seed}"
            );
            pairs += ours.iter().filter(|row| row.iter().all(Option::is_some)).count();
            unmatched += ours.iter().filter(|row| row.contains(&None)).count();
            let usages = life.operators.take_usages();
            evicted += usages[0].2.removed;
            if kind != JoinKind::LeftSemi && !is_before {
                let kept: usize = model.rows.iter().map(Vec::len).sum();
                assert_eq!(usages[0].1.keys, kept as u64, "seed {seed}, step {step}");
            }
            if random.once_in(8) {
                life.restart();
                model.times.greatest_ms = [None, None];
                restarts += 1;
            }
        }
    }
    assert!(
        pairs > 5_000 && unmatched > 2_000 && restarts > 300 && evicted > 10_000,
        "{pairs} pairs, {unmatched} unmatched, {restarts} restarts, {evicted} evicted"
    );
}

#[test]
fn rows_without_a_match_come_out_a_millisecond_after_the_last_that_could_match() {
    let mut random = Random::new(1);
    let mut life = Life::new(
        "INSERT INTO out SELECT l.v, r.v AS other FROM l LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts - INTERVAL '5 ms' AND l.ts <= r.ts",
    );
    let at = |ms: i64| Some(ms * 1000);
    // Left watermark 1000 - 20, right one 1010 - 30: the query's is 980.
    let out = life.batch(
        &mut random,
        [&[(Some(1), 1, at(1000)), (Some(1), 2, at(974)), (Some(1), 3, at(975))], &[(Some(9), 4, at(1010))]],
    );
    assert!(out.is_empty(), "{out:?}");
    // By `>=` rows at 980 - 5 - 1 and before are over.
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[Some(2), None]]);
    // At 975 a row matches one of 980, which is late, though: by the watermark of the batch before, which was 980.
    let out = life.batch(&mut random, [&[], &[(Some(1), 5, at(980))]]);
    assert!(out.is_empty(), "{out:?}");
    let out = life.batch(&mut random, [&[(Some(2), 7, at(1001))], &[(Some(1), 6, at(1011))]]);
    assert!(out.is_empty(), "{out:?}");
    // Now the watermark is 981: 975 is over.
    assert!(life.operators.wants_empty_batch());
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[Some(3), None]]);
    assert!(!life.operators.wants_empty_batch());
}

#[test]
fn a_watermark_among_the_keys_bounds_both_sides() {
    let mut random = Random::new(2);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l FULL JOIN r ON l.k = r.k AND l.ts = r.ts");
    let at = |ms: i64| Some(ms * 1000);
    let out = life.batch(
        &mut random,
        [
            &[(Some(1), 1, at(50)), (Some(1), 2, at(200))],
            &[(Some(1), 3, at(50)), (Some(2), 4, at(60)), (Some(1), 5, at(210))],
        ],
    );
    assert_eq!(out, [[Some(1), Some(3)]]);
    // 180 on both sides: what is there until then goes, and only the row without a match comes out.
    let out = life.batch(&mut random, [&[], &[]]);
    assert_eq!(out, [[None, Some(4)]]);
    assert_eq!(life.state_keys(), 2);
}

#[test]
fn a_join_without_a_bound_keeps_rows_for_ever_and_wants_no_empty_batch() {
    let mut random = Random::new(3);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES");
    let at = |ms: i64| Some(ms * 1000);
    life.batch(&mut random, [&[(Some(1), 1, at(100))], &[(Some(2), 2, at(100))]]);
    assert!(!life.operators.wants_empty_batch());
    life.batch(&mut random, [&[(Some(3), 3, at(90_000))], &[(Some(3), 4, at(90_000))]]);
    life.batch(&mut random, [&[], &[]]);
    life.restart();
    let out = life.batch(&mut random, [&[(Some(2), 5, at(95_000))], &[(Some(1), 6, at(95_000))]]);
    assert_eq!(out, [[Some(1), Some(6)], [Some(5), Some(2)]]);
    // The times do not come to the join, as Spark prunes them away: nothing is late there.
    let out = life.batch(&mut random, [&[(Some(2), 7, at(80_000))], &[]]);
    assert_eq!(out, [[Some(7), Some(2)]]);
}

#[test]
fn many_pairs_come_in_parts_and_each_once() {
    let mut random = Random::new(4);
    let mut life =
        Life::new("INSERT INTO out SELECT l.v, r.v AS other FROM l JOIN r ON l.k = r.k EMIT UPDATES");
    let rows = |from: i64| (from..from + 200).map(|v| (Some(1), v, Some(1))).collect::<Vec<Row>>();
    let out = life.batch(&mut random, [&rows(0), &rows(1000)]);
    assert_eq!(out.len(), 200 * 200);
    let distinct: std::collections::BTreeSet<_> = out.into_iter().collect();
    assert_eq!(distinct.len(), 200 * 200);
}
