use yeoul_dialect::syntax::keywords::Keyword;
use yeoul_dialect::syntax::tokenizer::{Token, TokenWithSpan};

use super::parse_duration_ms;
use crate::error::{Result, invalid};

/// Tokens of a query, of which those before `at` were taken.
pub(super) struct Tokens {
    pub tokens: Vec<TokenWithSpan>,
    pub at: usize,
}

impl Tokens {
    pub fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|token| &token.token)
    }

    pub fn is(&self, ahead: usize, token: &Token) -> bool {
        self.peek(ahead) == Some(token)
    }

    pub fn is_word(&self, ahead: usize, text: &str) -> bool {
        matches!(self.peek(ahead), Some(Token::Word(word)) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
    }

    pub fn has_alias(&self) -> bool {
        matches!(self.peek(0), Some(Token::Word(word)) if word.keyword == Keyword::AS || word.keyword == Keyword::NoKeyword)
    }

    pub fn expect(&mut self, token: &Token) -> Result<()> {
        if self.is(0, token) {
            self.at += 1;
            return Ok(());
        }
        let found = self.tokens.get(self.at).map_or("the end".to_owned(), |found| {
            format!("'{}' at line {}, column {}", found.token, found.span.start.line, found.span.start.column)
        });
        Err(invalid(format!("a table function has to go on with '{token}', found {found}"))
            .with_hint("TUMBLE(TABLE stream, DESCRIPTOR(time), INTERVAL '1' MINUTE); HOP takes the slide before the size"))
    }

    pub fn expect_word(&mut self, text: &str) -> Result<()> {
        if self.is_word(0, text) {
            self.at += 1;
            return Ok(());
        }
        self.expect(&Token::make_word(text, None))
    }

    pub fn identifier(&mut self) -> Result<String> {
        if let Some(Token::Word(word)) = self.peek(0) {
            let name = word.value.clone();
            self.at += 1;
            return Ok(name);
        }
        self.expect(&Token::make_word("a name", None)).map(|()| String::new())
    }

    pub fn interval_ms(&mut self) -> Result<i64> {
        self.expect_word("INTERVAL")?;
        let Some(Token::SingleQuotedString(number)) = self.peek(0).cloned() else {
            return Err(invalid("an interval is a text in quotes and a unit: INTERVAL '10' SECOND"));
        };
        self.at += 1;
        let mut text = number;
        if let Some(Token::Word(unit)) = self.peek(0) {
            text = format!("{text} {}", unit.value);
            self.at += 1;
        }
        parse_duration_ms(&text)
    }
}
