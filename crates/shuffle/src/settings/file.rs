//! `celeborn-defaults.conf`: one `key value` a line, as Java's properties files.

/// An entry of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value, without blanks around it.
    pub value: String,
    /// The line that it stands in, from 1.
    pub line: usize,
}

/// Reads a file's text. `#` and `!` begin a comment; key and value are separated by blanks, `=` or `:`; a backslash at
/// the end continues a line. Later entries win, so the last of a key is the one that counts.
pub fn parse(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let mut whole = line.trim_start().to_owned();
        if whole.is_empty() || whole.starts_with(['#', '!']) {
            continue;
        }
        while let Some(stripped) = whole.strip_suffix('\\') {
            let more = lines.next().map_or("", |(_, line)| line.trim_start());
            whole = format!("{stripped}{more}");
        }
        let blank_or_sign = |c: char| c.is_whitespace() || c == '=' || c == ':';
        let (key, rest) = match whole.find(blank_or_sign) {
            Some(at) => whole.split_at(at),
            None => (whole.as_str(), ""),
        };
        let rest = rest.trim_start();
        let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim();
        entries.push(Entry { key: key.to_owned(), value: value.to_owned(), line: number + 1 });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_an_entry() {
        let text = "# comment\n! comment\n\n  celeborn.master.port 9097\nceleborn.a=b = c\nceleborn.d : e:f \n\
                    celeborn.list one,\\\n   two\nceleborn.empty\n";
        let entries = parse(text);
        let pairs: Vec<(&str, &str, usize)> =
            entries.iter().map(|e| (e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(
            pairs,
            [
                ("celeborn.master.port", "9097", 4),
                ("celeborn.a", "b = c", 5),
                ("celeborn.d", "e:f", 6),
                ("celeborn.list", "one,two", 7),
                ("celeborn.empty", "", 9),
            ]
        );
    }

    #[test]
    fn odd_ends_do_no_harm() {
        assert_eq!(parse("key\\").len(), 1);
        assert_eq!(parse("\\\n\\\n")[0].key, "");
        assert!(parse("").is_empty());
    }
}
