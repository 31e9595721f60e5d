use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use yeoul_base::{ByteSize, Error, ErrorKind, Result};
use yeoul_stream::checkpoint::{CheckpointSummary, TableSummary};

use super::Format;
use super::rows::{csv, millis};

/// Names of the columns of a table of state in CSV.
const CSV_HEAD: &str = "query,epoch,generation,timestamp,watermark,first_epoch,last_epoch,table,kind,rows,file_bytes,snapshots,deltas";

/// Checkpoints in short.
pub fn text(summaries: &[CheckpointSummary], format: Format) -> Result<String> {
    match format {
        Format::Table => Ok(summaries.iter().map(for_people).collect::<Vec<_>>().join("\n")),
        Format::Json => {
            let lines: Result<Vec<String>, _> = summaries.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| {
                Error::new(ErrorKind::Internal, "cannot show the checkpoint").with_source(error)
            })?;
            Ok(lines.join("\n"))
        }
        Format::Csv => {
            let lines = summaries.iter().flat_map(csv_lines);
            Ok(std::iter::once(CSV_HEAD.to_owned()).chain(lines).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// A line for each table; one without table for a query without state.
fn csv_lines(summary: &CheckpointSummary) -> Vec<String> {
    let head = [
        summary.query.clone(),
        summary.epoch.to_string(),
        summary.generation.to_string(),
        millis(summary.timestamp_ms),
        summary.watermark_ms.map(millis).unwrap_or_default(),
        summary.first_epoch.to_string(),
        summary.last_epoch.to_string(),
    ];
    let of_table = |table: &TableSummary| {
        let own = [
            table.table.clone(),
            table.kind.clone(),
            table.rows.to_string(),
            table.file_bytes.to_string(),
            table.snapshots.to_string(),
            table.deltas.to_string(),
        ];
        csv(head.iter().cloned().chain(own))
    };
    if summary.tables.is_empty() {
        return vec![csv(head.iter().cloned().chain(std::iter::repeat_n(String::new(), 6)))];
    }
    summary.tables.iter().map(of_table).collect()
}

fn for_people(summary: &CheckpointSummary) -> String {
    let (first, last, count) = (summary.first_epoch, summary.last_epoch, summary.epochs);
    let mut lines = vec![
        format!("query {}", summary.query),
        format!("  id          {}", summary.id),
        format!("  epoch       {}, of {first} to {last} ({count} kept)", summary.epoch),
        format!("  manifest    {}", summary.manifest),
        format!("  written     {}, by process {}", millis(summary.timestamp_ms), summary.generation),
        format!("  watermark   {}", summary.watermark_ms.map_or_else(|| "none yet".to_owned(), millis)),
    ];
    for source in &summary.sources {
        lines.push(format!("  source      {}", source.description));
        lines.push(format!("  offset      {}", source.offset));
    }
    if let Some(output) = &summary.output {
        let last = output.last.map_or_else(|| "none".to_owned(), |last| last.batch.to_string());
        lines.push(format!(
            "  output      exactly once as {}, committed epoch {last}",
            output.transactional_id
        ));
    }
    if summary.tables.is_empty() {
        lines.push("  state       none".to_owned());
    } else {
        lines.push(tables(&summary.tables).to_string());
    }
    lines.push(String::new());
    lines.join("\n")
}

fn tables(summaries: &[TableSummary]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["table", "kind", "rows", "files", "snapshots", "deltas", "keys", "values"]);
    for summary in summaries {
        table.add_row([
            summary.table.clone(),
            summary.kind.clone(),
            summary.rows.to_string(),
            ByteSize::from_bytes(summary.file_bytes).to_string(),
            summary.snapshots.to_string(),
            summary.deltas.to_string(),
            summary.keys.join("\n"),
            summary.values.join("\n"),
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
