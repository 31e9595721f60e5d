//! `IDENTIFIER('a.b')`, a name that is written as a text.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::in_place_of;
use crate::parse::words::{closing, words};

/// Writes each such clause as the name that it stands for. One whose text is computed is left alone.
pub(super) fn write_names(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    for (word, place) in places.iter().enumerate().rev() {
        let is_clause = matches!(&tokens[*place].token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("identifier"));
        let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
        if !is_clause || token(word + 1) != Some(&Token::LParen) {
            continue;
        }
        let Some(close) = closing(&places, tokens, word + 1) else { continue };
        let Some(text) = joined((word + 2..close).filter_map(token)) else { continue };
        let Some(parts) = parts_of(&text) else { continue };
        let is_call = token(close + 1) == Some(&Token::LParen);
        let mut name = Vec::new();
        for part in parts {
            if !name.is_empty() {
                name.push(Token::Period);
            }
            let quote = if is_call { None } else { Some('"') };
            name.push(Token::make_word(&part.to_lowercase(), quote));
        }
        let name = in_place_of(&tokens[*place], name);
        tokens.splice(*place..=places[close], name);
    }
}

/// The text of literals that are put together with `||`.
fn joined<'a>(tokens: impl Iterator<Item = &'a Token>) -> Option<String> {
    let mut text = String::new();
    for (at, token) in tokens.enumerate() {
        match token {
            Token::SingleQuotedString(part) if at % 2 == 0 => text.push_str(part),
            Token::StringConcat if at % 2 == 1 => {}
            _ => return None,
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

/// The parts of a name with dots between them, each with or without backquotes.
fn parts_of(name: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = name;
    loop {
        let part = if let Some(quoted) = rest.strip_prefix('`') {
            let mut part = String::new();
            rest = quoted;
            loop {
                let (before, behind) = rest.split_once('`')?;
                part.push_str(before);
                rest = behind;
                match rest.strip_prefix('`') {
                    Some(behind) => {
                        part.push('`');
                        rest = behind;
                    }
                    None => break,
                }
            }
            part
        } else {
            let end =
                rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
            let (part, behind) = rest.split_at(end);
            rest = behind;
            part.to_owned()
        };
        parts.push(Some(part).filter(|part| !part.is_empty())?);
        if rest.is_empty() {
            return Some(parts);
        }
        rest = rest.strip_prefix('.')?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{letters, texts};
    use super::*;

    #[test]
    fn a_text_is_a_name() {
        for (sql, expected) in [
            ("SELECT * FROM IDENTIFIER('S.ta' || 'b') t", "SELECT * FROM \"s\".\"tab\" t"),
            ("SELECT identifier('`A b`.c') + 1", "SELECT \"a b\".\"c\" + 1"),
            ("SELECT IDENTIFIER('abs')(x)", "SELECT abs(x)"),
            ("SELECT IDENTIFIER(x || 'a')", "SELECT IDENTIFIER(x || 'a')"),
            ("SELECT IDENTIFIER('a b')", "SELECT IDENTIFIER('a b')"),
            ("SELECT identifier FROM t", "SELECT identifier FROM t"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            texts::translate(&mut tokens);
            write_names(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{sql}");
        }
    }
}
