use yeoul_dialect::syntax::tokenizer::{Token, TokenWithSpan};

use super::tokens::Tokens;
use crate::error::{Result, invalid};

/// Most windows that a row may be in: each is a copy of the row.
const WINDOWS_OF_A_ROW_MAX: i64 = 1000;

/// Windows of event time as Flink's table functions `TUMBLE` and `HOP` make them, aligned to 1970 UTC plus the offset. A window
/// is its start and what comes before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowFunction {
    /// Name of the time column.
    pub time_column: String,
    /// Milliseconds of a window.
    pub size_ms: i64,
    /// Milliseconds between starts; the size for tumbling windows.
    pub slide_ms: i64,
    /// Milliseconds from 1970 to the start of some window, less than the slide.
    pub offset_ms: i64,
}

/// A window function that was found in a query, and the stream that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowedTable {
    /// Name under which the query now reads it.
    pub name: String,
    /// Name of the stream.
    pub stream: String,
    /// The windows.
    pub function: WindowFunction,
}

/// Takes `TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL …)` and `HOP(…)` out of a query, for each of which it then reads a table. The
/// tokens are without white space; `owner` tells these tables apart from those of other queries.
///
/// # Errors
/// `Invalid` if a window function is not written as Flink has it, or has windows that cannot be.
pub fn take_window_functions(
    tokens: Vec<TokenWithSpan>,
    owner: &str,
) -> Result<(Vec<TokenWithSpan>, Vec<WindowedTable>)> {
    let mut rest = Tokens { tokens, at: 0 };
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    while let Some(token) = rest.tokens.get(rest.at).cloned() {
        let is_wrapped = rest.is_word(0, "TABLE") && rest.is(1, &Token::LParen) && rest.names_function(2);
        if !is_wrapped && !rest.names_function(0) {
            kept.push(token);
            rest.at += 1;
            continue;
        }
        rest.at += if is_wrapped { 2 } else { 0 };
        let (stream, function) = rest.function()?;
        if is_wrapped {
            rest.expect(&Token::RParen)?;
        }
        let name = format!("{stream}@{owner}{}", found.len());
        let word = |text: &str, quote| TokenWithSpan::new(Token::make_word(text, quote), token.span);
        kept.push(word(&name, Some('"')));
        if !rest.has_alias() {
            kept.extend([word("AS", None), word(&stream, Some('"'))]);
        }
        found.push(WindowedTable { name, stream, function });
    }
    Ok((kept, found))
}

impl Tokens {
    fn names_function(&self, ahead: usize) -> bool {
        let is_name = ["TUMBLE", "HOP", "CUMULATE", "SESSION"].iter().any(|name| self.is_word(ahead, name));
        is_name && self.is(ahead + 1, &Token::LParen) && self.is_word(ahead + 2, "TABLE")
    }

    /// A whole call, from its name on.
    fn function(&mut self) -> Result<(String, WindowFunction)> {
        let kind = self.identifier()?.to_uppercase();
        if kind != "TUMBLE" && kind != "HOP" {
            return Err(invalid(format!("the window function {kind} is not there yet"))
                .with_hint("TUMBLE and HOP are"));
        }
        self.expect(&Token::LParen)?;
        self.expect_word("TABLE")?;
        let stream = self.identifier()?;
        self.expect(&Token::Comma)?;
        self.expect_word("DESCRIPTOR")?;
        self.expect(&Token::LParen)?;
        let time_column = self.identifier()?;
        self.expect(&Token::RParen)?;
        let mut intervals = Vec::new();
        while self.is(0, &Token::Comma) {
            self.at += 1;
            intervals.push(self.interval_ms()?);
        }
        self.expect(&Token::RParen)?;
        let (slide_ms, size_ms, offset_ms) = match (kind.as_str(), intervals.as_slice()) {
            ("TUMBLE", [size]) => (*size, *size, 0),
            ("TUMBLE", [size, offset]) => (*size, *size, *offset),
            ("HOP", [slide, size]) => (*slide, *size, 0),
            ("HOP", [slide, size, offset]) => (*slide, *size, *offset),
            _ => return Err(invalid(format!("{kind} does not take {} intervals", intervals.len()))),
        };
        if slide_ms <= 0 || slide_ms > size_ms || size_ms / slide_ms > WINDOWS_OF_A_ROW_MAX {
            let text = format!(
                "windows of {size_ms} ms each {slide_ms} ms: the slide has to be positive, at most the size, and at least 1/{WINDOWS_OF_A_ROW_MAX} of it"
            );
            return Err(invalid(text));
        }
        Ok((stream, WindowFunction { time_column, size_ms, slide_ms, offset_ms: offset_ms % slide_ms }))
    }
}

