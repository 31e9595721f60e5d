//! Geometries as bytes, in the form that is called well-known binary (OGC 06-103r4).

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// The name of the function.
pub(crate) const CHECKED: &str = "spark_wkb";

/// `spark_wkb(bytes)`: the bytes, if they are a point with the low bytes first.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WellKnownBytes;

/// Bytes of a point: the order of bytes, the kind, two numbers.
const POINT_BYTES: usize = 21;

fn checked(bytes: &[u8]) -> Result<&[u8], Error> {
    let is_point = bytes.len() == POINT_BYTES && bytes[..5] == [1, 1, 0, 0, 0];
    if is_point {
        return Ok(bytes);
    }
    let error =
        Error::new(ErrorKind::Invalid, "not supported: a geometry that is no point of two coordinates");
    Err(error.with_hint("there are points in well-known binary, with the low bytes first"))
}

impl ScalarUDFImpl for WellKnownBytes {
    fn name(&self) -> &str {
        CHECKED
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [kind] if kind.is_binary() || kind.is_null() => Ok(vec![DataType::Binary]),
            _ => plan_err!("a geometry is made of BINARY"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let bytes = arrays[0].as_binary::<i32>().iter().map(|bytes| bytes.map(checked).transpose());
            Ok(Arc::new(bytes.collect::<Result<BinaryArray, Error>>()?) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_and_nothing_else() {
        let mut point = vec![1, 1, 0, 0, 0];
        point.extend([0; 16]);
        assert!(checked(&point).is_ok() && checked(&point[..20]).is_err() && checked(b"").is_err());
        point[0] = 0;
        assert!(checked(&point).is_err());
    }
}
