use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::common::utils::take_function_args;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use super::null_parents::null_throughout;
use crate::Error;

/// Functions that give what they are given. To DataFusion each may give anything of that type, null among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Identity {
    /// A float, which may be out of the range that a file notes.
    AnyFloat,
    /// A column of which nothing is to be known but whether it may be null: not that its values differ, or determine others.
    Alone,
    /// The value of a subquery, which is null if that has no row.
    Nullable,
    /// A key of `PARTITIONED BY`: null is refused.
    PartitionKey,
    /// A cast, which is part of this function's name in a plan.
    NamedCast,
    /// A decimal that a cast has cut: to be equal to 1 says nothing about the digits that it had.
    Cut,
    /// An item of an `IN` list that is computed for each row: an array of values, even if a batch has none.
    Varying,
    /// A struct, a list or a map whose children are null where it is.
    NullThroughout,
}

impl Identity {
    /// A call of this function.
    pub fn call(self, expr: Expr) -> Expr {
        ScalarUDF::from(self).call(vec![expr])
    }

    /// The name by which SQL calls it.
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::AnyFloat => "any_float",
            Self::Alone => "alone",
            Self::Nullable => "nullable",
            Self::PartitionKey => "partition_key",
            Self::NamedCast => "named_cast",
            Self::Cut => "cut",
            Self::Varying => "varying",
            Self::NullThroughout => "null_throughout",
        }
    }

    /// True if an expression is a call of this function.
    pub fn is_called_by(self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.inner().downcast_ref::<Self>() == Some(&self))
    }
}

impl ScalarUDFImpl for Identity {
    fn name(&self) -> &str {
        self.sql_name()
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(match arguments {
            [cast @ (Expr::Cast(_) | Expr::TryCast(_))] if *self == Self::NamedCast => cast.to_string(),
            _ => {
                let names = arguments.iter().map(|argument| argument.schema_name().to_string());
                format!("{}({})", self.name(), names.collect::<Vec<_>>().join(","))
            }
        })
    }

    fn simplify(&self, mut arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match arguments.pop() {
            Some(cast) if *self == Self::NamedCast => ExprSimplifyResult::Simplified(cast),
            argument => ExprSimplifyResult::Original(argument.into_iter().collect()),
        })
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let [kind] = take_function_args(self.name(), arguments)?;
        Ok(kind.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [of] = take_function_args(self.name(), arguments.arg_fields)?;
        let may_be_null =
            matches!(self, Self::AnyFloat | Self::Nullable | Self::PartitionKey) || of.is_nullable();
        Ok(Arc::new(Field::new(self.name(), of.data_type().clone(), may_be_null)))
    }

    /// Values of a file's column are mended beside the scan. DataFusion would hand rows out to threads for the sake of an expression that
    /// is worth it, and they would come in another order than the file has.
    fn placement(&self, arguments: &[ExpressionPlacement]) -> ExpressionPlacement {
        match (self, arguments) {
            (Self::NullThroughout, [ExpressionPlacement::Column]) => {
                ExpressionPlacement::MoveTowardsLeafNodes
            }
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [value] = take_function_args(self.name(), arguments.args)?;
        if *self == Self::PartitionKey && value.to_array(rows)?.logical_null_count() > 0 {
            let error =
                Error::new(ErrorKind::Invalid, "a key of PARTITIONED BY is null, and the files keep it");
            let hint = "leave out keep_partition_by_columns, and it gets a directory of its own; or filter such rows";
            return Err(error.with_hint(hint).into());
        }
        match (self, value) {
            (Self::Varying, value) => value.into_array(rows).map(ColumnarValue::Array),
            (Self::NullThroughout, ColumnarValue::Array(array)) => {
                null_throughout(&array).map(ColumnarValue::Array)
            }
            (_, value) => Ok(value),
        }
    }
}
