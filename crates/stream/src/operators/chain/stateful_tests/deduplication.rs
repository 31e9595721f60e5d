//! Deduplication beside a model that looks at every row.

use super::*;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kept {
    ForEver,
    UntilTime,
    Within,
}

/// Deduplication by Spark's rules.
struct DistinctModel {
    kept: Kept,
    times: Times,
    /// Times at which keys are over.
    keys: BTreeMap<(Option<i64>, Option<i64>), Option<i64>>,
}

impl DistinctModel {
    fn batch(&mut self, rows: &[Row]) -> Vec<Given> {
        self.times.observe(0, rows);
        let mut out = Vec::new();
        for row in rows.iter().filter(|row| !self.times.is_late(row.2)) {
            let key = (row.0, if self.kept == Kept::UntilTime { row.2 } else { None });
            if self.keys.contains_key(&key) {
                continue;
            }
            let over = match self.kept {
                Kept::ForEver => None,
                Kept::UntilTime => row.2,
                Kept::Within => Some(row.2.unwrap_or(0) + 20_000),
            };
            self.keys.insert(key, over);
            out.push(vec![row.0, Some(row.1), row.2]);
        }
        let until = self.times.current_ms * 1000;
        self.keys.retain(|_, over| over.is_none_or(|over| over > until));
        self.times.end(1);
        out.sort();
        out
    }
}

#[test]
fn the_first_row_of_each_key_comes_out_as_spark_gives_it() {
    let (mut repeats, mut late, mut removed, mut restarts) = (0, 0, 0, 0);
    for seed in 0..60_u64 {
        let mut random = Random::new(seed);
        let kept = [Kept::ForEver, Kept::UntilTime, Kept::Within][seed as usize % 3];
        let distinct = match kept {
            Kept::ForEver => "DISTINCT ON (k)",
            Kept::UntilTime => "DISTINCT ON (k, ts)",
            Kept::Within => "DISTINCT WITHIN WATERMARK ON (k)",
        };
        let mut life = Life::new(&format!("INSERT INTO out SELECT {distinct} k, v, ts FROM l"));
        let mut model = DistinctModel { kept, times: Times::default(), keys: BTreeMap::new() };
        let mut numbers = 0;
        for step in 0..60 {
            let mut rows = random_rows(&mut random, 40 + step * 6, &mut numbers);
            // So that keys come again, and those for ever do not run out at once.
            for row in &mut rows {
                row.0 =
                    row.0.map(|k| if kept == Kept::ForEver { k + 4 * random.below(20) as i64 } else { k });
                row.2 = row.2.map(|us| us - us % 3000);
            }
            let ours = life.batch(&mut random, [&rows, &[]]);
            let expected = model.batch(&rows);
            assert_eq!(ours, expected, "seed {seed}, {kept:?}, step {step}");
            let usages = life.operators.take_usages();
            assert_eq!(usages[0].1.keys, model.keys.len() as u64, "seed {seed}, step {step}");
            late += usages[0].2.late;
            removed += usages[0].2.removed;
            repeats += rows.len() - ours.len();
            if random.once_in(8) {
                life.restart();
                model.times.greatest_ms = [None, None];
                restarts += 1;
            }
        }
    }
    assert!(
        repeats > 3_000 && late > 300 && removed > 2_000 && restarts > 200,
        "{repeats} repeats, {late} late, {removed} removed, {restarts} restarts"
    );
}

#[test]
fn a_repeat_before_the_eviction_is_a_repeat_and_does_not_extend_the_time() {
    let mut random = Random::new(5);
    let mut life = Life::new("INSERT INTO out SELECT DISTINCT WITHIN WATERMARK ON (k) k, v FROM l");
    let at = |ms: i64| Some(ms * 1000);
    let mut batch =
        |rows: &[Row]| life.batch(&mut random, [rows, &[]]).into_iter().map(|row| row[1]).collect::<Vec<_>>();
    // It expires at 120, whatever comes later.
    assert_eq!(batch(&[(Some(1), 1, at(100)), (Some(1), 2, at(119))]), [Some(1)]);
    assert_eq!(batch(&[(Some(7), 3, at(139))]), [Some(3)]);
    // The watermark is 119.
    assert_eq!(batch(&[(Some(1), 4, at(130)), (Some(7), 5, at(140))]), []);
    // Now it is 120, so the key goes at the end of this batch: until then a repeat is one.
    assert_eq!(batch(&[(Some(1), 6, at(131))]), []);
    assert_eq!(batch(&[(Some(1), 7, at(131))]), [Some(7)]);
}

#[test]
fn without_the_time_late_rows_are_dropped_only_if_it_comes_there() {
    let mut random = Random::new(6);
    let at = |ms: i64| Some(ms * 1000);
    for (select, expected) in [("k, v, ts", 0), ("k, v", 1)] {
        let mut life = Life::new(&format!("INSERT INTO out SELECT DISTINCT ON (k) {select} FROM l"));
        life.batch(&mut random, [&[(Some(1), 1, at(1000))], &[]]);
        assert_eq!(life.operators.wants_empty_batch(), expected == 0 || life.operators.has_watermark());
        life.batch(&mut random, [&[], &[]]);
        let out = life.batch(&mut random, [&[(Some(2), 2, at(980))], &[]]);
        assert_eq!(out.len(), expected, "{select}");
    }
}
