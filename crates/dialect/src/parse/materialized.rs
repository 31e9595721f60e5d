//! `WITH x AS [NOT] MATERIALIZED (…)`, which the parser knows in the dialects of PostgreSQL and DuckDB only. DataFusion puts the query
//! wherever its name stands, which `clauses` refuses where it makes a difference: so the words are left out.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is, words};

/// Takes these words out of a statement.
pub(super) fn leave_out(tokens: &mut Vec<TokenWithSpan>) {
    let words = words(tokens);
    let is = |word: usize, keyword| is(&tokens[words[word]].token, keyword);
    let mut left_out = Vec::new();
    for word in 1..words.len().saturating_sub(1) {
        if !is(word, Keyword::MATERIALIZED) || tokens[words[word + 1]].token != Token::LParen {
            continue;
        }
        let has_not = is(word - 1, Keyword::NOT);
        let before = (word - 1).checked_sub(usize::from(has_not));
        if before.is_some_and(|before| is(before, Keyword::AS)) {
            left_out.extend(has_not.then(|| words[word - 1]));
            left_out.push(words[word]);
        }
    }
    left_out.into_iter().rev().for_each(|at| drop(tokens.remove(at)));
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn left(sql: &str) -> String {
        let mut tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap();
        super::leave_out(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn the_words_go_and_all_others_stay() {
        for (written, read) in [
            ("WITH é AS MATERIALIZED (SELECT 1) SELECT 2", "WITH é AS  (SELECT 1) SELECT 2"),
            ("WITH x AS not\nmaterialized\t(SELECT 1)", "WITH x AS \n\t(SELECT 1)"),
            ("WITH x(a) AS MATERIALIZED(SELECT 1)", "WITH x(a) AS (SELECT 1)"),
        ] {
            assert_eq!(left(written), read);
        }
        for kept in [
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "SELECT NOT materialized (1)",
            "SELECT materialized FROM t AS materialized",
            "SELECT 'AS MATERIALIZED ('",
            "MATERIALIZED (",
        ] {
            assert_eq!(left(kept), kept);
        }
    }
}
