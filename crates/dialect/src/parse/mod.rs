//! Reading of SQL: a statement is parsed, and corrected where DataFusion's parser reads something else than SQL means.
//!
//! - [`ambiguous`]: what other systems disagree about;
//! - [`any_of`]: comparisons with `ANY` and `ALL` elements of a list;
//! - [`chains`]: thousands of operators in a row;
//! - [`copy_options`]: options of `COPY` in parentheses;
//! - [`doubles`]: numbers with an exponent;
//! - [`fields`]: fields of values that are no columns;
//! - [`file_functions`]: functions in a `FROM` that read files;
//! - [`first_subqueries`]: a subquery first in the list of an `IN`;
//! - [`from_first`]: `FROM 'file'` alone;
//! - [`function_call`]: calls of functions that a statement does not write itself;
//! - [`generators`]: functions that make several rows or columns;
//! - [`globs`]: `x GLOB 'a*'`;
//! - [`grammar`]: what the parser reads;
//! - [`grouping_tuples`]: tuples among the keys of `GROUP BY`;
//! - [`intervals`]: units, fields and signs of intervals;
//! - [`json_arrows`]: `json -> 'a'`;
//! - [`lateral_unnest`]: `unnest` in a `FROM`; [`lateral_views`]: `LATERAL VIEW`;
//! - [`list_comprehensions`]: `[x + 1 FOR x IN list]`; [`list_queries`]: `ARRAY(SELECT …)`;
//! - [`materialized`]: `WITH x AS [NOT] MATERIALIZED`;
//! - [`numbers`]: `_` in numbers, and words directly after one;
//! - [`order_by_all`]: `ORDER BY ALL`;
//! - [`other_joins`]: `ASOF JOIN` and `POSITIONAL JOIN`;
//! - [`other_statements`]: statements in words of others, and marks of `LIMIT … %` and `BY NAME`;
//! - [`pivots`]: `PIVOT` and `UNPIVOT`;
//! - [`precedence`]: the operands of `IS [NOT] DISTINCT FROM`;
//! - [`row_subqueries`]: rows that are compared with those of a query;
//! - [`samples`]: samples as DuckDB writes them;
//! - [`shadowed_queries`]: a query of a `WITH` within another one of its name;
//! - [`similar`]: `SIMILAR TO`;
//! - [`span`]: places of tokens; [`spark`]: SQL as Spark's users write it;
//! - [`summaries`]: the statement `SUMMARIZE`;
//! - [`synonyms`]: what others write by another name;
//! - [`table_queries`]: `TABLE t`; [`template`]: pieces of SQL that rewritings fill;
//! - [`time_zones`]: `AT TIME ZONE`;
//! - [`timestamps`]: texts with nanoseconds;
//! - [`variables`]: `SET VARIABLE`;
//! - [`visit`]: visits of the SQL in a statement;
//! - [`wide_integers`]: integers with more digits than 64 bits hold;
//! - [`words`]: tokens without the blanks between them.

mod ambiguous;
mod any_of;
pub(crate) mod chains;
mod copy_options;
mod doubles;
mod fields;
mod file_functions;
mod first_subqueries;
mod from_first;
pub(crate) mod function_call;
mod generators;
mod globs;
pub(crate) mod grammar;
mod grouping_tuples;
mod intervals;
mod json_arrows;
mod lateral_unnest;
mod lateral_views;
mod list_comprehensions;
mod list_queries;
mod materialized;
mod numbers;
mod order_by_all;
mod other_joins;
pub(crate) mod other_statements;
mod pivots;
mod precedence;
mod row_subqueries;
mod samples;
mod shadowed_queries;
mod similar;
mod span;
mod spark;
pub(crate) mod summaries;
mod synonyms;
mod table_queries;
pub(crate) mod template;
mod time_zones;
mod timestamps;
pub(crate) mod variables;
pub(crate) mod visit;
mod wide_integers;
mod words;

use std::ops::ControlFlow;

use datafusion::common::DataFusionError;
use datafusion::common::config::Dialect;
use datafusion::execution::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::dialect::{Dialect as SyntaxOf, dialect_from_str};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, Tokenizer};
use yeoul_base::ErrorKind;

