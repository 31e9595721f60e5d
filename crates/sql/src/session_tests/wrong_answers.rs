//! Goal: no statement that was once answered wrongly is so again. Method: each statement of `judges/sql/wrong_answers/`, with its
//! right answer or the words of its refusal; the README there describes the format.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use yeoul_dialect::functions::DEFINITIONS;
use yeoul_dialect::wrong_answers::{Case, Expected, cases, rows};

use super::Bench;
use super::answers::benches;

/// What is wrong with the answer of a statement.
fn fault(bench: &Bench, case: &Case) -> Option<String> {
    let batches = bench.batches(&case.sql);
    case.fault(match batches {
        Ok(batches) => Ok(rows(&batches).unwrap()),
        Err(error) => Err(format!("{error}; hint: {}", error.hint().unwrap_or("none"))),
    })
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
        let cases = cases(&fs::read_to_string(&path).unwrap()).unwrap();
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
fn each_example_of_a_defined_function_has_its_answer() {
    let mut faults = String::new();
    for bench in benches() {
        for definition in DEFINITIONS.iter() {
            let sql = format!("SELECT {}", definition.example);
            let expected = Expected::Rows(vec![definition.answer.to_owned()]);
            if let Some(fault) = fault(&bench, &Case { line: 0, sql, expected }) {
                writeln!(faults, "{}: {fault}", definition.example).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn a_wrong_answer_and_a_missing_refusal_are_faults() {
    let text = "-- About b.\nSELECT *\nFROM (VALUES (1, NULL), (2, '')) AS v(a, b);\n--> 1 | NULL\n--> 2 |\n\nSELECT x;\n--> refused: x\n";
    let mut cases = cases(text).unwrap();
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
