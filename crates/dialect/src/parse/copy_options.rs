//! `COPY … TO 'file' (FORMAT csv, HEADER false)`, as PostgreSQL and DuckDB write what DataFusion's parser reads as `STORED AS CSV OPTIONS
//! ('has_header' 'false')`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use yeoul_base::ErrorKind;

use super::span::span_of;
use super::words::{closing, is, words};
use crate::{Error, Result};

/// Their options, and the names that these have here.
const OPTIONS: [(&str, &str); 12] = [
    ("header", "has_header"),
    ("delimiter", "delimiter"),
    ("delim", "delimiter"),
    ("sep", "delimiter"),
    ("quote", "quote"),
    ("escape", "escape"),
    ("null", "null_value"),
    ("nullstr", "null_value"),
    ("compression", "compression"),
    ("codec", "compression"),
    ("row_group_size", "max_row_group_size"),
    ("timestamp_unit", "timestamp_unit"),
];
/// Codecs of Parquet that need a level, with that which is used without one.
const LEVELS: [(&str, &str); 3] = [("zstd", "zstd(3)"), ("gzip", "gzip(6)"), ("brotli", "brotli(5)")];

/// Writes the options of a `COPY` in parentheses as DataFusion's parser reads them.
///
/// # Errors
/// `Invalid` for an option that is not known, with those that are.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let words = words(tokens);
    let token = |word: usize| words.get(word).map(|at| &tokens[*at].token);
    if !token(0).is_some_and(|first| is(first, Keyword::COPY)) {
        return Ok(());
    }
    let Some(to) = behind_source(&words, tokens) else { return Ok(()) };
    let (Some(Token::SingleQuotedString(target)), next) = (token(to + 1), to + 2) else { return Ok(()) };
    let open = next + usize::from(token(next).is_some_and(|word| is(word, Keyword::WITH)));
    if token(open) != Some(&Token::LParen) {
        return Ok(());
    }
    let Some(close) = closing(&words, tokens, open) else { return Ok(()) };
    let mut clauses = Clauses { is_parquet: target.ends_with(".parquet"), ..Clauses::default() };
    for option in options(&words[open + 1..close], tokens) {
        clauses.add(option)?;
    }
    let span = tokens[words[open]].span;
    let written = clauses.tokens().into_iter().map(|token| TokenWithSpan { token, span });
    tokens.splice(words[next]..=words[close], written);
    Ok(())
}

/// The `TO` of a `COPY`, which is within no parentheses.
fn behind_source(words: &[usize], tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0;
    words.iter().position(|at| {
        match &tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token => return depth == 0 && is(token, Keyword::TO),
        }
        false
    })
}

/// The tokens between the commas of a list.
fn options<'t>(words: &[usize], tokens: &'t [TokenWithSpan]) -> Vec<Vec<&'t TokenWithSpan>> {
    let (mut depth, mut options) = (0, vec![Vec::new()]);
    for at in words {
        match &tokens[*at].token {
            Token::Comma if depth == 0 => {
                options.push(Vec::new());
                continue;
            }
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        options.last_mut().expect("there is one from the start").push(&tokens[*at]);
    }
    options.retain(|option| !option.is_empty());
    options
}

/// The clauses that the options become.
#[derive(Default)]
struct Clauses {
    format: Option<String>,
    is_parquet: bool,
    partitioned_by: Vec<Token>,
    options: Vec<(&'static str, String)>,
}

impl Clauses {
    fn add(&mut self, option: Vec<&TokenWithSpan>) -> Result<()> {
        let (name, value) = option.split_first().expect("an option has a token");
        let value: Vec<&Token> =
            value.iter().map(|token| &token.token).filter(|token| **token != Token::Eq).collect();
        let Token::Word(Word { value: written, .. }) = &name.token else { return Err(unknown(name)) };
        let written = written.to_lowercase();
        match written.as_str() {
            "format" => {
                let format = text(&value).ok_or_else(|| unknown(name))?;
                self.is_parquet = format.eq_ignore_ascii_case("parquet");
                self.format = Some(format.to_uppercase());
            }
            "partition_by" => {
                let has_parentheses = value.first() == Some(&&Token::LParen);
                let value = value.into_iter().cloned();
                self.partitioned_by = match has_parentheses {
                    true => value.collect(),
                    false => [Token::LParen].into_iter().chain(value).chain([Token::RParen]).collect(),
                };
            }
            other => {
                let known = OPTIONS.iter().find(|(theirs, _)| *theirs == other);
                let (_, ours) = known.ok_or_else(|| unknown(name))?;
                let value = match value.as_slice() {
                    [] => "true".to_owned(),
                    value => text(value).ok_or_else(|| unknown(name))?,
                };
                self.options.push((ours, value));
            }
        }
        Ok(())
    }