use self::grammar::Grammar;
use self::visit::walk;
use crate::functions::{Expansion, takes_lambda};
use crate::notices::Notices;
use crate::{Dialect as Meaning, Error, FunctionNames, NameCase, Result, Spelling};

/// Reads the one statement of a text.
///
/// # Errors
/// `Invalid` for text that is not SQL.
pub(crate) fn read(sql: &str, meaning: &Meaning, state: &SessionState) -> Result<Statement> {
    if meaning.spelling == Spelling::Spark {
        let (tokens, notices) = spark::tokens(sql)?;
        notices.into_iter().for_each(|notice| Notices::add(state, notice));
        return read_tokens(tokens, meaning, state);
    }
    let dialect = dialect_of(state)?;
    let tokens = Tokenizer::new(dialect.as_ref(), sql).tokenize_with_location().map_err(ParserError::from);
    read_tokens(tokens.map_err(DataFusionError::from)?, meaning, state)
}

/// Reads the one statement that tokens are.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_tokens(
    mut tokens: Vec<TokenWithSpan>,
    meaning: &Meaning,
    state: &SessionState,
) -> Result<Statement> {
    let written = tokens.clone();
    let is_spark = meaning.functions == FunctionNames::Spark;
    chains::check(&tokens)?;
    intervals::make_singular(&mut tokens);
    materialized::leave_out(&mut tokens);
    copy_options::translate(&mut tokens)?;
    other_statements::translate(&mut tokens);
    variables::reset(&mut tokens);
    table_queries::write_from(&mut tokens);
    first_subqueries::put_into_call(&mut tokens);
    numbers::join_digits(&mut tokens);
    list_comprehensions::write_out(&mut tokens)?;
    other_joins::mark(&mut tokens)?;
    samples::translate(&mut tokens)?;
    json_arrows::enclose_names(&mut tokens, &|name| {
        takes_lambda(name, state) || is_spark && spark::lambdas::takes_lambda(name)
    });
    let mut statement = parsed(tokens, state)?;
    if meaning.names != NameCase::AsWritten {
        shadowed_queries::rename(&mut statement);
    }
    synonyms::without_temporary(&mut statement);
    synonyms::translate_pattern(&mut statement);
    synonyms::delete_all(&mut statement);
    numbers::check(&written)?;
    wide_integers::check(&written)?;
    doubles::check(&written)?;
    summaries::check(&written, &statement)?;
    variables::check(&written, &statement)?;
    let is_generic = state.config_options().sql_parser.dialect == Dialect::Generic;
    // What systems disagree about has the meaning of the system that was chosen.
    let is_generic = is_generic && meaning.functions == FunctionNames::Own;
    match walk(
        &mut statement,
        &mut Corrections { is_generic, has_own_functions: meaning.functions == FunctionNames::Own },
    ) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(error) => Err(error),
    }
}

fn dialect_of(state: &SessionState) -> Result<Box<dyn SyntaxOf>> {
    let name = &state.config_options().sql_parser.dialect;
    if *name == Dialect::Generic {
        return Ok(Box::new(Grammar));
    }
    dialect_from_str(name).ok_or_else(|| {
        let text = format!("there is no dialect '{name}' of SQL");
        Error::new(ErrorKind::Invalid, text).with_hint(format!("the dialects are {}", Dialect::available()))
    })
}

fn parsed(tokens: Vec<TokenWithSpan>, state: &SessionState) -> Result<Statement> {
    let dialect = dialect_of(state)?;
    let limit = state.config_options().sql_parser.recursion_limit.get();
    let parser =
        DFParserBuilder::new(tokens).with_dialect(dialect.as_ref()).with_recursion_limit(limit).build();
    let mut statements = parser?.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => Err(Error::new(ErrorKind::Invalid, "several statements at once")
            .with_hint("give them one after the other")),
        (None, _) => Err(Error::new(ErrorKind::Invalid, "there is no statement")),
    }
}

