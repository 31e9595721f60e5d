//! Statements in words of Spark's.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{in_place_of, table_clauses};
use crate::Result;
use crate::parse::words::{is, words};

/// Writes these in words that the parser reads:
///
/// - `CREATE TABLE` and `CREATE VIEW` without the clauses of [`table_clauses`];
/// - `GLOBAL` of a temporary view is left out;
/// - a `DATABASE` is a `SCHEMA`, and `USE default` is that of the start;
/// - `SET spark.sql.session.timeZone = …` is `SET TIME ZONE`;
/// - `TIMESTAMP_NTZ` is `TIMESTAMP`, and `TIMESTAMP_LTZ` is `TIMESTAMPTZ`.
///
/// It gives the clauses that are left out.
///
/// # Errors
/// Those of [`table_clauses::leave_out`].
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<&'static str>> {
    name_times(tokens);
    name_schemas(tokens);
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let is_at = |word: usize, keyword: Keyword| token(word).is_some_and(|token| is(token, keyword));
    if is_at(0, Keyword::CREATE) {
        let global = (1..4).find(|word| is_at(*word, Keyword::GLOBAL)).map(|word| places[word]);
        if let Some(global) = global {
            tokens.remove(global);
        }
        return match table_clauses::kind_of(tokens) {
            Some(kind) => table_clauses::leave_out(tokens, kind),
            None => Ok(Vec::new()),
        };
    }
    let name = (1..).step_by(2).map_while(|word| match (token(word), token(word + 1)) {
        (Some(Token::Word(part)), Some(Token::Period | Token::Eq)) => Some(part.value.to_ascii_lowercase()),
        _ => None,
    });
    let name: Vec<String> = name.collect();
    if is_at(0, Keyword::SET) && name.join(".") == "spark.sql.session.timezone" {
        let own = crate::parse::template::tokens("SET TIME ZONE = ");
        let behind = places[2 * name.len()];
        let own = in_place_of(&tokens[0], own);
        tokens.splice(..=behind, own);
    }
    Ok(Vec::new())
}

/// The schema in which a session starts, and its name in Spark.
pub(super) const SCHEMAS: (&str, &str) = ("public", "default");

/// Gives databases the own names. Those of global views have no name of their own.
fn name_schemas(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let word = |at: usize| places.get(at).map(|place| &tokens[*place].token);
    let is_word = |at: usize, keyword: Keyword| word(at).is_some_and(|token| is(token, keyword));
    let is_named = |token: &Token, name: &str| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name));
    let defines = is_word(0, Keyword::CREATE) || is_word(0, Keyword::DROP);
    let (names_schema, uses) = (defines && is_word(1, Keyword::DATABASE), is_word(0, Keyword::USE));
    let global: Vec<usize> = (0..places.len())
        .filter(|at| {
            word(*at).is_some_and(|token| is_named(token, "global_temp"))
                && word(at + 1) == Some(&Token::Period)
        })
        .collect();
    let is_kind = is_word(1, Keyword::DATABASE) || is_word(1, Keyword::SCHEMA);
    let used = places.get(if is_kind { 2 } else { 1 }).copied().filter(|_| uses);
    let is_default = used.is_some_and(|place| is_named(&tokens[place].token, SCHEMAS.1));
    if names_schema {
        tokens[places[1]].token = Token::make_keyword("SCHEMA");
    }
    if let Some(place) = used {
        if is_default {
            tokens[place].token = Token::make_word(SCHEMAS.0, None);
        }
        if is_kind {
            tokens.remove(places[1]);
        }
    }
    for at in global.into_iter().rev() {
        tokens.drain(places[at]..=places[at + 1]);
    }
}

/// Gives the types of times the own names.
fn name_times(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let mut plain = Vec::new();
    for (word, place) in places.iter().enumerate() {
        let is_call = places.get(word + 1).is_some_and(|next| tokens[*next].token == Token::LParen);
        let is_field = word > 0 && tokens[places[word - 1]].token == Token::Period;
        let Token::Word(name) = &tokens[*place].token else { continue };
        if is_call || is_field || name.quote_style.is_some() {
            continue;
        }
        let own = match name.value.to_ascii_uppercase().as_str() {
            "TIMESTAMP_NTZ" => Keyword::TIMESTAMP,
            "TIMESTAMP_LTZ" => Keyword::TIMESTAMPTZ,
            _ => continue,
        };
        let is_text = places
            .get(word + 1)
            .is_some_and(|next| matches!(tokens[*next].token, Token::SingleQuotedString(_)));
        tokens[*place].token =
            Token::make_keyword(if own == Keyword::TIMESTAMP { "TIMESTAMP" } else { "TIMESTAMPTZ" });
        if own == Keyword::TIMESTAMP && is_text {
            plain.push(*place);
        }
    }
    // A text of a TIMESTAMP may have a zone, and that of one without a zone not.
    for place in plain.into_iter().rev() {
        let without = in_place_of(&tokens[place], crate::parse::template::tokens(" WITHOUT TIME ZONE "));
        tokens.splice(place + 1..place + 1, without);
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;
    use crate::Error;

    #[test]
    fn words_of_spark_are_own_ones() {
        let written = |sql: &str| {
            let mut tokens = letters::tokens(sql).unwrap();
            translate(&mut tokens)?;
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            Ok::<_, Error>(text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for (sql, expected) in [
            (
                "CREATE TABLE t (a INT) USING parquet AS SELECT 1 AS a",
                "CREATE TABLE t (a INT) AS SELECT 1 AS a",
            ),
            ("CREATE TABLE t USING ORC AS SELECT 1", "CREATE TABLE t AS SELECT 1"),
            ("CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1", "CREATE TEMPORARY VIEW v AS SELECT 1"),
            (
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING (k)",
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING (k)",
            ),
            ("SET spark.sql.session.timeZone = 'Asia/Seoul'", "SET TIME ZONE = 'Asia/Seoul'"),
            ("CAST(a AS timestamp_ntz)", "CAST(a AS TIMESTAMP)"),
            ("CREATE DATABASE IF NOT EXISTS d", "CREATE SCHEMA IF NOT EXISTS d"),
            ("USE SCHEMA default", "USE public"),
            ("USE d", "USE d"),
            ("SELECT * FROM global_temp.v", "SELECT * FROM v"),
        ] {
            assert_eq!(written(sql).unwrap(), expected, "{sql}");
        }
    }
}
