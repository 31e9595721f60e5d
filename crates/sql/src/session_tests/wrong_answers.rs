//! Goal: no statement that was once answered wrongly is so again. Method: each statement of `judges/sql/wrong_answers/`, with its
//! right answer or the words of its refusal; the README there describes the format.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::Bench;
use super::answers::benches;
use crate::Error;

/// What follows a statement.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// Nothing: it has to succeed.
    Success,
    Rows(Vec<String>),
    /// An error with these words.
    Refusal(String),
}

/// A statement of a file, and what it has to answer.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    /// Line of the file on which the statement begins, from 1.
    line: usize,
    sql: String,
    expected: Expected,
}

/// The statements of a file. Panics for a file that is not in the format.
fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut open: Option<Case> = None;
    for (line, written) in (1..).zip(text.lines()) {
        if let Some(answer) = written.strip_prefix("-->") {
            assert!(open.is_none(), "line {line}: an answer inside a statement");
            let case = cases.last_mut().unwrap_or_else(|| panic!("line {line}: an answer to nothing"));
            let answer = answer.strip_prefix(' ').unwrap_or(answer).trim_end();
            case.expected.add(answer).unwrap_or_else(|text| panic!("line {line}: {text}"));
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
    assert!(open.is_none(), "the last statement has no end: {open:?}");
    cases
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

/// The rows that a statement answers, as the files write them.
fn rows(bench: &Bench, sql: &str) -> Result<Vec<String>, Error> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in bench.batches(sql)? {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            cells.join(" | ").trim_end().to_owned()
        }));
    }
    Ok(rows)
}

/// What is wrong with the answer of a statement.
fn fault(bench: &Bench, case: &Case) -> Option<String> {
    let text = |error: &Error| format!("{error}; hint: {}", error.hint().unwrap_or("none"));
    match (&case.expected, rows(bench, &case.sql)) {
        (Expected::Success, Ok(_)) => None,
        (Expected::Refusal(words), Ok(rows)) => Some(format!("{rows:?} and not refused for '{words}'")),
        (Expected::Refusal(words), Err(error)) => {
            let text = text(&error);
            (!text.contains(words.as_str())).then(|| format!("refused without '{words}': {text}"))
        }
        (Expected::Rows(expected), Ok(mut rows)) => {
            let mut expected = expected.clone();
            if !case.sql.contains("ORDER BY") {
                rows.sort();
                expected.sort();
            }
            (rows != expected).then(|| format!("{rows:?} and not {expected:?}"))
        }
        (_, Err(error)) => Some(format!("refused: {}", text(&error))),
    }
}

#[test]
fn each_statement_is_answered_rightly_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../judges/sql/wrong_answers");
    let (mut faults, mut count) = (String::new(), 0);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let cases = cases(&fs::read_to_string(&path).unwrap());
        for bench in benches() {
            for case in &cases {
                count += 1;
                if let Some(fault) = fault(&bench, case) {
                    let (name, sql) = (path.file_name().unwrap().to_string_lossy(), &case.sql);
                    let options = bench.session.options();
                    let (threads, memory) = (options.threads, options.memory);
                    writeln!(faults, "{name}:{}: {sql}\n    {fault} ({threads:?}, {memory:?})", case.line)
                        .unwrap();
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert!(count > 0, "no statements in {}", folder.display());
}

#[test]
fn a_wrong_answer_and_a_missing_refusal_are_faults() {
    let text = "-- About b.\nSELECT *\nFROM (VALUES (1, NULL), (2, '')) AS v(a, b);\n--> 1 | NULL\n--> 2 |\n\nSELECT x;\n--> refused: x\n";
    let mut cases = cases(text);
    assert_eq!(cases.iter().map(|case| case.line).collect::<Vec<_>>(), [2, 7]);
    let bench = Bench::new();
    assert!(cases.iter().all(|case| fault(&bench, case).is_none()));
    cases[0].sql.push_str(" ORDER BY a DESC");
    assert!(fault(&bench, &cases[0]).is_some(), "the order of rows counts");
    cases[1].expected = Expected::Refusal("no such words".to_owned());
    assert!(fault(&bench, &cases[1]).is_some());
    cases[1].expected = Expected::Success;
    assert!(fault(&bench, &cases[1]).is_some());
    cases[0].expected = Expected::Refusal("a".to_owned());
    assert!(fault(&bench, &cases[0]).is_some());
    cases[0].expected = Expected::Rows(Vec::new());
    assert!(fault(&bench, &cases[0]).is_some());
}
