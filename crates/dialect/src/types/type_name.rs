//! Names of types, as SQL writes them, and `typeof`.

use std::sync::LazyLock;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(DOC_SECTION_OTHER, "Name of a value's type.", "typeof(x)").build()
});

/// The name of a type, as in DuckDB.
pub fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Null => "NULL".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "UTINYINT".to_owned(),
        DataType::UInt16 => "USMALLINT".to_owned(),
        DataType::UInt32 => "UINTEGER".to_owned(),
        DataType::UInt64 => "UBIGINT".to_owned(),
        DataType::Float16 | DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BLOB".to_owned()
        }
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP_S".to_owned(),
        DataType::Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP_MS".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS".to_owned(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => format!("DECIMAL({digits},{scale})"),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => format!("{}[]", type_name(element.data_type())),
        DataType::FixedSizeList(element, length) => format!("{}[{length}]", type_name(element.data_type())),
        DataType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|field| format!("{} {}", quoted(field.name()), type_name(field.data_type())));
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let kinds = fields.iter().map(|field| type_name(field.data_type()));
                format!("MAP({})", kinds.collect::<Vec<_>>().join(", "))
            }
            other => type_name(other),
        },
        DataType::Dictionary(_, value) => type_name(value),
        DataType::RunEndEncoded(_, value) => type_name(value.data_type()),
        DataType::Union(_, _) => "UNION".to_owned(),
    }
}

/// A name as a statement can write it.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// `typeof`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeOf(Signature);

impl Default for TypeOf {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = type_name(arguments.arg_fields[0].data_type());
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn names_are_those_that_sql_reads() {
        let list = |kind| DataType::List(Arc::new(Field::new_list_field(kind, true)));
        let fields =
            vec![Field::new("a", DataType::Int64, true), Field::new("B c", list(DataType::Utf8View), true)];
        for (kind, name) in [
            (DataType::Decimal128(10, 2), "DECIMAL(10,2)"),
            (list(list(DataType::Float64)), "DOUBLE[][]"),
            (DataType::Struct(fields.into()), "STRUCT(a BIGINT, \"B c\" VARCHAR[])"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "TIMESTAMP WITH TIME ZONE"),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Date32)), "DATE"),
        ] {
            assert_eq!(type_name(&kind), name);
        }
    }
}
