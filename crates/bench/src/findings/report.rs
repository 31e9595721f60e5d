use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value, json};
use yeoul_base::ByteSize;

use super::Finding;

/// The findings with their ratios, and whether each meets its bar.
pub fn to_json(findings: &[Finding]) -> Value {
    let findings = findings
        .iter()
        .map(|finding| json!({"finding": finding, "ratio": finding.ratio(), "met": finding.is_met()}));
    findings.collect()
}

/// The findings, a row each.
pub fn to_table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["what", "bytes", "ours: median (range)", "peer", "median (range)", "ratio", "bar", ""]);
    for finding in findings {
        let peer = finding.peers_text();
        let ratio = finding.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let met = if finding.is_met() { "met" } else { "MISSED" };
        let bytes = finding.bytes.map(|bytes| ByteSize::from_bytes(bytes).to_string()).unwrap_or_default();
        table.add_row([
            &finding.name,
            bytes.as_str(),
            &finding.ours_text(),
            finding.peer,
            &peer,
            &ratio,
            &finding.bar_text(),
            met,
        ]);
    }
    if let Some(column) = table.column_mut(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
