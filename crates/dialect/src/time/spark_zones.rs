//! Names of time zones as Spark's users write them: `spark_zone(name)` is a name that this engine knows.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::time_zone::parsed;
use crate::text::rows::invoke;

/// Names of three letters, which Java has besides those of the time zone database (`java.time.ZoneId.SHORT_IDS`).
const SHORT: [(&str, &str); 28] = [
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("EST", "-05:00"),
    ("HST", "-10:00"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("MST", "-07:00"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SparkZone;

/// The name here of a zone of Spark's.
fn own_name(name: &str) -> String {
    if let Some((_, zone)) = SHORT.iter().find(|(short, _)| *short == name) {
        return (*zone).to_owned();
    }
    let offset = name.strip_prefix("UTC").or_else(|| name.strip_prefix("GMT")).unwrap_or(name);
    match offset.as_bytes() {
        b"" | b"Z" => "UTC".to_owned(),
        // An hour of one digit.
        [b'+' | b'-', hour] if hour.is_ascii_digit() => format!("{}0{}:00", &offset[..1], &offset[1..]),
        [b'+' | b'-', hour, b':', ..] if hour.is_ascii_digit() => {
            format!("{}0{}", &offset[..1], &offset[1..])
        }
        [b'+' | b'-', _, _] => format!("{offset}:00"),
        [b'+' | b'-', digits @ ..]
            if matches!(digits.len(), 4 | 6) && digits.iter().all(u8::is_ascii_digit) =>
        {
            let seconds = if digits.len() == 6 && &offset[5..] != "00" { &offset[5..] } else { "" };
            format!("{}:{}{seconds}", &offset[..3], &offset[3..5])
        }
        [b'+' | b'-', ..] => offset.to_owned(),
        _ => name.to_owned(),
    }
}

impl ScalarUDFImpl for SparkZone {
    fn name(&self) -> &str {
        "spark_zone"
    }

    fn signature(&self) -> &Signature {
        static TEXT: LazyLock<Signature> =
            LazyLock::new(|| Signature::exact(vec![DataType::Utf8], Volatility::Immutable));
        &TEXT
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| {
            let names = arrays[0].as_string::<i32>().iter();
            let zones = names.map(|name| {
                let Some(zone) = name.map(own_name) else { return Ok(None) };
                parsed(&zone).map(|_| Some(zone))
            });
            Ok(Arc::new(zones.collect::<Result<StringArray>>()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_java_have_names_here() {
        for (name, expected) in [
            ("PST", "America/Los_Angeles"),
            ("EST", "-05:00"),
            ("Z", "UTC"),
            ("UTC", "UTC"),
            ("GMT+1", "+01:00"),
            ("UTC-08:00", "-08:00"),
            ("+2:30", "+02:30"),
            ("-07", "-07:00"),
            ("UTC+080000", "+08:00"),
            ("Asia/Seoul", "Asia/Seoul"),
        ] {
            assert_eq!(own_name(name), expected, "{name}");
            assert!(parsed(expected).is_ok(), "{expected}");
        }
        assert!(parsed(&own_name("Moon/Crater")).is_err());
        assert!(SHORT.iter().all(|(_, zone)| parsed(zone).is_ok()));
    }
}
