//! Rows that an expression fails on: they are set aside where the stream says so, else their record's place is named.

use arrow::array::RecordBatch;

use super::inputs::{Inputs, place_of};
use crate::connectors::{Decoded, FailingRows};
use crate::error::{Error, ErrorKind, Result};
use crate::operators::{FailingRow, Operators, Prepared};
use crate::plan::Query;
use crate::state::MemoryShare;

/// Rows of an input as operators take them, with the records that were set aside among the malformed ones. Nothing has taken them
/// yet: those that fail can be left out.
pub(super) fn prepared(
    operators: &Operators,
    inputs: &Inputs,
    query: &Query,
    input: usize,
    decoded: Decoded,
    raw: &RecordBatch,
) -> Result<(Decoded, Prepared)> {
    let is_strict = inputs.failing_rows(input) == FailingRows::Fail;
    let attempt = |rows: &RecordBatch| {
        let prepared = operators.prepare(input, rows)?;
        if !is_strict {
            operators.try_steps(&prepared)?;
        }
        Ok(prepared)
    };
    let error = match attempt(&decoded.rows) {
        Ok(prepared) => return Ok((decoded, prepared)),
        Err(error) if is_strict => return Err(with_place(error, query, input, &decoded, raw)),
        Err(error) => error,
    };
    let failing = operators.failing_rows(input, &decoded.rows)?;
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
pub(super) fn with_place(
    error: Error,
    query: &Query,
    input: usize,
    decoded: &Decoded,
    raw: &RecordBatch,
) -> Error {
    if error.kind() != ErrorKind::Invalid {
        return error;
    }
    let Some(row) = first_failing(query, input, &decoded.rows) else { return error };
    let row = decoded.indices.as_ref().map_or(row, |indices| indices[row] as usize);
    let place = place_of(raw, row);
    if place.is_empty() {
        return error;
    }
    let hint = error.hint().unwrap_or("TRY_CAST(x AS INT) is null where x is none; filter other records out");
    Error::new(error.kind(), format!("a record cannot be computed ({place})"))
        .with_hint(hint.to_owned())
        .with_source(error)
}

fn first_failing(query: &Query, input: usize, rows: &RecordBatch) -> Option<usize> {
    let mut operators = Operators::of_new_query(query, &MemoryShare::default()).ok()?;
    (0..rows.num_rows())
        .find(|row| operators.push_from(input, &rows.slice(*row, 1), &mut |_| Ok(())).is_err())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
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
            let pushed = operators.push_from(0, &decoded.rows, &mut |_| Ok(()));
            assert_eq!(pushed.is_err(), place.is_some(), "{select}");
            let error = pushed.err().unwrap_or_else(|| invalid("another one"));
            let error = with_place(error, &query, 0, &decoded, &raw);
            let expected = place
                .map_or("another one".to_owned(), |place| format!("a record cannot be computed ({place})"));
            assert_eq!(error.to_string(), expected);
        }
    }
}
