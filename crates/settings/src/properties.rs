//! Files with one `key value` a line, as in Java's properties files.

use std::iter::Enumerate;
use std::str::Lines;

use crate::entry::{Entry, Origin};

/// Reads a file's text. `#` and `!` begin a comment; key and value are separated by blanks, `=` or `:`; a backslash at
/// the end continues a line. Later entries win, so the last of a key is the one that counts.
pub fn parse(text: &str) -> Vec<Entry> {
    entries(text).collect()
}

/// The entries of a file's text, one after the other.
pub fn entries(text: &str) -> impl Iterator<Item = Entry> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (number, line) = lines.find(|(_, line)| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with(['#', '!'])
        })?;
        let line = line.trim_start();
        // Allocated at its final length, because text that grows takes up to three times that.
        let mut len = 0;
        parts(line, &mut lines.clone(), |part| len += part.len());
        let mut whole = String::with_capacity(len);
        parts(line, &mut lines, |part| whole.push_str(part));
        let blank_or_sign = |c: char| c.is_whitespace() || c == '=' || c == ':';
        let (key, rest) = match whole.find(blank_or_sign) {
            Some(at) => whole.split_at(at),
            None => (whole.as_str(), ""),
        };
        let rest = rest.trim_start();
        let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim();
        let origin = Origin::line(number + 1);
        Some(Entry { key: key.to_owned(), value: value.to_owned(), origin })
    })
}

/// A line and those that continue it, without what joins them.
fn parts<'t>(mut line: &'t str, lines: &mut Enumerate<Lines<'t>>, mut part: impl FnMut(&'t str)) {
    while let Some(begun) = continued(line) {
        part(begun);
        line = lines.next().map_or("", |(_, line)| line.trim_start());
    }
    part(line);
}

/// The part of a continued line before its backslash. Of two backslashes the first escapes the second.
fn continued(line: &str) -> Option<&str> {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    (backslashes % 2 == 1).then(|| &line[..line.len() - 1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_an_entry() {
        let text = "# comment\n! comment\n\n  lamp.port 9097\nlamp.a=b = c\nlamp.d : e:f \n\
                    lamp.list one,\\\n   two\nlamp.empty\n";
        let entries = parse(text);
        let pairs: Vec<_> =
            entries.iter().map(|e| (e.key.as_str(), e.value.as_str(), e.origin.line.unwrap())).collect();
        assert_eq!(
            pairs,
            [
                ("lamp.port", "9097", 4),
                ("lamp.a", "b = c", 5),
                ("lamp.d", "e:f", 6),
                ("lamp.list", "one,two", 7),
                ("lamp.empty", "", 9),
            ]
        );
    }

    #[test]
    fn odd_ends_do_no_harm() {
        assert_eq!(parse("key\\").len(), 1);
        assert_eq!(parse("\\\n\\\n")[0].key, "");
        let two = parse("a b\\\\\nc\\\\\\\n d");
        assert_eq!((two[0].value.as_str(), two[1].key.as_str()), ("b\\\\", "c\\\\d"));
        assert!(parse("").is_empty());
    }

    proptest! {
        #[test]
        fn entries_read_back(
            pairs in prop::collection::vec(("[a-z.]{1,12}", "[a-z0-9]([a-z0-9=: ]{0,8}[a-z0-9])?"), 0..8),
            sign in "[ =:]| = | : ",
        ) {
            let text: String = pairs.iter().map(|(key, value)| format!("{key}{sign}{value}\n")).collect();
            let read: Vec<_> = entries(&text).map(|entry| (entry.key, entry.value)).collect();
            prop_assert_eq!(read, pairs);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "(?s)[a\\\\ =#\n\r\u{2003}é]{0,40}") {
            let lines = text.lines().count();
            let is_there = |line: Option<usize>| line.is_some_and(|line| (1..=lines).contains(&line));
            prop_assert!(entries(&text).all(|entry| is_there(entry.origin.line)));
        }
    }
}
