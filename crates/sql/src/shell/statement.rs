use std::collections::VecDeque;

use crate::{Place, System};

/// The longest statement, in bytes: a longer one is refused before it is in memory as a whole.
pub const STATEMENT_BYTES_MAX: usize = 64 << 20;

/// One SQL statement of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// From its first word up to its semicolon, which is excluded.
    pub text: String,
    /// Where it starts in the script.
    pub place: Place,
}

/// A quote or comment that is still open at the end of the text so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// `'…'`
    String,
    /// `"…"` or `` `…` ``
    Identifier,
    /// `$tag$…$tag$`
    DollarQuote,
    /// `/* … */`
    Comment,
}

impl Open {
    fn name(self) -> &'static str {
        match self {
            Self::String => "quoted string",
            Self::Identifier => "quoted identifier",
            Self::DollarQuote => "dollar-quoted string",
            Self::Comment => "comment",
        }
    }
}

/// Meaning of quotes in a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quotes {
    /// Texts in `'…'`, in which a backslash is a letter, and names in `"…"`.
    #[default]
    Own,
    /// Texts in `'…'` and `"…"`, in which a backslash escapes the next letter, as in Spark.
    Spark,
}

impl Quotes {
    /// Those of the statements of a system.
    pub fn of(system: System) -> Self {
        match system {
            System::Own => Self::Own,
            System::Spark => Self::Spark,
        }
    }
}

/// Why a script cannot be split into statements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The script ends inside something that should have been closed.
    #[error("the {} that starts here is not closed", .open.name())]
    Unterminated {
        /// What was left open.
        open: Open,
        /// Where it was opened.
        place: Place,
    },
    /// A statement is longer than [`STATEMENT_BYTES_MAX`].
    #[error("the statement that starts here is longer than {} MiB", STATEMENT_BYTES_MAX >> 20)]
    TooLong {
        /// Where it starts.
        place: Place,
    },
}

impl SplitError {
    /// Where the error is.
    pub fn place(&self) -> Place {
        match self {
            Self::Unterminated { place, .. } | Self::TooLong { place } => *place,
        }
    }
}

/// Splits SQL text into statements at semicolons, wherever the text is cut into pieces.
///
/// A semicolon inside a quoted string (`'…'` with `''`, `E'…'` with backslashes), a quoted identifier (`"…"`, `` `…` ``), a
/// dollar-quoted string (`$tag$…$tag$`) or a comment (`--` to the end of the line, nested `/* … */`) ends nothing. One
/// inside parentheses does end the statement: no statement contains one there, so a forgotten `)` becomes an error at that
/// place instead of swallowing the rest of the script. Comments before a statement and empty statements are dropped.
#[derive(Debug)]
pub struct Splitter {
    quotes: Quotes,
    text: String,
    /// How many bytes of `text` have been scanned.
    scanned: usize,
    state: State,
    /// Where the current statement starts: the byte of `text`, and its place.
    started: Option<(usize, Place)>,
    /// The place of the next byte to scan.
    place: Place,
    /// Where the open quote or comment starts, if there is one.
    opened: Place,
    ready: VecDeque<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Normal,
    String { quote: u8, backslash: bool },
    Identifier(u8),
    DollarQuote { tag: String },
    LineComment,
    BlockComment { depth: u32 },
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new(Quotes::default())
    }
}

impl Splitter {
    /// A splitter at the start of a script.
    pub fn new(quotes: Quotes) -> Self {
        Self {
            quotes,
            text: String::new(),
            scanned: 0,
            state: State::Normal,
            started: None,
            place: Place::START,
            opened: Place::START,
            ready: VecDeque::new(),
        }
    }

    /// Adds text.
    ///
    /// # Errors
    /// If a statement becomes too long; the splitter cannot be used after that.
    pub fn push(&mut self, text: &str) -> Result<(), SplitError> {
        self.text.push_str(text);
        self.scan(false);
        self.forget();
        match self.started {
            Some((start, place)) if self.text.len() - start > STATEMENT_BYTES_MAX => {
                Err(SplitError::TooLong { place })
            }
            _ => Ok(()),
        }
    }

    /// The next statement that a semicolon has ended.
    pub fn pop(&mut self) -> Option<Statement> {
        self.ready.pop_front()
    }

    /// Ends the script: the last statement needs no semicolon.
    ///
    /// # Errors
    /// If a quote or a comment is still open.
    pub fn finish(&mut self) -> Result<Option<Statement>, SplitError> {
        self.scan(true);
        if let Some(open) = self.open() {
            return Err(SplitError::Unterminated { open, place: self.opened });
        }
        let last = self.take_statement(self.text.len());
        self.forget();
        Ok(last)
    }

