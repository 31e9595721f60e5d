//! What functions of Spark, DuckDB and PostgreSQL are written as here, if not by that name.

/// Names of other systems, in order, with what to write.
const WRITTEN_AS: [(&str, &str); 13] = [
    ("age", "timestamp - timestamp"),
    ("dayofweek", "extract(dow FROM t)"),
    ("json_extract", "json text is not read by functions; read the file as NDJSON"),
    ("make_timestamp", "a text: '2024-01-05 10:00:00'::TIMESTAMP"),
    ("mode", "GROUP BY x ORDER BY count(*) DESC LIMIT 1"),
    ("quantile", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"),
    ("rand", "random()"),
    ("second", "extract(second FROM t)"),
    ("split", "string_to_array(text, ',')"),
    ("strftime", "to_char(t, '%Y-%m-%d')"),
    ("strptime", "to_timestamp(text, '%Y-%m-%d')"),
    ("struct_pack", "named_struct('a', 1)"),
    ("sysdate", "now()"),
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
        assert_eq!(written_as("STRFTIME"), Some("to_char(t, '%Y-%m-%d')"));
        assert_eq!(written_as("sum"), None);
    }
}
