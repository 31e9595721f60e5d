//! Goal: two ways to write a query are one for its checkpoint, and two queries are never. Method: pairs of queries; state of one that the
//! other goes on with.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::display::array_value_to_string;

use super::*;
use crate::checkpoint::wire::Manifest;
use crate::state::{MemoryShare, MemoryTable, StateTable, StoredVersion};

fn query(select: &str) -> Query {
    let job = format!(
        "CREATE STREAM s (k STRING, j STRING, n BIGINT, m BIGINT) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', \
           'subscribe' = 't', 'format' = 'json'); \
         CREATE VIEW v AS SELECT k AS word, j AS other, n AS number, m FROM s; \
         CREATE SINK out WITH ('connector' = 'noop'); INSERT INTO out {select}"
    );
    crate::parse_job(&job).unwrap().remove(0)
}

fn identity_of(select: &str) -> String {
    ArrangedQuery::new(&query(select), None).identity.unwrap()
}

const WRITTEN: &str = "SELECT k, j, sum(n) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES";

#[test]
fn order_and_names_do_not_matter_and_all_else_does() {
    let written = identity_of(WRITTEN);
    for same in [
        "SELECT j, k, count(*) AS other, sum(n) AS a FROM s GROUP BY j, k EMIT UPDATES",
        "SELECT t.j, t.k, sum(t.n), count(*) FROM s AS t GROUP BY t.j, t.k EMIT UPDATES",
        "SELECT word, other, sum(number) AS a, count(*) AS c FROM v GROUP BY other, word EMIT UPDATES",
    ] {
        assert_eq!(identity_of(same), written, "{same}");
    }
    for other in [
        "SELECT k, sum(n) AS a, count(*) AS c FROM s GROUP BY k EMIT UPDATES",
        "SELECT k, j, sum(m) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES",
        "SELECT k, j, sum(n + 1) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES",
        "SELECT k, j, max(n) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES",
        "SELECT k, j, sum(n) FILTER (WHERE n > 0) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES",
        "SELECT upper(k), j, sum(n) AS a, count(*) AS c FROM s GROUP BY upper(k), j EMIT UPDATES",
        "SELECT k, j, sum(CAST(n AS DOUBLE)) AS a, count(*) AS c FROM s GROUP BY k, j EMIT UPDATES",
    ] {
        assert_ne!(identity_of(other), written, "{other}");
    }
    assert_eq!(identity_of("SELECT DISTINCT k, j FROM s"), identity_of("SELECT DISTINCT j, k FROM s"));
    assert_eq!(ArrangedQuery::new(&query("SELECT k FROM s"), None).identity, None);
}

fn rows() -> RecordBatch {
    let text = |letter: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..12).map(|row| format!("{letter}{}", row % 3))))
    };
    let other: ArrayRef = Arc::new(StringArray::from_iter_values((0..12).map(|row| format!("j{}", row % 2))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..12));
    RecordBatch::try_from_iter([("k", text("k")), ("j", other), ("n", numbers.clone()), ("m", numbers)])
        .unwrap()
}

/// Operators of a query over tables with these rows.
fn life(query: &Query, stored: Vec<StoredVersion>) -> Operators {
    let layouts = Operators::layouts(query).unwrap();
    let mut stored = stored.into_iter();
    let tables = layouts.into_iter().map(|layout| {
        let mut table = MemoryTable::new(layout, MemoryShare::default()).unwrap();
        stored.by_ref().take(1).for_each(|version| table.restore(version).unwrap());
        Box::new(table) as Box<dyn StateTable>
    });
    Operators::with_tables(query, &Manifest::blank(), tables.collect()).unwrap()
}

/// Groups after the same rows came twice, once before a restart and once after it.
fn after_restart(before: &Query, after: &Query) -> Vec<String> {
    let mut first = life(before, Vec::new());
    first.push(rows()).unwrap();
    first.end_batch().unwrap();
    let version = first.version().unwrap().unwrap();
    let rows_of: Result<Vec<_>, _> = version.rows.collect();
    let stored =
        StoredVersion { kind: version.kind, evicted_until: version.evicted_until, rows: rows_of.unwrap() };
    let mut second = life(after, vec![stored]);
    second.set_gathering(true);
    let mut out = second.push(rows()).unwrap();
    out.extend(second.end_batch().unwrap());
    let mut lines = Vec::new();
    for batch in &out {
        for row in 0..batch.num_rows() {
            let named = |(field, column): (&FieldRef, &ArrayRef)| {
                format!("{} {}", field.name(), array_value_to_string(column, row).unwrap())
            };
            let schema = batch.schema();
            let columns: Vec<String> = schema.fields().iter().zip(batch.columns()).map(named).collect();
            lines.push(columns.join(", "));
        }
    }
    lines.sort();
    lines
}

#[test]
fn state_is_read_as_it_was_laid_out() {
    let other = query("SELECT j, k, count(*) AS c, sum(n) AS a FROM s GROUP BY j, k EMIT UPDATES");
    let written = query(WRITTEN);
    let expected = [
        "j j0, k k0, c 4, a 12",
        "j j0, k k1, c 4, a 28",
        "j j0, k k2, c 4, a 20",
        "j j1, k k0, c 4, a 24",
        "j j1, k k1, c 4, a 16",
        "j j1, k k2, c 4, a 32",
    ];
    let now = ArrangedQuery::new(&written, None);
    let again = ArrangedQuery::new(&other, now.identity.as_deref());
    assert_eq!(again.identity, now.identity);
    assert_eq!(after_restart(&now.query, &again.query), expected);

    // State of an older version is laid out as its query was written; only the order of keys may differ from that one.
    let old = Operators::state_identity(&written);
    let reordered = query("SELECT j, k, sum(n) AS a, count(*) AS c FROM s GROUP BY j, k EMIT UPDATES");
    let again = ArrangedQuery::new(&reordered, old.as_deref());
    assert_eq!(again.identity, old);
    let expected = expected.map(|line| {
        let (keys, values) = line.split_once(", c ").unwrap();
        let (count, sum) = values.split_once(", a ").unwrap();
        format!("{keys}, a {sum}, c {count}")
    });
    assert_eq!(after_restart(&written, &again.query), expected);
    let refused = ArrangedQuery::new(
        &query("SELECT j, k, max(n) AS a, count(*) AS c FROM s GROUP BY j, k EMIT UPDATES"),
        old.as_deref(),
    );
    assert_ne!(refused.identity, old);
}

#[test]
fn orders_are_tried_once_each() {
    let mut orders = permutations(4);
    assert_eq!(orders.len(), 24);
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 24);
    assert!(orders.iter().all(|order| (0..4).all(|place| order.contains(&place))));
}
