//! What functions of Spark, DuckDB and PostgreSQL are written as here, if not by that name.

/// Names of other systems, in order, with what to write.
const WRITTEN_AS: [(&str, &str); 62] = [
    ("add_months", "d + n * INTERVAL '1 month'"),
    ("age", "timestamp - timestamp"),
    ("approx_count_distinct", "approx_distinct(x)"),
    ("arg_max", "last_value(x ORDER BY y)"),
    ("arg_min", "first_value(x ORDER BY y)"),
    ("base64", "encode(x, 'base64')"),
    ("charindex", "strpos(text, part)"),
    ("collect_list", "array_agg(x)"),
    ("collect_set", "array_agg(DISTINCT x)"),
    ("date_add", "d + n for days, d + n * INTERVAL '1 month' for others"),
    ("date_diff", "b - a for days, extract(epoch FROM b - a) for seconds"),
    ("date_sub", "d - n"),
    ("dateadd", "d + n for days, d + n * INTERVAL '1 month' for others"),
    ("datediff", "b - a for days, extract(epoch FROM b - a) for seconds"),
    ("day", "extract(day FROM t)"),
    ("dayofweek", "extract(dow FROM t)"),
    ("dayofyear", "extract(doy FROM t)"),
    ("epoch", "extract(epoch FROM t)"),
    ("every", "bool_and(x)"),
    ("explode", "unnest(list)"),
    ("gen_random_uuid", "uuid()"),
    ("getdate", "now()"),
    ("group_concat", "string_agg(x, ',')"),
    ("hex", "encode(x, 'hex'), or to_hex(n)"),
    ("hour", "extract(hour FROM t)"),
    ("if", "CASE WHEN a THEN b ELSE c END"),
    ("iff", "CASE WHEN a THEN b ELSE c END"),
    ("iif", "CASE WHEN a THEN b ELSE c END"),
    ("isnull", "x IS NULL, or coalesce(x, y)"),
    ("json_extract", "json text is not read by functions; read the file as NDJSON"),
    ("last_day", "date_trunc('month', d) + INTERVAL '1 month' - INTERVAL '1 day'"),
    ("lcase", "lower(x)"),
    ("len", "length(x)"),
    ("list_value", "[a, b]"),
    ("listagg", "string_agg(x, ',')"),
    ("locate", "strpos(text, part)"),
    ("make_timestamp", "a text: '2024-01-05 10:00:00'::TIMESTAMP"),
    ("max_by", "last_value(x ORDER BY y)"),
    ("min_by", "first_value(x ORDER BY y)"),
    ("minute", "extract(minute FROM t)"),
    ("mode", "GROUP BY x ORDER BY count(*) DESC LIMIT 1"),
    ("month", "extract(month FROM t)"),
    ("percentile", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"),
    ("quantile", "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"),
    ("quarter", "extract(quarter FROM t)"),
    ("rand", "random()"),
    ("regexp_extract", "regexp_match(text, pattern)[1]"),
    ("regexp_substr", "regexp_match(text, pattern)[1]"),
    ("second", "extract(second FROM t)"),
    ("sha2", "sha256(x)"),
    ("size", "cardinality(list), or length(text)"),
    ("split", "string_to_array(text, ',')"),
    ("str_split", "string_to_array(text, ',')"),
    ("strftime", "to_char(t, '%Y-%m-%d')"),
    ("string_split", "string_to_array(text, ',')"),
    ("strptime", "to_timestamp(text, '%Y-%m-%d')"),
    ("struct_pack", "named_struct('a', 1)"),
    ("sysdate", "now()"),
    ("typeof", "arrow_typeof(x)"),
    ("ucase", "upper(x)"),
    ("variance", "var_samp(x)"),
    ("year", "extract(year FROM t)"),
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
