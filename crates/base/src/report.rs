use std::borrow::Cow;
use std::error::Error;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::address_text::with_stars_for_users;
use crate::{Place, Span, without_users};

/// The most characters of a line that are shown around a place.
const EXCERPT_CHARS: usize = 100;
/// The most causes that are listed.
const CAUSES_MAX: usize = 8;

/// An error as a person reads it on stderr: what, where, why, and what to do. Addresses in it show no users and passwords.
///
/// ```text
/// error: there is no column 'nme'
///    --> report.sql:3:8
///   |
/// 3 | select nme from t
///   |        ^^^
/// hint: did you mean 'name'?
/// ```
#[derive(Clone, Debug, Default)]
pub struct Report {
    message: String,
    causes: Vec<String>,
    location: Option<String>,
    excerpt: Option<Excerpt>,
    hint: Option<String>,
}

/// A line of a statement with a mark under a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    /// Its number in the script.
    number: u64,
    text: String,
    /// Terminal columns left of the mark.
    before: usize,
    /// Terminal columns that it covers.
    width: usize,
}

impl Report {
    /// What went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// An error with the chain of its causes.
    pub fn from_error(error: &(dyn Error + 'static)) -> Self {
        let mut report = Self::new(error.to_string());
        let mut known = report.message.clone();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many errors print their cause themselves.
            if !known.contains(&text) && report.causes.len() < CAUSES_MAX {
                report.causes.push(text.clone());
            }
            known.push_str(&text);
            source = cause.source();
        }
        report
    }

    /// What to do about it.
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Points at a part of `sql`, which starts at `start` of the script `name`. A place outside `sql` is not shown.
    pub fn at(mut self, sql: &str, span: Span, name: Option<&str>, start: Place) -> Self {
        let index = usize::try_from(span.place.line).ok().and_then(|line| line.checked_sub(1));
        let Some(line) = index.and_then(|index| sql.lines().nth(index)) else { return self };
        let whole = start.plus(span.place);
        self.location = name.map(|name| format!("{name}:{}:{}", whole.line, whole.column));
        self.excerpt = Some(Excerpt::new(whole.line, line, span));
        self
    }

    /// Names a place of the script `name`, for an error about its text as a whole.
    pub fn in_script(mut self, name: Option<&str>, place: Place) -> Self {
        self.location = Some(match name {
            Some(name) => format!("{name}:{}:{}", place.line, place.column),
            None => format!("line {}, column {}", place.line, place.column),
        });
        self
    }

    /// The text, which ends with a newline.
    pub fn text(&self) -> String {
        let mut text = format!("error: {}\n", without_users(self.message.trim_end()));
        let number = self.excerpt.as_ref().map_or(String::new(), |excerpt| excerpt.number.to_string());
        let gutter = " ".repeat(number.len().max(1));
        if let Some(location) = &self.location {
            text.push_str(&format!("{gutter}--> {location}\n"));
        }
        if let Some(Excerpt { text: line, before, width, .. }) = &self.excerpt {
            let (indent, mark) = (" ".repeat(*before), "^".repeat(*width));
            text.push_str(&format!("{gutter} |\n{number} | {line}\n{gutter} | {indent}{mark}\n"));
        }
        for cause in &self.causes {
            text.push_str(&format!("caused by: {}\n", without_users(cause.trim_end())));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("hint: {}\n", without_users(hint)));
        }
        visible(&text).into_owned()
    }
}

/// A text of several lines as a terminal may show it. Errors quote names and contents of files, which could move the cursor,
/// hide text or answer for the user: control characters but line ends and tabs are escaped, and so are those that change
/// the order in which a line is shown.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_bidi_control(c));
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    Cow::Owned(shown)
}

/// A name in a line as a terminal may show it: as [`visible`], and on one line.
pub fn visible_name(name: &str) -> Cow<'_, str> {
    let shown = visible(name);
    match shown.contains(['\n', '\t']) {
        true => shown.replace('\n', "\\n").replace('\t', "\\t").into(),
        false => shown,
    }
}

