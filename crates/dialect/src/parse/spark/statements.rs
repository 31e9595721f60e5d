//! Statements in words of Spark's.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::in_place_of;
use crate::parse::span::span_of;
use crate::parse::words::{closing, is, words};
use crate::{Error, Result};

/// Formats of tables whose values are those of the types: they may as well be in memory.
const FORMATS: [&str; 3] = ["parquet", "orc", "delta"];

/// Writes these in words that the parser reads:
///
/// - `CREATE TABLE t (…) USING parquet` without `USING`: a table lives in the session;
/// - `GLOBAL` of a temporary view is left out;
/// - `SET spark.sql.session.timeZone = …` is `SET TIME ZONE`;
/// - `TIMESTAMP_NTZ` is `TIMESTAMP`, and `TIMESTAMP_LTZ` is `TIMESTAMPTZ`.
///
/// # Errors
/// `Invalid` for a format whose tables are not those of the session.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    name_times(tokens);
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let is_at = |word: usize, keyword: Keyword| token(word).is_some_and(|token| is(token, keyword));
    if is_at(0, Keyword::CREATE) {
        let kind = (1..5).find(|word| is_at(*word, Keyword::TABLE) || is_at(*word, Keyword::VIEW));
        let mut left_out = (1..4).filter(|word| is_at(*word, Keyword::GLOBAL)).collect::<Vec<_>>();
        if let Some(kind) = kind.filter(|kind| is_at(*kind, Keyword::TABLE)) {
            let mut word = kind + 1;
            while let Some(found) = token(word) {
                if is(found, Keyword::USING) {
                    check_format(token(word + 1), &tokens[places[word]])?;
                    left_out.extend([word, word + 1]);
                    break;
                }
                if is(found, Keyword::AS) || is(found, Keyword::SELECT) {
                    break;
                }
                word = if *found == Token::LParen {
                    closing(&places, tokens, word).map_or(places.len(), |close| close + 1)
                } else {
                    word + 1
                };
            }
        }
        for word in left_out.into_iter().rev() {
            tokens.remove(places[word]);
        }
        return Ok(());
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
    Ok(())
}

fn check_format(format: Option<&Token>, using: &TokenWithSpan) -> Result<()> {
    let Some(Token::Word(format)) = format else { return Ok(()) };
    if FORMATS.contains(&format.value.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let text = format!("not supported: CREATE TABLE … USING {}", format.value);
    Err(Error::new(ErrorKind::Invalid, text).with_span(span_of(using)).with_hint(
        "tables are kept in the session: leave USING out; or write CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'dir/'",
    ))
}

/// Gives the types of times the own names.
fn name_times(tokens: &mut [TokenWithSpan]) {
    let places = words(tokens);
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
        tokens[*place].token =
            Token::make_keyword(if own == Keyword::TIMESTAMP { "TIMESTAMP" } else { "TIMESTAMPTZ" });
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

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
        ] {
            assert_eq!(written(sql).unwrap(), expected, "{sql}");
        }
        let error = written("CREATE TABLE t (a INT) USING csv").unwrap_err();
        assert!(error.to_string().contains("USING csv") && error.hint().is_some(), "{error}");
    }
}
