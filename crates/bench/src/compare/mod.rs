//! Whether an answer is right: it is compared by value with the oracle's answer to the same query on the same files.
//!
//! - Columns are compared by position; names, integer widths, decimal scales and string encodings do not matter.
//! - Strings, dates, booleans, nulls, integers and decimals of one scale are exact. Floating point numbers may
//!   differ by [`TOLERANCE_RELATIVE`] or [`TOLERANCE_ABSOLUTE`] (sums in another order), and a decimal of
//!   [`QUOTIENT_SCALE_MIN`] or more digits from a value of another type by its last digit or [`TOLERANCE_QUOTIENT`]
//!   (division and `avg` have different types in different engines). A float that was rounded to as many digits as a decimal
//!   has may be so the other way: 1.025 is rounded to 1.03, and as a float, which is a little less, to 1.02.
//! - Rows are a multiset: each row of one answer has its own partner in the other.
//! - If the query has an `ORDER BY`, its columns must have the same values row by row. Rows that tie in them may come in any
//!   order.
//! - If a `LIMIT` cuts through rows that tie, engines may keep different ones. Such rows are right if they tie with the last
//!   row and are in the oracle's answer without the limit; the verdict says so. If the query orders by something that is not
//!   an output column, or its order is not understood, ties cannot be seen, and such rows are wrong.

mod answer;
mod order;
mod rows;
mod value;

pub(crate) use value::{QUOTIENT_SCALE_MIN, TOLERANCE_ABSOLUTE, TOLERANCE_QUOTIENT, TOLERANCE_RELATIVE};

pub(crate) use answer::Answer;
pub(crate) use order::without_limit;

use self::order::{Order, order_of};
use self::rows::{Unmatched, unmatched};
use crate::error::Result;

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The answer is right; the notes name the differences that were allowed.
    Right(Vec<String>),
    /// The answer is wrong, and how.
    Wrong(String),
}

/// Compares an answer to `sql` with the `oracle`'s. `unlimited` gives the oracle's answer without the query's limit; it is
/// called only if rows at the cut differ.
///
/// # Errors
/// Those of `unlimited`.
pub(crate) fn compare(
    sql: &str,
    answer: &Answer,
    oracle: &Answer,
    unlimited: impl FnOnce() -> Result<Answer>,
) -> Result<Verdict> {
    let (columns, expected) = (answer.columns.len(), oracle.columns.len());
    if columns != expected {
        return Ok(Verdict::Wrong(format!("{columns} columns where the oracle has {expected}")));
    }
    if answer.rows != oracle.rows {
        return Ok(Verdict::Wrong(format!("{} rows where the oracle has {}", answer.rows, oracle.rows)));
    }
    let mut notes = Vec::new();
    let order = order_of(sql, &oracle.names);
    match &order {
        None => notes.push("the query's order was not understood, and not compared".to_owned()),
        Some(order) => {
            if order.columns.len() < order.keys {
                let (seen, keys) = (order.columns.len(), order.keys);
                notes.push(format!(
                    "order compared by {seen} of its {keys} keys: the next one is not an output column"
                ));
            }
            if let Some(wrong) = misplaced(answer, oracle, order) {
                return Ok(Verdict::Wrong(wrong));
            }
        }
    }
    let Unmatched { ours, theirs } = unmatched(answer, oracle);
    if ours.is_empty() && theirs.is_empty() {
        return Ok(Verdict::Right(notes));
    }
    let tie = |order: &Order| ours.iter().all(|row| ties_with_last(answer, *row, order));
    if is_cut(sql, oracle) && order.as_ref().is_some_and(tie) {
        let unlimited = unlimited()?;
        if unmatched(answer, &unlimited).ours.is_empty() {
            notes.push(format!(
                "the limit cuts through rows that tie: {} other rows, each a right one",
                ours.len()
            ));
            return Ok(Verdict::Right(notes));
        }
    }
    let example =
        |answer: &Answer, rows: &[usize]| rows.first().map_or("none".to_owned(), |row| answer.show_row(*row));
    Ok(Verdict::Wrong(format!(
        "{} of {} rows are not in the oracle's answer, the first {}; the oracle has {}",
        ours.len(),
        answer.rows,
        example(answer, &ours),
        example(oracle, &theirs),
    )))
}

/// The first row in which a column that the query orders by differs from the oracle's.
fn misplaced(answer: &Answer, oracle: &Answer, order: &Order) -> Option<String> {
    (0..answer.rows).find_map(|row| {
        let column = *order.columns.iter().find(|column| {
            let (ours, theirs) = (&answer.columns[**column][row], &oracle.columns[**column][row]);
            !ours.same(theirs)
        })?;
        Some(format!(
            "row {}, column {} ({}), by which the query orders: {} where the oracle has {}",
            row + 1,
            column + 1,
            oracle.names[column],
            answer.columns[column][row],
            oracle.columns[column][row],
        ))
    })
}

/// Whether the query has a limit and the answer reached it.
fn is_cut(sql: &str, oracle: &Answer) -> bool {
    without_limit(sql).is_some_and(|(_, limit)| limit == oracle.rows)
}

/// Whether a row has the same values as the last one in the columns that the query orders by; `false` if one of them is
/// not an output column.
fn ties_with_last(answer: &Answer, row: usize, order: &Order) -> bool {
    let last = answer.rows - 1;
    order.columns.len() == order.keys
        && order
            .columns
            .iter()
            .all(|column| answer.columns[*column][row].same(&answer.columns[*column][last]))
}

#[cfg(test)]
mod tests;
