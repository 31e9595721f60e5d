//! Floats that become decimals in the dialect of Spark.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::rewrite_plan;
use crate::settings::System;
use crate::types::spark_values::{Kind, SparkValue};

/// Gives a float that is cast to a decimal the digits of its text, and null for NaN and infinities, in Spark's dialect.
///
/// Arrow multiplies the float by a power of ten: 0.3 as a DECIMAL(38, 18) is 0.299999999999999999.
#[derive(Debug)]
pub(crate) struct FloatDigits;

impl AnalyzerRule for FloatDigits {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if System::of(config) != System::Spark {
            return Ok(plan);
        }
        rewrite_plan(plan, &|mut expr, columns| {
            let (value, field) = match &mut expr {
                Expr::Cast(cast) => (&mut cast.expr, &cast.field),
                Expr::TryCast(cast) => (&mut cast.expr, &cast.field),
                _ => return Ok(Transformed::no(expr)),
            };
            let is_decimal = matches!(field.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..));
            if !is_decimal || !value.get_type(columns)?.is_floating() {
                return Ok(Transformed::no(expr));
            }
            let float = std::mem::take(value.as_mut());
            **value = SparkValue::shared(Kind::Digits).call(vec![float]);
            Ok(Transformed::yes(expr))
        })
    }

    fn name(&self) -> &str {
        "float_digits"
    }
}
