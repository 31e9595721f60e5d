//! Variables of a session in words of Spark's: `DECLARE x INT DEFAULT 1`, `SET VAR x = 2`, `DROP TEMPORARY VARIABLE x`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::in_place_of;
use crate::parse::span::span_of;
use crate::parse::template;
use crate::parse::words::words;
use crate::types::spark_values::Kind;
use crate::{Error, Result};

/// Writes such a statement as `SET VARIABLE` or `RESET VARIABLE`.
///
/// # Errors
/// `Invalid` for several variables at once.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let statement = Words { places: words(tokens), tokens };
    let written = if statement.is(0, "DECLARE") {
        statement.declaration()?
    } else if statement.is(0, "SET") && (statement.is(1, "VAR") || statement.is(1, "VARIABLE")) {
        statement.assignment()?
    } else if statement.is(0, "DROP") && statement.is(1, "TEMPORARY") && statement.is(2, "VARIABLE") {
        let name = if statement.is(3, "IF") { 5 } else { 3 };
        statement.name(name).map(|(name, _)| {
            [in_place_of(&tokens[0], template::tokens("RESET VARIABLE ")), vec![name]].concat()
        })
    } else {
        None
    };
    if let Some(mut written) = written {
        let is_end = |token: &&TokenWithSpan| matches!(token.token, Token::EOF | Token::SemiColon);
        written.extend(tokens.iter().rev().take_while(is_end).cloned().collect::<Vec<_>>().into_iter().rev());
        *tokens = written;
    }
    Ok(())
}

/// The words of a statement.
struct Words<'a> {
    places: Vec<usize>,
    tokens: &'a [TokenWithSpan],
}

impl Words<'_> {
    fn is(&self, word: usize, name: &str) -> bool {
        matches!(self.token(word), Some(Token::Word(found))
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(name))
    }

    fn token(&self, word: usize) -> Option<&Token> {
        self.places.get(word).map(|place| &self.tokens[*place].token)
    }

    fn is_end(&self, word: usize) -> bool {
        self.token(word).is_none_or(|token| matches!(token, Token::EOF | Token::SemiColon))
    }

    /// The last part of a variable's name, which may have `session` before it, and the word behind it.
    fn name(&self, mut word: usize) -> Option<(TokenWithSpan, usize)> {
        while self.token(word + 1) == Some(&Token::Period) {
            word += 2;
        }
        let name =
            matches!(self.token(word), Some(Token::Word(_))).then(|| self.tokens[self.places[word]].clone());
        Some((name?, word + 1))
    }

    /// The tokens between two words.
    fn between(&self, first: usize, end: usize) -> Vec<TokenWithSpan> {
        let place = |word: usize| self.places.get(word).copied().unwrap_or(self.tokens.len());
        self.tokens[place(first)..place(end)].to_vec()
    }

    fn end(&self) -> usize {
        (0..self.places.len()).find(|word| self.is_end(*word)).unwrap_or(self.places.len())
    }

    fn own(&self, text: &str) -> Vec<TokenWithSpan> {
        in_place_of(&self.tokens[0], template::tokens(text))
    }

    fn refuse_several(&self, word: usize) -> Result<()> {
        if self.token(word) != Some(&Token::Comma) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Invalid, "not supported: several variables in one statement");
        Err(error.with_span(span_of(&self.tokens[self.places[word]])).with_hint("write a statement for each"))
    }

    /// `DECLARE [OR REPLACE] [VARIABLE] name [type] [DEFAULT value]`.
    fn declaration(&self) -> Result<Option<Vec<TokenWithSpan>>> {
        let replaces = self.is(1, "OR") && self.is(2, "REPLACE");
        let mut word = if replaces { 3 } else { 1 };
        let is_kind = self.is(word, "VARIABLE") || self.is(word, "VAR");
        if is_kind && !matches!(self.token(word + 1), Some(Token::Eq)) && !self.is_end(word + 1) {
            word += 1;
        }
        let Some((name, behind)) = self.name(word) else { return Ok(None) };
        self.refuse_several(behind)?;
        // A cursor is another statement.
        if self.is(behind, "CURSOR") || self.is(behind, "BINARY") && self.is(behind + 1, "CURSOR") {
            return Ok(None);
        }
        let end = self.end();
        let is_value = |word: &usize| self.is(*word, "DEFAULT") || self.token(*word) == Some(&Token::Eq);
        let value = (behind..end).find(is_value);
        let kind = self.between(behind, value.unwrap_or(end));
        let value = value.map_or_else(|| self.own("NULL"), |value| self.between(value + 1, end));
        let function = if replaces { Kind::Replaced } else { Kind::Declared };
        let mut written = self.own("SET VARIABLE ");
        written.push(name);
        written.extend(self.own(&format!(" = {}(", function.name())));
        let has_type = kind.iter().any(|token| !matches!(token.token, Token::Whitespace(_)));
        if has_type {
            written.extend(self.own("CAST("));
        }
        written.extend(value);
        if has_type {
            written.extend(self.own(" AS "));
            written.extend(kind);
            written.extend(self.own(")"));
        }
        written.extend(self.own(")"));
        Ok(Some(written))
    }

    /// `SET VAR name = value`.
    fn assignment(&self) -> Result<Option<Vec<TokenWithSpan>>> {
        let Some((name, behind)) = self.name(2) else { return Ok(None) };
        self.refuse_several(behind)?;
        if self.token(behind) != Some(&Token::Eq) {
            return Ok(None);
        }
        let mut depth = 0_i32;
        for word in behind + 1..self.end() {
            match self.token(word) {
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen | Token::RBracket) => depth -= 1,
                Some(Token::Comma) if depth == 0 => self.refuse_several(word)?,
                _ => {}
            }
        }
        let mut written = self.own("SET VARIABLE ");
        written.push(name);
        written.extend(self.own(&format!(" = {}(", Kind::Assigned.name())));
        written.extend(self.between(behind + 1, self.end()));
        written.extend(self.own(")"));
        Ok(Some(written))
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    fn written(sql: &str) -> Result<String> {
        let mut tokens = letters::tokens(sql).unwrap();
        translate(&mut tokens)?;
        let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(text.replace("( ", "(").replace(" )", ")"))
    }

    #[test]
    fn declarations_and_assignments_set_variables() {
        for (sql, expected) in [
            ("DECLARE x INT DEFAULT 1 + 2", "SET VARIABLE x = spark_declared(CAST(1 + 2 AS INT))"),
            ("DECLARE OR REPLACE VARIABLE session.x = 5;", "SET VARIABLE x = spark_replaced(5);"),
            ("DECLARE VAR x DECIMAL(3, 1)", "SET VARIABLE x = spark_declared(CAST(NULL AS DECIMAL(3, 1)))"),
            ("SET VAR x = x + 1", "SET VARIABLE x = spark_assigned(x + 1)"),
            ("SET VARIABLE system.session.x = 'a'", "SET VARIABLE x = spark_assigned('a')"),
            ("DROP TEMPORARY VARIABLE IF EXISTS x", "RESET VARIABLE x"),
            ("SET spark.a = 1", "SET spark.a = 1"),
            ("DECLARE c CURSOR FOR SELECT 1", "DECLARE c CURSOR FOR SELECT 1"),
        ] {
            assert_eq!(written(sql).unwrap(), expected, "{sql}");
        }
        for sql in ["DECLARE a, b INT", "SET VAR a = 1, b = 2"] {
            assert!(written(sql).unwrap_err().to_string().contains("several variables"), "{sql}");
        }
    }
}
