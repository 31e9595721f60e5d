//! Floats that become decimals in the dialect of Spark.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use crate::rules::spark_casts::call_within_casts;
use crate::types::spark_values::{Kind, SparkValue};

/// Gives a float that is cast to a decimal the digits of its text, and null for NaN and infinities, in Spark's dialect.
///
/// Arrow multiplies the float by a power of ten: 0.3 as a DECIMAL(38, 18) is 0.299999999999999999.
#[derive(Debug)]
pub(crate) struct FloatDigits;

impl AnalyzerRule for FloatDigits {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        call_within_casts(plan, config, &|from, to, _| {
            let is_decimal = matches!(to, DataType::Decimal128(..) | DataType::Decimal256(..));
            (from.is_floating() && is_decimal).then(|| SparkValue::shared(Kind::Digits))
        })
    }

    fn name(&self) -> &str {
        "float_digits"
    }
}
