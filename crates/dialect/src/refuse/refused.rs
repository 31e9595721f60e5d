//! The clauses that the parser knows, that nobody plans, and that are therefore refused: their names, and what to write instead.

use datafusion::sql::sqlparser::ast::{FunctionArguments, Ident, Spanned};
use datafusion::sql::sqlparser::tokenizer::Span as ParsedSpan;
use yeoul_base::ErrorKind;

use crate::{Error, Place, Result, Span};

macro_rules! clauses {
    ($($clause:ident: $name:literal => $instead:literal;)*) => {
        /// A clause, or a place of one, that is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Clause {
            $($clause,)*
        }

        impl Clause {
            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$clause,)*];

            /// Its name, as SQL writes it.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$clause => $name,)*
                }
            }

            /// What to write instead.
            pub(super) fn instead(self) -> &'static str {
                match self {
                    $(Self::$clause => $instead,)*
                }
            }
        }
    };
}

clauses! {
    // Queries.
    RowLock: "FOR UPDATE or FOR SHARE" => "leave it out: a statement reads a table as it was when the statement began";
    ForDocument: "FOR XML, FOR JSON or FOR BROWSE" => "--format json writes an answer as JSON";
    QuerySettings: "SETTINGS" => "SET name = value before the statement";
    QueryFormat: "FORMAT" => "--format csv|json|table|parquet|arrow, or COPY (…) TO 'file.csv'";
    FetchPercent: "FETCH … PERCENT" => "a number of rows, or a filter on percent_rank() OVER (ORDER BY …)";
    LimitShare: "LIMIT of such a share of the rows" => "a number from 0 to 100 and %, behind a query whose ORDER BY names columns of the answer, and no other LIMIT";
    PipeOrder: "ASC, DESC and NULLS in |> AGGREGATE" => "|> ORDER BY behind it";
    PipePlace: "a place as a key of |> AGGREGATE" => "the name of the column";
    PipeMerge: "USING and NATURAL in an outer |> JOIN that keeps the right side" => "ON a.k = b.k, or the join in a FROM";
    FetchAndLimit: "FETCH beside LIMIT" => "one of the two";
    TiesWithoutOrder: "WITH TIES without ORDER BY" => "add an ORDER BY: without one, no rows are tied";
    TiesKey: "WITH TIES over this ORDER BY" => "order by names of the answer's columns";
    RecursiveTail: "WITH, ORDER BY, LIMIT, OFFSET or FETCH around the UNION of a WITH RECURSIVE query" => "put it into the query that reads the result";
    RecursiveByName: "BY NAME in a WITH RECURSIVE query" => "the columns of both sides in one order";
    CteFrom: "FROM behind a WITH query" => "a FROM in that query";
    VolatileCte: "a WITH query that is read twice and whose rows may be others the second time" => "CREATE TABLE … AS, and read that";
    // SELECT.
    SelectModifier: "HIGH_PRIORITY, STRAIGHT_JOIN and MySQL's other modifiers of SELECT" => "leave them out";
    TrailingExclude: "EXCLUDE behind the columns of SELECT" => "* EXCLUDE (…)";
    IntoInside: "INTO within a query" => "CREATE TABLE … AS, or INTO in the outermost SELECT";
    Prewhere: "PREWHERE" => "WHERE";
    ConnectBy: "CONNECT BY and START WITH" => "WITH RECURSIVE";
    ValueTable: "SELECT AS STRUCT and SELECT AS VALUE" => "named_struct('name', value, …)";
    GroupTotals: "GROUP BY … WITH TOTALS, or with several of WITH ROLLUP, CUBE and GROUPING SETS" => "GROUP BY GROUPING SETS ((…), ())";
    GroupAllModifier: "GROUP BY ALL WITH ROLLUP, CUBE or TOTALS" => "GROUP BY ROLLUP (…) with the columns";
    GroupPosition: "GROUP BY with the place of a * or of nothing" => "the name of a column";
    DistinctOnQualify: "DISTINCT ON beside QUALIFY in a subquery" => "the DISTINCT ON over a subquery with the QUALIFY";
    WildcardMissing: "* REPLACE of a column that is not there" => "a name of the columns of *, in double quotes if it has capitals";
    WildcardUnmatched: "* ILIKE that no column matches" => "a pattern of LIKE, in which % stands for any text";
    // Tables.
    TableHints: "WITH (…) behind a table" => "leave it out";
    TableVersion: "a version of a table (FOR SYSTEM_TIME, AT, BEFORE, VERSION AS OF)" => "the file or table of that version";
    Ordinality: "WITH ORDINALITY" => "row_number() OVER ()";
    TablePartitions: "PARTITION (…) behind a table" => "WHERE with the columns of the key=value directories";
    TablePath: "a path into a table" => "unnest(column)";
    IndexHints: "USE, IGNORE and FORCE INDEX" => "leave it out: there are no indexes";
    FunctionSettings: "SETTINGS in a table function" => "leave it out";
    AliasAt: "AT in the alias of a table" => "row_number() OVER ()";
    AliasTypes: "types in the alias of a table" => "the names alone, and casts in the SELECT";
    NamedTableArguments: "named arguments of a table function" => "the arguments in their order";
    SampleMethod: "TABLESAMPLE SYSTEM, ROW or BLOCK" => "TABLESAMPLE BERNOULLI (percent), or TABLESAMPLE (number ROWS)";
    SampleUnit: "TABLESAMPLE without a unit" => "TABLESAMPLE (10 PERCENT) or TABLESAMPLE (10 ROWS)";
    SampleQuantity: "TABLESAMPLE of this quantity" => "a number from 0 to 100 before PERCENT or behind BERNOULLI, a whole number before ROWS";
    SampleSeed: "REPEATABLE or SEED of a sample" => "CREATE TABLE … AS with the sample, to keep it";
    SampleBucket: "BUCKET of a sample" => "WHERE with a hash of a column, or TABLESAMPLE (number PERCENT)";
    GlobalJoin: "GLOBAL JOIN" => "JOIN";
    JoinWithoutCondition: "JOIN without a condition" => "ON …, USING (…), or CROSS JOIN for all pairs";
    NaturalNothing: "NATURAL JOIN of tables without a common column" => "ON …, or CROSS JOIN for all pairs";
    // Expressions.
    TrimCharacters: "more than two arguments of trim" => "all the characters in one text";
    IntervalUnit: "an interval without a unit" => "INTERVAL '3 days' or INTERVAL 3 DAYS, with one of centuries, decades, years, months, weeks, days, hours, minutes, seconds, milliseconds, microseconds, nanoseconds";
    FunctionParameters: "parameters before the arguments of a function" => "one list of arguments";
    SubqueryArgument: "a query as the arguments of a function" => "(SELECT array_agg(column) FROM …) makes a list";
    PlainOver: "OVER with a function that is neither a window function nor an aggregate" => "the function without OVER, or a window function";
    PlainFilter: "FILTER with a function that is not an aggregate" => "CASE WHEN … THEN … END";
    PlainDistinct: "DISTINCT in a function that is not an aggregate" => "SELECT DISTINCT, or an aggregate";
    PlainOrder: "ORDER BY in a function that is not an aggregate" => "OVER (ORDER BY …), or array_sort of a list";
    PlainNulls: "IGNORE or RESPECT NULLS with this function" => "the clause with first_value, last_value, nth_value, lag, lead or array_agg";
    PlainWithin: "WITHIN GROUP with a function that is not an aggregate" => "percentile_cont(…) WITHIN GROUP (ORDER BY …)";
    DistinctIgnored: "DISTINCT in this aggregate" => "the aggregate over a subquery with SELECT DISTINCT";
    OrderIgnored: "ORDER BY in any_value" => "first_value(… ORDER BY …)";
    WindowUnknown: "OVER a window that has no definition" => "WINDOW name AS (…) in the same SELECT";
    WindowRefined: "OVER (name …) that says again what the window says" => "the whole window in OVER (…)";
    LambdaTypes: "types of a lambda's parameters" => "the names alone";
    FloatScale: "FLOAT with a scale or of more than 53 bits" => "DOUBLE, REAL or DECIMAL(precision, scale)";
    FieldOptions: "OPTIONS of a field" => "leave them out";
    ShowDatabases: "SHOW DATABASES" => "SHOW SCHEMAS: a schema is a database of Spark's";
    // DELETE, UPDATE, INSERT.
    ChangeLimit: "LIMIT or ORDER BY in DELETE and UPDATE" => "a WHERE that names the rows";
    ChangeReturning: "RETURNING or OUTPUT" => "a SELECT of the rows before";
    ChangeTarget: "this target of a DELETE or UPDATE" => "the name of one table, and joined tables in FROM or USING";
    ChangeNested: "EXPLAIN or PREPARE of a DELETE or UPDATE" => "EXPLAIN of the SELECT with its WHERE";
    UpdateConflict: "OR … in UPDATE" => "UPDATE alone";
    AssignedTwice: "a column that is set twice" => "one value for each column";
    AssignedElsewhere: "SET of a column of another table" => "columns of the table that UPDATE names";
    AssignedTuple: "SET (…) = this" => "SET (a, b) = (x, y), or a subquery for each column";
    Merge: "MERGE" => "an UPDATE with FROM, a DELETE with USING and an INSERT with NOT EXISTS";
    // Definitions.
    UniqueKey: "PRIMARY KEY and UNIQUE" => "leave it out: no statement would keep two rows from being equal";
    ColumnOption: "this option of a column" => "the type, with NULL, NOT NULL or DEFAULT";
    ViewOption: "OR ALTER, SECURE, ALGORITHM, DEFINER and SQL SECURITY of a view" => "CREATE [OR REPLACE] VIEW name AS …";
    ViewTypes: "types of a view's columns" => "casts in its SELECT";
    SchemaOption: "an option of CREATE SCHEMA or CREATE DATABASE" => "CREATE SCHEMA [IF NOT EXISTS] name";
    DropSeveral: "DROP FUNCTION of several" => "a statement for each";
    ExplainOption: "QUERY PLAN, ESTIMATE and options of EXPLAIN" => "EXPLAIN, EXPLAIN ANALYZE or EXPLAIN VERBOSE";
    DescribeOption: "EXTENDED or FORMATTED of DESCRIBE" => "DESCRIBE table";
    UnboundedTable: "UNBOUNDED of an external table" => "CREATE EXTERNAL TABLE";
    CopyFormat: "STORED AS with this format" => "PARQUET, CSV, JSON, ARROW, or a target whose ending says it";
    CopyTwice: "an option that is given twice" => "each option once";
}

