//! The meaning of SQL in a job: that of the dialect, and the functions that only streams have.

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::executor::block_on;
use yeoul_dialect::Dialect;
use yeoul_dialect::syntax::{Statement, ast};

use super::planner::distinct;
use crate::aggregate_function::{collections, first_and_last};
use crate::error::{Error, Result};

/// The switches: fields of JSON are told apart by case, as in Flink; nulls are the least of all, as in Spark.
pub(super) const DIALECT: Dialect = Dialect::STREAM;

/// A state in which the statements of a job are read and planned, without its streams.
///
/// # Errors
/// Those of the registry of functions.
pub(super) fn context() -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    DIALECT.configure(options);
    // Times are instants; text is one array type.
    options.execution.time_zone = Some("+00:00".to_owned());
    options.sql_parser.map_string_types_to_utf8view = false;
    // Rows whose key is null match nothing: dropped before the watermark they do not move it, as in Spark.
    options.optimizer.filter_null_join_keys = true;
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(DIALECT.session_state(builder, &[]).map_err(refused)?);
    // It makes a semi join of a join below groups, which needs a watermark where the join needs none.
    context.remove_optimizer_rule("eliminate_join");
    context.register_udf(distinct::within_watermark());
    // Spark's name for it.
    context.register_udaf(approx_distinct_udaf().as_ref().clone().with_aliases(["approx_count_distinct"]));
    // Those of DataFusion by these names know other nulls, or only rows that are sorted.
    first_and_last().into_iter().chain(collections()).for_each(|function| context.register_udaf(function));
    Ok(context)
}

/// The plan of a statement over the relations of a context.
///
/// # Errors
/// Of the statement as it is written.
pub(super) fn planned(context: &SessionContext, statement: &Statement) -> Result<LogicalPlan> {
    let mut state = context.state();
    let mut statement = statement.clone();
    let questions = DIALECT.honour(&mut statement, &state).map_err(refused)?;
    // The catalogue is in memory: nothing waits.
    block_on(DIALECT.plan(statement, questions, &mut state)).map_err(refused)
}

/// True for a statement that gives rows.
pub(super) fn is_query(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(statement) if matches!(**statement, ast::Statement::Query(_)))
}

/// The error of a statement, with its place in the job.
pub(super) fn refused(error: yeoul_dialect::Error) -> Error {
    let place = error.span().map(|span| format!("line {}, column {}: ", span.place.line, span.place.column));
    let text = format!("{}{error}", place.unwrap_or_default());
    let own = Error::new(error.kind(), text);
    let own = match error.hint() {
        Some(hint) => own.with_hint(hint),
        None => own,
    };
    own.with_source(error)
}
