//! Words of a statement: its tokens without the blanks between them.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Places of the words among the tokens.
pub(super) fn words(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect()
}

/// True for a keyword without quotes.
pub(super) fn is(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The word that closes the parenthesis which the word `open` opens.
pub(super) fn closing(words: &[usize], tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    let behind = words.get(open..)?.iter().position(|at| {
        match tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some(open + behind)
}
