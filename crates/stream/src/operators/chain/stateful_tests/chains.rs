//! Joins and deduplication below windows, unions, and joins of a stream with itself.

use super::*;

/// Rows whose times go up, so that none is late.
fn punctual_rows(random: &mut Random, step: i64, numbers: &mut i64) -> Vec<Row> {
    let mut rows = random_rows(random, 0, numbers);
    for row in &mut rows {
        row.0 = Some(row.0.unwrap_or(3));
        row.2 = Some((1000 + step * 10 + random.below(15) as i64) * 1000);
    }
    rows
}

#[test]
fn a_join_goes_into_windows_and_loses_nothing_as_late() {
    let (mut windows, mut unmatched) = (0, 0);
    for seed in 0..40_u64 {
        let mut random = Random::new(seed);
        let kind = ["INNER", "LEFT"][seed as usize % 2];
        let mut life = Life::new(&format!(
            "CREATE VIEW both AS SELECT l.ts, r.v AS other FROM l {kind} JOIN r ON l.k = r.k \
             AND r.ts >= l.ts - INTERVAL '25 ms' AND r.ts <= l.ts + INTERVAL '25 ms';\
             INSERT INTO out SELECT window_end, count(*) AS n, count(other) AS matched \
             FROM TUMBLE(TABLE both, DESCRIPTOR(ts), INTERVAL '40 ms') GROUP BY window_end"
        ));
        let (mut all, mut out, mut numbers) = ([Vec::new(), Vec::new()], BTreeMap::new(), 0);
        for step in 0..80_i64 {
            let rows = [0, 1]
                .map(|_| if step < 60 { punctual_rows(&mut random, step, &mut numbers) } else { Vec::new() });
            // At last something that ends all windows.
            let last: &[Row] = &[(Some(99), 0, Some(10_000_000))];
            let sides = if step == 60 { [last, last] } else { [rows[0].as_slice(), rows[1].as_slice()] };
            for row in life.batch(&mut random, sides) {
                let [end, n, matched] = row[..] else { panic!("{row:?}") };
                assert!(
                    out.insert(end.unwrap() / 1000, (n.unwrap(), matched.unwrap())).is_none(),
                    "a window closed twice"
                );
            }
            all[0].extend_from_slice(&rows[0]);
            all[1].extend_from_slice(&rows[1]);
            if random.once_in(15) {
                life.restart();
            }
            let late: u64 = life.operators.take_usages().iter().map(|(.., counts)| counts.late).sum();
            assert_eq!(late, 0, "seed {seed}, step {step}");
        }
        let mut expected: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for left in &all[0] {
            let is_match = |r: &&Row| r.0 == left.0 && (r.2.unwrap() - left.2.unwrap()).abs() <= 25_000;
            let matches = all[1].iter().filter(is_match).count() as i64;
            let rows = if kind == "LEFT" { matches.max(1) } else { matches };
            if rows > 0 {
                let window = expected.entry((left.2.unwrap() / 1000).div_euclid(40) * 40 + 40).or_default();
                *window = (window.0 + rows, window.1 + matches);
                unmatched += rows - matches;
            }
        }
        windows += expected.len();
        assert_eq!(out, expected, "seed {seed}");
    }
    assert!(windows > 500 && unmatched > 100, "{windows} windows, {unmatched} unmatched");
}

