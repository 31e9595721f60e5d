//! `yeoul sql` where all goes well: the ways in, the formats out, and what a file can be.

use crate::harness::Folder;

#[test]
fn a_statement_on_the_command_line() {
    Folder::new().sql("SELECT 6 * 7 AS answer, NULL AS nothing").shows(
        "
exit 0
┌────────┬─────────┐
│ answer │ nothing │
├────────┼─────────┤
│     42 │ NULL    │
└────────┴─────────┘
-- stderr
1 row in [TIME]
",
    );
}

#[test]
fn what_has_no_name_is_headed_by_its_text() {
    let folder = Folder::new();
    folder.sql("SELECT 1").with(["--format", "json"]).shows("exit 0\n{\"1\":1}");
    let sql = "SELECT n+1, * FROM (VALUES (1), (2)) AS t(n) ORDER BY n+1 DESC; SELECT 'a' UNION ALL SELECT 'b' ORDER BY 1; \
               SELECT sum(n) OVER (ORDER BY n), count(*) FROM (VALUES (1)) AS t(n) GROUP BY n";
    folder.sql(sql).with(["--format", "csv"]).shows(
        "
exit 0
n + 1,n
3,2
2,1
'a'
a
b
sum(n) OVER (ORDER BY n),count(*)
1,1
",
    );
}

#[test]
fn a_plan_is_shown_as_it_is() {
    let folder = Folder::new();
    folder.sql("EXPLAIN SELECT 1 AS a").shows(
        "
exit 0
logical_plan:
Projection: Int64(1) AS a
  EmptyRelation: rows=1

physical_plan:
ProjectionExec: expr=[1 as a]
  PlaceholderRowExec
-- stderr
2 rows in [TIME]
",
    );
    let analyzed = folder.sql("EXPLAIN ANALYZE SELECT 1 AS a").done();
    assert!(analyzed.starts_with("exit 0\nPlan with Metrics:\nProjectionExec: "), "{analyzed}");
    let sql = "EXPLAIN SELECT 1 AS a";
    let json = folder.sql(sql).with(["--format", "json"]).done();
    assert!(json.contains("\"plan\":\"Projection: Int64(1) AS a\\n  EmptyRelation: rows=1\""), "{json}");
}

