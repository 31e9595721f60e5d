//! Goal: no clause is ignored. Method: a statement for each clause that is refused, which is refused by its name; the source of the walk,
//! in which no field is left out by two dots.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use yeoul_base::ErrorKind;

use super::refused::Clause;
use crate::{Dialect, Result};

/// A statement with a clause, and the dialect in which the parser knows it.
fn example(clause: Clause) -> (&'static str, &'static str) {
    let generic = |sql| ("generic", sql);
    match clause {
        Clause::RowLock => generic("SELECT a FROM t FOR UPDATE"),
        Clause::ForDocument => ("mssql", "SELECT a FROM t FOR JSON AUTO"),
        Clause::QuerySettings => ("clickhouse", "SELECT a FROM t SETTINGS max_threads = 1"),
        Clause::QueryFormat => ("clickhouse", "SELECT a FROM t FORMAT JSON"),
        Clause::FetchPercent => generic("SELECT a FROM t FETCH FIRST 10 PERCENT ROWS ONLY"),
        Clause::LimitShare => generic("SELECT a FROM t LIMIT 150%"),
        Clause::PipeOrder => generic("SELECT a, b FROM t |> AGGREGATE sum(a) AS s GROUP BY b DESC"),
        Clause::PipeMerge => generic("SELECT a FROM t |> FULL JOIN u USING (a)"),
        Clause::PipePlace => generic("SELECT a, b FROM t |> AGGREGATE sum(a) AS s GROUP BY 2"),
        Clause::FetchAndLimit => generic("SELECT a FROM t LIMIT 1 FETCH FIRST 2 ROWS ONLY"),
        Clause::TiesWithoutOrder => generic("SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES"),
        Clause::TiesKey => generic("SELECT DISTINCT a FROM t ORDER BY a + 1 FETCH FIRST 2 ROWS WITH TIES"),
        Clause::RecursiveTail => generic(
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9 LIMIT 3) SELECT n FROM r",
        ),
        Clause::RecursiveByName => generic(
            "WITH RECURSIVE r(n) AS (SELECT 1 AS n UNION ALL BY NAME SELECT n + 1 AS n FROM r WHERE n < 9) SELECT n FROM r",
        ),
        Clause::CteFrom => ("hive", "WITH r AS (SELECT 1) FROM t SELECT a"),
        Clause::VolatileCte => generic("WITH r AS (SELECT random() AS x) SELECT * FROM r AS p, r AS q"),
        Clause::SelectModifier => ("mysql", "SELECT HIGH_PRIORITY a FROM t"),
        Clause::TrailingExclude => ("redshift", "SELECT *, 1 AS one EXCLUDE a FROM t"),
        Clause::IntoInside => generic("SELECT * FROM (SELECT a INTO v FROM t) AS s"),
        Clause::Prewhere => ("clickhouse", "SELECT a FROM t PREWHERE a > 1"),
        Clause::ConnectBy => generic("SELECT a FROM t START WITH a = 1 CONNECT BY a = PRIOR b"),
        Clause::ValueTable => ("bigquery", "SELECT AS STRUCT a FROM t"),
        Clause::GroupTotals => generic("SELECT a, sum(b) FROM t GROUP BY a WITH TOTALS"),
        Clause::GroupAllModifier => generic("SELECT a, sum(b) FROM t GROUP BY ALL WITH ROLLUP"),
        Clause::GroupPosition => generic("SELECT a, sum(b) FROM t GROUP BY 3 WITH ROLLUP"),
        Clause::DistinctOnQualify => {
            generic("SELECT a, (SELECT DISTINCT ON (c) c FROM u QUALIFY row_number() OVER () = 1) FROM t")
        }
        Clause::WildcardMissing => generic("SELECT * REPLACE (1 AS z) FROM t"),
        Clause::WildcardUnmatched => generic("SELECT * ILIKE 'z%' FROM t"),
        Clause::TableHints => ("mssql", "SELECT a FROM t WITH (NOLOCK)"),
        Clause::TableVersion => ("bigquery", "SELECT a FROM t FOR SYSTEM_TIME AS OF '2024-01-01'"),
        Clause::Ordinality => ("postgres", "SELECT * FROM generate_series(1, 2) WITH ORDINALITY"),
        Clause::TablePartitions => ("mysql", "SELECT a FROM t PARTITION (p0)"),
        Clause::TablePath => ("redshift", "SELECT a FROM t[0].x"),
        Clause::IndexHints => ("mysql", "SELECT a FROM t USE INDEX (i)"),
        Clause::FunctionSettings => ("clickhouse", "SELECT * FROM range(1, SETTINGS x = 1)"),
        Clause::AliasAt => ("redshift", "SELECT * FROM t AS x AT i"),
        Clause::AliasTypes => ("postgres", "SELECT * FROM t AS x(a INT, b INT)"),
        Clause::NamedTableArguments => generic("SELECT * FROM t, LATERAL range(start => 1)"),
        Clause::SampleMethod => generic("SELECT a FROM t TABLESAMPLE SYSTEM (10)"),
        Clause::SampleUnit => generic("SELECT a FROM t TABLESAMPLE (10)"),
        Clause::SampleQuantity => generic("SELECT a FROM t TABLESAMPLE BERNOULLI (101)"),
        Clause::SampleSeed => generic("SELECT a FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)"),
        Clause::SampleBucket => ("hive", "SELECT a FROM t TABLESAMPLE (BUCKET 1 OUT OF 4)"),
        Clause::GlobalJoin => ("clickhouse", "SELECT a FROM t GLOBAL JOIN u ON a = c"),
        Clause::JoinWithoutCondition => generic("SELECT a FROM t JOIN u"),
        Clause::NaturalNothing => generic("SELECT a FROM t NATURAL LEFT SEMI JOIN u"),
        Clause::TrimCharacters => ("snowflake", "SELECT trim('x', 'a', 'b')"),
        Clause::IntervalUnit => generic("SELECT interval '3'"),
        Clause::LambdaTypes => ("databricks", "SELECT array_transform([1], (x INT) -> x)"),
        Clause::FunctionParameters => ("clickhouse", "SELECT median(1)(a) FROM t"),
        Clause::SubqueryArgument => ("bigquery", "SELECT array(SELECT a FROM t ORDER BY a + 1)"),
        Clause::PlainOver => generic("SELECT abs(a) OVER () FROM t"),
        Clause::PlainFilter => generic("SELECT abs(a) FILTER (WHERE a > 1) FROM t"),
        Clause::PlainDistinct => generic("SELECT abs(DISTINCT a) FROM t"),
        Clause::PlainOrder => generic("SELECT concat(a ORDER BY b) FROM t"),
        Clause::PlainNulls => generic("SELECT abs(a) IGNORE NULLS FROM t"),
        Clause::PlainWithin => generic("SELECT abs(a) WITHIN GROUP (ORDER BY a) FROM t"),
        Clause::DistinctIgnored => generic("SELECT corr(DISTINCT a, b) FROM t"),
        Clause::OrderIgnored => generic("SELECT any_value(a ORDER BY b) FROM t"),
        Clause::WindowUnknown => generic("SELECT sum(a) OVER w FROM t"),
        Clause::WindowRefined => {
            generic("SELECT sum(a) OVER (w PARTITION BY a) FROM t WINDOW w AS (PARTITION BY b)")
        }
        Clause::FloatScale => generic("SELECT 1::float(54)"),
        Clause::FieldOptions => ("bigquery", "SELECT CAST(NULL AS STRUCT<x INT OPTIONS(description = 'd')>)"),
        Clause::ShowDatabases => generic("SHOW DATABASES"),
        Clause::ChangeLimit => generic("DELETE FROM t LIMIT 1"),
        Clause::ChangeReturning => generic("DELETE FROM t RETURNING a"),
        Clause::ChangeTarget => generic("DELETE FROM t, u"),
        Clause::ChangeNested => generic("EXPLAIN DELETE FROM t"),
        Clause::UpdateConflict => ("sqlite", "UPDATE OR IGNORE t SET a = 1"),
        Clause::AssignedTwice => generic("UPDATE t SET a = 1, A = 2"),
        Clause::AssignedElsewhere => generic("UPDATE t SET u.a = 1"),
        Clause::AssignedTuple => generic("UPDATE t SET (a, b) = (SELECT 1, 2)"),
        Clause::Merge => generic("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE"),
        Clause::UniqueKey => generic("CREATE TABLE k (a INT PRIMARY KEY)"),
        Clause::ColumnOption => generic("CREATE TABLE k (a INT GENERATED ALWAYS AS IDENTITY)"),
        Clause::ViewOption => ("mssql", "CREATE OR ALTER VIEW v AS SELECT 1 AS a"),
        Clause::ViewTypes => ("clickhouse", "CREATE VIEW v (a Int64) AS SELECT 1 AS a"),
        Clause::SchemaOption => generic("CREATE SCHEMA s AUTHORIZATION me"),
        Clause::DropSeveral => generic("DROP FUNCTION f, g"),
        Clause::ExplainOption => ("postgres", "DESCRIBE QUERY PLAN SELECT 1"),
        Clause::DescribeOption => ("hive", "DESCRIBE EXTENDED t"),
        Clause::UnboundedTable => {
            generic("CREATE UNBOUNDED EXTERNAL TABLE e (a INT) STORED AS CSV LOCATION 'e.csv'")
        }
        Clause::CopyFormat => generic("COPY t TO 'e.csv' STORED AS XLSX"),
        Clause::CopyTwice => generic("COPY t TO 'e.csv' OPTIONS ('delimiter' ',', 'delimiter' ';')"),
    }
}

