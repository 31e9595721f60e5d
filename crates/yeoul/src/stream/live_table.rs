//! A table of queries at work that moves on a terminal.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use terminal_size::terminal_size_of;
use yeoul_base::ByteSize;
use yeoul_stream::dataflow::Progress;
use yeoul_stream::pages::QueryStatus;

/// Shortest time between two pictures.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// The table on a terminal, which the next one takes the place of.
#[derive(Debug, Default)]
pub struct LiveTable {
    lines: usize,
    shown: Option<Instant>,
}

impl LiveTable {
    /// Shows queries in the place of what was shown last, if that was long enough ago or `is_due`.
    pub fn show(&mut self, queries: &[QueryStatus], is_due: bool) {
        if !is_due && self.shown.is_some_and(|shown| shown.elapsed() < SHOW_EVERY) {
            return;
        }
        let width = terminal_size_of(stderr()).map(|(width, _)| width.0);
        let text = table(queries, width);
        // Nobody may be looking.
        let _ = writeln!(stderr(), "{}{text}", back(self.lines));
        self.lines = text.lines().count();
        self.shown = Some(Instant::now());
    }

    /// Says a line above the table that is shown next.
    pub fn say(&mut self, line: &str) {
        let _ = writeln!(stderr(), "{}{line}", back(std::mem::take(&mut self.lines)));
    }
}

/// Goes so many lines up, and clears them.
fn back(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\x1b[J") }
}

/// Queries as a table of at most this width.
fn table(queries: &[QueryStatus], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    let head = [
        "query",
        "status",
        "epoch",
        "rows in",
        "rows/s",
        "rows out",
        "lag",
        "p50",
        "p99",
        "checkpoint",
        "watermark",
        "keys",
        "state",
    ];
    table.set_header(head);
    for query in queries {
        table.add_row(row(query));
    }
    for column in 2..head.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn row(query: &QueryStatus) -> [String; 13] {
    let status = match (&query.exception, query.is_active) {
        (Some(_), _) => "failed",
        (None, true) => "active",
        (None, false) if query.id.is_empty() => "starting",
        (None, false) => "ended",
    };
    let ms = |ms: Option<u64>| ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
    let last = query.last_progress.as_ref();
    let (mut keys, mut bytes) = (0, 0);
    for operator in last.into_iter().flat_map(|last| &last.state_operators) {
        keys += operator.num_rows_total;
        bytes += operator.memory_used_bytes;
    }
    let has_state = last.is_some_and(|last| !last.state_operators.is_empty());
    let of_state = |text: String| if has_state { text } else { String::new() };
    [
        query.name.clone(),
        status.to_owned(),
        last.map(|last| last.batch_id.to_string()).unwrap_or_default(),
        query.num_input_rows.to_string(),
        last.map(|last| format!("{:.0}", last.input_rows_per_second)).unwrap_or_default(),
        query.num_output_rows.to_string(),
        last.and_then(lag).map(|records| records.to_string()).unwrap_or_default(),
        ms(last.and_then(|last| last.latency_ms_p50)),
        ms(last.and_then(|last| last.latency_ms_p99)),
        ms(last.and_then(|last| u64::try_from(last.checkpoint_ms).ok())),
        last.and_then(|last| last.event_time.as_ref()).map(|time| time.watermark.clone()).unwrap_or_default(),
        of_state(keys.to_string()),
        of_state(ByteSize::from_bytes(bytes).to_string()),
    ]
}

/// Records that the partition has left which is the furthest behind.
fn lag(last: &Progress) -> Option<u64> {
    let most = last.sources.iter().filter_map(|source| source.metrics.get("maxOffsetsBehindLatest"));
    most.filter_map(|records| records.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str) -> QueryStatus {
        QueryStatus { name: name.into(), ..QueryStatus::default() }
    }

    #[test]
    fn each_query_has_a_row_with_its_status() {
        let active = QueryStatus { id: "i".into(), is_active: true, num_input_rows: 17, ..status("b") };
        let failed = QueryStatus { id: "i".into(), exception: Some("lost".into()), ..status("c") };
        let ended = QueryStatus { id: "i".into(), ..status("d") };
        let text = table(&[status("a"), active, failed, ended], None);
        let words: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with('│'))
            .map(|line| line.split(['│', '┆']).map(str::trim).filter(|word| !word.is_empty()).collect())
            .collect();
        assert_eq!(words[1], ["a", "starting", "0", "0"]);
        assert_eq!(words[2], ["b", "active", "17", "0"]);
        assert_eq!((words[3][1], words[4][1]), ("failed", "ended"));
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal_and_takes_the_place_of_the_last() {
        let text = table(&[status("a query with a long name")], Some(60));
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert_eq!((back(0), back(3)), (String::new(), "\x1b[3A\x1b[J".to_owned()));
    }
}
