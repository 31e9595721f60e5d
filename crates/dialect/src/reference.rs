//! The reference page of the dialects, made from the switches of [`Dialect`] and the tables of functions and settings.

use std::fmt::Write as _;

use crate::functions::spark::{DEFINITIONS, REFUSED};
use crate::settings::KEYS_OF_SPARK;
use crate::{
    Dialect, FunctionNames, IntegerLiterals, JoinsWithout, NameCase, NullOrder, Quotients, Spelling,
    Subscripts,
};

const HEAD: &str = "# Dialects

This page is made from the tables that `yeoul sql` and `yeoul stream` use; a test compares them.

`yeoul sql --dialect spark` takes Spark's statements with the meaning that Spark's ANSI mode gives them (`YEOUL_SQL_DIALECT=spark`, or
`SET yeoul.dialect = 'spark'` in a session; `'yeoul'` goes back). All that is not listed here means the same in each dialect: see
[what differs](sql-differences.md) from other systems.

## Switches

| what | `yeoul sql` | `yeoul stream` | `--dialect spark` |
| --- | --- | --- | --- |
";

const BESIDES: &str = "
## What `--dialect spark` does otherwise than Spark

Refused: what is not listed is meant to be Spark's, or an error.

| what | `--dialect spark` | Spark |
| --- | --- | --- |
| `TIMESTAMP` | a wall clock without a zone, as with `spark.sql.timestampType = TIMESTAMP_NTZ`; `TIMESTAMPTZ` and `TIMESTAMP_LTZ` are instants | an instant, unless that setting says otherwise |
| `TIMESTAMPTZ`, `now()` as texts | with the offset of the zone | without |
| casts of texts with a zone, `'2024-01-01 00:00:00Z'`, to `TIMESTAMP` | the wall clock as written; `TIMESTAMP '… Z'` and `make_timestamp(…, zone)` are instants | the wall clock in the session's zone |
| a date and an interval that is computed, casts of lists, maps, structs and intervals to `STRING` | an error | answers |
| intervals | one type of months, days and time | two: of months, and of days and time |
| `CREATE TABLE … USING parquet`, `orc`, `delta`, `csv` or `json` | a table in the memory of the session, with the values that were inserted; other formats, `LOCATION`, and `OPTIONS` of texts are errors | files; one of CSV has lost blanks at the ends of texts, and one of texts what is finer than milliseconds |
| `COMMENT`, `OPTIONS`, `TBLPROPERTIES`, `CLUSTERED BY` of tables and views, optimizer hints | left out, with a notice once in a session | kept |
| variables of a session (`DECLARE`, `SET VAR`) | their values are constants; one in a statement; a name that any column of the statement has is the column's, and `session.name` the variable's | values of queries, several, the column of the query that a name stands in |
| the hour that clocks show twice when summer time ends | its later instant | its earlier one |
| `try_sum`, `try_avg`, and `try_add` of dates and decimals, of a result that does not fit; `try_sum` of intervals | an error | null; the sum |
| `PARTITIONED BY (a)` | the column `a` is behind all others | the same, and a folder for each value |
| views, `WITH SCHEMA BINDING` and `COMPENSATION` | have the tables and columns that there were when they were made; `EVOLUTION` is an error | find them anew by their names |
| columns of type `CHAR(n)` and `VARCHAR(n)` | an error | the length is checked |
| `first` and `last` of rows that are alike in their order | any | any |
| `power`, `exp` and logarithms of floats | the last digit is that of the C library | that of Java |
| `mode(x)` of values that are equally frequent, the order of `collect_set` | any | any |
| numbers in the answer of `get_json_object` | as they are written, `2.50` | as Java writes them, `2.5` |
| regular expressions | without look-around and backreferences; `\\d` and `\\w` are those of Unicode | Java's |
| texts of floats in `concat` and `CAST` | as Java writes them, `1.0E7` | the same; in answers and other functions ours are `10000000.0` |
| sums of `DECIMAL(38, s)` | all digits behind the point, or an error | a digit fewer |
| a text beside a `FLOAT` | compared as `FLOAT` | both as `DOUBLE` |
| `percentile_cont` of `FLOAT` | with the digits of a `FLOAT` | a `DOUBLE` |
| `GROUPING SETS (…, ())` of no rows | a row for `()` | none |
| `GROUPING SETS ((a + b), (b + a))` | two keys | one |
| `regexp_extract_all` of a pattern that matches nothing | no empty match at the end of another | there is one |
| `timestamp_seconds` of a float | rounded to microseconds | cut off |
| `a & b >> c` | from left to right | `>>` binds tighter |
| `TIME` with more than six digits of a second | nine digits; in functions and casts to numbers six | six digits |
| `to_date` and `to_timestamp` by a pattern with a zone, `X`, `Z`, `VV`, `z` | an error, unless the zone is in brackets and the text has none | an instant |
| `date_format` with names of zones, `z` | an error | names |
| casts of intervals to numbers | of intervals that are written out | of all |
| parts of days, hours and minutes as `INTERVAL`, `CAST(1.5BD AS INTERVAL DAY)` | an error | kept, and not shown |
| `ceil` and `floor` of floats at a digit, `format_number` by a pattern | errors | answers |
| keys of `parse_url` | letters, digits, `_` and `-` | regular expressions |
| a view made with `GLOBAL` | has its name without `global_temp`, too | with `global_temp` only |
| the schema `default` | is called `public` before a table's name | `default` |
| `try_add`, `try_subtract`, `try_multiply` of decimals, dates and intervals, `bround` of decimals | an error | answers |
| sketches (`theta_…`, `hll_…`, `kll_…`) | counts and quantiles are exact while a sketch holds all values; beyond that they are estimates, which may be others; the bytes of a sketch are those of Apache's library for Rust, without collations; `kll_sketch_to_string_…` of more values than `k` is an error | estimates and bytes of the library for Java |
| `rand`, `randn`, `randstr`, `uniform` with a seed | Spark's numbers, in the order of the rows of a batch, to whose seed its number is added | in the order of the rows of a partition, to whose seed its number is added |
| `approx_percentile` | exact | within the accuracy |
| `histogram_numeric` of several batches | bins that were joined in their order | bins that were joined by partitions |
| `monotonically_increasing_id`, `spark_partition_id` | numbers of the rows from 0 on; there is one partition | numbers by partitions |
| `hash` and `xxhash64` of maps and intervals, `to_json` and `to_csv` of intervals, times of day and `BINARY` | errors | answers |
| `from_json`, `from_csv` | options: `dateFormat`, `timestampFormat`, `sep`, `mode = PERMISSIVE`; errors for a name twice in an object, texts in single quotes, numbers as timestamps, quotes in CSV, types of intervals; names without regard to case are not found | answers |
| `schema_of_json`, `schema_of_csv` | of constants; errors for lists of different nested values and for values of CSV that may be times | answers |
| `GEOGRAPHY`, `GEOMETRY` | no types: `st_asbinary` and `st_srid` of `st_geogfromwkb(bytes)`, `st_geomfromwkb(bytes)` and `st_setsrid` of these, of points; all else is an error | types |
| functions that Spark refuses for the type of an argument | may answer | an error |
| headings of columns | the text of the expression as it was read | the text that Spark makes of it |
| `yeoul.dialect` set within a script | quotes and backslashes divide the script as in the dialect at its start | – |
";

