//! `WITH x AS [NOT] MATERIALIZED (…)`, which the parser knows in the dialects of PostgreSQL and DuckDB only. DataFusion puts the query
//! wherever its name stands, which `clauses` refuses where it makes a difference: so the words are left out.

use std::borrow::Cow;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// The text with blanks in the place of these words, so that everything keeps its place.
pub(super) fn blank<'s>(sql: &'s str, tokens: &[TokenWithSpan]) -> Cow<'s, str> {
    let words: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let is = |token: &TokenWithSpan, keyword: Keyword| matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none());
    let mut blanks: Vec<Span> = Vec::new();
    for place in 1..words.len().saturating_sub(1) {
        if !is(words[place], Keyword::MATERIALIZED) || words[place + 1].token != Token::LParen {
            continue;
        }
        let not = words.get(place - 1).filter(|word| is(word, Keyword::NOT));
        let before = place - 1 - usize::from(not.is_some()).min(place - 1);
        if is(words[before], Keyword::AS) {
            blanks.extend(not.map(|not| not.span));
            blanks.push(words[place].span);
        }
    }
    if blanks.is_empty() { Cow::Borrowed(sql) } else { Cow::Owned(blanked(sql, &blanks)) }
}

fn blanked(sql: &str, blanks: &[Span]) -> String {
    let (mut line, mut column) = (1, 1);
    sql.chars()
        .map(|letter| {
            let here = Location { line, column };
            (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
            if blanks.iter().any(|span| span.start <= here && here < span.end) { ' ' } else { letter }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn blank(sql: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap();
        super::blank(sql, &tokens).into_owned()
    }

    #[test]
    fn the_words_go_and_all_others_keep_their_places() {
        for (written, read) in [
            ("WITH é AS MATERIALIZED (SELECT 1) SELECT 2", "WITH é AS              (SELECT 1) SELECT 2"),
            ("WITH x AS not\nmaterialized\t(SELECT 1)", "WITH x AS    \n            \t(SELECT 1)"),
            ("WITH x(a) AS MATERIALIZED(SELECT 1)", "WITH x(a) AS             (SELECT 1)"),
        ] {
            assert_eq!(blank(written), read);
        }
        for kept in [
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "SELECT NOT materialized (1)",
            "SELECT materialized FROM t AS materialized",
            "SELECT 'AS MATERIALIZED ('",
            "MATERIALIZED (",
        ] {
            assert_eq!(blank(kept), kept);
        }
    }
}