/// Writes a statement that has another meaning in its dialect in own words.
///
/// # Errors
/// `Invalid` for what has no such meaning here.
pub(crate) fn translate(statement: &mut Statement, meaning: &Meaning, state: &SessionState) -> Result<()> {
    if meaning.functions == FunctionNames::Spark {
        spark::expressions::translate(statement, meaning, state)?;
    }
    Ok(())
}

/// Turns operators of a statement that has been read into the functions that they are, and calls of defined functions into what these stand
/// for. Before that its columns are as they were written.
///
/// # Errors
/// Those of [`Expansion::expand`].
pub(crate) fn call_functions(statement: &mut Statement, state: &SessionState) -> Result<()> {
    match walk(statement, &mut Calls { expansion: Expansion::new(state) }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Corrections {
    /// True if the statement is of no dialect in particular.
    is_generic: bool,
    /// True if names of functions are those of DuckDB and PostgreSQL.
    has_own_functions: bool,
}

impl Corrections {
    fn checked(&self, expr: &mut Expr) -> Result<()> {
        if self.is_generic {
            ambiguous::check(expr)?;
        }
        similar::check(expr)?;
        synonyms::check(expr)?;
        intervals::complete(expr)
    }
}

impl VisitorMut for Corrections {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        order_by_all::complete(query);
        synonyms::without_minus(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        from_first::complete(select);
        grouping_tuples::take_apart(&mut select.group_by);
        select.from.iter_mut().for_each(synonyms::name_sides);
        let written = select.from.iter_mut().try_for_each(other_joins::write_laterals);
        flow(written.and_then(|()| lateral_views::write_joins(select)))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        lateral_unnest::complete(factor);
        if self.has_own_functions
            && let Err(error) = file_functions::name_table(factor)
        {
            return ControlFlow::Break(error);
        }
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            synonyms::name_sides(table_with_joins);
            if let Err(error) = other_joins::write_laterals(table_with_joins) {
                return ControlFlow::Break(error);
            }
        }
        flow(pivots::write_out(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        precedence::loosen(expr);
        json_arrows::take_out_names(expr);
        wide_integers::make_decimal(expr);
        timestamps::hold_digits(expr);
        flow(self.checked(expr))
    }
}

fn flow(outcome: Result<()>) -> ControlFlow<Error> {
    match outcome {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

struct Calls<'a> {
    expansion: Expansion<'a>,
}

impl VisitorMut for Calls<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        // Before the calls in them are visited.
        list_queries::write_out(expr);
        row_subqueries::write_out(expr);
        flow(self.expansion.expand(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        time_zones::call(expr);
        similar::match_whole(expr);
        any_of::call(expr);
        json_arrows::call(expr);
        fields::name(expr);
        synonyms::translate(expr);
        doubles::make_double(expr);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// The statement of a text, as it is parsed.
    fn statement(written: &str) -> Statement {
        DFParser::parse_sql_with_dialect(written, &Grammar).unwrap().pop_front().unwrap()
    }

    /// The statement that a text is parsed as.
    pub(crate) fn meant(written: &str) -> String {
        let mut statement = statement(written);
        let visited = walk(&mut statement, &mut Corrections { is_generic: true, has_own_functions: true });
        assert!(visited.is_continue(), "{written}");
        statement.to_string()
    }

    /// The error of a text that is refused when it is parsed.
    pub(crate) fn not_meant(written: &str) -> Error {
        match walk(&mut statement(written), &mut Corrections { is_generic: true, has_own_functions: true }) {
            ControlFlow::Break(error) => error,
            ControlFlow::Continue(()) => panic!("{written} is not refused"),
        }
    }

    fn state() -> SessionState {
        SessionStateBuilder::new().with_default_features().build()
    }

    /// The statement of a text once operators are called as functions.
    pub(crate) fn called(written: &str) -> String {
        let mut statement = statement(written);
        call_functions(&mut statement, &state()).unwrap();
        statement.to_string()
    }

    /// The error of a text whose calls cannot be expanded.
    pub(crate) fn not_called(written: &str) -> Error {
        let mut statement = statement(written);
        call_functions(&mut statement, &state()).unwrap_err()
    }
}
