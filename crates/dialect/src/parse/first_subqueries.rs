//! A subquery first in the list of an `IN`, `x IN ((SELECT 1), 2)`, which the parser takes for the query of the `IN`. Within a call that
//! gives back its argument, it is a value.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{closing, is, words};

/// Puts a subquery that is the first of several values of an `IN` into `coalesce(…)`.
pub(super) fn put_into_call(tokens: &mut Vec<TokenWithSpan>) {
    let words = words(tokens);
    let token = |word: usize| &tokens[words[word]].token;
    let begins = |at: usize| {
        is(token(at), Keyword::IN)
            && *token(at + 1) == Token::LParen
            && *token(at + 2) == Token::LParen
            && (is(token(at + 3), Keyword::SELECT) || is(token(at + 3), Keyword::WITH))
    };
    let mut calls: Vec<(usize, Token)> = Vec::new();
    for at in (0..words.len().saturating_sub(3)).filter(|at| begins(*at)) {
        let Some(end) = closing(&words, tokens, at + 2) else { continue };
        if words.get(end + 1).is_some_and(|word| tokens[*word].token == Token::Comma) {
            calls.push((words[at + 2], Token::make_word("coalesce", None)));
            calls.push((words[at + 2], Token::LParen));
            calls.push((words[end], Token::RParen));
        }
    }
    // From the end, so that places stay what they are; those of one list may stand within those of another.
    calls.sort_by_key(|(place, _)| *place);
    for (place, token) in calls.into_iter().rev() {
        let span = tokens[place].span;
        tokens.insert(place, TokenWithSpan { token, span });
    }
}
