//! Page for people: the queries of a process, how fast they are, how far behind, and how old their checkpoints are.

use chrono::DateTime;
use serde_json::Value;
use yeoul_console::{Cell, Href, Page, Table, Tone};

use super::figures::{QueryFigures, QueryStatus};
use crate::dataflow::{Progress, SourceProgress};

/// The page at `/` as of `now_ms`, in milliseconds since 1970.
pub(super) fn page(figures: &QueryFigures, now_ms: i64, query: &str) -> Page {
    let mut statuses = figures.statuses();
    let failed = statuses.iter().filter(|status| status.exception.is_some()).count();
    let active = statuses.iter().filter(|status| status.is_active).count();
    let page = Page::new("Queries", "Yeoul stream")
        .refreshing("/", query)
        .link("Queries (JSON)", Href::local("/queries", &[]))
        .link("Metrics", Href::local("/metrics/prometheus", &[]))
        .link("Health", Href::local("/healthz", &[]));
    let page = match failed {
        0 => page,
        1 => page.notice(Tone::Bad, "A query has failed; the others go on."),
        _ => page.notice(Tone::Bad, format!("{failed} queries have failed.")),
    };
    let last = || statuses.iter().filter(|status| status.is_active).filter_map(|s| s.last_progress.as_ref());
    let rows_per_second: f64 = last().map(|last| last.input_rows_per_second).sum();
    let figures = [
        ("Active queries", Cell::number(active as u64)),
        ("Failed queries", Cell::number(failed as u64)),
        ("Rows per second", Cell::number(whole(rows_per_second))),
        ("Rows read", Cell::number(statuses.iter().map(|status| status.num_input_rows).sum())),
        ("Records behind", of_lag(last().filter_map(lag).reduce(u64::saturating_add))),
        ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
    ];
    let page = page.figures(figures);
    // Those that failed first, then those that are furthest behind.
    statuses.sort_by_key(|status| {
        let behind = status.last_progress.as_ref().and_then(lag);
        (status.exception.is_none(), std::cmp::Reverse(behind), status.name.clone())
    });
    page.table(queries(&statuses, now_ms)).table(sources(&statuses))
}

fn queries(statuses: &[QueryStatus], now_ms: i64) -> Table {
    let mut table = Table::new(
        "Queries",
        &[
            "Query",
            "State",
            "Rows/s",
            "Rows read",
            "Rows written",
            "Records behind",
            "Last checkpoint",
            "Latency, p99",
            "State rows",
            "Memory of state",
        ],
    )
    .or_say("The job has no query.");
    table.fill(statuses.len(), statuses.iter().map(|status| row(status, now_ms)));
    table
}

fn row(status: &QueryStatus, now_ms: i64) -> Vec<Cell> {
    let state = match (&status.exception, status.is_active, status.id.is_empty()) {
        (Some(exception), ..) => Cell::lines([Cell::state(Tone::Bad, "failed"), Cell::text(exception)]),
        (None, true, _) => Cell::state(Tone::Good, "active"),
        (None, false, true) => Cell::state(Tone::Plain, "starting"),
        (None, false, false) => Cell::state(Tone::Plain, "ended"),
    };
    let last = status.last_progress.as_ref();
    let sum = |of: fn(&crate::dataflow::StateProgress) -> u64| {
        last.map_or(0, |last| last.state_operators.iter().map(of).sum())
    };
    let checkpoint_ms = last.and_then(completed_ms).unwrap_or(0);
    let latency = last.and_then(|last| last.latency_ms_p99).map(|ms| format!("{ms} ms"));
    vec![
        Cell::text(&status.name),
        state,
        Cell::number(last.map_or(0, |last| whole(last.input_rows_per_second))),
        Cell::number(status.num_input_rows),
        Cell::number(status.num_output_rows),
        of_lag(last.and_then(lag)),
        Cell::ago(checkpoint_ms, u64::try_from(now_ms).unwrap_or(0)),
        Cell::text(latency.unwrap_or_default()),
        Cell::number(sum(|state| state.num_rows_total)),
        Cell::bytes(sum(|state| state.memory_used_bytes)),
    ]
}

fn sources(statuses: &[QueryStatus]) -> Table {
    let mut table =
        Table::new("Sources", &["Query", "Source", "Rows/s", "Rows of the last epoch", "Records behind"])
            .or_say("No epoch has ended.");
    let of = |status: &QueryStatus| {
        let name = status.name.clone();
        let sources = status.last_progress.iter().flat_map(|last| last.sources.clone());
        sources.map(move |source| (name.clone(), source)).collect::<Vec<_>>()
    };
    let all: Vec<(String, SourceProgress)> = statuses.iter().flat_map(of).collect();
    let rows = all.iter().map(|(query, source)| {
        vec![
            Cell::text(query),
            Cell::text(&source.description),
            Cell::number(whole(source.input_rows_per_second)),
            Cell::number(source.num_input_rows),
            of_lag(lag_of(source)),
        ]
    });
    table.fill(all.len(), rows);
    table
}

fn of_lag(lag: Option<u64>) -> Cell {
    lag.map_or_else(|| Cell::text(""), Cell::number)
}

/// Records that were there at the end of the last epoch and not in it; nothing if no source can say.
fn lag(last: &Progress) -> Option<u64> {
    last.sources.iter().filter_map(lag_of).reduce(u64::saturating_add)
}

/// The same of a source, whose offsets are `{"topic":{"0":5}}`.
fn lag_of(source: &SourceProgress) -> Option<u64> {
    let latest = source.latest_offset.as_object()?;
    let behind = latest.iter().flat_map(|(topic, partitions)| {
        partitions.as_object().into_iter().flatten().map(move |(partition, latest)| {
            let end = source.end_offset.get(topic).and_then(|ends| ends.get(partition));
            let end = end.and_then(Value::as_i64).unwrap_or(0);
            latest.as_i64().map(|latest| u64::try_from(latest - end).unwrap_or(0))
        })
    });
    behind.sum()
}

/// When the last epoch ended: what was read until then is in a checkpoint.
fn completed_ms(last: &Progress) -> Option<u64> {
    u64::try_from(DateTime::parse_from_rfc3339(&last.timestamp).ok()?.timestamp_millis()).ok()
}

/// A rate as people read it. It is not negative.
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}
