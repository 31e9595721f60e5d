//! The query of a request for a page.

/// The first value of a name in a query, decoded; none if the name is not there.
pub fn query_value(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// The names and values of a query, decoded, in their order.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_and_decoded() {
        assert_eq!(query_value("a=1&b=%2Fx+y&b=2", "b").as_deref(), Some("/x y"));
        assert_eq!(query_value("a=1", "b"), None);
        assert_eq!(query_value("b", "b").as_deref(), Some(""));
        let pairs: Vec<_> = query_pairs("a=1&b=%2Fx+y&a=").collect();
        assert_eq!(pairs, [("a", "1"), ("b", "/x y"), ("a", "")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
