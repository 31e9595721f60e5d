//! Clauses of `CREATE TABLE` and `CREATE VIEW` that only Spark has. Those that change no answer are left out: a table lives in the memory
//! of its session, and keeps its values, but no files, comments or properties.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::in_place_of;
use crate::parse::span::span_of;
use crate::parse::template;
use crate::parse::words::{closing, is, words};
use crate::{Error, Result};

/// Formats of files whose values are those of the types: a table may as well be in memory.
const TYPED: [&str; 3] = ["parquet", "orc", "delta"];
/// Formats of files with texts of values.
const TEXTS: [&str; 2] = ["csv", "json"];

/// Leaves out the clauses behind the name of a new table or view. `kind` is the word `TABLE` or `VIEW`:
///
/// - `USING parquet`, `COMMENT '…'`, `TBLPROPERTIES (…)`, `CLUSTERED BY …`, `WITH SCHEMA BINDING` are left out;
/// - `PARTITIONED BY (a)` has the column `a` behind all others;
/// - `CREATE TEMPORARY VIEW v (a INT) USING parquet` is a view without rows.
///
/// It gives the names of clauses that a notice tells of.
///
/// # Errors
/// `Invalid` for another format, and for a place or options of files.
pub(super) fn leave_out(tokens: &mut Vec<TokenWithSpan>, kind: usize) -> Result<Vec<&'static str>> {
    let definition = Definition { places: words(tokens), tokens };
    let is_view = definition.is_word(kind, "VIEW");
    let mut behind = kind + if definition.is_word(kind + 1, "IF") { 4 } else { 1 };
    behind += 1;
    while definition.token(behind) == Some(&Token::Period) {
        behind += 2;
    }
    let open = behind;
    let columns = definition.columns(&mut behind);
    let clauses = definition.clauses(behind)?;
    if columns.is_none() && clauses.tail == behind && definition.token(open) != Some(&Token::LParen) {
        return Ok(Vec::new());
    }
    let left_out = definition.left_out(open, clauses.tail);
    let has_query = definition.is_word(clauses.tail, "AS");
    let head = definition.before(if columns.is_some() { open } else { behind });
    let tail = definition.from(clauses.tail);
    let span = tokens[0].clone();
    let own = |text: &str| in_place_of(&span, template::tokens(text));
    let mut written = head;
    match columns {
        Some(columns) if is_view && clauses.has_format && !has_query => {
            written.extend(own(" AS SELECT "));
            for (place, column) in columns.iter().enumerate() {
                let (name, kind) = column.split_at(column.iter().position(is_blank).unwrap_or(column.len()));
                written.extend(own(if place == 0 { "CAST(NULL AS " } else { ", CAST(NULL AS " }));
                written.extend_from_slice(kind);
                written.extend(own(") AS "));
                written.extend_from_slice(name);
            }
            written.extend(own(" WHERE false "));
        }
        Some(mut columns) => {
            move_last(&mut columns, &clauses.partitions)?;
            written.extend(own(" ("));
            for (place, column) in columns.into_iter().enumerate() {
                if place > 0 {
                    written.extend(own(", "));
                }
                written.extend(column);
            }
            written.extend(own(") "));
        }
        None if !clauses.partitions.is_empty() && has_query => {
            let names: Vec<String> = clauses.partitions.iter().map(|column| text_of(column)).collect();
            let names = names.join(", ");
            written.extend(own(&format!(" AS SELECT * EXCEPT ({names}), {names} FROM (")));
            written.extend_from_slice(&definition.from(clauses.tail + 1));
            let is_end = |token: &TokenWithSpan| matches!(token.token, Token::EOF | Token::SemiColon);
            while written.last().is_some_and(is_end) {
                written.pop();
            }
            written.extend(own(") AS partitioned"));
            *tokens = written;
            return Ok(left_out);
        }
        None if !clauses.partitions.is_empty() => {
            return Err(Error::new(
                ErrorKind::Invalid,
                "not supported: PARTITIONED BY of a table without columns",
            )
            .with_hint("write the columns behind the name of the table"));
        }
        None => written.extend(own(" ")),
    }
    written.extend(tail);
    *tokens = written;
    Ok(left_out)
}

