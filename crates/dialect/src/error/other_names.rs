//! Hints at what to write instead of a function that is none here: what functions of Spark, DuckDB and PostgreSQL are written as, the dialect
//! that has it, or a name that a slip of the finger explains.

use crate::functions::spark;

/// Names of other systems, in order, with what to write.
const WRITTEN_AS: [(&str, &str); 16] = [
    ("age", "timestamp - timestamp"),
    ("columns", "COLUMNS('regular expression') among the columns of a SELECT, and nowhere else"),
    ("dayname", "strftime(t, '%A'), which is DuckDB's dayname, or date_format(t, 'E'), which is Spark's"),
    ("dayofweek", "extract(dow FROM t)"),
    ("from_json", "CAST(get_json_object(text, '$.a') AS INT) for each field"),
    ("json_tuple", "get_json_object(text, '$.a') for each name"),
    ("json_value", "json_extract_string(text, '$.a')"),
    ("kurtosis", "kurtosis_pop(x), which is Spark's kurtosis, or kurtosis_samp(x), which is DuckDB's"),
    (
        "monthname",
        "strftime(t, '%B'), which is DuckDB's monthname, or date_format(t, 'MMM'), which is Spark's",
    ),
    ("quantile", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"),
    ("rand", "random()"),
    ("second", "extract(second FROM t)"),
    ("skewness", "skewness_pop(x), which is Spark's skewness, or skewness_samp(x), which is DuckDB's"),
    ("struct_pack", "named_struct('a', 1)"),
    ("sysdate", "now()"),
    (
        "weekday",
        "extract(dow FROM t) from Sunday 0 on, as in DuckDB, or extract(isodow FROM t) - 1 from Monday 0 on, as in Spark",
    ),
];

/// The expression to write instead of a function that is none here.
fn written_as(function: &str) -> Option<&'static str> {
    let function = function.to_ascii_lowercase();
    let found = WRITTEN_AS.binary_search_by(|(name, _)| (*name).cmp(&function)).ok()?;
    Some(WRITTEN_AS[found].1)
}

/// The shortest name that is taken for a slip of the finger: shorter ones are near to too many.
const SLIP_LETTERS_MIN: usize = 4;

/// The hint for a function that is none here, of whose names `near` is the one that is most like it by its letters.
pub(super) fn hint(function: &str, near: Option<&str>) -> String {
    if let Some(written) = written_as(function) {
        return format!("write {written}");
    }
    let name = function.to_ascii_lowercase();
    if !spark::defined(&name).is_empty() {
        return "it is a function of Spark, which --dialect spark has".to_owned();
    }
    // Letters lead astray: to these, `strftime` is like `to_time`.
    match near.filter(|near| is_slip(&name, near)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "SHOW FUNCTIONS lists the functions".to_owned(),
    }
}

/// True if one of few letters is another one, is missing, or has changed its place.
fn is_slip(written: &str, meant: &str) -> bool {
    let slips = if written.len() < 2 * SLIP_LETTERS_MIN { 1 } else { 2 };
    written.len() >= SLIP_LETTERS_MIN && strsim::osa_distance(written, meant) <= slips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_do_not_lead_astray() {
        for (written, near, expected) in [
            ("lenght", "length", "did you mean 'length'?"),
            ("sbustring", "substring", "did you mean 'substring'?"),
            ("size_of", "to_time", "SHOW FUNCTIONS"),
            ("modulo", "md5", "SHOW FUNCTIONS"),
            ("sni", "sin", "SHOW FUNCTIONS"),
            ("rand", "random", "write random()"),
            ("array_compact", "array_concat", "it is a function of Spark"),
        ] {
            let hint = hint(written, Some(near));
            assert!(hint.starts_with(expected), "{written}: {hint}");
        }
    }

    #[test]
    fn the_names_are_in_order() {
        assert!(WRITTEN_AS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(written_as("AGE"), Some("timestamp - timestamp"));
        assert_eq!(written_as("sum"), None);
    }
}
