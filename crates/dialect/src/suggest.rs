//! The name that a person probably meant.

/// Below this likeness (0 none, 1 equal; Jaro-Winkler) a suggestion confuses more than it helps.
const LIKENESS_MIN: f64 = 0.8;
/// The most names that a hint lists.
const LISTED: usize = 8;

/// The one of `names` that is most like `wanted`, if one is like it at all.
pub fn nearest<'a>(wanted: &str, names: &'a [String]) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    names
        .iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name.as_str()))
        .filter(|(likeness, name)| *likeness >= LIKENESS_MIN && *name != wanted)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The names in one line, cut where it gets long.
pub fn list(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(LISTED) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_a_stranger_is_not() {
        let tables = names(&["customer", "orders", "lineitem"]);
        assert_eq!(nearest("custmer", &tables), Some("customer"));
        assert_eq!(nearest("LineItems", &tables), Some("lineitem"));
        assert_eq!(nearest("weather", &tables), None);
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(list(&names(&["a", "b"])), "a, b");
        assert_eq!(list(&names(&["a"; 10])), "a, a, a, a, a, a, a, a and 2 more");
    }
}