#[test]
fn groups_of_windows_go_into_the_larger_windows_that_hold_them() {
    for seed in 0..20_u64 {
        let mut random = Random::new(seed);
        let mut life = Life::new(
            "CREATE VIEW small AS SELECT window_time AS at, k, count(*) AS n \
             FROM TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '10 ms') GROUP BY window_time, k;\
             INSERT INTO out SELECT window_end, sum(n) AS n \
             FROM TUMBLE(TABLE small, DESCRIPTOR(at), INTERVAL '40 ms') GROUP BY window_end",
        );
        let (mut expected, mut out, mut numbers): (BTreeMap<i64, i64>, BTreeMap<i64, i64>, i64) =
            (BTreeMap::new(), BTreeMap::new(), 0);
        for step in 0..70_i64 {
            let mut rows =
                if step < 60 { punctual_rows(&mut random, step, &mut numbers) } else { Vec::new() };
            for row in &rows {
                *expected.entry((row.2.unwrap() / 1000).div_euclid(40) * 40 + 40).or_default() += 1;
            }
            if step == 60 {
                rows.push((None, 0, Some(10_000_000)));
            }
            for row in life.batch(&mut random, [&rows, &[]]) {
                let (end, n) = (row[0].unwrap() / 1000, row[1].unwrap());
                assert!(out.insert(end, n).is_none(), "a window closed twice");
            }
            if random.once_in(10) {
                life.restart();
            }
            let late: u64 = life.operators.take_usages().iter().map(|(.., counts)| counts.late).sum();
            assert_eq!(late, 0, "seed {seed}, step {step}");
        }
        assert_eq!(out, expected, "seed {seed}");
    }
}

#[test]
fn a_deduplication_goes_into_windows() {
    for seed in 0..20_u64 {
        let mut random = Random::new(seed);
        let mut life = Life::new(
            "CREATE VIEW once AS SELECT DISTINCT ON (v, ts) v, ts FROM l;\
             INSERT INTO out SELECT window_end, count(*) AS n \
             FROM TUMBLE(TABLE once, DESCRIPTOR(ts), INTERVAL '40 ms') GROUP BY window_end",
        );
        let (mut expected, mut out, mut numbers): (BTreeMap<i64, i64>, BTreeMap<i64, i64>, i64) =
            (BTreeMap::new(), BTreeMap::new(), 0);
        for step in 0..70_i64 {
            let mut rows =
                if step < 60 { punctual_rows(&mut random, step, &mut numbers) } else { Vec::new() };
            for row in &rows {
                *expected.entry((row.2.unwrap() / 1000).div_euclid(40) * 40 + 40).or_default() += 1;
            }
            rows.extend(rows.clone());
            if step == 60 {
                rows.push((None, 0, Some(10_000_000)));
            }
            for row in life.batch(&mut random, [&rows, &[]]) {
                assert!(
                    out.insert(row[0].unwrap() / 1000, row[1].unwrap()).is_none(),
                    "a window closed twice"
                );
            }
            if random.once_in(10) {
                life.restart();
            }
        }
        assert_eq!(out, expected, "seed {seed}");
    }
}

#[test]
fn rows_of_a_union_are_those_of_all_its_streams() {
    let mut random = Random::new(7);
    let mut life = Life::new("INSERT INTO out SELECT k, v FROM l WHERE v > 1 UNION ALL SELECT v, k FROM r");
    let out = life.batch(&mut random, [&[(Some(1), 1, None), (Some(1), 2, None)], &[(Some(5), 6, None)]]);
    assert_eq!(out, [[Some(1), Some(2)], [Some(6), Some(5)]]);
    assert!(!life.operators.has_batches());
    // Both watermarks count below a step with state.
    let mut life = Life::new(
        "INSERT INTO out SELECT DISTINCT k, ts FROM (SELECT k, ts FROM l UNION ALL SELECT k, ts FROM r)",
    );
    life.batch(&mut random, [&[(Some(1), 1, Some(900_000))], &[]]);
    assert_eq!(life.operators.watermarks_ms().0, 0);
    life.batch(&mut random, [&[], &[(Some(1), 1, Some(500_000))]]);
    assert_eq!(life.operators.watermarks_ms().0, 470);
}

#[test]
fn a_stream_is_joined_with_itself() {
    let mut random = Random::new(8);
    let mut life = Life::new(
        "INSERT INTO out SELECT a.v, b.v AS other FROM l AS a JOIN l AS b ON a.k = b.v EMIT UPDATES",
    );
    assert_eq!(life.query.further_streams.len(), 0);
    let out = life.batch(&mut random, [&[(Some(2), 1, None), (Some(3), 2, None), (Some(3), 3, None)], &[]]);
    assert_eq!(out, [[Some(1), Some(2)], [Some(2), Some(3)], [Some(3), Some(3)]]);
}
