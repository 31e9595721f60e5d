//! Values as numbers, so that the share of a range can be computed.

use datafusion::common::ScalarValue;

const SECONDS_OF_DAY: f64 = 86_400.0;

/// A value as a number: times in seconds. `None` for null, NaN, texts and what is nested.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    let number = match value {
        ScalarValue::Int8(value) => f64::from((*value)?),
        ScalarValue::Int16(value) => f64::from((*value)?),
        ScalarValue::Int32(value) => f64::from((*value)?),
        ScalarValue::Int64(value) => (*value)? as f64,
        ScalarValue::UInt8(value) => f64::from((*value)?),
        ScalarValue::UInt16(value) => f64::from((*value)?),
        ScalarValue::UInt32(value) => f64::from((*value)?),
        ScalarValue::UInt64(value) => (*value)? as f64,
        ScalarValue::Float32(value) => f64::from((*value)?),
        ScalarValue::Float64(value) => (*value)?,
        ScalarValue::Decimal32(value, _, scale) => f64::from((*value)?) * unit(*scale),
        ScalarValue::Decimal64(value, _, scale) => (*value)? as f64 * unit(*scale),
        ScalarValue::Decimal128(value, _, scale) => (*value)? as f64 * unit(*scale),
        ScalarValue::Date32(value) => f64::from((*value)?) * SECONDS_OF_DAY,
        ScalarValue::Date64(value) => (*value)? as f64 / 1e3,
        ScalarValue::TimestampSecond(value, _) => (*value)? as f64,
        ScalarValue::TimestampMillisecond(value, _) => (*value)? as f64 / 1e3,
        ScalarValue::TimestampMicrosecond(value, _) => (*value)? as f64 / 1e6,
        ScalarValue::TimestampNanosecond(value, _) => (*value)? as f64 / 1e9,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// The distance of neighbouring values of the type of `value`; `None` if they have none that counts.
pub(super) fn step(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Decimal32(_, _, scale)
        | ScalarValue::Decimal64(_, _, scale)
        | ScalarValue::Decimal128(_, _, scale) => Some(unit(*scale)),
        ScalarValue::Date32(_) | ScalarValue::Date64(_) => Some(SECONDS_OF_DAY),
        ScalarValue::TimestampSecond(..) => Some(1.0),
        ScalarValue::TimestampMillisecond(..) => Some(1e-3),
        ScalarValue::TimestampMicrosecond(..) => Some(1e-6),
        ScalarValue::TimestampNanosecond(..) => Some(1e-9),
        value if value.data_type().is_integer() => Some(1.0),
        _ => None,
    }
}

/// The least difference of decimals of a scale.
fn unit(scale: i8) -> f64 {
    10f64.powi(-i32::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_types_compare_as_numbers() {
        let day = ScalarValue::Date32(Some(2));
        let instant = ScalarValue::TimestampMicrosecond(Some(2 * 86_400_000_000), None);
        assert_eq!(number(&day), number(&instant));
        assert_eq!(number(&ScalarValue::Decimal128(Some(150), 5, 2)), Some(1.5));
        assert_eq!(step(&ScalarValue::Decimal128(Some(150), 5, 2)), Some(0.01));
        for nothing in [ScalarValue::Float64(Some(f64::NAN)), ScalarValue::Int8(None), ScalarValue::from("7")]
        {
            assert_eq!(number(&nothing), None, "{nothing}");
        }
    }
}
