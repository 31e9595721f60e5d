use std::fmt::Write as _;
use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use yeoul_dialect::time::{formatter, text_options};

use super::answer::{BatchWriter, WriteFailure};
use super::cell::{Align, CellText};
use super::json;

/// Rows of any width for people, a line for each value.
///
/// ```text
///    id = 1
/// title = Ulysses
///
///    id = 2
/// title = NULL
/// ```
pub(super) struct LineWriter<W: Write> {
    out: W,
    /// Names of the columns with what stands before and behind them.
    names: Vec<String>,
    is_first: bool,
}

impl<W: Write> LineWriter<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Self {
        let mut cells = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let mut cell = CellText::default();
            cell.start(None);
            cell.write_str(field.name()).expect("a cell without a limit takes all text");
            cells.push(cell);
        }
        let width = cells.iter().map(CellText::width).max().unwrap_or(0);
        let name = |cell: &CellText| {
            let mut name = String::new();
            cell.push_padded(&mut name, width, Align::Right, false);
            name + " = "
        };
        Self { out, names: cells.iter().map(name).collect(), is_first: true }
    }
}

impl<W: Write> BatchWriter for LineWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let schema = batch.schema();
        let columns = batch.columns().iter().map(|array| {
            let options = text_options().with_null("NULL").with_quoted_strings(array.data_type().is_nested());
            formatter(array.as_ref(), &options.with_display_error(false))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut text = String::new();
        let mut cell = CellText::default();
        for row in 0..batch.num_rows() {
            text.clear();
            if !std::mem::take(&mut self.is_first) {
                text.push('\n');
            }
            for (index, (name, values)) in self.names.iter().zip(&columns).enumerate() {
                text.push_str(name);
                cell.start(None);
                if let Err(error) = values.value(row).write(&mut cell) {
                    // The formatter does not tell what is wrong within a nested value.
                    json::check(&schema.fields()[index], batch.column(index).slice(row, 1).as_ref())?;
                    return Err(error.into());
                }
                cell.push_padded(&mut text, 0, Align::Left, false);
                text.push('\n');
            }
            self.out.write_all(text.as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn each_value_has_a_line_of_its_own_and_stays_on_it() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a\nb = 3"), None]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("title", texts)]).unwrap();
        let mut out = Vec::new();
        let mut writer = LineWriter::new(&mut out, &batch.schema());
        writer.write(&batch.slice(0, 1)).unwrap();
        writer.write(&batch.slice(1, 1)).unwrap();
        writer.finish().unwrap();
        let expected = "   id = 1\ntitle = a\\nb = 3\n\n   id = 2\ntitle = NULL\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
