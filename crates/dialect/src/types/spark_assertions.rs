//! `assert_true` of Spark: null where a condition holds, and an error where it does not.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, NullArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// The function `spark_assert(condition, message)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Assertion;

impl ScalarUDFImpl for Assertion {
    fn name(&self) -> &str {
        "spark_assert"
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [DataType::Boolean | DataType::Null, message] if message.is_string() || message.is_null() => {
                Ok(vec![DataType::Boolean, DataType::Utf8])
            }
            _ => plan_err!("assert_true takes a condition and a message"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let (conditions, messages) = (arrays[0].as_boolean(), arrays[1].as_string::<i32>());
            let fails = |row: &usize| conditions.is_null(*row) || !conditions.value(*row);
            match (0..conditions.len()).find(fails) {
                Some(row) if messages.is_valid(row) => {
                    Err(Error::new(ErrorKind::Invalid, messages.value(row)).into())
                }
                Some(_) => {
                    Err(Error::new(ErrorKind::Invalid, "an assertion without a message failed").into())
                }
                None => Ok(Arc::new(NullArray::new(conditions.len())) as ArrayRef),
            }
        })
    }
}