impl WindowFunction {
    /// Starts of the windows that a time is in, in ascending order; all numbers are microseconds since 1970 UTC.
    pub fn starts_us(&self, time_us: i64) -> impl Iterator<Item = i64> {
        let (size, slide, offset) = (self.size_ms * 1000, self.slide_ms * 1000, self.offset_ms * 1000);
        // In 128 bits: the ends of time are valid times, whose windows are cut off there.
        let last =
            i128::from(time_us) - (i128::from(time_us) - i128::from(offset)).rem_euclid(i128::from(slide));
        let first_after = i128::from(time_us) - i128::from(size);
        let count = (last - first_after - 1).div_euclid(i128::from(slide)) + 1;
        (0..count).rev().filter_map(move |back| i64::try_from(last - back * i128::from(slide)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use yeoul_dialect::syntax::Grammar;
    use yeoul_dialect::syntax::tokenizer::Tokenizer;

    fn tokens(sql: &str) -> Vec<TokenWithSpan> {
        let all = Tokenizer::new(&Grammar, sql).tokenize_with_location().unwrap();
        all.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect()
    }

    fn text(tokens: &[TokenWithSpan]) -> String {
        tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn window_functions_become_tables() {
        let sql = "SELECT window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_end";
        let (kept, found) = take_window_functions(tokens(sql), "").unwrap();
        assert_eq!(text(&kept), "SELECT window_end FROM \"t@0\" AS \"t\" GROUP BY window_end");
        let function =
            WindowFunction { time_column: "ts".into(), size_ms: 60_000, slide_ms: 60_000, offset_ms: 0 };
        assert_eq!(found, [WindowedTable { name: "t@0".into(), stream: "t".into(), function }]);
        let sql = "SELECT 1 FROM hop(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10 seconds', INTERVAL '5' SECOND) AS w";
        let (kept, found) = take_window_functions(tokens(sql), "").unwrap();
        assert_eq!(text(&kept), "SELECT 1 FROM \"t@0\" AS w");
        let function = &found[0].function;
        assert_eq!((function.size_ms, function.slide_ms, function.offset_ms), (10_000, 2_000, 1_000));
    }

    #[test]
    fn other_window_functions_and_windows_that_cannot_be_are_refused() {
        for (sql, expected) in [
            ("SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", "SESSION is not there yet"),
            ("TUMBLE(TABLE t, DESCRIPTOR(ts))", "does not take 0 intervals"),
            ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH)", "'1 MONTH' is no duration"),
            ("TUMBLE(TABLE t, ts, INTERVAL '1' MINUTE)", "found 'ts' at line 1, column 17"),
            ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '1' MINUTE)", "at most the size"),
            ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0' MINUTE)", "has to be positive"),
        ] {
            let error = take_window_functions(tokens(sql), "").unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }

    #[test]
    fn a_row_is_in_each_window_that_holds_its_time() {
        let function = |size_ms, slide_ms, offset_ms| WindowFunction {
            time_column: String::new(),
            size_ms,
            slide_ms,
            offset_ms,
        };
        let starts = |function: &WindowFunction, ms: i64| -> Vec<i64> {
            function.starts_us(ms * 1000).map(|us| us / 1000).collect()
        };
        let tumbling = function(10, 10, 0);
        for (time, start) in [(0, 0), (9, 0), (10, 10), (-1, -10), (-10, -10), (-11, -20)] {
            assert_eq!(starts(&tumbling, time), [start], "{time}");
        }
        assert_eq!(starts(&function(10, 10, 3), 12), [3]);
        assert_eq!(starts(&function(10, 10, 3), 2), [-7]);
        let sliding = function(10, 4, 0);
        assert_eq!(starts(&sliding, 8), [0, 4, 8]);
        assert_eq!(starts(&sliding, 10), [4, 8]);
        assert_eq!(starts(&sliding, 0), [-8, -4, 0]);
        // The definition itself, for every time of some windows.
        for time in -50..50 {
            let expected: Vec<i64> =
                (-20..20).map(|n| n * 4).filter(|start| *start <= time && time < start + 10).collect();
            assert_eq!(starts(&sliding, time), expected, "{time}");
        }
        assert_eq!(tumbling.starts_us(i64::MIN).count(), 0, "its window starts before the first time");
    }
}
