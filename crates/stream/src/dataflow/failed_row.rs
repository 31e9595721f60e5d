//! Rows that an expression fails on, or that the sink refuses: they are set aside where the stream says so, else their record's place is
//! named.

use arrow::array::RecordBatch;

use super::inputs::{Inputs, place_of};
use crate::connectors::{Decoded, FailingRows, Sink};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::{FailingRow, Operators, Prepared};
use crate::plan::Query;
use crate::state::MemoryShare;

/// Records of an input as its source gave them, on their way to a sink.
#[derive(Clone, Copy)]
pub(super) struct Records<'r> {
    pub query: &'r Query,
    pub input: usize,
    pub raw: &'r RecordBatch,
    pub sink: &'r dyn Sink,
}

/// Rows of an input as operators take them, with the records that were set aside among the malformed ones. Nothing has taken them
/// yet: those that fail can be left out.
pub(super) fn prepared(
    operators: &Operators,
    inputs: &Inputs,
    records: Records<'_>,
    decoded: Decoded,
) -> Result<(Decoded, Prepared)> {
    let Records { input, raw, sink, .. } = records;
    let is_strict = inputs.failing_rows(input) == FailingRows::Fail;
    let check = |prepared: &Prepared| prepared.coming_out().try_for_each(|rows| sink.check(rows));
    let attempt = |rows: &RecordBatch| {
        let prepared = operators.prepare(input, rows)?;
        if !is_strict {
            operators.try_steps(&prepared)?;
            check(&prepared)?;
        }
        Ok(prepared)
    };
    let error = match attempt(&decoded.rows) {
        Ok(prepared) => return Ok((decoded, prepared)),
        Err(error) if is_strict => return Err(with_place(error, records, &decoded)),
        Err(error) => error,
    };
    let failing = operators.failing_rows(input, &decoded.rows, &check)?;
    if failing.is_empty() {
        return Err(error);
    }
    let Decoded { rows, indices, malformed: mut before } = decoded;
    let aside = failing.into_iter().map(|FailingRow { row, reason }| (row, reason)).collect();
    let mut decoded = Decoded { rows, indices, malformed: Vec::new() }.without(aside)?;
    inputs.set_failing_aside(input, raw, &decoded.malformed)?;
    before.append(&mut decoded.malformed);
    decoded.malformed = before;
    let prepared = attempt(&decoded.rows)?;
    Ok((decoded, prepared))
}

/// The error of rows that were pushed, with the place of the first record that fails by itself, if there is one. Operators of the same
/// query without state find it, row by row: those that failed cannot take rows any more.
pub(super) fn with_place(error: Error, records: Records<'_>, decoded: &Decoded) -> Error {
    if error.kind() != ErrorKind::Invalid {
        return error;
    }
    let Some(FirstFailing { row, is_refused }) = first_failing(records, &decoded.rows) else {
        return error;
    };
    let row = decoded.indices.as_ref().map_or(row, |indices| indices[row] as usize);
    let place = place_of(records.raw, row);
    if place.is_empty() {
        return error;
    }
    let hint = error.hint().unwrap_or("TRY_CAST(x AS INT) is null where x is none; filter other records out");
    let what =
        if is_refused { "what comes of a record cannot be written" } else { "a record cannot be computed" };
    Error::new(error.kind(), format!("{what} ({place})")).with_hint(hint.to_owned()).with_source(error)
}

/// The first row that fails by itself.
struct FirstFailing {
    row: usize,
    /// True if the sink refuses what comes of it.
    is_refused: bool,
}

fn first_failing(records: Records<'_>, rows: &RecordBatch) -> Option<FirstFailing> {
    let Records { query, input, sink, .. } = records;
    let mut operators = Operators::of_new_query(query, &MemoryShare::default()).ok()?;
    (0..rows.num_rows()).find_map(|row| {
        let mut is_refused = false;
        let mut check = |rows: RecordBatch| sink.check(&rows).inspect_err(|_| is_refused = true);
        let pushed = operators.push_from(input, &rows.slice(row, 1), &mut check);
        pushed.is_err().then_some(FirstFailing { row, is_refused })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::BatchId;
    use crate::connectors::SinkConnector;
    use crate::error::invalid;

    #[test]
    fn the_record_that_an_expression_fails_on_is_named() {
        let job = "CREATE STREAM s (x STRING, n BIGINT) WITH ('connector' = 'kafka', 'kafka.bootstrap.servers' = 'h:1', \
                   'subscribe' = 't', 'format' = 'json'); CREATE SINK out WITH ('connector' = 'noop');";
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["1", "2", "n/a", "4"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 0]));
        let rows = RecordBatch::try_from_iter([("x", texts), ("n", numbers)]).unwrap();
        let topics: ArrayRef = Arc::new(StringArray::from(vec!["t"; 6]));
        let offsets: ArrayRef = Arc::new(Int64Array::from_iter_values(70..76));
        let raw = RecordBatch::try_from_iter([("topic", topics), ("offset", offsets)]).unwrap();
        let decoded = Decoded { rows, indices: Some(vec![0, 2, 3, 5]), malformed: Vec::new() };
        for (select, place) in [
            ("SELECT CAST(x AS INT) AS v FROM s", Some("topic t, offset 73")),
            ("SELECT 6 / n AS v FROM s WHERE n < 9", Some("topic t, offset 75")),
            ("SELECT x AS v FROM s", None),
        ] {
            let query = crate::parse_job(&format!("{job} INSERT INTO out {select}")).unwrap().remove(0);
            let mut operators = Operators::of_new_query(&query, &MemoryShare::default()).unwrap();
            let sink = SinkConnector::of(&query).unwrap().open(None, BatchId::FIRST, BatchId::FIRST).unwrap();
            let pushed = operators.push_from(0, &decoded.rows, &mut |_| Ok(()));
            assert_eq!(pushed.is_err(), place.is_some(), "{select}");
            let error = pushed.err().unwrap_or_else(|| invalid("another one"));
            let error =
                with_place(error, Records { query: &query, input: 0, raw: &raw, sink: &*sink }, &decoded);
            let expected = place
                .map_or("another one".to_owned(), |place| format!("a record cannot be computed ({place})"));
            assert_eq!(error.to_string(), expected);
        }
    }
}