    /// Whether no statement has been started (comments and blanks aside), so that a line may be a command of the shell.
    pub fn is_between_statements(&self) -> bool {
        self.started.is_none() && !matches!(self.state, State::BlockComment { .. })
    }

    /// The quote or comment that is open.
    pub fn open(&self) -> Option<Open> {
        match self.state {
            State::Normal | State::LineComment => None,
            State::String { .. } => Some(Open::String),
            State::Identifier(_) => Some(Open::Identifier),
            State::DollarQuote { .. } => Some(Open::DollarQuote),
            State::BlockComment { .. } => Some(Open::Comment),
        }
    }

    /// Where the [`open`](Self::open) quote or comment starts.
    pub fn opened(&self) -> Place {
        self.opened
    }

    /// Where the next character will be.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Scans the new text. A token that depends on the next byte waits for it, unless this is the end.
    fn scan(&mut self, at_end: bool) {
        while self.scanned < self.text.len() {
            let taken = self.step(at_end);
            if taken == 0 {
                break;
            }
            for byte in &self.text.as_bytes()[self.scanned..self.scanned + taken] {
                match byte {
                    b'\n' => self.place = Place { line: self.place.line + 1, column: 1 },
                    // The later bytes of a UTF-8 character begin with the bits 10.
                    byte if byte & 0xc0 == 0x80 => {}
                    _ => self.place.column += 1,
                }
            }
            self.scanned += taken;
        }
    }

    /// Consumes the next token or byte. Returns the number of bytes consumed, 0 if more text is needed first.
    fn step(&mut self, at_end: bool) -> usize {
        let bytes = self.text.as_bytes();
        let at = self.scanned;
        let (byte, next) = (bytes[at], bytes.get(at + 1).copied());
        // Whether the meaning of this byte may depend on the next one, which has not come yet.
        let undecided = next.is_none() && !at_end;
        match &mut self.state {
            State::Normal => return self.step_normal(byte, next, at_end),
            State::String { quote, backslash } => match byte {
                b'\\' if *backslash && undecided => return 0,
                b'\\' if *backslash && next.is_some() => return 2.min(bytes.len() - at),
                byte if byte != *quote => {}
                _ if undecided => return 0,
                _ if next == Some(*quote) => return 2,
                _ => self.state = State::Normal,
            },
            // A doubled quote closes and opens the identifier again, with the same effect.
            State::Identifier(quote) if byte == *quote => self.state = State::Normal,
            State::Identifier(_) => {}
            State::DollarQuote { tag } => {
                let rest = &bytes[at..];
                if rest.starts_with(tag.as_bytes()) {
                    let length = tag.len();
                    self.state = State::Normal;
                    return length;
                }
                if !at_end && tag.as_bytes().starts_with(rest) {
                    return 0;
                }
            }
            State::LineComment if byte == b'\n' => self.state = State::Normal,
            State::LineComment => {}
            State::BlockComment { depth } => match (byte, next) {
                (b'*' | b'/', None) if !at_end => return 0,
                (b'/', Some(b'*')) => {
                    *depth += 1;
                    return 2;
                }
                (b'*', Some(b'/')) => {
                    *depth -= 1;
                    if *depth == 0 {
                        self.state = State::Normal;
                    }
                    return 2;
                }
                _ => {}
            },
        }
        1
    }

    fn step_normal(&mut self, byte: u8, next: Option<u8>, at_end: bool) -> usize {
        let at = self.scanned;
        match (byte, next) {
            (b'-' | b'/', None) if !at_end => return 0,
            (b'-', Some(b'-')) => {
                self.state = State::LineComment;
                return 2;
            }
            (b'/', Some(b'*')) => {
                self.state = State::BlockComment { depth: 1 };
                self.opened = self.place;
                return 2;
            }
            (b';', _) => {
                if let Some(statement) = self.take_statement(at) {
                    self.ready.push_back(statement);
                }
                return 1;
            }
            (byte, _) if byte.is_ascii_whitespace() => return 1,
            _ => {}
        }
        let mut taken = 1;
        let state = match byte {
            b'\'' | b'"' if self.quotes == Quotes::Spark => {
                Some(State::String { quote: byte, backslash: !self.follows_raw_prefix() })
            }
            b'\'' => Some(State::String { quote: byte, backslash: self.follows_escape_prefix() }),
            b'"' | b'`' => Some(State::Identifier(byte)),
            b'$' if !self.follows_word(at) => match dollar_tag(&self.text[at..], at_end) {
                DollarTag::Needed => return 0,
                DollarTag::None => None,
                DollarTag::Found(tag) => {
                    taken = tag.len();
                    Some(State::DollarQuote { tag })
                }
            },
            _ => None,
        };
        if self.started.is_none() {
            self.started = Some((at, self.place));
        }
        if let Some(state) = state {
            self.state = state;
            self.opened = self.place;
        }
        taken
    }