    fn tokens(mut self) -> Vec<Token> {
        let word = |word: &str| Token::make_word(word, None);
        let mut tokens = Vec::new();
        if let Some(format) = &self.format {
            tokens.extend([word("STORED"), word("AS"), word(format)]);
        }
        if !self.partitioned_by.is_empty() {
            tokens.extend([word("PARTITIONED"), word("BY")]);
            tokens.append(&mut self.partitioned_by);
        }
        for (name, value) in &mut self.options {
            let level = LEVELS.iter().find(|(codec, _)| value.eq_ignore_ascii_case(codec));
            if let Some((_, level)) = level.filter(|_| *name == "compression" && self.is_parquet) {
                *value = (*level).to_owned();
            }
        }
        let mut options = self.options.into_iter().peekable();
        if options.peek().is_some() {
            tokens.push(word("OPTIONS"));
            tokens.push(Token::LParen);
            while let Some((name, value)) = options.next() {
                tokens.push(Token::SingleQuotedString(name.to_owned()));
                tokens.push(Token::SingleQuotedString(value));
                tokens.extend(options.peek().map(|_| Token::Comma));
            }
            tokens.push(Token::RParen);
        }
        tokens
    }
}

/// The text of a value that is one word, text or number.
fn text(value: &[&Token]) -> Option<String> {
    match value {
        [Token::Word(word)] => Some(word.value.clone()),
        [Token::SingleQuotedString(text) | Token::Number(text, _)] => Some(text.clone()),
        _ => None,
    }
}

fn unknown(option: &TokenWithSpan) -> Error {
    let known: Vec<&str> = OPTIONS.iter().map(|(theirs, _)| *theirs).collect();
    let text = format!("COPY has no option {} with such a value", option.token);
    Error::new(ErrorKind::Invalid, text)
        .with_span(span_of(option))
        .with_hint(format!("there are format, partition_by, {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn translated(sql: &str) -> Result<String> {
        let mut tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap();
        translate(&mut tokens)?;
        let words = tokens.iter().map(|token| token.token.to_string());
        Ok(words.filter(|word| !word.trim().is_empty()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_in_parentheses_are_those_of_datafusion() {
        for (written, expected) in [
            ("COPY t TO 'f' (FORMAT csv)", "COPY t TO 'f' STORED AS CSV"),
            (
                "COPY (SELECT (1)) TO 'f' WITH (FORMAT 'csv', HEADER false, DELIMITER ';', NULL '')",
                "COPY ( SELECT ( 1 ) ) TO 'f' STORED AS CSV OPTIONS ( 'has_header' 'false' , 'delimiter' ';' , 'null_value' '' )",
            ),
            (
                "COPY t TO 'f.parquet' (COMPRESSION zstd, PARTITION_BY (a, b), ROW_GROUP_SIZE 1000)",
                "COPY t TO 'f.parquet' PARTITIONED BY ( a , b ) OPTIONS ( 'compression' 'zstd(3)' , 'max_row_group_size' '1000' )",
            ),
            ("COPY t TO 'f.csv' (HEADER)", "COPY t TO 'f.csv' OPTIONS ( 'has_header' 'true' )"),
            (
                "COPY t TO 'd' (FORMAT parquet, PARTITION_BY a)",
                "COPY t TO 'd' STORED AS PARQUET PARTITIONED BY ( a )",
            ),
            ("COPY t TO 'f' STORED AS CSV", "COPY t TO 'f' STORED AS CSV"),
            ("SELECT (FORMAT csv)", "SELECT ( FORMAT csv )"),
        ] {
            assert_eq!(translated(written).unwrap(), expected, "{written}");
        }
    }

    #[test]
    fn an_option_that_is_not_known_is_refused() {
        for written in ["COPY t TO 'f' (FORMAT csv, FORCE_QUOTE *)", "COPY t TO 'f' (FORMAT)"] {
            assert_eq!(translated(written).unwrap_err().kind(), ErrorKind::Invalid, "{written}");
        }
    }
}
