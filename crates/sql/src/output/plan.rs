use std::fmt::Write as _;
use std::io::Write;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::answer::{BatchWriter, WriteFailure};
use super::cell::{Align, CellText};

/// The plans of `EXPLAIN`, each under its name: lines of text for people, without a frame and uncut.
///
/// ```text
/// logical_plan:
/// Filter: t.n > Int64(1)
///   TableScan: t projection=[n]
/// ```
pub(super) struct PlanWriter<W: Write> {
    out: W,
    is_first: bool,
}

impl<W: Write> PlanWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, is_first: true }
    }
}

impl<W: Write> BatchWriter for PlanWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let options = FormatOptions::default();
        let column = |index: usize| ArrayFormatter::try_new(batch.column(index), &options);
        let (names, plans) = (column(0)?, column(1)?);
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut self.is_first) {
                text.push('\n');
            }
            push_lines(&mut text, &format!("{}:", names.value(row).try_to_string()?));
            push_lines(&mut text, &plans.value(row).try_to_string()?);
        }
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        Ok(self.out.flush()?)
    }
}

/// Adds lines with control characters escaped: names of files and columns come from outside.
fn push_lines(text: &mut String, lines: &str) {
    let mut cell = CellText::default();
    for line in lines.lines() {
        cell.start(None);
        cell.write_str(line).expect("a cell without a limit takes all text");
        cell.push_padded(text, 0, Align::Left, false);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringArray};
    use std::sync::Arc;

    #[test]
    fn a_plan_is_shown_whole_line_by_line() {
        let column = |texts: [&str; 2]| Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
        let long = format!("Scan: {}", "x".repeat(1000));
        let plans = [("plan_type", column(["one", "two"])), ("plan", column(["A\n  B\u{1b}[2J\n", &long]))];
        let mut out = Vec::new();
        let mut writer = PlanWriter::new(&mut out);
        writer.write(&RecordBatch::try_from_iter(plans).unwrap()).unwrap();
        writer.finish().unwrap();
        let expected = format!("one:\nA\n  B\\u{{1b}}[2J\n\ntwo:\n{long}\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
