use std::collections::VecDeque;
use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::ArrayFormatter;

use super::answer::{BatchWriter, OutputOptions, WriteFailure};
use super::cell::{Align, CellText, ELLIPSIS};
use super::json;
use super::layout::{Layout, Need, Slot, lay_out, reach};
use yeoul_dialect::time::{formatter, text_options};

/// Rows that are looked at to choose the widths before the first line is written.
const WINDOW_ROWS: usize = 1024;
/// Bytes of batches that are held for that, if rows are large.
const WINDOW_BYTES: usize = 16 << 20;
/// Without a terminal nothing is cut; a value wider than this exceeds its column instead of padding all others.
const COLUMN_MAX: usize = 256;

const NULL: &str = "NULL";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// A table for people.
///
/// The widths come from a first window of rows. On a terminal each later batch is measured too: if it needs wider columns
/// and there is room, a rule is drawn and the table continues with new widths. With [`OutputOptions::rows_max`] the last
/// rows, and no more, are held until the end.
pub(super) struct TableWriter<W: Write> {
    out: W,
    options: OutputOptions,
    schema: SchemaRef,
    needs: Vec<Need>,
    /// How many columns from either end can be shown at all.
    reach: usize,
    window: Vec<RecordBatch>,
    window_rows: usize,
    window_bytes: usize,
    /// Set once the header is written.
    layout: Option<Layout>,
    /// Rows that may still be shown at the top, if rows are limited.
    head_left: Option<usize>,
    tail: Tail,
    rows_shown: u64,
    line: String,
    cell: CellText,
}

/// The last rows of an answer, at most `rows_max` of them.
#[derive(Default)]
struct Tail {
    rows_max: usize,
    batches: VecDeque<RecordBatch>,
    rows: usize,
    dropped: u64,
}

impl Tail {
    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.batches.push_back(batch);
        while self.rows > self.rows_max {
            let Some(first) = self.batches.pop_front() else { break };
            let surplus = (self.rows - self.rows_max).min(first.num_rows());
            self.rows -= surplus;
            self.dropped += surplus as u64;
            if surplus < first.num_rows() {
                self.batches.push_front(first.slice(surplus, first.num_rows() - surplus));
            }
        }
    }
}

impl<W: Write> TableWriter<W> {
    pub(super) fn new(out: W, schema: SchemaRef, options: &OutputOptions) -> Self {
        let reach = reach(schema.fields().len(), options.width);
        let mut cell = CellText::default();
        let mut needs = vec![Need::default(); schema.fields().len()];
        for index in measured(needs.len(), reach) {
            let field = schema.field(index);
            write_name(&mut cell, field.name(), options.width);
            needs[index].header = cell.width();
            needs[index].number = align(field.data_type()) == Align::Right;
        }
        let tail = Tail { rows_max: options.rows_max.unwrap_or(0) / 2, ..Tail::default() };
        Self {
            out,
            options: *options,
            schema,
            needs,
            reach,
            window: Vec::new(),
            window_rows: 0,
            window_bytes: 0,
            layout: None,
            head_left: options.rows_max.map(|rows_max| rows_max.div_ceil(2)),
            tail,
            rows_shown: 0,
            line: String::new(),
            cell,
        }
    }

