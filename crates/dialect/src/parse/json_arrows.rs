//! `json -> 'a'` and `json ->> 'a'`: the value at a path, as JSON and as a text, as in PostgreSQL and DuckDB.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, Ident, Value};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::function_call::function_call;
use super::words::words;

/// Precedence of an arrow, if it is next: that of PostgreSQL's operators without names, below `+` and above comparisons.
pub(super) fn precedence(dialect: &dyn Dialect, parser: &Parser<'_>) -> Option<u8> {
    let is_arrow = matches!(parser.peek_nth_token_ref(0).token, Token::Arrow | Token::LongArrow);
    is_arrow.then(|| dialect.prec_value(Precedence::PlusMinus) - 1)
}

/// Puts a name that stands before `->` in parentheses, unless it is the parameter of a lambda: the parser takes all of them for that.
/// A lambda is an argument, and not the first, of a function that takes one.
pub(super) fn enclose_names(tokens: &mut Vec<TokenWithSpan>, takes_lambda: &dyn Fn(&str) -> bool) {
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    // For each parenthesis that is open, whether it is that of such a function.
    let mut open = Vec::new();
    let mut enclosed = Vec::new();
    for word in 0..places.len() {
        let before = word.checked_sub(1).and_then(token);
        match token(word) {
            Some(Token::LParen) => {
                let calls = matches!(before, Some(Token::Word(name)) if takes_lambda(&name.value.to_ascii_lowercase()));
                open.push(calls);
            }
            Some(Token::LBracket | Token::LBrace) => open.push(false),
            Some(Token::RParen | Token::RBracket | Token::RBrace) => {
                open.pop();
            }
            _ => {}
        }
        let may_be_lambda = open.last() == Some(&true) && matches!(before, Some(Token::Comma));
        match (token(word), token(word + 1), token(word + 2), token(word + 3)) {
            (Some(Token::Word(_)), Some(Token::Arrow), ..)
                if !may_be_lambda && !matches!(before, Some(Token::Period)) =>
            {
                enclosed.push((word, word));
            }
            // The parenthesis is on the stack already.
            (Some(Token::LParen), Some(Token::Word(_)), Some(Token::RParen), Some(Token::Arrow)) => {
                let around = open.len().checked_sub(2).and_then(|at| open.get(at));
                let is_lambda = around == Some(&true) && matches!(before, Some(Token::Comma));
                let is_call = matches!(before, Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword);
                if !is_lambda && !is_call {
                    enclosed.push((word, word + 2));
                }
            }
            _ => {}
        }
    }
    for (first, last) in enclosed.into_iter().rev() {
        let around = |token: &Token, word: usize| {
            let with = |token: Token| TokenWithSpan { token, span: tokens[places[word]].span };
            [with(token.clone()), with(token.clone())]
        };
        let (begin, end) = (around(&Token::LParen, first), around(&Token::RParen, last));
        tokens.splice(places[last] + 1..places[last] + 1, end);
        tokens.splice(places[first]..places[first], begin);
    }
}

/// Takes the parentheses away that [`enclose_names`] has put around a name.
pub(super) fn take_out_names(expr: &mut Expr) {
    let Expr::BinaryOp { left, op: BinaryOperator::Arrow, right: _ } = expr else { return };
    while let Expr::Nested(inner) = left.as_mut()
        && matches!(inner.as_ref(), Expr::Nested(_) | Expr::Identifier(_))
    {
        **left = std::mem::replace(inner.as_mut(), Expr::value(Value::Null));
    }
}

/// Turns an arrow, and a cast to JSON, into a call of the function that it is.
pub(super) fn call(expr: &mut Expr) {
    let (name, arguments) = match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
            ("json_extract", vec![taken(left), taken(right)])
        }
        Expr::BinaryOp { left, op: BinaryOperator::LongArrow, right } => {
            ("json_extract_string", vec![taken(left), taken(right)])
        }
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: text,
            data_type: DataType::JSON,
            array: false,
            format: None,
        } => ("json", vec![taken(text)]),
        _ => return,
    };
    *expr = function_call(Ident::new(name), arguments);
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;
    use crate::parse::tests::{called, meant};

    #[test]
    fn a_name_before_an_arrow_is_no_parameter_unless_a_lambda_is_taken() {
        for (written, expected) in [
            ("SELECT j -> 'a'", "SELECT ((j)) -> 'a'"),
            ("SELECT (j) -> 'a', t.j -> 'a'", "SELECT (((j))) -> 'a', t.j -> 'a'"),
            ("f(j -> 'a', k -> 'b')", "f(((j)) -> 'a', ((k)) -> 'b')"),
            ("list_filter(l, x -> x > 1)", "list_filter(l, x -> x > 1)"),
            ("list_filter(l, (x) -> x)", "list_filter(l, (x) -> x)"),
            ("list_filter(j -> 'a', x -> x -> 'b')", "list_filter(((j)) -> 'a', x -> ((x)) -> 'b')"),
            ("list_filter(l, x -> f(x, j -> 'a'))", "list_filter(l, x -> f(x, ((j)) -> 'a'))"),
            ("list_filter([1, j -> 'a'], x -> x)", "list_filter([1, ((j)) -> 'a'], x -> x)"),
            ("f(j) -> 'a'", "f(j) -> 'a'"),
            ("j ->> 'a'", "j ->> 'a'"),
        ] {
            let mut tokens = Tokenizer::new(&Grammar, written).tokenize_with_location().unwrap();
            enclose_names(&mut tokens, &|name| name == "list_filter");
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{written}");
        }
    }

    #[test]
    fn arrows_bind_below_sums_and_above_comparisons() {
        for (written, expected) in [
            ("t.j -> 'a' -> 0", "json_extract(json_extract(t.j, 'a'), 0)"),
            ("t.j ->> 'a' = 'x'", "json_extract_string(t.j, 'a') = 'x'"),
            ("NOT t.j ->> 'a' LIKE 'x'", "NOT json_extract_string(t.j, 'a') LIKE 'x'"),
            ("t.j ->> i + 1", "json_extract_string(t.j, i + 1)"),
            ("t.j -> -1", "json_extract(t.j, -1)"),
            ("t.j::JSON ->> 'a' IS NULL", "json_extract_string(json(t.j), 'a') IS NULL"),
        ] {
            assert_eq!(called(&format!("SELECT {written}")), format!("SELECT {expected}"), "{written}");
        }
        assert_eq!(meant("SELECT ((j)) -> 'a'"), "SELECT j -> 'a'");
    }
}
