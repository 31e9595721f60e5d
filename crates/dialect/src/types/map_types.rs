//! Types of maps, which DataFusion's planner does not know: `MAP(VARCHAR, INT)`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as Written, ExactNumberInfo, TimezoneInfo};
use yeoul_base::ErrorKind;

use crate::Error;

/// The planner of types with a map in them.
#[derive(Debug)]
pub(crate) struct MapTypes;

impl TypePlanner for MapTypes {
    fn plan_type_field(&self, written: &Written) -> Result<Option<FieldRef>> {
        if !has_map(written) {
            return Ok(None);
        }
        Ok(Some(Arc::new(Field::new("", planned(written)?, true))))
    }
}

fn has_map(written: &Written) -> bool {
    match written {
        Written::Map(..) => true,
        Written::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::SquareBracket(element, None),
        ) => has_map(element),
        Written::Struct(fields, _) => fields.iter().any(|field| has_map(&field.field_type)),
        _ => false,
    }
}

fn planned(written: &Written) -> Result<DataType> {
    Ok(match written {
        Written::Map(key, value) => {
            let entries = Fields::from(vec![
                Field::new("key", planned(key)?, false),
                Field::new("value", planned(value)?, true),
            ]);
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
        }
        Written::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::SquareBracket(element, None),
        ) => DataType::new_list(planned(element)?, true),
        Written::Struct(fields, _) => {
            let field = |(place, field): (usize, &datafusion::sql::sqlparser::ast::StructField)| {
                let name = field.field_name.as_ref().map_or_else(|| format!("c{place}"), crate::normalized);
                Ok(Field::new(name, planned(&field.field_type)?, true))
            };
            DataType::Struct(fields.iter().enumerate().map(field).collect::<Result<_>>()?)
        }
        Written::Boolean | Written::Bool => DataType::Boolean,
        Written::TinyInt(_) => DataType::Int8,
        Written::SmallInt(_) => DataType::Int16,
        Written::Int(_) | Written::Integer(_) => DataType::Int32,
        Written::BigInt(_) => DataType::Int64,
        Written::Float(ExactNumberInfo::None) | Written::Real => DataType::Float32,
        Written::Double(ExactNumberInfo::None) | Written::DoublePrecision => DataType::Float64,
        Written::Varchar(_) | Written::Char(_) | Written::Text | Written::String(_) => DataType::Utf8,
        Written::Bytea => DataType::Binary,
        Written::Date => DataType::Date32,
        Written::Timestamp(Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        Written::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale))
        | Written::Numeric(ExactNumberInfo::PrecisionAndScale(precision, scale)) => {
            let fits = |digits: i64| (0..=38).contains(&digits);
            match (u8::try_from(*precision), i8::try_from(*scale)) {
                (Ok(precision), Ok(scale)) if fits(precision.into()) && fits(scale.into()) => {
                    DataType::Decimal128(precision, scale)
                }
                _ => return Err(refused(written).into()),
            }
        }
        other => return Err(refused(other).into()),
    })
}

fn refused(written: &Written) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {written} within the type of a map"))
        .with_hint("write a type of numbers, texts, dates or a TIMESTAMP without zone")
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::syntax::Grammar;

    fn of(text: &str) -> Result<Option<FieldRef>> {
        let mut parser = Parser::new(&Grammar).try_with_sql(text).unwrap();
        MapTypes.plan_type_field(&parser.parse_data_type().unwrap())
    }

    #[test]
    fn maps_have_types() {
        let kind = of("MAP(VARCHAR, DECIMAL(3, 1))").unwrap().unwrap();
        let DataType::Map(entries, false) = kind.data_type() else { panic!("{kind:?}") };
        let DataType::Struct(fields) = entries.data_type() else { panic!("{entries:?}") };
        assert_eq!((fields[0].data_type(), fields[0].is_nullable()), (&DataType::Utf8, false));
        assert_eq!((fields[1].data_type(), fields[1].is_nullable()), (&DataType::Decimal128(3, 1), true));
        assert!(matches!(of("ARRAY<MAP(INT, INT)>").unwrap().unwrap().data_type(), DataType::List(_)));
        assert_eq!(of("INT").unwrap(), None);
        assert!(of("MAP(INT, DECIMAL(60, 1))").is_err() && of("MAP(INT, UUID)").is_err());
    }
}