/// The page `docs/reference/sql-dialects.md`.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut line = |text: String| writeln!(page, "{text}").expect("a String takes everything");
    for (what, meaning) in SWITCHES {
        let [own, stream, spark] =
            [Dialect::OWN, Dialect::STREAM, Dialect::SPARK].map(|dialect| meaning(&dialect));
        line(format!("| {what} | {own} | {stream} | {spark} |"));
    }
    line(BESIDES.to_owned());
    line("## Settings of Spark in `--dialect spark`\n".to_owned());
    line(
        "Accepted, because no answer depends on them, are those that begin with one of these (in any case):"
            .to_owned(),
    );
    let keys: Vec<String> = KEYS_OF_SPARK
        .iter()
        .filter(|key| key.only.is_none())
        .map(|key| format!("`spark.{}`", key.name))
        .collect();
    line(format!(
        "{}. `spark.sql.session.timeZone` is `SET TIME ZONE`. All others are errors, but for:\n",
        keys.join(", ")
    ));
    line("| key | value | instead of another |\n| --- | --- | --- |".to_owned());
    for key in KEYS_OF_SPARK.iter() {
        if let Some(value) = key.only {
            line(format!("| `spark.{}` | `{value}` | {} |", key.name, key.instead));
        }
    }
    line("\n## Functions that mean something else in `--dialect spark`\n".to_owned());
    line("What they stand for is in the own dialect.\n".to_owned());
    line("| function | stands for | | example |\n| --- | --- | --- | --- |".to_owned());
    let cell = |text: &str| text.replace('|', "\\|");
    for definition in DEFINITIONS.iter() {
        line(format!(
            "| `{}` | `{}` | {} | `{}` is `{}` |",
            cell(&definition.signature()),
            cell(definition.body),
            definition.description,
            cell(definition.example),
            cell(definition.answer)
        ));
    }
    line(
        "\nRefused, because their own meaning is another one:\n\n| function | instead |\n| --- | --- |"
            .to_owned(),
    );
    for (name, instead) in REFUSED {
        line(format!("| `{name}` | {} |", cell(instead)));
    }
    page
}

