use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMicrosecondArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef, TimestampMicrosecondType};

use crate::error::{Result, computing, invalid};
use crate::plan::{TIMESTAMP, WindowFunction};

/// Gives rows their windows: start and end become the last two columns, or with the window's time, the last microsecond in it, the
/// last three, and a row is repeated for each of its windows. Rows without a time are dropped, as in Spark.
#[derive(Debug)]
pub struct WindowAssigner {
    function: WindowFunction,
    with_time: bool,
    time_column: usize,
    schema: SchemaRef,
}

impl WindowAssigner {
    /// Windows of rows of this schema.
    ///
    /// # Errors
    /// `Invalid` if it does not have the time column.
    pub fn new(function: WindowFunction, with_time: bool, rows: &Schema) -> Result<Self> {
        let time_column = rows.index_of(&function.time_column).map_err(computing)?;
        let names = ["window_start", "window_end", "window_time"];
        let names = if with_time { &names[..] } else { &names[..2] };
        let window = names.iter().map(|name| Arc::new(Field::new(*name, TIMESTAMP(), true)));
        let fields: Vec<_> = rows.fields().iter().cloned().chain(window).collect();
        Ok(Self { function, with_time, time_column, schema: Arc::new(Schema::new(fields)) })
    }

    /// Rows with their windows.
    ///
    /// # Errors
    /// `Invalid` for a time whose window ends after all times.
    pub fn push(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let times = rows.column(self.time_column).as_primitive::<TimestampMicrosecondType>();
        let count = rows.num_rows();
        let (mut places, mut starts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let is_tumbling = self.function.size_ms == self.function.slide_ms;
        let size_us = self.function.size_ms * 1000;
        // Neighbours are mostly in the same window.
        let mut last: Option<i64> = None;
        for row in 0..count {
            if times.is_null(row) {
                continue;
            }
            let time = times.value(row);
            let place = u32::try_from(row).expect("a batch has less than 2^32 rows");
            if let Some(start) = last.filter(|start| *start <= time && time - start < size_us) {
                places.push(place);
                starts.push(start);
                continue;
            }
            for start in self.function.starts_us(time) {
                places.push(place);
                starts.push(start);
                last = if is_tumbling { Some(start) } else { None };
            }
        }
        let end = |start: &i64| start.checked_add(size_us);
        let ends: Option<Vec<i64>> = starts.iter().map(end).collect();
        let ends = ends.ok_or_else(|| invalid("the window of a row ends after all times"))?;
        let is_as_before = places.len() == count && is_tumbling;
        let places = UInt32Array::from(places);
        let column = |column: &ArrayRef| {
            if is_as_before { Ok(Arc::clone(column)) } else { take(column, &places, None).map_err(computing) }
        };
        let columns: Result<Vec<ArrayRef>> = rows.columns().iter().map(column).collect();
        let mut columns = columns?;
        // The last microsecond of a window is there, as its first one is.
        let times = self.with_time.then(|| ends.iter().map(|end| end - 1).collect());
        for times in [starts, ends].into_iter().chain(times) {
            columns.push(Arc::new(TimestampMicrosecondArray::from(times).with_timezone("+00:00")));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(computing)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Int64Type};

    use super::*;

    fn assigned(size_ms: i64, slide_ms: i64, times_ms: &[Option<i64>]) -> Result<Vec<(i64, i64, i64)>> {
        let times = times_ms.iter().map(|time| time.map(|time| time * 1000));
        let times = TimestampMicrosecondArray::from_iter(times).with_timezone("+00:00");
        let numbers = Int64Array::from_iter_values(0..times_ms.len() as i64);
        let fields = vec![Field::new("n", DataType::Int64, false), Field::new("ts", TIMESTAMP(), true)];
        let schema = Arc::new(Schema::new(fields));
        let function = WindowFunction { time_column: "ts".into(), size_ms, slide_ms, offset_ms: 0 };
        let assigner = WindowAssigner::new(function, true, &schema)?;
        let rows = RecordBatch::try_new(schema, vec![Arc::new(numbers), Arc::new(times)]).unwrap();
        let rows = assigner.push(&rows)?;
        let number = |row| rows.column(0).as_primitive::<Int64Type>().value(row);
        let us =
            |column: usize, row| rows.column(column).as_primitive::<TimestampMicrosecondType>().value(row);
        let time = |column: usize, row| us(column, row) / 1000;
        assert!((0..rows.num_rows()).all(|row| us(4, row) == us(3, row) - 1), "the last microsecond");
        Ok((0..rows.num_rows()).map(|row| (number(row), time(2, row), time(3, row))).collect())
    }

    #[test]
    fn each_row_gets_its_windows_and_rows_without_a_time_are_dropped() {
        let times = [Some(5), None, Some(9), Some(10), Some(-1)];
        assert_eq!(assigned(10, 10, &times).unwrap(), [(0, 0, 10), (2, 0, 10), (3, 10, 20), (4, -10, 0)]);
        let times = [Some(5), None, Some(6)];
        assert_eq!(assigned(10, 5, &times).unwrap(), [(0, 0, 10), (0, 5, 15), (2, 0, 10), (2, 5, 15)]);
        assert_eq!(assigned(10, 10, &[None]).unwrap(), []);
    }

    #[test]
    fn a_window_after_all_times_is_refused() {
        let last = i64::MAX / 1000;
        let error = assigned(1 << 40, 1 << 40, &[Some(last)]).unwrap_err();
        assert_eq!(error.to_string(), "the window of a row ends after all times");
    }
}