#[test]
fn several_statements_by_c_by_file_and_by_stdin_do_the_same() {
    let folder = Folder::new();
    let script = "-- two answers\nCREATE VIEW v AS SELECT 1 AS a;\nSELECT a FROM v;\n.mode json\nSELECT a + 1 AS b FROM v";
    folder.write("script.sql", script);
    let expected = "
exit 0
a
1
{\"b\":2}
";
    folder.sql(script).with(["--format", "csv"]).shows(expected);
    folder.yeoul(["sql", "-f", "script.sql", "--format", "csv"]).shows(expected);
    folder.yeoul(["sql", "--format", "csv"]).stdin(script).shows(expected);
    folder.yeoul(["sql", "--format", "csv", "-f", "-"]).stdin(script).shows(expected);
    let apart = ["sql", "--format", "csv", "-c", "CREATE VIEW v AS SELECT 1 AS a", "-c", "SELECT a FROM v"];
    folder.yeoul(apart).shows("exit 0\na\n1");
}

#[test]
fn formats_for_programs_keep_stderr_empty() {
    let folder = Folder::new();
    let sql = "SELECT * FROM (VALUES (1, 'a,b', make_array(1, NULL)), (NULL, '', NULL)) AS t(n, s, l)";
    folder.sql(sql).with(["--format", "csv"]).shows(
        "
exit 0
n,s,l
1,\"a,b\",\"[1,null]\"
,\"\",
",
    );
    folder.sql(sql).with(["--format", "json"]).shows(
        "
exit 0
{\"n\":1,\"s\":\"a,b\",\"l\":[1,null]}
{\"n\":null,\"s\":\"\",\"l\":null}
",
    );
    folder.sql("SELECT 1 AS n WHERE false").with(["--format", "csv"]).shows("exit 0\nn");
    folder.sql("SELECT 1 AS n WHERE false").with(["--format", "json"]).shows("exit 0");
}

#[test]
fn parquet_goes_through_a_pipe_and_reads_back() {
    let folder = Folder::new();
    let sql = "SELECT value AS n, 'row ' || value AS t FROM generate_series(1, 3)";
    let (status, parquet, err) = folder.sql(sql).with(["--format", "parquet"]).output();
    assert!(status.success() && err.is_empty());
    folder.write("piped.parquet", parquet);
    folder.sql("SELECT * FROM 'piped.parquet' ORDER BY n").with(["--format", "csv"]).shows(
        "
exit 0
n,t
1,row 1
2,row 2
3,row 3
",
    );
}

#[test]
fn an_output_file_appears_whole() {
    let folder = Folder::new();
    folder.sql("SELECT 1 AS n").with(["--format", "csv", "-o", "out.csv"]).shows("exit 0");
    assert_eq!(std::fs::read_to_string(folder.path().join("out.csv")).unwrap(), "n\n1\n");
    assert_eq!(folder.names(), ["out.csv"]);
    folder.sql("SELECT 1 AS n").with(["-o", "out.jsonl"]).shows("exit 0");
    let written = std::fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
    assert_eq!(written, "{\"n\":1}\n", "its ending says so");
}

#[test]
fn from_alone_is_every_column() {
    let folder = Folder::new();
    folder.write("t.csv", "a,b\n1,x\n");
    folder.sql("FROM 't.csv'").with(["--format", "csv"]).shows("exit 0\na,b\n1,x");
}

#[test]
fn files_globs_and_folders_with_partitions_are_tables() {
    let folder = Folder::new();
    folder.prepare(
        "COPY (SELECT 1 AS n, 'a' AS t) TO 'data/one.parquet'; COPY (SELECT 2 AS n, 'b' AS t) TO 'data/two.parquet';
         COPY (SELECT 3 AS n, '2024' AS year) TO 'parts' STORED AS PARQUET PARTITIONED BY (year)",
    );
    folder.write("plain.csv", "n,t\n4,x\n5,\n");
    folder.write("lines.json", "{\"n\": 6, \"t\": {\"deep\": true}}\n{\"n\": 7}\n");
    let csv = |sql: &str| folder.sql(sql).with(["--format", "csv"]);
    csv("SELECT * FROM 'data/*.parquet' ORDER BY n").shows("exit 0\nn,t\n1,a\n2,b");
    csv("SELECT * FROM 'data' ORDER BY n").shows("exit 0\nn,t\n1,a\n2,b");
    csv("SELECT n, year FROM 'parts' WHERE year = '2024'").shows("exit 0\nn,year\n3,2024");
    csv("SELECT * FROM 'plain.csv' ORDER BY n").shows("exit 0\nn,t\n4,x\n5,");
    csv("SELECT * FROM 'lines.json' ORDER BY n").shows("exit 0\nn,t\n6,\"{\"\"deep\"\":true}\"\n7,");
}

#[test]
fn compressed_files_are_read() {
    let folder = Folder::new();
    folder.prepare(
        "COPY (SELECT 1 AS n) TO 'a.csv.gz' STORED AS CSV OPTIONS ('format.compression' 'gzip', 'format.has_header' 'true');
         COPY (SELECT 2 AS n) TO 'b.json.gz' STORED AS JSON OPTIONS ('format.compression' 'gzip')",
    );
    folder.sql("SELECT * FROM 'a.csv.gz'").with(["--format", "csv"]).shows("exit 0\nn\n1");
    folder.sql("SELECT * FROM 'b.json.gz'").with(["--format", "csv"]).shows("exit 0\nn\n2");
}

#[test]
fn the_shells_commands_work_in_scripts() {
    let folder = Folder::new();
    folder.prepare("COPY (SELECT 1 AS n, 'a' AS t) TO 'one.parquet'");
    folder.write("inner.sql", "SELECT 'from inner' AS t;\n");
    let script = "CREATE VIEW v AS SELECT 1 AS a, 'x' AS b;\n.tables\n.schema v\n.schema one.parquet\n.read inner.sql\n.quit\nSELECT 1;";
    folder.yeoul(["sql", "--format", "csv"]).stdin(script).shows(
        "
exit 0
table
v
column,type
a,BIGINT
b,VARCHAR
column,type
n,BIGINT
t,VARCHAR
t
from inner
",
    );
}

#[test]
fn a_closed_pipe_is_a_success() {
    use std::io::Read;
    use std::process::Stdio;
    let folder = Folder::new();
    for format in ["table", "csv", "json", "parquet", "arrow"] {
        let mut run =
            folder.sql("SELECT value FROM generate_series(1, 100000000)").with(["--format", format]);
        let mut child = run.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}
