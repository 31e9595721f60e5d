//! Goal: aggregates that keep something of every row hand their states on in small batches, and are charged, under a memory limit
//! only. Method: plans, the sizes of batches, and answers that are the same with a limit and without.

use yeoul_base::{ByteSize, ErrorKind};

use super::Bench;
use crate::Options;

fn limited(mib: u64) -> Bench {
    let memory = Some(ByteSize::from_bytes(mib << 20));
    Bench::with(Options { threads: Some(2), memory, ..Options::default() })
}

const ROWS: &str = "(SELECT i % 500 AS g, i FROM generate_series(1, 20000) AS t(i))";

#[test]
fn only_states_that_grow_are_handed_on_in_small_batches() {
    let (bench, unlimited) = (limited(1024), Bench::new());
    for (calls, is_growing) in [
        ("array_agg(i)", true),
        ("median(i)", true),
        ("count(DISTINCT i), sum(DISTINCT i % 7)", true),
        ("string_agg(i::varchar, ',')", true),
        ("sum(i), avg(i), max(i), count(*)", false),
    ] {
        let sql = format!("EXPLAIN SELECT g, {calls} FROM {ROWS} GROUP BY g");
        assert_eq!(bench.sql(&sql).contains("BatchRowsExec: rows=64"), is_growing, "{calls}");
        assert!(!unlimited.sql(&sql).contains("BatchRowsExec"), "{calls}");
    }
    assert!(!bench.sql(&format!("EXPLAIN SELECT median(i) FROM {ROWS}")).contains("BatchRowsExec"));
}

#[test]
fn small_batches_hold_the_same_answers() {
    let (bench, unlimited) = (limited(1024), Bench::new());
    for sql in [
        format!("SELECT g, array_agg(i ORDER BY i DESC)::varchar AS a FROM {ROWS} GROUP BY g"),
        format!("SELECT g, median(i), median(DISTINCT i % 7), count(DISTINCT i % 11) FROM {ROWS} GROUP BY g"),
        format!(
            "SELECT g, string_agg(i::varchar, '+' ORDER BY i) AS s, avg(DISTINCT i::decimal(9, 2)) FROM {ROWS} GROUP BY g"
        ),
        format!(
            "SELECT g, percentile_cont(0.3) WITHIN GROUP (ORDER BY i), nth_value(i, 3 ORDER BY i) FROM {ROWS} GROUP BY g"
        ),
    ] {
        let batches = bench.batches(&sql).unwrap();
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 500, "{sql}");
        assert!(batches.iter().all(|batch| batch.num_rows() <= 64), "{sql}");
        let sorted = format!("SELECT * FROM ({sql}) ORDER BY g");
        assert_eq!(bench.sql(&sorted), unlimited.sql(&sorted), "{sql}");
    }
}

#[test]
fn what_has_no_room_ends_with_an_error_that_names_a_limit() {
    let bench = limited(128);
    let error = bench.refused("SELECT array_agg(i::varchar || 'a long text for each of them') FROM generate_series(1, 9000000) AS t(i)");
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("--memory ") && hint.contains("would ")),
        "{error}"
    );
}
