use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use super::filter_ranges::with_filters;
use crate::types::identity::Identity;

/// Lets no column be taken for an expression that a filter says it is equal to: `WHERE upper(c) = c`.
///
/// Behind such a filter DataFusion has one for the other wherever it finds it, also within itself. A window with `PARTITION BY c` is then
/// sorted by `upper(c)`, of which it does not know any more that it is `c`, and fails. A comparison that is a function's argument says
/// nothing.
#[derive(Debug)]
pub(super) struct FilterEqualities;

impl PhysicalOptimizerRule for FilterEqualities {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_filters(plan, |filter| without_equalities(filter, config))
    }

    fn name(&self) -> &str {
        "FilterEqualities"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter with its equalities of columns and expressions hidden, if it has any.
fn without_equalities(filter: &FilterExec, config: &ConfigOptions) -> Result<Option<FilterExec>> {
    let conditions = split_conjunction(filter.predicate());
    if !conditions.iter().any(|condition| is_mistakable(condition)) {
        return Ok(None);
    }
    let schema = filter.input().schema();
    let conditions = conditions.into_iter().map(|condition| {
        if !is_mistakable(condition) {
            return Ok(Arc::clone(condition));
        }
        let hidden = ScalarFunctionExpr::try_new(
            Arc::new(ScalarUDF::from(Identity::Alone)),
            vec![Arc::clone(condition)],
            &schema,
            Arc::new(config.clone()),
        )?;
        Ok(Arc::new(hidden) as Arc<dyn PhysicalExpr>)
    });
    let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?);
    FilterExecBuilder::from(filter).with_predicate(predicate).build().map(Some)
}

/// True if a condition is that a column equals what is computed of columns. A cast of one column has another type than the column, and
/// what has no columns is constant.
fn is_mistakable(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return false };
    let computed = match (binary.left(), binary.right()) {
        (column, computed) | (computed, column) if column.is::<Column>() && !computed.is::<Column>() => {
            computed
        }
        _ => return false,
    };
    let is_cast = computed.downcast_ref::<CastExpr>().is_some_and(|cast| cast.expr().is::<Column>());
    *binary.op() == Operator::Eq
        && !is_cast
        && (is_volatile(computed) || !collect_columns(computed).is_empty())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};

    use super::*;

    #[test]
    fn only_a_column_and_what_is_computed_of_columns_are_mistaken() {
        let schema = Schema::new(["a", "b"].map(|name| Field::new(name, DataType::Int64, true)).to_vec());
        let column = |name: &str| col(name, &schema).unwrap();
        let compared = |left, op, right| binary(left, op, right, &schema).unwrap();
        let sum = || compared(column("a"), Operator::Plus, column("b"));
        for (condition, expected) in [
            (compared(column("a"), Operator::Eq, sum()), true),
            (compared(sum(), Operator::Eq, column("a")), true),
            (compared(column("a"), Operator::Lt, sum()), false),
            (compared(column("a"), Operator::Eq, column("b")), false),
            (compared(column("a"), Operator::Eq, lit(1_i64)), false),
            (compared(sum(), Operator::Eq, sum()), false),
            (
                compared(column("a"), Operator::Eq, cast(column("b"), &schema, DataType::Int32).unwrap()),
                false,
            ),
        ] {
            assert_eq!(is_mistakable(&condition), expected, "{condition}");
        }
    }
}
