//! `to_number`, `try_to_number` and `to_char` of Spark, which read and write numbers by formats.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use yeoul_base::ErrorKind;

use super::number_format::NumberFormat;
use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::time::date_format::DateFormat;

/// A function of a value and a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NumberText {
    /// `spark_to_number(text, format)`: an error for a text that does not fit.
    ToNumber,
    /// `spark_try_to_number(text, format)`: null for it.
    TryToNumber,
    /// `spark_to_char(value, format)`: the text of a number, or of a time.
    ToChar,
}

impl NumberText {
    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        [Self::ToNumber, Self::TryToNumber, Self::ToChar].into_iter().map(ScalarUDF::from)
    }

    fn numbers(self, arrays: &[ArrayRef], format: &NumberFormat) -> Result<ArrayRef> {
        let (precision, scale) = format.precision_and_scale();
        let number = |text: Option<&str>| {
            let Some(text) = text else { return Ok(None) };
            let number = format.read(text);
            if number.is_none() && self == Self::ToNumber {
                let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no number by this format"));
                return Err(error.with_hint("try_to_number is null there"));
            }
            Ok(number)
        };
        let numbers = arrays[0].as_string::<i32>().iter().map(number);
        let numbers = numbers.collect::<Result<Decimal128Array, Error>>()?;
        Ok(Arc::new(numbers.with_precision_and_scale(precision, scale)?))
    }
}

fn written(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let (numbers, formats) = (arrays[0].as_primitive::<Decimal128Type>(), arrays[1].as_string::<i32>());
    let mut known: Option<(&str, NumberFormat)> = None;
    let mut texts = Vec::with_capacity(numbers.len());
    for (number, format) in numbers.iter().zip(formats) {
        let (Some(number), Some(format)) = (number, format) else {
            texts.push(None);
            continue;
        };
        let parsed = match &known {
            Some((of, parsed)) if *of == format => parsed,
            _ => &known.insert((format, NumberFormat::parse(format)?)).1,
        };
        texts.push(Some(parsed.write(number, numbers.scale())));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

impl ScalarUDFImpl for NumberText {
    fn name(&self) -> &str {
        match self {
            Self::ToNumber => "spark_to_number",
            Self::TryToNumber => "spark_try_to_number",
            Self::ToChar => "spark_to_char",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().trim_start_matches("spark_");
        let [value, format] = kinds else {
            return plan_err!("the function {name} takes a value and a format");
        };
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        if !is_text(format) {
            return plan_err!("the format of {name} is a text");
        }
        let value = match (self, value) {
            (Self::ToNumber | Self::TryToNumber, value) if is_text(value) => DataType::Utf8,
            (Self::ToChar, DataType::Decimal128(..)) => value.clone(),
            (Self::ToChar, value) if value.is_integer() => DataType::Decimal128(20, 0),
            (Self::ToChar, value) if value.is_floating() => DataType::Decimal128(30, 15),
            (
                Self::ToChar,
                DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null,
            ) => value.clone(),
            _ => return plan_err!("{name} takes no {}", crate::types::type_name(value)),
        };
        // As it is: a cast would be no constant when the type is asked for.
        let format = if *self == Self::ToChar { DataType::Utf8 } else { format.clone() };
        Ok(vec![value, format])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let kind = match self {
            Self::ToChar => DataType::Utf8,
            _ => {
                let format = arguments.scalar_arguments.get(1).copied().flatten();
                let Some(format) = format.and_then(|format| format.try_as_str().flatten()) else {
                    let error = Error::new(
                        ErrorKind::Invalid,
                        "not supported: a format of to_number that is computed",
                    );
                    return Err(error.with_hint("write it as a text: '999.99'").into());
                };
                let (precision, scale) = NumberFormat::parse(format)?.precision_and_scale();
                DataType::Decimal128(precision, scale)
            }
        };
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if *self == Self::ToChar {
            return match arguments.args[0].data_type() {
                DataType::Decimal128(..) => invoke(&arguments, written),
                _ => DateFormat.invoke_with_args(arguments),
            };
        }
        let ColumnarValue::Scalar(format) = &arguments.args[1] else {
            return plan_err!("the format of to_number is a constant");
        };
        let format = NumberFormat::parse(format.try_as_str().flatten().unwrap_or_default())?;
        invoke(&arguments, |arrays| self.numbers(arrays, &format))
    }
}