/// The words of a `CREATE`.
struct Definition<'a> {
    places: Vec<usize>,
    tokens: &'a [TokenWithSpan],
}

/// The clauses between the columns of a table and its query.
#[derive(Default)]
struct Found {
    has_format: bool,
    /// Definitions or names of the columns by which the files of the table would be divided.
    partitions: Vec<Vec<TokenWithSpan>>,
    /// The word behind the clauses.
    tail: usize,
}

impl Definition<'_> {
    fn token(&self, word: usize) -> Option<&Token> {
        self.places.get(word).map(|place| &self.tokens[*place].token)
    }

    fn is_word(&self, word: usize, name: &str) -> bool {
        matches!(self.token(word), Some(Token::Word(found))
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(name))
    }

    fn are_words(&self, word: usize, names: &[&str]) -> bool {
        names.iter().enumerate().all(|(behind, name)| self.is_word(word + behind, name))
    }

    /// The clauses between two words that say something of a table which no answer shows.
    fn left_out(&self, first: usize, end: usize) -> Vec<&'static str> {
        let is_text = |word: usize| matches!(self.token(word), Some(Token::SingleQuotedString(_)));
        let has = |name: &str| {
            (first..end).any(|word| self.is_word(word, name) && (name != "COMMENT" || is_text(word + 1)))
        };
        ["CLUSTERED BY", "COMMENT", "OPTIONS", "TBLPROPERTIES"]
            .into_iter()
            .filter(|clause| has(clause.split(' ').next().unwrap_or(clause)))
            .collect()
    }

    fn before(&self, word: usize) -> Vec<TokenWithSpan> {
        self.tokens[..self.places.get(word).copied().unwrap_or(self.tokens.len())].to_vec()
    }

    fn from(&self, word: usize) -> Vec<TokenWithSpan> {
        self.tokens[self.places.get(word).copied().unwrap_or(self.tokens.len())..].to_vec()
    }

    /// The columns in parentheses at a word, each without its comment. None of a query in parentheses.
    fn columns(&self, word: &mut usize) -> Option<Vec<Vec<TokenWithSpan>>> {
        let is_query =
            ["SELECT", "WITH", "FROM", "VALUES", "TABLE"].iter().any(|begin| self.is_word(*word + 1, begin));
        if self.token(*word) != Some(&Token::LParen)
            || self.token(*word + 1) == Some(&Token::LParen)
            || is_query
        {
            return None;
        }
        let close = closing(&self.places, self.tokens, *word)?;
        let columns = self.items(*word, close);
        *word = close + 1;
        Some(columns)
    }

    /// The items between two parentheses. What stands behind `COMMENT` is left out.
    fn items(&self, open: usize, close: usize) -> Vec<Vec<TokenWithSpan>> {
        let mut items = vec![Vec::new()];
        let mut depth = 0_usize;
        let mut word = open + 1;
        while word < close {
            let token = &self.tokens[self.places[word]];
            if self.is_word(word, "COMMENT")
                && matches!(self.token(word + 1), Some(Token::SingleQuotedString(_)))
            {
                word += 2;
                continue;
            }
            match token.token {
                Token::LParen | Token::Lt => depth += 1,
                Token::RParen | Token::Gt => depth = depth.saturating_sub(1),
                Token::ShiftRight => depth = depth.saturating_sub(2),
                Token::Comma if depth == 0 => {
                    items.push(Vec::new());
                    word += 1;
                    continue;
                }
                _ => {}
            }
            let item = items.last_mut().expect("there is a first item");
            if !item.is_empty() {
                item.extend(in_place_of(token, template::tokens(" ")));
            }
            item.push(token.clone());
            word += 1;
        }
        items
    }

    fn clauses(&self, mut word: usize) -> Result<Found> {
        let mut found = Found::default();
        let mut format = String::new();
        let mut options = None;
        loop {
            let behind_parentheses = |open: usize| {
                let is_open = self.token(open) == Some(&Token::LParen);
                closing(&self.places, self.tokens, open).filter(|_| is_open).map(|close| close + 1)
            };
            let next = if self.is_word(word, "USING") {
                if let Some(Token::Word(name)) = self.token(word + 1) {
                    format = name.value.to_ascii_lowercase();
                    self.check_format(word)?;
                    found.has_format = true;
                }
                Some(word + 2)
            } else if self.is_word(word, "OPTIONS") {
                options = Some(word);
                behind_parentheses(word + 1)
            } else if self.is_word(word, "TBLPROPERTIES") {
                behind_parentheses(word + 1)
            } else if self.is_word(word, "COMMENT") {
                Some(word + 2)
            } else if self.are_words(word, &["PARTITIONED", "BY"]) {
                let behind = behind_parentheses(word + 2);
                found.partitions = behind.map(|behind| self.items(word + 2, behind - 1)).unwrap_or_default();
                behind
            } else if self.are_words(word, &["CLUSTERED", "BY"]) {
                let behind = behind_parentheses(word + 2);
                let sorted = behind.filter(|behind| self.are_words(*behind, &["SORTED", "BY"]));
                let behind = sorted.map_or(behind, |sorted| behind_parentheses(sorted + 2));
                behind.filter(|behind| self.is_word(*behind, "INTO")).map(|behind| behind + 3)
            } else if self.are_words(word, &["WITH", "SCHEMA"]) {
                let of_type = self.are_words(word, &["WITH", "SCHEMA", "TYPE", "EVOLUTION"]);
                let is_evolving = of_type || self.is_word(word + 2, "EVOLUTION");
                if is_evolving && (word..self.places.len()).any(|word| self.is_word(word, "FROM")) {
                    return Err(self.refused(word, "WITH SCHEMA EVOLUTION of a view of tables"));
                }
                Some(word + if of_type { 4 } else { 3 })
            } else if self.is_word(word, "LOCATION") {
                return Err(self.refused(word, "LOCATION of a table"));
            } else {
                None
            };
            match next {
                Some(next) => word = next,
                None => break,
            }
        }
        if let Some(options) = options.filter(|_| !TYPED.contains(&format.as_str())) {
            return Err(self.refused(options, "OPTIONS of files with texts"));
        }
        if let Some(options) = options {
            let path = (options..word).find(|word| {
                matches!(self.token(*word), Some(Token::SingleQuotedString(name)) if name.eq_ignore_ascii_case("path"))
                    || self.is_word(*word, "path")
            });
            if path.is_some() {
                return Err(self.refused(options, "a path of a table"));
            }
        }
        found.tail = word;
        Ok(found)
    }

    fn check_format(&self, using: usize) -> Result<()> {
        match self.token(using + 1) {
            Some(Token::Word(format))
                if TYPED.iter().chain(&TEXTS).any(|known| format.value.eq_ignore_ascii_case(known)) =>
            {
                Ok(())
            }
            Some(format) => Err(self.refused(using, &format!("CREATE TABLE … USING {format}"))),
            None => Ok(()),
        }
    }

    fn refused(&self, word: usize, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
            .with_span(span_of(&self.tokens[self.places[word]]))
            .with_hint("tables are kept in the session; files are CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'dir/', or FROM 'file.csv'")
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn text_of(tokens: &[TokenWithSpan]) -> String {
    tokens.iter().map(|token| token.token.to_string()).collect()
}

/// The name of a column, as names are compared.
fn name_of(column: &[TokenWithSpan]) -> Option<String> {
    match &column.first()?.token {
        Token::Word(name) => Some(name.value.to_lowercase()),
        _ => None,
    }
}

/// Puts the columns by which a table is divided behind all others. One with a type is a column besides.
fn move_last(columns: &mut Vec<Vec<TokenWithSpan>>, partitions: &[Vec<TokenWithSpan>]) -> Result<()> {
    for partition in partitions {
        if partition.iter().any(is_blank) {
            columns.push(partition.clone());
            continue;
        }
        let of = name_of(partition);
        let place = columns.iter().position(|column| name_of(column) == of && of.is_some());
        let place = place.ok_or_else(|| {
            let text = format!("not supported: PARTITIONED BY ({})", text_of(partition));
            Error::new(ErrorKind::Invalid, text).with_hint("a table is divided by columns that it has")
        })?;
        let column = columns.remove(place);
        columns.push(column);
    }
    Ok(())
}

/// The word `TABLE` or `VIEW` of a `CREATE`.
pub(super) fn kind_of(tokens: &[TokenWithSpan]) -> Option<usize> {
    let places = words(tokens);
    let is_at = |word: usize, keyword: Keyword| {
        places.get(word).is_some_and(|place| is(&tokens[*place].token, keyword))
    };
    if !is_at(0, Keyword::CREATE) || is_at(1, Keyword::EXTERNAL) {
        return None;
    }
    let is_function = (1..5).any(|word| is_at(word, Keyword::FUNCTION) || is_at(word, Keyword::MACRO));
    (1..6).filter(|_| !is_function).find(|word| is_at(*word, Keyword::TABLE) || is_at(*word, Keyword::VIEW))
}

#[cfg(test)]
mod tests {
    use super::super::{letters, texts};
    use super::*;

    fn written(sql: &str) -> Result<String> {
        let mut tokens = letters::tokens(sql).unwrap();
        texts::translate(&mut tokens);
        let kind = kind_of(&tokens).unwrap();
        leave_out(&mut tokens, kind)?;
        let text = text_of(&tokens);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(text.replace("( ", "(").replace(" )", ")"))
    }

    #[test]
    fn clauses_that_change_no_answer_are_left_out() {
        for (sql, expected) in [
            ("CREATE TABLE t (a INT) USING csv AS SELECT 1 AS a", "CREATE TABLE t (a INT) AS SELECT 1 AS a"),
            (
                "CREATE TABLE IF NOT EXISTS a.t USING ORC AS SELECT 1",
                "CREATE TABLE IF NOT EXISTS a.t AS SELECT 1",
            ),
            (
                "CREATE TABLE t (a INT COMMENT 'x', b DECIMAL(3, 1) DEFAULT 2) COMMENT 'y' TBLPROPERTIES ('k' = 'v', 'l' = '1')",
                "CREATE TABLE t (a INT, b DECIMAL (3 , 1) DEFAULT 2)",
            ),
            (
                "CREATE TABLE t (a INT, b INT, c INT) USING parquet PARTITIONED BY (b, A) CLUSTERED BY (c) SORTED BY (c) INTO 2 BUCKETS",
                "CREATE TABLE t (c INT, b INT, a INT)",
            ),
            ("CREATE TABLE t (a INT) PARTITIONED BY (b STRING)", "CREATE TABLE t (a INT, b STRING)"),
            (
                "CREATE TABLE t PARTITIONED BY (b) AS SELECT 1 AS b, 2 AS c",
                "CREATE TABLE t AS SELECT * EXCEPT (b), b FROM (SELECT 1 AS b, 2 AS c) AS partitioned",
            ),
            (
                "CREATE OR REPLACE VIEW v (a COMMENT 'x', b) WITH SCHEMA TYPE EVOLUTION AS SELECT 1, 2",
                "CREATE OR REPLACE VIEW v (a, b) AS SELECT 1, 2",
            ),
            (
                "CREATE TEMPORARY VIEW v (a INT, b MAP<INT, INT>) USING parquet",
                "CREATE TEMPORARY VIEW v AS SELECT CAST(NULL AS INT) AS a, CAST(NULL AS MAP < INT , INT >) AS b WHERE false",
            ),
            (
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING (k)",
                "CREATE TABLE t AS SELECT * FROM a JOIN b USING (k)",
            ),
            ("CREATE TABLE t (SELECT 1)", "CREATE TABLE t (SELECT 1)"),
        ] {
            assert_eq!(written(sql).unwrap(), expected, "{sql}");
        }
        for (sql, words) in [
            ("CREATE TABLE t (a INT) USING avro", "USING avro"),
            ("CREATE VIEW v WITH SCHEMA EVOLUTION AS SELECT * FROM t", "EVOLUTION"),
            ("CREATE TABLE t (a INT) USING csv OPTIONS ('sep' ';')", "OPTIONS"),
            ("CREATE TABLE t (a INT) USING parquet OPTIONS (path '/d')", "path"),
            ("CREATE TABLE t (a INT) USING parquet LOCATION '/d'", "LOCATION"),
            ("CREATE TABLE t (a INT) PARTITIONED BY (b)", "PARTITIONED BY (b)"),
        ] {
            let error = written(sql).unwrap_err();
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{sql}: {error}");
        }
    }
}
