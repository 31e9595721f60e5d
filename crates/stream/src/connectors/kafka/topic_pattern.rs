use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Result, invalid};

/// Topics of the brokers themselves: no pattern matches them, as in Spark.
const INTERNAL_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];
/// Texts that are operators within brackets here and plain characters in Java.
const CLASS_OPERATORS: [&str; 3] = ["--", "~~", "[:"];

/// Topics by a regular expression, which is looked for anywhere in their names, as in Spark: `orders` matches `my-orders-2`, too.
///
/// The dialect is that of the crate `regex`. What it shares with Java's means the same, for names of topics are ASCII; look-around,
/// back references and the like cannot be compiled, and what would mean another thing within brackets is refused.
#[derive(Debug, Clone)]
pub struct TopicPattern(Regex);

impl TopicPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `Invalid` for one that is empty, cannot be compiled, or would mean another thing in Java.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid("it is empty").with_hint("'.*' matches every topic"));
        }
        if let Some(operator) = class_operator(text) {
            let error = invalid(format!("'{operator}' within brackets is an operator here and none in Java"));
            return Err(error.with_hint("write a backslash before its second character"));
        }
        // Java's classes such as \d and \w are those of ASCII.
        let regex = RegexBuilder::new(text).unicode(false).build().map_err(|error| uncompiled(&error))?;
        Ok(Self(regex))
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// True if a topic belongs to it.
    pub fn matches(&self, topic: &str) -> bool {
        !INTERNAL_TOPICS.contains(&topic) && self.0.is_match(topic.as_bytes())
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for TopicPattern {}

fn uncompiled(error: &regex::Error) -> Error {
    // Its last line says what is wrong; those before it draw where.
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    invalid(reason).with_hint(
        "look-around, back references, possessive and atomic groups, \\Q…\\E and \\p{…} of Java are not there: write what is to match",
    )
}

/// The first operator within brackets that Java does not have.
fn class_operator(text: &str) -> Option<&'static str> {
    let (mut depth, mut is_escaped) = (0_usize, false);
    for (at, character) in text.char_indices() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        if depth > 0
            && let Some(operator) =
                CLASS_OPERATORS.into_iter().find(|operator| text[at..].starts_with(operator))
        {
            return Some(operator);
        }
        match character {
            '\\' => is_escaped = true,
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(pattern: &str) -> Vec<&'static str> {
        let topics = ["orders", "my-orders-2", "Orders", "order", "a.b", "acb", "__consumer_offsets"];
        let pattern = TopicPattern::new(pattern).unwrap();
        topics.into_iter().filter(|topic| pattern.matches(topic)).collect()
    }

    #[test]
    fn a_pattern_is_found_anywhere_in_a_name_and_never_in_topics_of_brokers() {
        assert_eq!(matching("orders"), ["orders", "my-orders-2"]);
        assert_eq!(matching("^orders$"), ["orders"]);
        assert_eq!(matching(" ^orders$ "), ["orders"], "blanks around it are none of it");
        assert_eq!(matching("(?i)^order(s)?$"), ["orders", "Orders", "order"]);
        assert_eq!(matching(r"^a\.b|-\d"), ["my-orders-2", "a.b"]);
        assert_eq!(matching("^[a-c&&[^b]].[b]$"), ["a.b", "acb"]);
        assert_eq!(matching("_"), [""; 0]);
        assert_eq!(matching(".").len(), 6);
    }

    #[test]
    fn what_java_reads_otherwise_or_cannot_be_compiled_is_refused() {
        for (pattern, expected) in [
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("orders(?!-dead)", "look-around"),
            (r"(a)\1", "backreferences are not supported"),
            ("a)|(b", "unopened group"),
            ("(a", "unclosed group"),
            (r"\Qa.b\E", "unrecognized escape"),
            (r"\p{Alpha}+", "Unicode"),
            ("[a-z--b]", "'--' within brackets"),
            ("[a~~b]", "'~~' within brackets"),
            ("[[:alpha:]]", "'[:' within brackets"),
        ] {
            let error = TopicPattern::new(pattern).unwrap_err();
            assert!(error.to_string().contains(expected), "{pattern}: {error}");
            assert!(error.hint().is_some(), "{pattern}");
        }
        // Outside of brackets, or with a backslash, they are plain.
        for pattern in ["a--b~~", r"[a\--]", r"\[--"] {
            TopicPattern::new(pattern).unwrap();
        }
    }
}
