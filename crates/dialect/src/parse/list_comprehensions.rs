//! List comprehensions, `[x + 1 FOR x IN list IF x > 1]`, which are calls with lambdas, as in DuckDB.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use super::words::is;
use crate::{Error, Result};

/// Writes comprehensions as calls of `array_transform` and `array_filter`.
///
/// # Errors
/// `Invalid` for one with several names.
pub(super) fn write_out(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    if !tokens.iter().any(|token| is(&token.token, Keyword::FOR)) {
        return Ok(());
    }
    let mut open = vec![Enclosed::default()];
    for token in tokens.drain(..) {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_list = token.token == Token::LBracket;
                open.push(Enclosed { tokens: vec![token], is_list, ..Enclosed::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace if open.len() > 1 => {
                let mut closed = open.pop().expect("there are several");
                closed.tokens.push(token);
                let written = closed.written()?;
                open.last_mut().expect("it was not the last").tokens.extend(written);
            }
            _ => open.last_mut().expect("the statement encloses all").push(token),
        }
    }
    *tokens = open.into_iter().flat_map(|enclosed| enclosed.tokens).collect();
    Ok(())
}

/// The tokens in a pair of brackets or parentheses, with these.
#[derive(Default)]
struct Enclosed {
    tokens: Vec<TokenWithSpan>,
    is_list: bool,
    /// Places of `FOR`, `IN` and `IF` that are no deeper.
    for_at: Option<usize>,
    in_at: Option<usize>,
    if_at: Option<usize>,
}

impl Enclosed {
    fn push(&mut self, token: TokenWithSpan) {
        let at = self.tokens.len();
        if self.for_at.is_none() && is(&token.token, Keyword::FOR) {
            self.for_at = Some(at);
        } else if self.for_at.is_some() && self.in_at.is_none() && is(&token.token, Keyword::IN) {
            self.in_at = Some(at);
        } else if self.in_at.is_some()
            && self.if_at.is_none()
            && is(&token.token, Keyword::IF)
            && self.ends_expression()
        {
            self.if_at = Some(at);
        }
        self.tokens.push(token);
    }

    /// True if the last token may end an expression; behind one that may not, `IF` is the name of a function.
    fn ends_expression(&self) -> bool {
        let last = self.tokens.iter().rev().find(|token| !matches!(token.token, Token::Whitespace(_)));
        last.is_some_and(|last| match &last.token {
            Token::Word(word) => {
                word.quote_style.is_some()
                    || !matches!(word.keyword, Keyword::IN | Keyword::AND | Keyword::OR | Keyword::NOT)
            }
            Token::Number(..) | Token::SingleQuotedString(_) => true,
            Token::RParen | Token::RBracket | Token::RBrace => true,
            _ => false,
        })
    }

    fn written(self) -> Result<Vec<TokenWithSpan>> {
        let (true, Some(for_at), Some(in_at)) = (self.is_list, self.for_at, self.in_at) else {
            return Ok(self.tokens);
        };
        let end = self.tokens.len() - 1;
        let element = &self.tokens[1..for_at];
        let list = &self.tokens[in_at + 1..self.if_at.unwrap_or(end)];
        let mut names = self.tokens[for_at + 1..in_at]
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let (Some(name), None) = (names.next(), names.next()) else {
            let text = "not supported: a list comprehension with more than one name, or none";
            return Err(Error::new(ErrorKind::Invalid, text)
                .with_hint("write [x + 1 FOR x IN list IF x > 1]")
                .with_span(span_of(&self.tokens[for_at])));
        };
        let span = self.tokens[0].span;
        let with = |token: Token| TokenWithSpan { token, span };
        let mut written = vec![with(Token::make_word("array_transform", None)), with(Token::LParen)];
        if let Some(if_at) = self.if_at {
            written.extend([with(Token::make_word("array_filter", None)), with(Token::LParen)]);
            written.extend_from_slice(list);
            written.extend([with(Token::Comma), name.clone(), with(Token::Arrow)]);
            written.extend_from_slice(&self.tokens[if_at + 1..end]);
            written.push(with(Token::RParen));
        } else {
            written.extend_from_slice(list);
        }
        written.extend([with(Token::Comma), name.clone(), with(Token::Arrow)]);
        written.extend_from_slice(element);
        written.push(with(Token::RParen));
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;

    fn written_out(written: &str) -> Result<String> {
        let mut tokens = Tokenizer::new(&Grammar, written).tokenize_with_location().unwrap();
        write_out(&mut tokens)?;
        let texts = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        Ok(texts.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_comprehension_is_a_call_with_lambdas() {
        for (written, expected) in [
            ("[x + 1 FOR x IN l]", "array_transform ( l , x -> x + 1 )"),
            (
                "[x FOR x IN [1, 2] IF x > 1]",
                "array_transform ( array_filter ( [ 1 , 2 ] , x -> x > 1 ) , x -> x )",
            ),
            (
                "[[y * x FOR y IN a] FOR x IN b]",
                "array_transform ( b , x -> array_transform ( a , y -> y * x ) )",
            ),
            ("[x FOR x IN if(c, l, m)]", "array_transform ( if ( c , l , m ) , x -> x )"),
            (
                "[f(x IN (1)) FOR x IN l IF (x IN (2))]",
                "array_transform ( array_filter ( l , x -> ( x IN ( 2 ) ) ) , x -> f ( x IN ( 1 ) ) )",
            ),
            ("substring(a FROM 1 FOR 2)", "substring ( a FROM 1 FOR 2 )"),
            ("l[1]", "l [ 1 ]"),
        ] {
            assert_eq!(written_out(written).unwrap(), expected, "{written}");
        }
        assert!(written_out("[x * i FOR x, i IN l]").unwrap_err().to_string().contains("more than one name"));
    }
}
