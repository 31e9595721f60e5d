use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{is_null, nullif};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::functions::core::expr_fn::named_struct;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::{
    ColumnarValue, Expr, FetchType, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, SkipType, SortExpr, Subquery, Volatility, ident, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::{PlanWalk, TreeWalk, map_expressions};

/// Correlated subqueries that stand for a value and are no aggregates: `(SELECT name FROM s WHERE s.key = t.key)`.
///
/// DataFusion joins with aggregates only. So such a subquery becomes one, of its first row and the number of its rows. Whether
/// that is one is asked outside of it, of the rows that use it: a key that nobody asks for may be there twice. Of a subquery with
/// `ORDER BY … LIMIT 1`, it is the first row in that order.
#[derive(Debug)]
pub(crate) struct ScalarSubqueries;

impl AnalyzerRule for ScalarSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            map_expressions(node, &mut |expr| {
                expr.rewrite_up(&mut |expr| match expr {
                    Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                        aggregated(subquery)
                    }
                    other => Ok(Transformed::no(other)),
                })
            })
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "scalar_subqueries"
    }
}

fn aggregated(mut subquery: Subquery) -> Result<Transformed<Expr>> {
    let Some(FirstRow { value, order, input, is_only }) = first_row(&subquery.subquery)? else {
        return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
    };
    let name = subquery.subquery.schema().field(0).name().clone();
    let expr = if is_only {
        let input = LogicalPlanBuilder::new_from_arc(input);
        let first = first_value(value, order).alias(name);
        subquery.subquery = Arc::new(input.aggregate(Vec::<Expr>::new(), [first])?.build()?);
        Expr::ScalarSubquery(subquery)
    } else {
        subquery.subquery = Arc::new(counted(input, value, order, name)?);
        only_value(Expr::ScalarSubquery(subquery))
    };
    Ok(Transformed::yes(expr))
}

/// The first value of a plan's rows with their number, for [`only_value`].
pub(super) fn counted(
    input: Arc<LogicalPlan>,
    value: Expr,
    order: Vec<SortExpr>,
    name: String,
) -> Result<LogicalPlan> {
    let first = first_value(value, order).alias(VALUE);
    let counted = named_struct(vec![lit("value"), ident(VALUE), lit("rows"), ident(ROWS)]).alias(name);
    LogicalPlanBuilder::new_from_arc(input)
        .aggregate(Vec::<Expr>::new(), [first, count_all().alias(ROWS)])?
        .project([counted])?
        .build()
}

/// The first value of what [`counted`] gives, of which more than one row is an error.
pub(super) fn only_value(counted: Expr) -> Expr {
    ScalarUDF::from(OnlyValue).call(vec![counted])
}

const VALUE: &str = "__value";
const ROWS: &str = "__rows";

/// What a subquery gives.
struct FirstRow {
    value: Expr,
    order: Vec<SortExpr>,
    /// `value` and `order` are of its columns.
    input: Arc<LogicalPlan>,
    /// True if it has no other row.
    is_only: bool,
}

/// `None` for a subquery that is better left alone.
fn first_row(plan: &Arc<LogicalPlan>) -> Result<Option<FirstRow>> {
    if let LogicalPlan::Limit(limit) = plan.as_ref() {
        let is_first = matches!(limit.get_skip_type()?, SkipType::Literal(0));
        let is_only = is_first && matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1)));
        return Ok(is_only.then(|| first_in_order(&limit.input)));
    }
    if is_aggregate(plan) || plan.max_rows().is_some_and(|rows| rows <= 1) {
        return Ok(None);
    }
    Ok(Some(FirstRow { is_only: false, order: Vec::new(), ..first_in_order(plan) }))
}

fn first_in_order(plan: &Arc<LogicalPlan>) -> FirstRow {
    let column = || Expr::from(plan.schema().qualified_field(0));
    let sorted = match plan.as_ref() {
        LogicalPlan::Sort(sort) => Some((column(), sort)),
        // It leaves out columns that are sorted by.
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) => projection.expr.first().map(|value| (value.clone().unalias(), sort)),
            _ => None,
        },
        _ => None,
    };
    match sorted {
        Some((value, sort)) if sort.fetch.is_none() => {
            FirstRow { value, order: sort.expr.clone(), input: Arc::clone(&sort.input), is_only: true }
        }
        _ => FirstRow { value: column(), order: Vec::new(), input: Arc::clone(plan), is_only: true },
    }
}

/// Whether DataFusion sees an aggregate in it.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_aggregate(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregate(&alias.input),
        LogicalPlan::Filter(having) => matches!(*having.input, LogicalPlan::Aggregate(_)),
        other => matches!(other, LogicalPlan::Aggregate(_)),
    }
}

/// The value of a subquery, of which it gets the first value and the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OnlyValue;

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Struct(fields)] if fields.len() == 2 => Ok(fields[0].data_type().clone()),
            other => plan_err!("only_value is not of {other:?}"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [counted] = take_function_args(self.name(), arguments.args)?;
        only_values(&counted.to_array(rows)?).map(ColumnarValue::Array)
    }
}

fn only_values(counted: &ArrayRef) -> Result<ArrayRef> {
    let counted = counted.as_struct();
    let is_absent: BooleanArray = is_null(counted)?;
    let rows = counted.column(1).as_primitive::<Int64Type>();
    if (0..counted.len()).any(|row| !is_absent.value(row) && rows.value(row) > 1) {
        return exec_err!("Scalar subquery returned more than one row");
    }
    Ok(nullif(counted.column(0), &is_absent)?)
}