/// The text of a switch.
type Meaning = fn(&Dialect) -> &'static str;

/// The switches, each with what a dialect makes of it.
const SWITCHES: [(&str, Meaning); 8] = [
    ("nulls in `ORDER BY` that does not place them", |dialect| match dialect.nulls {
        NullOrder::Last => "last in both directions",
        NullOrder::Least => "first in ascending order, last in descending order",
    }),
    ("letters of names without quotes", |dialect| match dialect.names {
        NameCase::Lower => "lower case",
        NameCase::AsWritten => "as written",
        NameCase::AnyCase => {
            "any: `Name` is the column `NAME` of a file; two columns that differ in case alone are an error"
        }
    }),
    ("texts and names in quotes", |dialect| match dialect.spelling {
        Spelling::Own => "names in `\"…\"`, texts in `'…'`; numbers have no suffix",
        Spelling::Spark => {
            "names in backquotes, texts in `'…'` and `\"…\"` with escapes, `r'…'`, texts beside each other are one; `1L`, `1S`, `1Y`, `1F`, `1D`, `1BD`"
        }
    }),
    ("type of an integer such as `1`", |dialect| match dialect.integers {
        IntegerLiterals::BigInt => "`BIGINT`",
        IntegerLiterals::Int => "`INT`, if it fits",
    }),
    ("`7 / 2`", |dialect| match dialect.quotients {
        Quotients::Whole => "3",
        Quotients::Double => {
            "3.5, a `DOUBLE`; by 0 an error, also of floats, and `7.5D % 0`; `date + INTERVAL` of whole days is a date"
        }
    }),
    ("the first element of a list", |dialect| match dialect.subscripts {
        Subscripts::FromOne => "`list[1]`; null where there is none",
        Subscripts::FromZero => "`list[0]`; an error where there is none",
    }),
    ("a join without a condition", |dialect| match dialect.joins {
        JoinsWithout::Refused => "an error",
        JoinsWithout::AllPairs => "all pairs",
    }),
    ("names of functions and types that systems give different meanings", |dialect| {
        match dialect.functions {
            FunctionNames::Own => "the own ones",
            FunctionNames::Spark => "those of Spark, below; `2 ^ 3` is an exclusive or",
        }
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// With `YEOUL_WRITE_DOCS` set it writes the page instead.
    #[test]
    fn the_page_in_the_documentation_is_the_tables() {
        // Read at run time: with a target folder that several clones share, the one that built this may be gone.
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
        let path = &std::path::Path::new(&package).join("../../docs/reference/sql-dialects.md");
        if std::env::var_os("YEOUL_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "run the test with YEOUL_WRITE_DOCS=1 and commit the page");
    }
}
