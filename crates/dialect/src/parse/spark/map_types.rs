//! Types of maps: `MAP<STRING, INT>` is `MAP(STRING, INT)`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::words;

/// Writes the angle brackets of such a type as parentheses.
pub(super) fn write_parentheses(tokens: &mut Vec<TokenWithSpan>) {
    // From the last one: those in others are written first, and a `>>` is two brackets then.
    for place in (0..tokens.len()).rev() {
        let Token::Word(word) = &tokens[place].token else { continue };
        if word.quote_style.is_some() || !word.value.eq_ignore_ascii_case("map") {
            continue;
        }
        let places = words(&tokens[place..]);
        let Some(open) = places.get(1).map(|behind| place + behind) else { continue };
        if tokens[open].token == Token::Lt
            && let Some(close) = closing(tokens, open)
        {
            tokens[open].token = Token::LParen;
            tokens[close].token = Token::RParen;
        }
    }
}

/// The bracket that closes the one at a place, if two types are between them. A `>>` on the way is divided in two.
fn closing(tokens: &mut Vec<TokenWithSpan>, open: usize) -> Option<usize> {
    let (mut depth, mut inner, mut commas) = (0, 0, 0);
    let mut at = open;
    while at < tokens.len() {
        match tokens[at].token {
            Token::Lt => depth += 1,
            Token::Gt => depth -= 1,
            Token::ShiftRight => {
                let span = tokens[at].span;
                let halves = [Token::Gt, Token::Gt].map(|token| TokenWithSpan { token, span });
                tokens.splice(at..=at, halves);
                continue;
            }
            Token::LParen => inner += 1,
            Token::RParen => inner -= 1,
            Token::Comma if depth == 1 && inner == 0 => commas += 1,
            // The digits of a decimal, and fields.
            Token::Number(..) if inner > 0 => {}
            Token::Word(_) | Token::Comma | Token::Colon | Token::Whitespace(_) => {}
            // No type.
            _ => return None,
        }
        if depth == 0 {
            return (commas == 1).then_some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    #[test]
    fn types_of_maps_have_parentheses() {
        for (sql, expected) in [
            ("CAST(a AS MAP<STRING, INT>)", "CAST(a AS MAP(STRING, INT))"),
            ("a map<int, map<int, decimal(3, 1)>>", "a map(int, map(int, decimal(3, 1)))"),
            ("a ARRAY<MAP<INT, STRUCT<b: INT>>>", "a ARRAY<MAP(INT, STRUCT<b: INT>)>"),
            ("map < 3 AND 4 > x", "map < 3 AND 4 > x"),
            ("map < a AND b > x", "map < a AND b > x"),
            ("map(1, 2)", "map(1, 2)"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            write_parentheses(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{sql}");
        }
    }
}
