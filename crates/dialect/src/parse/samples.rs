//! Samples as DuckDB writes them, in words that the parser reads: `TABLESAMPLE 10%`, `TABLESAMPLE reservoir(5 ROWS)`, `USING SAMPLE 5`.
//! The sample of a `SELECT` is that of its one table: it is taken before the `WHERE`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use super::words::{is, words};
use crate::{Error, Result};

/// Writes these samples as those of tables.
///
/// # Errors
/// `Invalid` for a sample of several tables, of an exact share, and with a seed.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let places = words(tokens);
    let mut changes: Vec<(usize, usize, Vec<Token>)> = Vec::new();
    for word in 0..places.len() {
        let reader = Reader { tokens, places: &places };
        let is_of_table = reader.is_at(word, Keyword::TABLESAMPLE);
        let is_of_select = reader.is_at(word, Keyword::USING) && reader.is_at(word + 1, Keyword::SAMPLE);
        if !is_of_table && !is_of_select {
            continue;
        }
        let begin = if is_of_table { word + 1 } else { word + 2 };
        let Some((sample, end)) = reader.sample(begin, is_of_select)? else { continue };
        if is_of_table {
            changes.push((places[word], places[end - 1] + 1, sample));
        } else {
            let behind = reader.behind_only_table(word)?;
            changes.push((places[behind], places[behind], sample));
            changes.push((places[word], places[end - 1] + 1, Vec::new()));
        }
    }
    for (begin, end, written) in changes.into_iter().rev() {
        // Behind the last word nothing is left, once the sample is taken out.
        let span = tokens[begin.min(tokens.len() - 1)].span;
        tokens.splice(begin..end, written.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    Ok(())
}

fn refused(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
        .with_hint(format!("write instead: {instead}"))
}

/// The words of a statement.
struct Reader<'a> {
    tokens: &'a [TokenWithSpan],
    places: &'a [usize],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Bernoulli,
    Reservoir,
    System,
}

