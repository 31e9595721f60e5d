//! `TABLE t`, which is the query `SELECT * FROM t`, as in PostgreSQL, Spark and DuckDB.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is, words};

/// Writes `TABLE t` as `FROM t`, where it is a query.
pub(super) fn write_from(tokens: &mut [TokenWithSpan]) {
    let words = words(tokens);
    let is_definition = words.first().is_some_and(|first| is(&tokens[*first].token, Keyword::CREATE));
    let mut before: Option<&Token> = None;
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let token = &tokens[*word].token;
        let next = words.get(at + 1).map(|next| &tokens[*next].token);
        let begins_query = match before {
            None | Some(Token::LParen) => true,
            Some(before) => {
                const BEFORE: [Keyword; 7] = [
                    Keyword::UNION,
                    Keyword::ALL,
                    Keyword::DISTINCT,
                    Keyword::EXCEPT,
                    Keyword::INTERSECT,
                    Keyword::MINUS,
                    Keyword::EXPLAIN,
                ];
                BEFORE.iter().any(|keyword| is(before, *keyword)) || is_definition && is(before, Keyword::AS)
            }
        };
        if begins_query
            && is(token, Keyword::TABLE)
            && matches!(next, Some(Token::Word(_) | Token::SingleQuotedString(_)))
        {
            found.push(*word);
        }
        before = Some(token);
    }
    for at in found {
        tokens[at].token = Token::make_keyword("FROM");
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;

    #[test]
    fn a_table_is_a_query_where_one_begins() {
        for (written, expected) in [
            ("TABLE t", "FROM t"),
            ("table \"a b\" ORDER BY 1", "FROM \"a b\" ORDER BY 1"),
            ("TABLE 'f.parquet'", "FROM 'f.parquet'"),
            ("SELECT 1 UNION ALL TABLE t", "SELECT 1 UNION ALL FROM t"),
            ("SELECT * FROM (TABLE t)", "SELECT * FROM (FROM t)"),
            ("CREATE TABLE u AS TABLE t", "CREATE TABLE u AS FROM t"),
            ("EXPLAIN TABLE t", "EXPLAIN FROM t"),
            ("CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"),
            ("DROP TABLE t", "DROP TABLE t"),
            ("SELECT * FROM TABLE(f(1))", "SELECT * FROM TABLE(f(1))"),
            ("SELECT 1 AS table FROM t", "SELECT 1 AS table FROM t"),
        ] {
            let mut tokens = Tokenizer::new(&Grammar, written).tokenize_with_location().unwrap();
            write_from(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{written}");
        }
    }
}
