use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::logical_plan::RecursiveQuery;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::PlanWalk;

/// Refuses a `WITH RECURSIVE` whose rounds give more digits than its first term, as PostgreSQL does: DataFusion casts each round to the
/// type of the first term, and `SELECT 1.0 UNION ALL SELECT x * 1.1 FROM t` would be rounded to a digit each time. A first term that is
/// cast says what it is to be.
#[derive(Debug)]
pub(super) struct RecursiveTypes;

impl AnalyzerRule for RecursiveTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            if let LogicalPlan::RecursiveQuery(query) = &node {
                check(query)?;
            }
            Ok(Transformed::no(node))
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "recursive_types"
    }
}

fn check(query: &RecursiveQuery) -> Result<()> {
    let LogicalPlan::Projection(rounds) = query.recursive_term.as_ref() else { return Ok(()) };
    for (number, expr) in rounds.expr.iter().enumerate() {
        let Expr::Cast(cast) = unnamed(expr) else { continue };
        let (from, to) = (cast.expr.get_type(rounds.input.schema())?, cast.field.data_type());
        if loses(&from, to) && !is_cast(&query.static_term, number) {
            let name = query.static_term.schema().field(number).name();
            let what = format!(
                "column '{name}' of the recursive query '{}' is {to} in its first term and {from} in the others",
                query.name
            );
            let hint =
                "cast it in the first term, to DOUBLE or to a DECIMAL with as many digits as are wanted";
            return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into());
        }
    }
    Ok(())
}

fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        other => other,
    }
}

/// True if a cast gives a column of a plan its type.
fn is_cast(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match unnamed(&projection.expr[column]) {
            Expr::Cast(_) | Expr::TryCast(_) => true,
            Expr::Column(below) => {
                let below = projection.input.schema().maybe_index_of_column(below);
                below.is_some_and(|column| is_cast(&projection.input, column))
            }
            _ => false,
        },
        LogicalPlan::SubqueryAlias(alias) => is_cast(&alias.input, column),
        LogicalPlan::Filter(filter) => is_cast(&filter.input, column),
        LogicalPlan::Sort(sort) => is_cast(&sort.input, column),
        LogicalPlan::Limit(limit) => is_cast(&limit.input, column),
        _ => false,
    }
}

/// True if a cast between numbers, or between timestamps, may lose digits.
fn loses(from: &DataType, to: &DataType) -> bool {
    let digits = |kind: &DataType| match kind {
        kind if kind.is_integer() => Some(0),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    let fineness = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match (from, to) {
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => fineness(from) > fineness(to),
        (DataType::Float64, DataType::Float32) => true,
        (from, to) if from.is_floating() => digits(to).is_some(),
        (from, to) => digits(from).zip(digits(to)).is_some_and(|(from, to)| from > to),
    }
}