impl Reader<'_> {
    fn token(&self, word: usize) -> Option<&Token> {
        self.places.get(word).map(|place| &self.tokens[*place].token)
    }

    fn is_at(&self, word: usize, keyword: Keyword) -> bool {
        self.token(word).is_some_and(|token| is(token, keyword))
    }

    fn method(&self, word: usize) -> Option<Method> {
        let Some(Token::Word(name)) = self.token(word) else { return None };
        match name.value.to_ascii_lowercase().as_str() {
            "bernoulli" => Some(Method::Bernoulli),
            "reservoir" => Some(Method::Reservoir),
            "system" => Some(Method::System),
            _ => None,
        }
    }

    /// The sample whose words begin at `begin`, as one of a table, and the word behind it. `None` if the parser reads it as it is, or
    /// says what is wrong with it.
    fn sample(&self, begin: usize, is_of_select: bool) -> Result<Option<(Vec<Token>, usize)>> {
        let mut method = self.method(begin);
        let mut word = begin + usize::from(method.is_some());
        let has_parentheses = matches!(self.token(word), Some(Token::LParen));
        word += usize::from(has_parentheses);
        let Some(number @ Token::Number(..)) = self.token(word) else { return Ok(None) };
        word += 1;
        let is_sign = matches!(self.token(word), Some(Token::Mod));
        let is_percent = is_sign || self.is_at(word, Keyword::PERCENT);
        let has_unit = is_percent || self.is_at(word, Keyword::ROWS);
        word += usize::from(has_unit);
        if has_parentheses {
            if !matches!(self.token(word), Some(Token::RParen)) {
                return Ok(None);
            }
            word += 1;
        }
        let is_read = has_parentheses && !is_sign && method != Some(Method::Reservoir);
        if !is_of_select && (is_read || !has_unit) {
            return Ok(None);
        }
        // The method may stand behind.
        if !has_parentheses && matches!(self.token(word), Some(Token::LParen)) {
            method = self.method(word + 1);
            if method.is_none() || !matches!(self.token(word + 2), Some(Token::RParen)) {
                let what = "a seed or another method of a sample";
                return Err(refused(what, "USING SAMPLE 10 PERCENT (bernoulli)"));
            }
            word += 3;
        }
        if self.is_at(word, Keyword::REPEATABLE) {
            return Err(refused(
                "REPEATABLE or SEED of a sample",
                "CREATE TABLE … AS with the sample, to keep it",
            ));
        }
        let (name, unit) = match (method, is_percent) {
            (Some(Method::System), _) => (Some("SYSTEM"), "PERCENT"),
            (Some(Method::Reservoir), true) => {
                return Err(refused(
                    "reservoir of a share of the rows",
                    "bernoulli(10%), or reservoir(100 ROWS)",
                ));
            }
            (Some(Method::Bernoulli), false) => {
                return Err(refused(
                    "bernoulli of a number of rows",
                    "reservoir(100 ROWS), or bernoulli(10%)",
                ));
            }
            (_, true) => (Some("BERNOULLI"), "PERCENT"),
            (_, false) => (None, "ROWS"),
        };
        let mut sample = vec![Token::make_keyword("TABLESAMPLE")];
        sample.extend(name.map(Token::make_keyword));
        sample.extend([Token::LParen, number.clone(), Token::make_keyword(unit), Token::RParen]);
        Ok(Some((sample, word)))
    }

    /// The word behind the only table of the `FROM` that precedes a word, with its alias.
    fn behind_only_table(&self, word: usize) -> Result<usize> {
        let several = || {
            refused(
                "USING SAMPLE of other than one table",
                "the sample of a subquery, or TABLESAMPLE behind a table",
            )
            .with_span(span_of(&self.tokens[self.places[word]]))
        };
        let mut depth = 0_usize;
        let mut end = word;
        for at in (0..word).rev() {
            let Some(token) = self.token(at) else { continue };
            match token {
                Token::RParen => depth += 1,
                Token::LParen => depth = depth.checked_sub(1).ok_or_else(several)?,
                Token::Word(_) if depth == 0 => {
                    const CLAUSES: [Keyword; 5] =
                        [Keyword::WHERE, Keyword::GROUP, Keyword::HAVING, Keyword::WINDOW, Keyword::QUALIFY];
                    if CLAUSES.iter().any(|clause| is(token, *clause)) {
                        end = at;
                    }
                    let is_comparison = at > 0 && self.is_at(at - 1, Keyword::DISTINCT);
                    if is(token, Keyword::FROM) && !is_comparison {
                        return if self.is_one_table(at + 1, end) { Ok(end) } else { Err(several()) };
                    }
                    if is(token, Keyword::SELECT) {
                        return Err(several());
                    }
                }
                _ => {}
            }
        }
        Err(several())
    }

    /// True if the words from `begin` to `end` are those of one table: no join, and no other table.
    fn is_one_table(&self, begin: usize, end: usize) -> bool {
        let mut depth = 0_usize;
        (begin..end).filter_map(|at| self.token(at)).all(|token| {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            let ends = matches!(token, Token::Comma)
                || [Keyword::JOIN, Keyword::PIVOT, Keyword::UNPIVOT, Keyword::LATERAL, Keyword::TABLESAMPLE]
                    .iter()
                    .any(|keyword| is(token, *keyword));
            depth > 0 || !ends
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;

    fn translated(written: &str) -> Result<String> {
        let mut tokens = Tokenizer::new(&Grammar, written).tokenize_with_location().unwrap();
        translate(&mut tokens)?;
        let texts = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        Ok(texts.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_sample_is_one_of_a_table() {
        for (written, expected) in [
            ("FROM t TABLESAMPLE 10%", "FROM t TABLESAMPLE BERNOULLI ( 10 PERCENT )"),
            ("FROM t TABLESAMPLE 10 PERCENT", "FROM t TABLESAMPLE BERNOULLI ( 10 PERCENT )"),
            ("FROM t TABLESAMPLE reservoir(5 ROWS)", "FROM t TABLESAMPLE ( 5 ROWS )"),
            ("FROM t TABLESAMPLE bernoulli(5%)", "FROM t TABLESAMPLE BERNOULLI ( 5 PERCENT )"),
            ("FROM t TABLESAMPLE (5 ROWS)", "FROM t TABLESAMPLE ( 5 ROWS )"),
            ("FROM t TABLESAMPLE BERNOULLI (5)", "FROM t TABLESAMPLE BERNOULLI ( 5 )"),
            ("FROM t USING SAMPLE 5", "FROM t TABLESAMPLE ( 5 ROWS )"),
            ("FROM t AS u USING SAMPLE 5 ROWS ORDER BY a", "FROM t AS u TABLESAMPLE ( 5 ROWS ) ORDER BY a"),
            (
                "FROM (SELECT a, b FROM c, d) u WHERE a IS DISTINCT FROM b USING SAMPLE 5% (bernoulli)",
                "FROM ( SELECT a , b FROM c , d ) u TABLESAMPLE BERNOULLI ( 5 PERCENT ) WHERE a IS DISTINCT FROM b",
            ),
            ("FROM t USING SAMPLE system(5%)", "FROM t TABLESAMPLE SYSTEM ( 5 PERCENT )"),
            ("a JOIN b USING (sample)", "a JOIN b USING ( sample )"),
        ] {
            assert_eq!(translated(written).unwrap(), expected, "{written}");
        }
        for (written, words) in [
            ("SELECT a FROM t, u USING SAMPLE 5", "other than one table"),
            ("SELECT a FROM t JOIN u ON true USING SAMPLE 5", "other than one table"),
            ("SELECT 1 USING SAMPLE 5", "other than one table"),
            ("SELECT a FROM t USING SAMPLE reservoir(5%)", "reservoir of a share"),
            ("SELECT a FROM t USING SAMPLE 5% (system, 3)", "a seed"),
            ("SELECT a FROM t TABLESAMPLE 5% REPEATABLE (3)", "REPEATABLE"),
        ] {
            let error = translated(written).unwrap_err();
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{written}: {error}");
        }
    }
}