    /// Takes rows that are to be shown.
    fn show(&mut self, batch: RecordBatch) -> Result<(), WriteFailure> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows_shown += batch.num_rows() as u64;
        if self.layout.is_some() {
            if self.options.width.is_some() {
                self.measure(&batch)?;
                let layout = lay_out(&self.needs, self.options.width);
                if self.layout.as_ref() != Some(&layout) {
                    self.layout = Some(layout);
                    self.write_rule('├', '┼', '┤')?;
                }
            }
            return self.write_rows(&batch);
        }
        self.window_rows += batch.num_rows();
        self.window_bytes += batch.get_array_memory_size();
        self.window.push(batch);
        if self.window_rows >= WINDOW_ROWS || self.window_bytes >= WINDOW_BYTES {
            self.write_window()?;
        }
        Ok(())
    }

    /// Chooses the widths from the window, and writes the header and the window's rows.
    fn write_window(&mut self) -> Result<(), WriteFailure> {
        let window = std::mem::take(&mut self.window);
        for batch in &window {
            self.measure(batch)?;
        }
        if self.options.width.is_none() {
            for need in &mut self.needs {
                need.body = need.body.min(COLUMN_MAX);
            }
        }
        self.layout = Some(lay_out(&self.needs, self.options.width));
        self.write_rule('┌', '┬', '┐')?;
        self.write_header()?;
        self.write_rule('├', '┼', '┤')?;
        for batch in window {
            self.write_rows(&batch)?;
        }
        Ok(())
    }

    /// Widens the needs to fit the values of `batch`.
    fn measure(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let limit = Some(self.options.width.unwrap_or(COLUMN_MAX));
        for index in measured(self.needs.len(), self.reach) {
            let column = Column::new(batch, index)?;
            let need = &mut self.needs[index];
            for row in 0..batch.num_rows() {
                column.write(row, &mut self.cell, limit)?;
                need.body = need.body.max(self.cell.width());
            }
        }
        Ok(())
    }

    fn write_rows(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let layout = self.layout.take().expect("the layout is chosen before rows are written");
        let result = self.write_rows_in(&layout, batch);
        self.layout = Some(layout);
        result
    }

    fn write_rows_in(&mut self, layout: &Layout, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let mut columns = Vec::with_capacity(layout.slots.len());
        for slot in &layout.slots {
            columns.push(match slot {
                Slot::Column { index, width } => Some((Column::new(batch, *index)?, *width)),
                Slot::Elided => None,
            });
        }
        let fit = self.options.width.is_some();
        for row in 0..batch.num_rows() {
            self.line.clear();
            self.line.push('│');
            for column in &columns {
                self.line.push(' ');
                match column {
                    Some((column, width)) => {
                        column.write(row, &mut self.cell, fit.then_some(*width))?;
                        let dim = self.options.color && column.is_null(row);
                        if dim {
                            self.line.push_str(DIM);
                        }
                        self.cell.push_padded(&mut self.line, *width, column.align, fit);
                        if dim {
                            self.line.push_str(RESET);
                        }
                    }
                    None => self.line.push(ELLIPSIS),
                }
                self.line.push_str(" │");
            }
            self.line.push('\n');
            self.out.write_all(self.line.as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    fn write_header(&mut self) -> Result<(), WriteFailure> {
        let layout = self.layout.as_ref().expect("the layout is chosen before the header is written");
        let fit = self.options.width.is_some();
        self.line.clear();
        self.line.push('│');
        for slot in &layout.slots {
            self.line.push(' ');
            match slot {
                Slot::Column { index, width } => {
                    let field = self.schema.field(*index);
                    write_name(&mut self.cell, field.name(), self.options.width);
                    self.cell.push_padded(&mut self.line, *width, align(field.data_type()), fit);
                }
                Slot::Elided => self.line.push(ELLIPSIS),
            }
            self.line.push_str(" │");
        }
        self.line.push('\n');
        Ok(self.out.write_all(self.line.as_bytes())?)
    }

    /// A line with a mark in every cell, in place of the rows left out.
    fn write_gap(&mut self) -> Result<(), WriteFailure> {
        self.write_line('│', '⋮', ' ', '│', '│')
    }

    fn write_rule(&mut self, left: char, middle: char, right: char) -> Result<(), WriteFailure> {
        self.write_line(left, '─', '─', middle, right)
    }

    fn write_line(
        &mut self,
        left: char,
        mark: char,
        fill: char,
        middle: char,
        right: char,
    ) -> Result<(), WriteFailure> {
        let layout = self.layout.as_ref().expect("the layout is chosen before lines are written");
        self.line.clear();
        self.line.push(left);
        for (position, slot) in layout.slots.iter().enumerate() {
            if position > 0 {
                self.line.push(middle);
            }
            let width = match slot {
                Slot::Column { width, .. } => *width,
                Slot::Elided => 1,
            };
            self.line.push(fill);
            self.line.push(mark);
            self.line.extend(std::iter::repeat_n(fill, width));
        }
        self.line.push(right);
        self.line.push('\n');
        Ok(self.out.write_all(self.line.as_bytes())?)
    }
}

impl<W: Write> BatchWriter for TableWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        if self.needs.is_empty() {
            return Ok(());
        }
        let Some(head_left) = self.head_left else { return self.show(batch.clone()) };
        let head = head_left.min(batch.num_rows());
        self.head_left = Some(head_left - head);
        self.show(batch.slice(0, head))?;
        if head < batch.num_rows() {
            self.tail.push(batch.slice(head, batch.num_rows() - head));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        if self.needs.is_empty() {
            return Ok(self.out.flush()?);
        }
        let tail = std::mem::take(&mut self.tail);
        if tail.dropped == 0 {
            for batch in tail.batches {
                self.show(batch)?;
            }
            if self.layout.is_none() {
                self.write_window()?;
            }
        } else {
            // If the header is not written yet, the last rows' values count for the widths.
            if self.layout.is_none() {
                for batch in &tail.batches {
                    self.measure(batch)?;
                }
                self.write_window()?;
            }
            self.write_gap()?;
            for batch in tail.batches {
                self.show(batch)?;
            }
        }
        self.write_rule('└', '┴', '┘')?;
        Ok(self.out.flush()?)
    }

    fn shown(&self) -> Option<(u64, usize)> {
        let columns = self.layout.as_ref().map_or(self.needs.len(), Layout::columns_shown);
        (!self.needs.is_empty()).then_some((self.rows_shown, columns))
    }
}

/// One column of one batch, ready to be written as text.
struct Column<'a> {
    field: &'a FieldRef,
    array: &'a dyn Array,
    values: ArrayFormatter<'a>,
    nulls: Option<NullBuffer>,
    align: Align,
}

