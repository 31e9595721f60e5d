//! How values look: as in Hadoop's shell, so that scripts that read them go on working.

use chrono::{DateTime, Local, Utc};
use comfy_table::{CellAlignment, Table, presets};

/// Units of sizes, each 1024 of the one before.
const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// A size, as it is or for people: `1.5 K`.
pub(crate) fn size(bytes: u64, human: bool) -> String {
    let step = if human && bytes > 0 { bytes.ilog2() / 10 } else { 0 };
    match step {
        0 => bytes.to_string(),
        step => {
            let tenths = (u128::from(bytes) * 10 + (1 << (10 * step - 1))) >> (10 * step);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            let unit = UNITS[step as usize];
            if tenth == 0 { format!("{whole} {unit}") } else { format!("{whole}.{tenth} {unit}") }
        }
    }
}

/// A time in the time zone of this machine, to the minute.
pub(crate) fn local_minute(ms: u64) -> String {
    time(ms).map_or_else(String::new, |time| time.with_timezone(&Local).format("%Y-%m-%d %H:%M").to_string())
}

/// A time in UTC, to the second.
pub(crate) fn utc_second(ms: u64) -> String {
    time(ms).map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S").to_string())
}

fn time(ms: u64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(i64::try_from(ms).ok()?)
}

/// Lines of cells with two blanks between the columns, each but the last as wide as its widest cell.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |at| rows.iter().filter_map(|row| row.get(at)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at + 1 == row.len() { cell.clone() } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

/// An empty table whose columns but the first ones have numbers.
pub(crate) fn table(titles: &[&str], left_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(titles);
    for column in table.column_iter_mut().skip(left_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_hadoop_shows_them() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1 K"),
            (1536, "1.5 K"),
            (1 << 20, "1 M"),
            (128 << 20, "128 M"),
            (u64::MAX, "16 E"),
        ] {
            assert_eq!((size(bytes, true), size(bytes, false)), (text.to_owned(), bytes.to_string()));
        }
    }

    #[test]
    fn times_and_columns() {
        assert_eq!(utc_second(1_700_000_000_123), "2023-11-14 22:13:20");
        assert_eq!(utc_second(u64::MAX), "");
        let rows =
            [vec!["1".to_owned(), "22".into(), "/a".into()], vec!["333".into(), "4".into(), "/bb".into()]];
        assert_eq!(columns(&rows), ["1    22  /a", "333  4   /bb"]);
    }
}
