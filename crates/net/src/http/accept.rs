//! The header `Accept`: whether a client shows HTML to a person.

use hyper::header::{ACCEPT, HeaderMap};

/// True if `Accept` names HTML itself. `*/*`, which scripts send, does not: they get what they always got.
pub(super) fn takes_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(is_html)
}

/// A media range that is HTML, with a weight other than 0.
fn is_html(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_html = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
    let is_refused = parts.any(|part| {
        let weight = part.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        weight.is_some_and(|(_, weight)| weight.trim().parse() == Ok(0.0))
    });
    is_html && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_take_html_and_scripts_do_not() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("application/json, Text/HTML ; q=0.5", true),
            ("text/html;q=0", false),
            ("text/html; q=0.000, */*", false),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("text/css,*/*;q=0.1", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(takes_html(&headers), expected, "{accept}");
        }
        assert!(!takes_html(&HeaderMap::new()));
    }
}
