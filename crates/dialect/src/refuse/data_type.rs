//! Types, as casts and columns write them.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo};

use super::refused::Clause;
use super::walk::Walk;
use crate::Result;

/// The bits of a float's mantissa, up to which SQL's `FLOAT(n)` is a `REAL`, and up to which a `DOUBLE`.
const REAL_BITS: u64 = 24;
const DOUBLE_BITS: u64 = 53;
/// The digits of a second that a `TIMESTAMP` has, as in Spark, PostgreSQL and DuckDB: it reaches over all dates. DataFusion's has nine, and
/// ends in the year 2262.
pub(crate) const TIMESTAMP_DIGITS: u64 = 6;

/// The digits of DuckDB's `HUGEINT`, which is a decimal here. The greatest of 39 digits do not fit.
const HUGEINT_DIGITS: u64 = 38;

impl Walk<'_> {
    pub(super) fn data_type(&mut self, data_type: &mut DataType) -> Result<()> {
        match data_type {
            DataType::Float(ExactNumberInfo::Precision(bits)) => {
                *data_type = match *bits {
                    bits if bits <= REAL_BITS => DataType::Real,
                    bits if bits <= DOUBLE_BITS => DataType::DoublePrecision,
                    _ => return Err(Clause::FloatScale.error()),
                };
                Ok(())
            }
            DataType::Timestamp(precision @ None, _) => {
                *precision = Some(TIMESTAMP_DIGITS);
                Ok(())
            }
            DataType::Float(ExactNumberInfo::PrecisionAndScale(_, _)) => Err(Clause::FloatScale.error()),
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(element)
                | ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::Parenthesis(element),
            ) => self.data_type(element),
            DataType::Struct(fields, _) => fields.iter_mut().try_for_each(|field| self.struct_field(field)),
            DataType::Map(key, value) => [key, value].into_iter().try_for_each(|part| self.data_type(part)),
            // What stands in parentheses behind a text is the most that it may hold, which nothing checks (as in DuckDB); behind an
            // integer, how many digits are shown.
            DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::String(_)
            | DataType::Text
            | DataType::TinyInt(_)
            | DataType::TinyIntUnsigned(_)
            | DataType::SmallInt(_)
            | DataType::SmallIntUnsigned(_)
            | DataType::Int(_)
            | DataType::IntUnsigned(_)
            | DataType::Int2(_)
            | DataType::Int2Unsigned(_)
            | DataType::Int4(_)
            | DataType::Int4Unsigned(_)
            | DataType::Int8(_)
            | DataType::Int8Unsigned(_)
            | DataType::Integer(_)
            | DataType::IntegerUnsigned(_)
            | DataType::BigInt(_)
            | DataType::BigIntUnsigned(_) => Ok(()),
            // Planning honours these as they are written, or refuses what it does not know of them.
            DataType::Boolean
            | DataType::Bool
            | DataType::Float(ExactNumberInfo::None)
            | DataType::Float4
            | DataType::Float8
            | DataType::Real
            | DataType::Double(_)
            | DataType::DoublePrecision
            | DataType::Numeric(_)
            | DataType::Decimal(_)
            | DataType::Date
            | DataType::Time(_, _)
            | DataType::Timestamp(_, _)
            | DataType::Interval { fields: _, precision: _ }
            | DataType::Bytea => Ok(()),
            DataType::HugeInt => {
                *data_type = DataType::Decimal(ExactNumberInfo::PrecisionAndScale(HUGEINT_DIGITS, 0));
                Ok(())
            }
            // Planning refuses all others.
            _ => Ok(()),
        }
    }
}
