//! Reports of queries at work on stderr.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use serde_json::json;
use yeoul_stream::dataflow::QueryEvent;
use yeoul_stream::pages::QueryFigures;
use yeoul_stream::plan::Query;

use super::live_table::LiveTable;

/// Form of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressFormat {
    /// A line of JSON for each event, with the names of Spark's StreamingQueryProgress
    Json,
    /// A table that moves
    Table,
    /// Nothing
    None,
}

/// Taker of the events of all queries.
pub struct Reporter {
    format: ProgressFormat,
    figures: Arc<QueryFigures>,
    live: Mutex<LiveTable>,
}

impl Reporter {
    /// One that tells in a form, or in the one that fits where stderr goes.
    pub fn new(format: Option<ProgressFormat>, queries: &[Query], figures: Arc<QueryFigures>) -> Self {
        let format = format.unwrap_or_else(|| {
            // Rows between the lines of a table would tear it apart.
            let has_rows = stdout().is_terminal() && queries.iter().any(writes_to_console);
            if stderr().is_terminal() && !has_rows { ProgressFormat::Table } else { ProgressFormat::Json }
        });
        Self { format, figures, live: Mutex::new(LiveTable::default()) }
    }

    /// Tells an event.
    pub fn tell(&self, event: &QueryEvent) {
        self.figures.observe(event);
        match self.format {
            ProgressFormat::Json => {
                if let Ok(line) = serde_json::to_string(event) {
                    say(&line);
                }
            }
            ProgressFormat::Table => {
                let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
                if let QueryEvent::Started { warnings, .. } = event {
                    warnings.iter().for_each(|text| live.say(&format!("warning: {text}")));
                }
                if let QueryEvent::Warning { name, text } = event {
                    live.say(&format!("warning: {name}: {text}"));
                }
                let is_progress = matches!(event, QueryEvent::Progress(_));
                live.show(&self.figures.statuses(), !is_progress);
            }
            ProgressFormat::None => {}
        }
    }

    /// Tells where the pages are.
    pub fn tell_address(&self, address: &str) {
        match self.format {
            ProgressFormat::Json => say(&json!({"event": "pages", "address": address}).to_string()),
            ProgressFormat::Table | ProgressFormat::None => say(&format!("pages at http://{address}/")),
        }
    }
}

/// True if a query's rows go to stdout.
fn writes_to_console(query: &Query) -> bool {
    query
        .sink
        .options
        .shown()
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("connector") && value == "console")
}

fn say(line: &str) {
    // Nobody may be listening.
    let _ = writeln!(stderr(), "{line}");
}
