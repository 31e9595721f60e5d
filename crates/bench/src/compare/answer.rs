//! Answers as values that can be compared, whatever types the engines use.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use arrow::ipc::reader::StreamReader;
use yeoul_base::ErrorKind;

use super::value::Value;
use crate::error::{Error, Result};

/// The most rows of an answer that are compared.
const ROWS_MAX: usize = 10_000_000;

/// An answer: columns of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// The columns' names, for messages and for `ORDER BY`.
    pub names: Vec<String>,
    /// The columns, each of `rows` values.
    pub columns: Vec<Vec<Value>>,
    /// The number of rows.
    pub rows: usize,
}

impl Answer {
    /// Reads an Arrow IPC stream.
    ///
    /// # Errors
    /// `Corrupt` if it is not one; `Invalid` if it has a type that is not compared; `ResourceExhausted` if it is too long.
    pub fn read(path: &Path) -> Result<Self> {
        let corrupt = |e| {
            Error::new(ErrorKind::Corrupt, format!("cannot read the answer {}", path.display()))
                .with_source(e)
        };
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let reader = StreamReader::try_new(BufReader::new(file), None).map_err(corrupt)?;
        let fields = reader.schema().fields().clone();
        let names: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
        let mut answer = Self { columns: vec![Vec::new(); names.len()], names, rows: 0 };
        for batch in reader {
            answer.append(&batch.map_err(corrupt)?)?;
        }
        Ok(answer)
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        if self.rows > ROWS_MAX {
            return Err(Error::new(
                ErrorKind::ResourceExhausted,
                format!("an answer of more than {ROWS_MAX} rows is not compared"),
            ));
        }
        for (values, array) in self.columns.iter_mut().zip(batch.columns()) {
            append(values, array)?;
        }
        Ok(())
    }

    /// A row for people, shortened.
    pub fn show_row(&self, row: usize) -> String {
        const CHARACTERS_MAX: usize = 200;
        let values: Vec<_> = self.columns.iter().map(|column| column[row].to_string()).collect();
        let text = format!("({})", values.join(", "));
        match text.char_indices().nth(CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

/// Appends the values of `array`, widened to one type of its family.
fn append(values: &mut Vec<Value>, array: &ArrayRef) -> Result<()> {
    let unsupported =
        || Error::new(ErrorKind::Invalid, format!("answers of type {} are not compared", array.data_type()));
    let widened = |to: &DataType| cast(array, to).map_err(|e| unsupported().with_source(e));
    fn each<T>(values: &mut Vec<Value>, items: impl Iterator<Item = Option<T>>, to: impl Fn(T) -> Value) {
        values.extend(items.map(|item| item.map_or(Value::Null, &to)));
    }
    match array.data_type() {
        DataType::Null => values.extend(std::iter::repeat_n(Value::Null, array.len())),
        DataType::Boolean => each(values, array.as_boolean().iter(), Value::Boolean),
        DataType::UInt64 => {
            let wide = widened(&DataType::Decimal128(20, 0))?;
            let exact = |unscaled| Value::Exact { unscaled, scale: 0 };
            each(values, wide.as_primitive::<Decimal128Type>().iter(), exact);
        }
        kind if kind.is_integer() => {
            let wide = widened(&DataType::Int64)?;
            let exact = |number| Value::Exact { unscaled: i128::from(number), scale: 0 };
            each(values, wide.as_primitive::<Int64Type>().iter(), exact);
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            let wide = widened(&DataType::Decimal128(38, *scale))?;
            let exact = |unscaled| Value::Exact { unscaled, scale: *scale };
            each(values, wide.as_primitive::<Decimal128Type>().iter(), exact);
        }
        kind if kind.is_floating() => {
            let wide = widened(&DataType::Float64)?;
            each(values, wide.as_primitive::<Float64Type>().iter(), Value::Float);
        }
        DataType::Utf8 => each(values, array.as_string::<i32>().iter(), |text| Value::Text(text.to_owned())),
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            append(values, &widened(&DataType::Utf8)?)?;
        }
        DataType::Date32 => each(values, array.as_primitive::<Date32Type>().iter(), Value::Date),
        DataType::Date64 => append(values, &widened(&DataType::Date32)?)?,
        DataType::Timestamp(..) => {
            let wide = widened(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
            each(values, wide.as_primitive::<TimestampMicrosecondType>().iter(), Value::Timestamp);
        }
        _ => return Err(unsupported()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Decimal128Array, Float32Array, Int16Array, Int64Array, LargeStringArray, StringArray,
        StringViewArray, UInt64Array,
    };

    use super::*;

    fn values(array: impl Array + 'static) -> Vec<Value> {
        let mut values = Vec::new();
        append(&mut values, &(Arc::new(array) as ArrayRef)).unwrap();
        values
    }

    #[test]
    fn widths_and_encodings_do_not_matter() {
        assert_eq!(
            values(Int16Array::from(vec![Some(7), None])),
            values(Int64Array::from(vec![Some(7), None]))
        );
        assert_eq!(
            values(UInt64Array::from(vec![u64::MAX])),
            [Value::Exact { unscaled: i128::from(u64::MAX), scale: 0 }]
        );
        let decimals = Decimal128Array::from(vec![7]).with_precision_and_scale(38, 0).unwrap();
        assert_eq!(values(decimals), values(Int64Array::from(vec![7])));
        let text = values(StringArray::from(vec!["a", ""]));
        assert_eq!(values(StringViewArray::from(vec!["a", ""])), text);
        assert_eq!(values(LargeStringArray::from(vec!["a", ""])), text);
        assert_eq!(values(Float32Array::from(vec![0.5])), [Value::Float(0.5)]);
    }
}