impl<'a> Column<'a> {
    fn new(batch: &'a RecordBatch, index: usize) -> Result<Self, ArrowError> {
        let array = batch.column(index).as_ref();
        let nested = array.data_type().is_nested();
        let options = text_options().with_null(NULL).with_quoted_strings(nested).with_display_error(false);
        let values = formatter(array, &options)?;
        let field = &batch.schema_ref().fields()[index];
        Ok(Self { field, array, values, nulls: array.logical_nulls(), align: align(array.data_type()) })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes the value at `row` into `cell`, cut if it is wider than `width_max`.
    fn write(&self, row: usize, cell: &mut CellText, width_max: Option<usize>) -> Result<(), ArrowError> {
        cell.start(width_max);
        match self.values.value(row).write(cell) {
            Ok(()) => Ok(()),
            Err(_) if cell.is_cut() => Ok(()),
            // The formatter does not tell what is wrong within a nested value.
            Err(error) => {
                json::check(self.field, self.array.slice(row, 1).as_ref())?;
                Err(error)
            }
        }
    }
}

/// The columns that are measured: those that can be shown at all.
fn measured(columns: usize, reach: usize) -> impl Iterator<Item = usize> {
    (0..reach).chain((columns - reach).max(reach)..columns)
}

/// Writes a column's name into `cell`, cut if it is wider than `width_max`.
fn write_name(cell: &mut CellText, name: &str, width_max: Option<usize>) {
    cell.start(width_max);
    // The only error is that the cell is full.
    let _ = std::fmt::Write::write_str(cell, name);
}

fn align(data_type: &DataType) -> Align {
    match data_type {
        DataType::Dictionary(_, values) => align(values),
        data_type if data_type.is_numeric() => Align::Right,
        _ => Align::Left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatchOptions,
        StringArray, StructArray, TimestampSecondArray,
    };
    use arrow::datatypes::{Field, Int32Type, Schema, TimestampSecondType};
    use proptest::prelude::*;
    use std::sync::Arc;
    use unicode_width::UnicodeWidthStr;

    fn written(batches: &[RecordBatch], options: OutputOptions) -> (String, (u64, usize)) {
        let mut out = Vec::new();
        let mut writer = TableWriter::new(&mut out, batches[0].schema(), &options);
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        let shown = writer.shown().unwrap_or_default();
        drop(writer);
        (String::from_utf8(out).unwrap(), shown)
    }

    fn table(batches: &[RecordBatch], width: Option<usize>) -> String {
        written(batches, OutputOptions { width, ..OutputOptions::default() }).0
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
        batch(vec![("n", Arc::new(Int64Array::from_iter_values(range)))])
    }

    #[test]
    fn a_time_out_of_range_within_a_list_is_an_error_and_not_its_text() {
        let times = [Some(vec![Some(0), None]), Some(vec![Some(i64::MAX)])];
        let list = ListArray::from_iter_primitive::<TimestampSecondType, _, _>(times);
        let batch = batch(vec![("t", Arc::new(list))]);
        let mut out = Vec::new();
        let mut writer = TableWriter::new(&mut out, batch.schema(), &OutputOptions::default());
        let failure = writer.write(&batch).and_then(|()| writer.finish()).unwrap_err();
        let WriteFailure::Encode(error) = failure else { panic!("{failure:?}") };
        assert!(error.to_string().contains("9223372036854775807 is out of the calendar's range"), "{error}");
        drop(writer);
        assert_eq!(out, b"");
        assert!(table(&[batch.slice(0, 1)], None).contains("[1970-01-01 00:00:00, NULL]"));
    }

    #[test]
    fn numbers_are_right_aligned_nulls_are_shown_and_wide_characters_fill_two_columns() {
        let decimal =
            Decimal128Array::from(vec![Some(12345), None, Some(-5)]).with_precision_and_scale(10, 2).unwrap();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("name", Arc::new(StringArray::from(vec![Some("여울"), None, Some("a\nb")]))),
            ("price", Arc::new(decimal)),
            ("at", Arc::new(TimestampSecondArray::from(vec![Some(0), None, Some(1)]))),
        ];
        let expected = "\
┌──────┬────────┬─────────────────────┐
│ name │  price │ at                  │
├──────┼────────┼─────────────────────┤
│ 여울 │ 123.45 │ 1970-01-01 00:00:00 │
│ NULL │   NULL │ NULL                │
│ a\\nb │  -0.05 │ 1970-01-01 00:00:01 │
└──────┴────────┴─────────────────────┘
";
        assert_eq!(table(&[batch(columns.clone())], None), expected);
        assert_eq!(table(&[batch(columns)], Some(80)), expected);
    }