    /// Whether the current quote follows the `E` of an escape string.
    fn follows_escape_prefix(&self) -> bool {
        let at = self.scanned;
        at > 0 && matches!(self.text.as_bytes()[at - 1], b'e' | b'E') && !self.follows_word(at - 1)
    }

    /// True if the current quote follows the `r` of a text without escapes.
    fn follows_raw_prefix(&self) -> bool {
        let at = self.scanned;
        at > 0 && matches!(self.text.as_bytes()[at - 1], b'r' | b'R') && !self.follows_word(at - 1)
    }

    /// Whether the byte at `at` continues a word or number.
    fn follows_word(&self, at: usize) -> bool {
        let start = self.started.map_or(at, |(start, _)| start);
        at > start && is_word(self.text.as_bytes()[at - 1])
    }

    /// The current statement up to byte `end`.
    fn take_statement(&mut self, end: usize) -> Option<Statement> {
        let (start, place) = self.started.take()?;
        Some(Statement { text: self.text[start..end].trim_end().to_owned(), place })
    }

    /// Drops text that is not part of the current statement.
    fn forget(&mut self) {
        let keep = self.started.map_or(self.scanned, |(start, _)| start);
        self.text.drain(..keep);
        self.scanned -= keep;
        if let Some((start, _)) = &mut self.started {
            *start = 0;
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

enum DollarTag {
    Needed,
    None,
    Found(String),
}

/// The opening of a dollar quote at the start of `text`: `$$` or `$word$`, where a word does not start with a digit.
fn dollar_tag(text: &str, at_end: bool) -> DollarTag {
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'$' => return DollarTag::Found(text[..=index].to_owned()),
            byte if index == 1 && byte.is_ascii_digit() => return DollarTag::None,
            byte if is_word(*byte) => {}
            _ => return DollarTag::None,
        }
    }
    if at_end { DollarTag::None } else { DollarTag::Needed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(script: &str) -> Result<Vec<(String, u64, u64)>, SplitError> {
        split_pieces([script])
    }

    fn split_pieces<'a>(
        pieces: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<(String, u64, u64)>, SplitError> {
        let mut splitter = Splitter::default();
        let mut statements = Vec::new();
        for piece in pieces {
            splitter.push(piece)?;
            statements.extend(std::iter::from_fn(|| splitter.pop()));
        }
        statements.extend(splitter.finish()?);
        Ok(statements.into_iter().map(|s| (s.text, s.place.line, s.place.column)).collect())
    }

    fn texts(script: &str) -> Vec<String> {
        split(script).unwrap().into_iter().map(|(text, ..)| text).collect()
    }

    #[test]
    fn quotes_of_spark_have_escapes() {
        for (script, expected) in [
            (
                r#"SELECT 'it\'s; '; SELECT "a;\";"; SELECT 2"#,
                vec![r"SELECT 'it\'s; '", r#"SELECT "a;\";""#, "SELECT 2"],
            ),
            (r"SELECT r'\'; SELECT `a;`", vec![r"SELECT r'\'", "SELECT `a;`"]),
            ("SELECT 'a''b;'; SELECT \"\"; SELECT 1", vec!["SELECT 'a''b;'", "SELECT \"\"", "SELECT 1"]),
        ] {
            let mut splitter = Splitter::new(Quotes::Spark);
            splitter.push(script).unwrap();
            let last = splitter.finish().unwrap();
            let found: Vec<String> =
                std::iter::from_fn(|| splitter.pop()).chain(last).map(|statement| statement.text).collect();
            assert_eq!(found, expected, "{script}");
        }
    }

    #[test]
    fn statements_end_at_semicolons_and_know_where_they_start() {
        let script = "select 1;\n\n  select\n 2 ; -- a comment; with a semicolon\n/* and /* nested; */ ; */ select 'é', 3;select 4";
        let expected =
            [("select 1", 1, 1), ("select\n 2", 3, 3), ("select 'é', 3", 5, 27), ("select 4", 5, 41)];
        let expected = expected.map(|(text, line, column)| (text.to_owned(), line, column));
        assert_eq!(split(script).unwrap(), expected);
    }

    #[test]
    fn semicolons_inside_quotes_end_nothing() {
        for script in [
            "select 'a;b'",
            "select 'it''s; fine'",
            "select '\\'",
            "select e'it\\'s; fine'",
            "select E'\\\\'",
            "select e'it''s \\'; fine'",
            "select \"a;\"\"b\"",
            "select `a;b`",
            "select $$a;'b$$",
            "select $tag$a;$$b$ta$tag$",
            "select a$1$ , '$$'",
            "select $1 - 2 / 3",
            "select 1 -- it's\n + 2",
            "select /* it's; */ 1",
        ] {
            assert_eq!(texts(&format!("{script};select 2")), [script, "select 2"], "{script}");
        }
    }

    #[test]
    fn a_backslash_escapes_only_in_an_escape_string() {
        assert_eq!(texts("select 'a\\';select 2"), ["select 'a\\'", "select 2"]);
        assert_eq!(texts("select some'a\\';select 2"), ["select some'a\\'", "select 2"]);
    }

    #[test]
    fn nothing_is_no_statement() {
        for script in ["", ";;;", " \n\t", "-- only\n/* comments */ ;", "-- no newline"] {
            assert_eq!(split(script).unwrap(), [], "{script:?}");
        }
    }

    #[test]
    fn a_forgotten_parenthesis_does_not_swallow_the_next_statement() {
        assert_eq!(texts("select (1;\nselect 2;"), ["select (1", "select 2"]);
    }

    #[test]
    fn what_is_not_closed_is_named_with_the_place_where_it_was_opened() {
        for (script, open, line, column) in [
            ("select 1;\nselect 'abc;\n", Open::String, 2, 8),
            ("select \"a", Open::Identifier, 1, 8),
            ("select 'é', $x$ abc $y$", Open::DollarQuote, 1, 13),
            ("/* a /* b */", Open::Comment, 1, 1),
            ("select e'abc\\'", Open::String, 1, 9),
        ] {
            let place = Place { line, column };
            assert_eq!(split(script), Err(SplitError::Unterminated { open, place }), "{script}");
        }
    }

    #[test]
    fn a_statement_that_is_too_long_is_refused_before_it_is_complete() {
        let mut splitter = Splitter::default();
        splitter.push("\nselect '").unwrap();
        let piece = "x".repeat(1 << 20);
        let error = (0..1000).find_map(|_| splitter.push(&piece).err());
        assert_eq!(error, Some(SplitError::TooLong { place: Place { line: 2, column: 1 } }));
        assert!(splitter.text.len() <= STATEMENT_BYTES_MAX + piece.len() + 16);
    }

    #[test]
    fn a_long_script_is_not_kept() {
        let mut splitter = Splitter::default();
        for index in 0..10_000 {
            splitter.push(&format!("select {index}; -- note\n")).unwrap();
            assert_eq!(splitter.pop().map(|s| s.place.line), Some(index + 1));
            assert!(splitter.text.len() < 64);
        }
    }

    #[test]
    fn an_open_statement_differs_from_a_gap() {
        let mut splitter = Splitter::default();
        for (piece, between, open) in [
            ("-- hello\n", true, None),
            ("select (1, (2\n", false, None),
            ("), 'a\n", false, Some(Open::String)),
            ("'); \n", true, None),
            ("/* \n", false, Some(Open::Comment)),
            ("*/ \n", true, None),
        ] {
            splitter.push(piece).unwrap();
            assert_eq!(splitter.is_between_statements(), between, "{piece}");
            assert_eq!(splitter.open(), open, "{piece}");
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_statements(
            tokens in proptest::collection::vec(
                proptest::sample::select(vec![
                    "'", "''", "\"", "`", "$", "$$", "$t$", "--", "/*", "*/", ";", "\n", " ", "a", "e", "E'", "\\", "é", "(", ")", "-", "/", "*", "1",
                ]), 0..40),
            size in 1usize..7,
        ) {
            let script = tokens.concat();
            let whole = split(&script);
            let chars: Vec<char> = script.chars().collect();
            let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
            prop_assert_eq!(split_pieces(pieces.iter().map(String::as_str)), whole);
        }

        #[test]
        fn any_text_is_divided_without_loss(script in "\\PC*") {
            if let Ok(statements) = split(&script) {
                let mut rest = script.as_str();
                for (text, ..) in statements {
                    let at = rest.find(&text);
                    prop_assert!(at.is_some(), "{text:?} in {rest:?}");
                    rest = &rest[at.unwrap() + text.len()..];
                }
            }
        }
    }
}