impl Clause {
    /// The error that refuses it.
    pub(super) fn error(self) -> Error {
        let error = Error::new(ErrorKind::Invalid, format!("not supported: {}", self.name()));
        error.with_hint(format!("write instead: {}", self.instead()))
    }

    /// The error that refuses it at a place of the statement.
    pub(super) fn error_at(self, node: &impl Spanned) -> Error {
        self.error().with_span(span(node.span()))
    }

    /// The error that refuses it at a name.
    pub(super) fn error_at_name(self, name: &Ident) -> Error {
        self.error().with_span(span(name.span))
    }
}

fn span(parsed: ParsedSpan) -> Option<Span> {
    let ParsedSpan { start, end } = parsed;
    let place = Place { line: start.line, column: start.column };
    let chars = if end.line == start.line { end.column.saturating_sub(start.column).max(1) } else { 1 };
    (start.line > 0).then_some(Span { place, chars })
}

/// A field of a syntax node that a statement may leave out.
pub(super) trait Field {
    fn is_absent(&self) -> bool;
}

impl Field for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl<T> Field for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Field for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Field for FunctionArguments {
    fn is_absent(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Refuses a clause unless it was left out.
///
/// # Errors
/// `Invalid`, with its name and what to write instead.
pub(super) fn absent(field: &impl Field, clause: Clause) -> Result<()> {
    if field.is_absent() { Ok(()) } else { Err(clause.error()) }
}