    #[test]
    fn nested_values_are_shown_with_their_texts_in_quotes() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
        let inner: StructArray = vec![
            (
                Arc::new(Field::new("x", DataType::Int32, true)),
                Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef,
            ),
            (
                Arc::new(Field::new("y", DataType::Utf8, true)),
                Arc::new(StringArray::from(vec!["a, b", "c"])) as ArrayRef,
            ),
        ]
        .into();
        let text = table(&[batch(vec![("l", Arc::new(list)), ("s", Arc::new(inner))])], None);
        assert!(text.contains("│ [1, NULL] │ {x: 7, y: \"a, b\"} │"), "{text}");
        assert!(text.contains("│ NULL      │"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_cuts_long_texts_and_keeps_numbers() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1234567890123]))),
            ("comment", Arc::new(StringArray::from(vec!["the quick brown fox jumps over the lazy dog"]))),
        ];
        let expected = "\
┌───────────────┬──────────────────┐
│            id │ comment          │
├───────────────┼──────────────────┤
│ 1234567890123 │ the quick brown… │
└───────────────┴──────────────────┘
";
        assert_eq!(table(&[batch(columns)], Some(36)), expected);
    }

    #[test]
    fn too_many_columns_leave_a_mark_and_are_counted() {
        let columns: Vec<(String, ArrayRef)> = (0..10_000)
            .map(|index| (format!("column_{index}"), Arc::new(Int32Array::from(vec![index])) as ArrayRef))
            .collect();
        let wide = batch(columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect());
        let (text, (rows, shown)) = written(
            std::slice::from_ref(&wide),
            OutputOptions { width: Some(60), ..OutputOptions::default() },
        );
        assert_eq!((rows, shown), (1, 5), "{text}");
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert!(text.contains("│ … │") && text.contains("column_0") && text.contains("9999"), "{text}");
        let everything = table(&[wide], None);
        assert!(everything.contains("column_5000") && !everything.contains('…'));
    }

    #[test]
    fn an_empty_answer_has_a_header_and_one_without_columns_is_nothing() {
        assert_eq!(table(&[numbers(0..0)], Some(80)), "┌───┐\n│ n │\n├───┤\n└───┘\n");
        let options = RecordBatchOptions::new().with_row_count(Some(3));
        let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        assert_eq!(table(&[none], Some(80)), "");
    }

    #[test]
    fn later_rows_widen_a_terminals_table_and_stick_out_of_a_file() {
        let first = numbers(0..WINDOW_ROWS as i64 + 1);
        let later = numbers(123_456_789..123_456_790);
        let terminal = table(&[first.clone(), later.clone()], Some(80));
        let tail: Vec<&str> = terminal.lines().rev().take(3).collect();
        assert_eq!(tail, ["└───────────┘", "│ 123456789 │", "├───────────┤"]);
        assert_eq!(terminal.matches("│         n │").count(), 0, "the header is not repeated");
        let file = table(&[first, later], None);
        assert!(file.ends_with("│ 1024 │\n│ 123456789 │\n└──────┘\n"), "{file}");
    }

    #[test]
    fn one_huge_value_does_not_widen_a_file_for_all() {
        let huge = "x".repeat(5 << 20);
        let texts = StringArray::from(vec!["short", huge.as_str()]);
        let rows = batch(vec![("t", Arc::new(texts))]);
        let file = table(std::slice::from_ref(&rows), None);
        assert!(file.contains(&huge) && file.len() < huge.len() + 10_000);
        let terminal = table(&[rows], Some(80));
        assert!(terminal.lines().all(|line| line.width() <= 80) && terminal.contains("xxx…"));
    }

    #[test]
    fn a_row_limit_shows_the_ends_and_marks_the_gap() {
        let options = OutputOptions { rows_max: Some(5), ..OutputOptions::default() };
        let batches: Vec<RecordBatch> = (0..10).map(|index| numbers(index * 10..index * 10 + 10)).collect();
        let (text, shown) = written(&batches, options);
        assert_eq!(text, "┌────┐\n│  n │\n├────┤\n│  0 │\n│  1 │\n│  2 │\n│ ⋮  │\n│ 98 │\n│ 99 │\n└────┘\n");
        assert_eq!(shown, (5, 1));
        let (text, shown) = written(&batches[..1], OutputOptions { rows_max: Some(10), ..options });
        assert_eq!((text.lines().count(), shown, text.contains('⋮')), (14, (10, 1), false));
        let (text, shown) = written(&batches, OutputOptions { rows_max: Some(0), ..options });
        assert_eq!((text.lines().count(), shown), (5, (0, 1)), "{text}");
    }

    #[test]
    fn colours_dim_only_nulls() {
        let rows = batch(vec![("t", Arc::new(StringArray::from(vec![Some("NULL"), None])))]);
        let text = written(&[rows], OutputOptions { color: true, ..OutputOptions::default() }).0;
        assert_eq!(text.matches(DIM).count(), 1);
        assert!(text.contains("│ NULL │\n│ \x1b[2mNULL\x1b[0m │"));
    }

    proptest! {
        #[test]
        fn a_table_is_as_wide_as_the_terminal_or_less_and_its_lines_are_alike(
            rows in proptest::collection::vec((proptest::option::of("\\PC*"), any::<f64>(), "[a-z가-힣👩\u{200d}\u{301}]*"), 1..30),
            width in 40usize..150,
        ) {
            let (first, second, third): (Vec<Option<String>>, Vec<f64>, Vec<String>) =
                rows.into_iter().fold(Default::default(), |(mut a, mut b, mut c), (x, y, z)| {
                    a.push(x);
                    b.push(y);
                    c.push(z);
                    (a, b, c)
                });
            let rows = batch(vec![
                ("first", Arc::new(StringArray::from(first))),
                ("second", Arc::new(Float64Array::from(second))),
                ("세 번째", Arc::new(StringArray::from(third))),
            ]);
            let text = table(std::slice::from_ref(&rows), Some(width));
            let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
            prop_assert!(widths.iter().all(|line| *line == widths[0] && *line <= width), "{}", text);
            prop_assert_eq!(widths.len(), rows.num_rows() + 4);
        }
    }
}
