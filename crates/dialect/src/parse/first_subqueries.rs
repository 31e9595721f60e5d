//! A subquery first in the list of an `IN`, `x IN ((SELECT 1), 2)`, which the parser takes for the query of the `IN`. The order of the list
//! has no meaning: the subquery is put last.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{closing, is, words};

/// Puts a subquery that is the first of several values of an `IN` behind the others.
pub(super) fn put_last(tokens: &mut [TokenWithSpan]) {
    let words = words(tokens);
    for at in 0..words.len().saturating_sub(3) {
        let token = |word: usize| &tokens[words[word]].token;
        let begins = is(token(at), Keyword::IN)
            && *token(at + 1) == Token::LParen
            && *token(at + 2) == Token::LParen
            && (is(token(at + 3), Keyword::SELECT) || is(token(at + 3), Keyword::WITH));
        if !begins {
            continue;
        }
        let Some(inner) = closing(&words, tokens, at + 2) else { continue };
        let Some(outer) = closing(&words, tokens, at + 1) else { continue };
        if inner + 1 < outer && *token(inner + 1) == Token::Comma {
            // `(q) , rest` becomes `rest , (q)`, in which the tokens between the words stay where they are.
            let written: Vec<TokenWithSpan> =
                words[at + 2..outer].iter().map(|word| tokens[*word].clone()).collect();
            let (query, rest) = written.split_at(inner - (at + 2) + 1);
            let (comma, rest) = rest.split_at(1);
            let turned = rest.iter().chain(comma).chain(query);
            for (word, token) in words[at + 2..outer].iter().zip(turned) {
                tokens[*word] = token.clone();
            }
        }
    }
}