/// Characters that change the order in which the rest of a line is shown.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Excerpt {
    /// The part of `line` around `span`, without characters that would move the cursor.
    fn new(number: u64, line: &str, span: Span) -> Self {
        let line = with_stars_for_users(line);
        let chars: Vec<char> = line.chars().map(|c| if c.width().is_none() { ' ' } else { c }).collect();
        let column = usize::try_from(span.place.column).unwrap_or(usize::MAX);
        let at = column.saturating_sub(1).min(chars.len());
        let start = if chars.len() > EXCERPT_CHARS { at.saturating_sub(EXCERPT_CHARS / 2) } else { 0 };
        let end = (start + EXCERPT_CHARS).min(chars.len());
        let mark_end = usize::try_from(span.chars).map_or(end, |chars| at.saturating_add(chars).min(end));
        let text_of = |range: std::ops::Range<usize>| chars[range].iter().collect::<String>();
        let left = format!("{}{}", if start > 0 { "…" } else { "" }, text_of(start..at));
        let width = text_of(at..mark_end).width().max(1);
        let right = if end < chars.len() { "…" } else { "" };
        let text = format!("{left}{}{right}", text_of(at..end)).trim_end().to_owned();
        Self { number, text, before: left.width(), width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let sql = "select 1,\n    '여울',\tnme\nfrom t";
        let span = Span { place: Place { line: 2, column: 11 }, chars: 3 };
        let report = Report::new("there is no column 'nme'").hint(Some("did you mean 'name'?".to_owned()));
        let text = report.at(sql, span, Some("a.sql"), Place { line: 98, column: 3 }).text();
        let expected = "error: there is no column 'nme'\n  --> a.sql:99:11\n   |\n99 |     '여울', nme\n   |             ^^^\n\
                        hint: did you mean 'name'?\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_password_of_an_address_is_shown() {
        let sql = "select * from 'http://ann:hunter2@h/a' here";
        let span = Span { place: Place { line: 1, column: 40 }, chars: 4 };
        let report = Report::from_error(&std::io::Error::other("no answer from s3://k:hunter2@b"));
        let text =
            report.hint(Some("try s3://k:hunter2@c".to_owned())).at(sql, span, None, Place::START).text();
        let expected = "error: no answer from s3://b\n  |\n1 | select * from 'http://***********@h/a' here\n  |                                        ^^^^\n\
                        hint: try s3://c\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_causes_of_other_errors_are_listed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write")]
        struct Write(#[source] Open);
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open: {0}")]
        struct Open(#[source] std::io::Error);
        let open = Open(std::io::Error::other("no such file"));
        assert_eq!(Report::from_error(&open).text(), "error: cannot open: no such file\n");
        let expected = "error: cannot write\ncaused by: cannot open: no such file\n";
        assert_eq!(Report::from_error(&Write(open)).text(), expected);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let excerpt = Excerpt::new(1, &line, Span { place: Place { line: 1, column: 501 }, chars: 4 });
        assert_eq!(excerpt.text.chars().skip(excerpt.before).take(4).collect::<String>(), "HERE");
        assert_eq!((excerpt.width, excerpt.text.chars().count()), (4, EXCERPT_CHARS + 2));
        assert!(excerpt.text.starts_with("…aaa") && excerpt.text.ends_with("bbb…"));
    }

    #[test]
    fn a_place_outside_the_statement_is_not_shown_and_one_at_its_end_is() {
        let at = |line, column, chars| {
            let span = Span { place: Place { line, column }, chars };
            Report::new("x").at("select", span, None, Place::START).text()
        };
        assert_eq!(at(9, 1, 1), "error: x\n");
        assert_eq!(at(0, 0, 1), "error: x\n");
        assert_eq!(at(1, 7, 1), "error: x\n  |\n1 | select\n  |       ^\n");
        assert_eq!(at(1, 700, u64::MAX), "error: x\n  |\n1 | select\n  |       ^\n");
        assert_eq!(at(1, 3, u64::MAX), "error: x\n  |\n1 | select\n  |   ^^^^\n");
    }

    #[test]
    fn what_a_file_says_does_nothing_to_the_terminal() {
        let error = std::io::Error::other("bad value \u{1b}]0;owned\u{7}\u{1b}[2J in\tline 7");
        let text = Report::from_error(&error).hint(Some("look at \u{202e}txt.exe".to_owned())).text();
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        assert!(text.contains("\\u{1b}]0;owned") && text.contains("in\tline 7\n"), "{text:?}");
        assert_eq!(visible_name("a\nb\r\u{9b}"), "a\\nb\\r\\u{9b}");
        assert!(matches!(visible("plain ümlaut"), Cow::Borrowed(_)));
    }
}
