use std::sync::{Arc, LazyLock};

use crate::rewrite::TreeWalk;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal, NegativeExpr};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

/// Lets filters know nothing of a column's values where what they know would not be true.
///
/// A filter finds out what range its columns have behind it, and takes one that has a single value there for constant: then it needs no
/// sort, and groups are given out whenever another key changes. But it computes that range as if each operator had an inverse: `ts::DATE =
/// '2024-01-01'` leaves a single `ts`, and `n / 2 = 3` a single `n`, it believes. What it cannot compute with, it knows nothing of: so such
/// filters get another condition, which is always true.
#[derive(Debug)]
pub(super) struct FilterRanges;

impl PhysicalOptimizerRule for FilterRanges {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        with_filters(plan, |filter| without_range(filter, config))
    }

    fn name(&self) -> &str {
        "FilterRanges"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with other filters in place of those for which `rewritten` has one.
pub(super) fn with_filters(
    plan: Arc<dyn ExecutionPlan>,
    rewritten: impl Fn(&FilterExec) -> Result<Option<FilterExec>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.rewrite_up(&mut |node| {
        let filter = node.downcast_ref::<FilterExec>();
        match filter.map(&rewritten).transpose()?.flatten() {
            Some(filter) => Ok(Transformed::yes(Arc::new(filter) as _)),
            None => Ok(Transformed::no(node)),
        }
    });
    plan.data()
}

/// The filter with a condition more, if its ranges may be wrong.
fn without_range(filter: &FilterExec, config: &ConfigOptions) -> Result<Option<FilterExec>> {
    let schema = filter.input().schema();
    let predicate = filter.predicate();
    if !check_support(predicate, &schema) || has_inverses(predicate, &schema)? {
        return Ok(None);
    }
    let Some(column) = collect_columns(predicate).into_iter().min_by_key(Column::index) else {
        return Ok(None);
    };
    let any_range = ScalarFunctionExpr::try_new(
        Arc::new(ScalarUDF::from(AnyRange)),
        vec![Arc::new(column)],
        &schema,
        Arc::new(config.clone()),
    )?;
    let both = BinaryExpr::new(Arc::clone(predicate), Operator::And, Arc::new(any_range));
    FilterExecBuilder::from(filter).with_predicate(Arc::new(both)).build().map(Some)
}

/// True if each operator of a predicate has an inverse, for the types that it has here.
fn has_inverses(expr: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<bool> {
    if expr.is::<Column>() || expr.is::<Literal>() {
        return Ok(true);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let is_invertible = match binary.op() {
            Operator::Plus | Operator::Minus => expr.data_type(schema)?.is_integer(),
            Operator::Multiply | Operator::Divide => false,
            _ => true,
        };
        return Ok(is_invertible
            && has_inverses(binary.left(), schema)?
            && has_inverses(binary.right(), schema)?);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema)?;
        return Ok(is_one_to_one(&from, cast.cast_type()) && has_inverses(cast.expr(), schema)?);
    }
    match expr.downcast_ref::<NegativeExpr>() {
        Some(negative) => has_inverses(negative.arg(), schema),
        None => Ok(false),
    }
}

/// Whether different values stay different. An error is no value: a cast to a smaller integer is one.
fn is_one_to_one(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Timestamp};
    match (from, to) {
        _ if from == to => true,
        (from, to) if from.is_integer() && to.is_integer() => true,
        (from, Decimal128(..)) if from.is_integer() => true,
        (Decimal128(_, from), Decimal128(_, to)) => to >= from,
        (DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16, Float32 | Float64) => true,
        (DataType::Int32 | DataType::UInt32 | Float32, Float64) | (Date32, Timestamp(..)) => true,
        (Timestamp(from, _), Timestamp(to, _)) => to >= from,
        _ => false,
    }
}

/// A condition on a column that is always true, of which nothing follows.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyRange;

impl ScalarUDFImpl for AnyRange {
    fn name(&self) -> &str {
        "any_range"
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, false)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Schema, TimeUnit};
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};

    use super::*;

    #[test]
    fn only_what_has_an_inverse_has_a_range() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("f", DataType::Float64, true),
            Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ]));
        let column = |name: &str| col(name, &schema).unwrap();
        let cast_to = |name: &str, kind: DataType| cast(column(name), &schema, kind).unwrap();
        let equal = |left, right| binary(left, Operator::Eq, right, &schema).unwrap();
        let n_by = |operator| binary(column("n"), operator, lit(2), &schema).unwrap();
        for (expr, expected) in [
            (equal(column("n"), lit(1)), true),
            (equal(cast_to("n", DataType::Int64), lit(1_i64)), true),
            (equal(n_by(Operator::Plus), lit(1)), true),
            (equal(n_by(Operator::Divide), lit(1)), false),
            (equal(n_by(Operator::Multiply), lit(1)), false),
            (equal(cast_to("f", DataType::Int64), lit(1_i64)), false),
            (equal(cast_to("ts", DataType::Date32), lit(ScalarValue::Date32(Some(1)))), false),
            (equal(cast_to("n", DataType::Float32), lit(1.0_f32)), false),
        ] {
            assert_eq!(has_inverses(&expr, &schema).unwrap(), expected, "{expr}");
        }
    }
}