/// The plan of a statement over the tables `t(a, b)` and `u(c)`.
async fn planned(sql: &str, parser: &str) -> Result<LogicalPlan> {
    let meaning = Dialect::default();
    let mut config = SessionConfig::new();
    meaning.configure(config.options_mut());
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(meaning.session_state(builder, &[])?);
    for table in ["CREATE TABLE t AS SELECT 1 AS a, 2 AS b", "CREATE TABLE u AS SELECT 3 AS c"] {
        context.sql(table).await.unwrap().collect().await.unwrap();
    }
    let mut state = context.state();
    state.config_mut().options_mut().sql_parser.dialect = parser.parse().unwrap();
    let mut statement = meaning.read(sql, &state)?;
    let questions = meaning.honour(&mut statement, &state)?;
    meaning.plan(statement, questions, &mut state).await
}

#[test]
fn each_refused_clause_is_refused_by_its_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut faults = Vec::new();
    for clause in Clause::ALL {
        let (dialect, sql) = example(*clause);
        match runtime.block_on(planned(sql, dialect)) {
            Ok(plan) => faults.push(format!("{clause:?}: {sql}: {}", plan.display_indent())),
            Err(error)
                if error.kind() == ErrorKind::Invalid
                    && error.to_string() == format!("not supported: {}", clause.name()) =>
            {
                assert!(error.hint().is_some(), "{sql}");
            }
            Err(error) => faults.push(format!("{clause:?}: {sql}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let names: HashSet<&str> = Clause::ALL.iter().map(|clause| clause.name()).collect();
    assert_eq!((Clause::ALL.len(), names.len()), (REFUSED, REFUSED), "each has a name of its own");
}

/// The clauses that are refused, and the fields of syntax nodes about which the walk decides. A number that changes says that the walk
/// decides about more or fewer: is that meant?
const REFUSED: usize = 84;
const FIELDS: usize = 359;

/// The lines of the walk's source before its tests.
fn sources() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/refuse");
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            sources.push((name, lines.collect::<Vec<_>>().join("\n")));
        }
    }
    sources
}

#[test]
fn no_field_of_a_syntax_node_is_left_out() {
    let mut fields = 0;
    for (name, code) in sources() {
        for rest in [", .. }", "{ .. }", "(..)", ", ..)", "    ..\n"] {
            assert!(!code.contains(rest), "{name} leaves out fields by '{rest}'");
        }
        // `field: _` and, within the braces of a pattern, `field`.
        fields += code.matches(": _").count();
    }
    assert_eq!(fields, FIELDS, "fields that have no meaning of their own, or that planning decides about");
}
