use arrow::datatypes::{DataType, TimeUnit};
use yeoul_dialect::syntax::ast::{DataType as SqlType, ExactNumberInfo};

use crate::error::{Result, invalid};

/// Type of a point in time: microseconds since 1970 UTC, as Spark's `TIMESTAMP` is.
pub const TIMESTAMP: fn() -> DataType = || DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));

/// Most digits of a decimal number, as in Spark.
const DECIMAL_DIGITS_MAX: u64 = 38;

/// Type of a column by its name in SQL.
///
/// # Errors
/// `Invalid` for a type that streams do not have.
pub fn column_type(sql: &SqlType) -> Result<DataType> {
    Ok(match sql {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int64 => DataType::Int64,
        SqlType::Real | SqlType::Float(_) | SqlType::Float32 => DataType::Float32,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float64 => DataType::Float64,
        SqlType::String(_) | SqlType::Text | SqlType::Varchar(_) => DataType::Utf8,
        SqlType::Binary(_) | SqlType::Varbinary(_) | SqlType::Bytes(_) | SqlType::Bytea => DataType::Binary,
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp(..) => TIMESTAMP(),
        SqlType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("timestamp_ltz") => TIMESTAMP(),
        SqlType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("string") => DataType::Utf8,
        SqlType::Decimal(digits) | SqlType::Numeric(digits) | SqlType::Dec(digits) => decimal(digits)?,
        other => {
            let hint = "use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE or TIMESTAMP";
            return Err(invalid(format!("streams have no columns of type {other}")).with_hint(hint));
        }
    })
}

fn decimal(digits: &ExactNumberInfo) -> Result<DataType> {
    // As in Spark and Flink: DECIMAL is DECIMAL(10, 0).
    let (precision, scale) = match digits {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let wrong = || {
        invalid(format!("a decimal number has 1 to {DECIMAL_DIGITS_MAX} digits and no more after the point"))
    };
    if !(1..=DECIMAL_DIGITS_MAX).contains(&precision) || !(0..=precision as i64).contains(&scale) {
        return Err(wrong());
    }
    let (Ok(precision), Ok(scale)) = (u8::try_from(precision), i8::try_from(scale)) else {
        return Err(wrong());
    };
    Ok(DataType::Decimal128(precision, scale))
}

/// Name in SQL of a type of a column; Arrow's name of one that SQL here does not have.
pub fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 => "STRING",
        DataType::Binary => "BINARY",
        DataType::Date32 => "DATE",
        DataType::Timestamp(..) => "TIMESTAMP",
        DataType::Decimal128(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        DataType::List(item) => return format!("ARRAY<{}>", type_name(item.data_type())),
        other => return other.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use yeoul_dialect::syntax::Grammar;
    use yeoul_dialect::syntax::parser::Parser;

    use super::*;

    #[test]
    fn the_name_of_a_type_means_that_type() {
        for name in [
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INT",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "STRING",
            "BINARY",
            "DATE",
            "TIMESTAMP",
            "DECIMAL(12, 3)",
        ] {
            let sql = Parser::new(&Grammar).try_with_sql(name).unwrap().parse_data_type().unwrap();
            assert_eq!(type_name(&column_type(&sql).unwrap()), name);
        }
    }
}
