use yeoul_base::ErrorKind;

use super::Bench;

/// DataFusion finds no row in files that are not there.
#[test]
fn a_table_whose_files_are_not_there_is_not_read_as_empty() {
    let bench = Bench::new();
    bench.write("d/one.csv", "n\n1\n");
    for (location, told) in [
        ("~/none.csv", "there is no file '"),
        ("~/d/onf.csv", "there is no file '"),
        ("~/none/", "there is no file '"),
        ("~/d/*.tsv", "no file matches '"),
        ("~/none/*.csv", "no file matches '"),
    ] {
        bench.sql(&format!(
            "CREATE OR REPLACE EXTERNAL TABLE t (n BIGINT) STORED AS CSV LOCATION '{location}'"
        ));
        bench.sql("CREATE OR REPLACE VIEW v AS SELECT n FROM t");
        for sql in [
            "SELECT n FROM t",
            "SELECT 1 WHERE EXISTS (SELECT n FROM t)",
            "SELECT count(*) FROM v",
            "CREATE TABLE kept AS SELECT n FROM t",
            "COPY (SELECT n FROM t) TO '~/out.csv'",
            "EXPLAIN SELECT n FROM t",
        ] {
            let error = bench.refused(sql);
            assert_eq!(error.kind(), ErrorKind::NotFound, "{location}, {sql}: {error}");
            assert!(error.to_string().starts_with(told), "{location}, {sql}: {error}");
        }
    }
    bench.sql("CREATE EXTERNAL TABLE misspelt (n BIGINT) STORED AS CSV LOCATION '~/d/onf.csv'");
    assert!(bench.refused("SELECT n FROM misspelt").hint().is_some_and(|hint| hint.contains("one.csv")));
}

#[test]
fn a_table_begins_with_its_first_row() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("empty")).unwrap();
    bench.sql("CREATE EXTERNAL TABLE t (n BIGINT) STORED AS CSV LOCATION '~/empty/'");
    assert_eq!(bench.numbers("t"), Vec::<i64>::new());
    bench.sql("INSERT INTO t VALUES (7)");
    assert_eq!(bench.numbers("t"), [7]);
    bench.sql("CREATE EXTERNAL TABLE new (n BIGINT) STORED AS CSV LOCATION '~/new/'");
    bench.refused("SELECT n FROM new");
    bench.sql("INSERT INTO new VALUES (8)");
    assert_eq!(bench.numbers("new"), [8]);
    for pattern in ["~/new/", "~/new/*.csv"] {
        bench.sql(&format!(
            "CREATE OR REPLACE EXTERNAL TABLE new (n BIGINT) STORED AS CSV LOCATION '{pattern}'"
        ));
        assert_eq!(bench.numbers("new"), [8]);
    }
}
