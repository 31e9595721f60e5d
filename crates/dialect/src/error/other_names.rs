//! What functions of Spark, DuckDB and PostgreSQL are written as here, if not by that name.

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
pub(super) fn written_as(function: &str) -> Option<&'static str> {
    let function = function.to_ascii_lowercase();
    let found = WRITTEN_AS.binary_search_by(|(name, _)| (*name).cmp(&function)).ok()?;
    Some(WRITTEN_AS[found].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_in_order() {
        assert!(WRITTEN_AS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(written_as("AGE"), Some("timestamp - timestamp"));
        assert_eq!(written_as("sum"), None);
    }
}
