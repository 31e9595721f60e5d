//! Goal: SQL means in a stream what it means in `yeoul sql`. Method: the statements of `judges/sql/wrong_answers` that read no table,
//! over a stream of one row, with the answers that stand there; clauses of statements over a stream, each with its rows or its refusal.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use yeoul_dialect::syntax::ast::{Query as SqlQuery, SetExpr, Statement as Sql};
use yeoul_dialect::syntax::{DFParser, Grammar, Statement};
use yeoul_dialect::wrong_answers::{cases, rows};

use crate::checkpoint::wire::Manifest;
use crate::operators::Operators;
use crate::plan::{Script, StreamDefinition, plan};

const STREAM: &str = "CREATE STREAM s (a BIGINT, b BIGINT, p BIGINT, q BIGINT, r BOOLEAN) WITH ('connector' = 'x'); \
                      CREATE SINK out WITH ('connector' = 'x');";

/// Rows `(a, b, p, q, r)` of the stream.
fn stream_rows() -> RecordBatch {
    let numbers = |values: [Option<i64>; 4]| Arc::new(Int64Array::from_iter(values)) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([
        ("a", numbers([Some(1), Some(2), Some(3), None]), true),
        ("b", numbers([Some(10), Some(20), Some(-30), Some(40)]), true),
        ("p", numbers([Some(1), Some(1), None, None]), true),
        ("q", numbers([Some(1), Some(2), Some(3), None]), true),
        ("r", Arc::new(BooleanArray::from(vec![false; 4])), true),
    ])
    .unwrap()
}

/// The rows that a query gives, or the message and the hint of its error.
fn answer(select: &str, rows_in: RecordBatch) -> Result<Vec<String>, String> {
    let text = |error: crate::error::Error| {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        format!("{error}; hint: {}; {}", error.hint().unwrap_or("none"), causes.join("; "))
    };
    let run = || {
        let script = Script::parse(&format!("{STREAM} INSERT INTO out {select}"))?;
        let schema_of = |stream: &StreamDefinition| {
            let field = |c: &crate::plan::StreamColumn| {
                arrow::datatypes::Field::new(&c.name, c.data_type.clone(), true)
            };
            Ok(Arc::new(arrow::datatypes::Schema::new(stream.columns.iter().map(field).collect::<Vec<_>>())))
        };
        let query = plan(&script, schema_of)?.remove(0);
        let mut operators = Operators::new(&query, &Manifest::blank(), None)?;
        let mut out = operators.push(rows_in)?;
        out.extend(operators.end_batch()?);
        Ok(out)
    };
    run().map(|out| rows(&out).unwrap()).map_err(text)
}

/// True if a statement is a list of expressions, to which a stream can be added behind.
fn reads_nothing(sql: &str) -> bool {
    let Ok(mut statements) = DFParser::parse_sql_with_dialect(sql, &Grammar) else { return false };
    let Some(Statement::Statement(statement)) = statements.pop_front() else { return false };
    let Sql::Query(query) = *statement else { return false };
    let SqlQuery { with: None, body, order_by: None, limit_clause: None, fetch: None, .. } = *query else {
        return false;
    };
    let SetExpr::Select(select) = *body else { return false };
    let is_plain = select.from.is_empty() && select.selection.is_none() && select.having.is_none();
    is_plain && sql.to_uppercase().matches("SELECT").count() == 1
}

#[test]
fn a_statement_that_was_once_answered_wrongly_is_answered_as_in_the_engine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../judges/sql/wrong_answers");
    let (mut faults, mut answered, mut refused) = (Vec::new(), 0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        // A session's settings are no part of a stream.
        let mut is_set = false;
        for case in cases(&fs::read_to_string(&path).unwrap()).unwrap() {
            is_set = case.sql.starts_with("SET ") || (is_set && !case.sql.starts_with("RESET "));
            if is_set || !reads_nothing(&case.sql) {
                continue;
            }
            let answer = answer(&format!("{} FROM s", case.sql), stream_rows().slice(0, 1));
            if answer.as_ref().is_err_and(|text| text.contains("not there yet")) {
                refused += 1;
                continue;
            }
            answered += 1;
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            faults.extend(
                case.fault(answer).map(|fault| format!("{name}:{}: {}: {fault}", case.line, case.sql)),
            );
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(answered > 50 && refused < answered / 4, "{answered} were answered, {refused} are not there yet");
}

#[test]
fn no_clause_of_a_query_is_ignored() {
    for (select, expected) in [
        ("SELECT a FROM s WHERE p IS DISTINCT FROM q AND r", Ok(vec![])),
        ("SELECT a FROM s WHERE p IS NOT DISTINCT FROM q OR r", Ok(vec!["1", "NULL"])),
        ("SELECT CAST(b AS DECIMAL(10, 2)) / 3 AS x FROM s WHERE a = 2", Ok(vec!["6.666667"])),
        ("SELECT substr('hello', -3, 2) AS x FROM s WHERE a = 1", Ok(vec!["ll"])),
        (
            "SELECT DATE '2026-01-31' + INTERVAL '1' MONTH AS x FROM s WHERE a = 1",
            Ok(vec!["2026-02-28T00:00:00"]),
        ),
        ("SELECT 2 ^ 3 AS x FROM s", Err("exclusive or")),
        ("SELECT b + 9223372036854775807 AS x FROM s", Err("integer overflow")),
        ("SELECT 9223372036854775807 + 1 AS x FROM s", Err("overflow")),
        ("SELECT -CAST(-9223372036854775808 AS BIGINT) AS x FROM s", Err("overflow")),
        ("SELECT a FROM s WHERE a < 9223372036854775807 * 2", Err("overflow")),
        ("SELECT CAST(-128 AS TINYINT) - CAST(1 AS TINYINT) AS x FROM s", Err("overflow")),
        (
            "SELECT -9223372036854775808 AS x, 9223372036854775806 + 1 AS y FROM s WHERE a = 1",
            Ok(vec!["-9223372036854775808 | 9223372036854775807"]),
        ),
        ("SELECT a, count(*) FROM s GROUP BY a WITH ROLLUP", Err("ROLLUP")),
        ("SELECT a, count(*) FROM s GROUP BY a WITH CUBE", Err("CUBE")),
        ("SELECT a, count(*) FROM s GROUP BY a WITH TOTALS", Err("TOTALS")),
        ("SELECT a FROM s TABLESAMPLE (0 PERCENT)", Ok(vec![])),
        ("SELECT a FROM s TABLESAMPLE BERNOULLI (1) REPEATABLE (1)", Err("REPEATABLE")),
        ("SELECT a FROM s FOR UPDATE", Err("FOR UPDATE")),
        ("SELECT a FROM s WITH (NOLOCK)", Err("WITH (")),
        ("SELECT a FROM s PARTITION (p0)", Err("PARTITION")),
        ("SELECT a FROM s START WITH a = 1 CONNECT BY PRIOR a = a", Err("CONNECT BY")),
        ("SELECT a FROM s LIMIT 1", Err("not there yet")),
        ("SELECT a FROM s FETCH FIRST 10 PERCENT ROWS ONLY", Err("PERCENT")),
    ] {
        match (answer(select, stream_rows()), expected) {
            (Ok(mut rows), Ok(mut expected)) => {
                rows.sort();
                expected.sort_unstable();
                assert_eq!(rows, expected, "{select}");
            }
            (Err(text), Err(words)) => assert!(text.contains(words), "{select}: {text}"),
            (found, expected) => panic!("{select}: {found:?} and not {expected:?}"),
        }
    }
}
