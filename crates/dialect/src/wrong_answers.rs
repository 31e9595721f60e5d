//! Statements that were once answered wrongly, with their right answers: a reader of `judges/sql/wrong_answers` for the tests of each
//! front. The README there describes the format.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The expectation behind a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: it has to succeed.
    Success,
    /// These rows.
    Rows(Vec<String>),
    /// An error with these words.
    Refusal(String),
}

/// A statement of a file, and what it has to answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// Line of the file on which the statement begins, from 1.
    pub line: usize,
    /// The statement, without its end.
    pub sql: String,
    /// What it has to answer.
    pub expected: Expected,
}

/// The statements of a file.
///
/// # Errors
/// A line that is not in the format, with its number.
pub fn cases(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut open: Option<Case> = None;
    for (line, written) in (1..).zip(text.lines()) {
        if let Some(answer) = written.strip_prefix("-->") {
            let case = cases.last_mut().filter(|_| open.is_none());
            let case =
                case.ok_or_else(|| format!("line {line}: an answer to no statement that has ended"))?;
            let answer = answer.strip_prefix(' ').unwrap_or(answer).trim_end();
            case.expected.add(answer).map_err(|text| format!("line {line}: {text}"))?;
        } else if !(written.starts_with("--") || (open.is_none() && written.trim().is_empty())) {
            let case =
                open.get_or_insert_with(|| Case { line, sql: String::new(), expected: Expected::Success });
            case.sql.push_str(written);
            case.sql.push('\n');
            if let Some(sql) = case.sql.trim_end().strip_suffix(';') {
                case.sql = sql.to_owned();
                cases.extend(open.take());
            }
        }
    }
    match open {
        Some(case) => Err(format!("line {}: the last statement has no end", case.line)),
        None => Ok(cases),
    }
}

impl Expected {
    /// Adds a line behind `-->`.
    fn add(&mut self, answer: &str) -> Result<(), &'static str> {
        match self {
            Self::Success => {
                *self = match answer.strip_prefix("refused: ") {
                    Some(words) => Self::Refusal(words.to_owned()),
                    None if answer == "no rows" => Self::Rows(Vec::new()),
                    None => Self::Rows(vec![answer.to_owned()]),
                };
            }
            Self::Rows(rows) if !rows.is_empty() => rows.push(answer.to_owned()),
            Self::Rows(_) => return Err("rows behind 'no rows'"),
            Self::Refusal(_) => return Err("a line behind 'refused'"),
        }
        Ok(())
    }
}

impl Case {
    /// The fault of an answer: rows as [`rows`] gives them, or the message and the hint of an error.
    pub fn fault(&self, answer: Result<Vec<String>, String>) -> Option<String> {
        match (&self.expected, answer) {
            (Expected::Success, Ok(_)) => None,
            (Expected::Refusal(words), Ok(rows)) => Some(format!("{rows:?} and not refused for '{words}'")),
            (Expected::Refusal(words), Err(text)) => {
                (!text.contains(words.as_str())).then(|| format!("refused without '{words}': {text}"))
            }
            (Expected::Rows(expected), Ok(mut rows)) => {
                let mut expected = expected.clone();
                if !self.is_ordered() {
                    rows.sort();
                    expected.sort();
                }
                (rows != expected).then(|| format!("{rows:?} and not {expected:?}"))
            }
            (_, Err(text)) => Some(format!("refused: {text}")),
        }
    }
}

impl Case {
    /// True of a statement with an `ORDER BY` of its own, outside of all parentheses.
    fn is_ordered(&self) -> bool {
        self.sql.match_indices("ORDER BY").any(|(at, _)| {
            let before = &self.sql[..at];
            before.matches('(').count() == before.matches(')').count()
        })
    }
}

/// Rows as the files write them.
///
/// # Errors
/// Arrow's, for a type that it cannot show.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            cells.join(" | ").trim_end().to_owned()
        }));
    }
    Ok(rows)
}
