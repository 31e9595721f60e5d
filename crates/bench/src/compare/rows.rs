//! Which rows of one answer are in another, as multisets: each row is the partner of one row only.

use std::collections::HashMap;

use super::answer::Answer;
use super::value::Value;

/// The most rows with the same exact values that are all tried as partners; if there are more, rows are paired in sorted
/// order.
const SEARCHED_ROWS_MAX: usize = 2_000;

/// The rows without a partner in the other answer, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unmatched {
    /// Of the first answer.
    pub ours: Vec<usize>,
    /// Of the second answer.
    pub theirs: Vec<usize>,
}

/// Pairs the rows of two answers that have the same number of columns.
pub(super) fn unmatched(ours: &Answer, theirs: &Answer) -> Unmatched {
    let exact: Vec<bool> = (0..ours.columns.len()).map(|column| is_exact(ours, theirs, column)).collect();
    let mut groups: HashMap<Vec<u8>, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for row in 0..ours.rows {
        groups.entry(key(ours, row, &exact)).or_default().0.push(row);
    }
    for row in 0..theirs.rows {
        groups.entry(key(theirs, row, &exact)).or_default().1.push(row);
    }
    let inexact: Vec<usize> = (0..exact.len()).filter(|column| !exact[*column]).collect();
    let mut unmatched = Unmatched::default();
    for (our_rows, their_rows) in groups.into_values() {
        pair(ours, our_rows, theirs, their_rows, &inexact, &mut unmatched);
    }
    unmatched.ours.sort_unstable();
    unmatched.theirs.sort_unstable();
    unmatched
}

/// Whether values of this column are equal only if their bytes are: no floating point numbers, and one scale.
fn is_exact(ours: &Answer, theirs: &Answer, column: usize) -> bool {
    let mut scales = None;
    ours.columns[column].iter().chain(&theirs.columns[column]).all(|value| match value {
        Value::Float(_) => false,
        Value::Exact { scale, .. } => *scales.get_or_insert(*scale) == *scale,
        _ => true,
    })
}

/// What must be equal for two rows to be partners: the values of exact columns, and which of the others are null.
fn key(answer: &Answer, row: usize, exact: &[bool]) -> Vec<u8> {
    let mut key = Vec::new();
    for (column, exact) in answer.columns.iter().zip(exact) {
        match &column[row] {
            Value::Null => key.push(0),
            _ if !exact => key.push(1),
            Value::Boolean(value) => key.extend([2, u8::from(*value)]),
            Value::Exact { unscaled, .. } => {
                key.push(3);
                key.extend(unscaled.to_le_bytes());
            }
            Value::Text(text) => {
                key.push(4);
                key.extend((text.len() as u64).to_le_bytes());
                key.extend(text.as_bytes());
            }
            Value::Date(days) => {
                key.push(5);
                key.extend(days.to_le_bytes());
            }
            Value::Timestamp(micros) => {
                key.push(6);
                key.extend(micros.to_le_bytes());
            }
            Value::Float(_) => unreachable!("a column with a floating point number is not exact"),
        }
    }
    key
}

/// Pairs rows that agree in all exact columns.
fn pair(
    ours: &Answer,
    mut our_rows: Vec<usize>,
    theirs: &Answer,
    mut their_rows: Vec<usize>,
    inexact: &[usize],
    unmatched: &mut Unmatched,
) {
    let same = |our: usize, their: usize| {
        inexact.iter().all(|column| ours.columns[*column][our].same(&theirs.columns[*column][their]))
    };
    let sort = |answer: &Answer, rows: &mut Vec<usize>| {
        rows.sort_by(|a, b| {
            let numbers =
                |row: &usize| inexact.iter().map(|c| answer.columns[*c][*row].number()).collect::<Vec<_>>();
            let (a, b) = (numbers(a), numbers(b));
            a.iter()
                .zip(&b)
                .map(|(a, b)| a.total_cmp(b))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    };
    if our_rows.len() > 1 || their_rows.len() > 1 {
        sort(ours, &mut our_rows);
        sort(theirs, &mut their_rows);
    }
    if our_rows.len() == their_rows.len()
        && our_rows.iter().zip(&their_rows).all(|(our, their)| same(*our, *their))
    {
        return;
    }
    if our_rows.len().max(their_rows.len()) > SEARCHED_ROWS_MAX && !inexact.is_empty() {
        let both = our_rows.len().min(their_rows.len());
        unmatched.ours.extend(our_rows.drain(both..));
        unmatched.theirs.extend(their_rows.drain(both..));
        for (our, their) in our_rows.into_iter().zip(their_rows) {
            if !same(our, their) {
                unmatched.ours.push(our);
                unmatched.theirs.push(their);
            }
        }
        return;
    }
    for our in our_rows {
        match their_rows.iter().position(|their| same(our, *their)) {
            Some(found) => drop(their_rows.remove(found)),
            None => unmatched.ours.push(our),
        }
    }
    unmatched.theirs.extend(their_rows);
}
