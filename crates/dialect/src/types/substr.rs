//! `substr` with a negative start, which counts from the end, as in Spark and DuckDB. PostgreSQL's and DataFusion's characters before
//! the first are none.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::unicode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use crate::Error;

/// The function `substr(text, start [, length])`, also called `substring`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Substr;

impl Substr {
    pub(crate) fn shared() -> Arc<ScalarUDF> {
        static SHARED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Substr)));
        Arc::clone(&SHARED)
    }
}

/// `SUBSTRING(text FROM start FOR length)` is the same function.
#[derive(Debug)]
pub(crate) struct SubstringPlanner;

impl ExprPlanner for SubstringPlanner {
    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = ScalarFunction::new_udf(Substr::shared(), arguments);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// The characters from `start` on, at most `length`, where a negative `start` counts from the end, and what lies before the first
/// character counts, too.
fn piece(text: &str, start: i64, length: Option<i64>) -> &str {
    let count = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let first = if start < 0 { start.saturating_add(count()) } else { start.saturating_sub(1) };
    let end = length.map_or(i64::MAX, |length| first.saturating_add(length));
    let byte = |character: i64| {
        let character = usize::try_from(character).unwrap_or(0);
        text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
    };
    let (first, end) = (byte(first), byte(end));
    &text[first..end.max(first)]
}

impl ScalarUDFImpl for Substr {
    fn name(&self) -> &str {
        "substr"
    }

    fn aliases(&self) -> &[String] {
        static ALIASES: LazyLock<Vec<String>> = LazyLock::new(|| vec!["substring".to_owned()]);
        &ALIASES
    }

    fn signature(&self) -> &Signature {
        static SIGNATURE: LazyLock<Signature> = LazyLock::new(|| unicode::substr().signature().clone());
        &SIGNATURE
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        unicode::substr().coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        unicode::substr().return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        unicode::substr().return_field_from_args(arguments)
    }

    /// With a start that is known not to be negative it is DataFusion's, which is faster.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_from_front = matches!(arguments.get(1), Some(Expr::Literal(ScalarValue::Int64(Some(start)), _)) if *start >= 0);
        if !is_from_front {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let call = ScalarFunction::new_udf(unicode::substr(), arguments);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = arguments.return_field.data_type().clone();
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let texts = cast(&arrays[0], &DataType::Utf8)?;
        let starts = cast(&arrays[1], &DataType::Int64)?;
        let lengths = arrays.get(2).map(|lengths| cast(lengths, &DataType::Int64)).transpose()?;
        let (texts, starts) = (texts.as_string::<i32>(), starts.as_primitive::<Int64Type>());
        let lengths = lengths.as_ref().map(|lengths| lengths.as_primitive::<Int64Type>());
        let row = |row: usize| -> Result<Option<&str>> {
            if texts.is_null(row) || starts.is_null(row) || lengths.is_some_and(|all| all.is_null(row)) {
                return Ok(None);
            }
            let length = lengths.map(|all| all.value(row));
            if length.is_some_and(|length| length < 0) {
                let error = Error::new(ErrorKind::Invalid, "substr is given a negative length");
                return Err(error
                    .with_hint("a negative start counts from the end: substr('hello', -3, 2) is 'll'")
                    .into());
            }
            Ok(Some(piece(texts.value(row), starts.value(row), length)))
        };
        let pieces: StringArray = (0..texts.len()).map(row).collect::<Result<_>>()?;
        let pieces: ArrayRef = cast(&pieces, &to)?;
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        crate::time::interval_span::as_given(pieces, is_scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_start_counts_from_the_end() {
        for (start, length, expected) in [
            (-3, Some(2), "ll"),
            (-3, None, "llo"),
            (-10, Some(7), "he"),
            (-10, Some(5), ""),
            (-10, None, "hello"),
            (0, Some(2), "h"),
            (2, Some(3), "ell"),
            (2, Some(0), ""),
            (9, Some(1), ""),
            (i64::MIN, Some(i64::MAX), "hell"),
            (i64::MIN, Some(5), ""),
            (i64::MAX, Some(i64::MAX), ""),
            (1, Some(i64::MAX), "hello"),
        ] {
            assert_eq!(piece("hello", start, length), expected, "{start} {length:?}");
        }
        assert_eq!(piece("여울물", -2, Some(1)), "울");
    }
}
