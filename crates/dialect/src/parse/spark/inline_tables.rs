//! `VALUES` as a table: rows of one column need no parentheses, the columns are `col1`, `col2` and so on, and an alias may follow
//! wherever the table stands.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::in_place_of;
use crate::parse::words::{closing, is, words};

/// Words behind a row that are no alias.
const ENDS: [Keyword; 31] = [
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::ORDER,
    Keyword::SORT,
    Keyword::CLUSTER,
    Keyword::DISTRIBUTE,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::MINUS,
    Keyword::JOIN,
    Keyword::INNER,
    Keyword::LEFT,
    Keyword::RIGHT,
    Keyword::FULL,
    Keyword::CROSS,
    Keyword::NATURAL,
    Keyword::SEMI,
    Keyword::ANTI,
    Keyword::ON,
    Keyword::USING,
    Keyword::WINDOW,
    Keyword::LATERAL,
    Keyword::PIVOT,
    Keyword::UNPIVOT,
    Keyword::TABLESAMPLE,
    Keyword::QUALIFY,
    Keyword::SELECT,
];

/// Words before a table.
const TABLES: [Keyword; 3] = [Keyword::FROM, Keyword::JOIN, Keyword::TABLE];

/// Words before a query.
const QUERIES: [Keyword; 7] = [
    Keyword::AS,
    Keyword::UNION,
    Keyword::ALL,
    Keyword::DISTINCT,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::MINUS,
];

/// Writes each such table as a query in parentheses with an alias.
pub(super) fn write_queries(tokens: &mut Vec<TokenWithSpan>) {
    // From the last one: those in others are written first.
    let mut limit = usize::MAX;
    loop {
        let places = words(tokens);
        let found =
            (0..places.len().min(limit)).rev().find(|word| is(&tokens[places[*word]].token, Keyword::VALUES));
        let Some(at) = found else { return };
        limit = at;
        if let Some(table) = Table::read(at, &places, tokens) {
            table.write(&places, tokens);
        }
    }
}

/// The place of a table in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Among the tables of a `FROM`.
    Table,
    /// In the place of a query.
    Query,
}

/// The words of a table: `VALUES` is the word `at`.
struct Table {
    at: usize,
    position: Position,
    /// The rows, each by its first word and the one behind its last.
    rows: Vec<(usize, usize)>,
    columns: usize,
    /// The alias and the word behind it.
    alias: Option<(usize, usize)>,
    has_columns: bool,
}

impl Table {
    fn read(at: usize, places: &[usize], tokens: &[TokenWithSpan]) -> Option<Self> {
        let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
        let before = at.checked_sub(1).and_then(token);
        let position = match before {
            None => Position::Query,
            Some(Token::LParen) => match at.checked_sub(2).and_then(token) {
                // `INSERT INTO t (VALUES (1))` and `f(values)` are left alone.
                Some(Token::Word(word))
                    if word.keyword == Keyword::NoKeyword || word.quote_style.is_some() =>
                {
                    return None;
                }
                _ => Position::Query,
            },
            Some(Token::Comma) => Position::Table,
            Some(word) if TABLES.iter().any(|keyword| is(word, *keyword)) => Position::Table,
            Some(word) if QUERIES.iter().any(|keyword| is(word, *keyword)) => Position::Query,
            _ => return None,
        };
        if before.is_some_and(|before| is(before, Keyword::AS)) && is_list_of_names(at + 1, places, tokens) {
            // `AS values(a)` is an alias.
            return None;
        }
        let mut rows = Vec::new();
        let mut word = at + 1;
        loop {
            let first = word;
            let mut is_operand = false;
            word = loop {
                match token(word) {
                    None | Some(Token::EOF | Token::RParen | Token::SemiColon | Token::Comma) => break word,
                    Some(Token::VerticalBarRightAngleBracket) => break word,
                    Some(Token::LParen) => {
                        word = closing(places, tokens, word)? + 1;
                        is_operand = true;
                    }
                    Some(Token::LBracket) => {
                        while !matches!(token(word), None | Some(Token::RBracket)) {
                            word += 1;
                        }
                        word += 1;
                    }
                    Some(Token::Word(name)) if name.quote_style.is_none() => {
                        let ends = is(token(word)?, Keyword::AS) || ENDS.contains(&name.keyword);
                        let is_value = [Keyword::NULL, Keyword::TRUE, Keyword::FALSE].contains(&name.keyword);
                        let is_operator =
                            [Keyword::AND, Keyword::OR, Keyword::NOT, Keyword::DIV].contains(&name.keyword);
                        if ends || is_operand && !is_operator {
                            break word;
                        }
                        is_operand = is_value;
                        word += 1;
                    }
                    Some(Token::Word(_)) if is_operand => break word,
                    Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::HexStringLiteral(_)) => {
                        is_operand = true;
                        word += 1;
                    }
                    Some(_) => {
                        is_operand = false;
                        word += 1;
                    }
                }
            };
            if word == first {
                return None;
            }
            rows.push((first, word));
            if token(word) != Some(&Token::Comma) {
                break;
            }
            // Behind the rows of one table, a comma may be that between tables.
            word += 1;
        }
        let columns = Self::columns_of(rows[0], places, tokens)?;
        let mut alias = None;
        let mut has_columns = false;
        let name = word + usize::from(token(word).is_some_and(|token| is(token, Keyword::AS)));
        let is_name = match token(name) {
            Some(Token::Word(found)) => found.quote_style.is_some() || !ENDS.contains(&found.keyword),
            _ => false,
        };
        if is_name {
            let mut end = name + 1;
            if token(end) == Some(&Token::LParen) {
                has_columns = true;
                end = closing(places, tokens, end)? + 1;
            }
            alias = Some((word, end));
        } else if name > word {
            // `AS (a, b)`.
            return None;
        }
        Some(Self { at, position, rows, columns, alias, has_columns })
    }

    /// The number of values in a row.
    fn columns_of(row: (usize, usize), places: &[usize], tokens: &[TokenWithSpan]) -> Option<usize> {
        let token = |word: usize| &tokens[places[word]].token;
        if *token(row.0) != Token::LParen || closing(places, tokens, row.0)? + 1 != row.1 {
            return Some(1);
        }
        let mut depth = 0;
        let mut columns = 1;
        for word in row.0..row.1 {
            match token(word) {
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
                Token::Comma if depth == 1 => columns += 1,
                _ => {}
            }
        }
        Some(columns)
    }

    fn write(&self, places: &[usize], tokens: &mut Vec<TokenWithSpan>) {
        let span = tokens[places[self.at]].clone();
        let own = |text: &str| in_place_of(&span, crate::parse::template::tokens(text));
        let of = |word: usize| places.get(word).copied().unwrap_or(tokens.len());
        let end = of(self.alias.map_or(self.rows[self.rows.len() - 1].1, |(_, end)| end));
        let mut written = Vec::new();
        if self.position == Position::Query {
            written.extend(own("SELECT * FROM "));
        }
        written.extend(own("(VALUES "));
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                written.extend(own(", "));
            }
            let values = &tokens[of(row.0)..of(row.1)];
            let is_row = values.first().is_some_and(|token| token.token == Token::LParen)
                && closing(places, tokens, row.0) == Some(row.1 - 1);
            if is_row {
                written.extend_from_slice(values);
            } else {
                written.extend(own("("));
                written.extend_from_slice(values);
                written.extend(own(")"));
            }
        }
        written.extend(own(") "));
        match self.alias {
            Some((from, to)) => written.extend_from_slice(&tokens[of(from)..of(to)]),
            None => written.extend(own("AS inline_table ")),
        }
        if !self.has_columns {
            let names: Vec<String> = (1..=self.columns).map(|number| format!("col{number}")).collect();
            written.extend(own(&format!(" ({}) ", names.join(", "))));
        }
        tokens.splice(of(self.at)..end, written);
    }
}

/// True for names in parentheses.
fn is_list_of_names(open: usize, places: &[usize], tokens: &[TokenWithSpan]) -> bool {
    let is_open = places.get(open).is_some_and(|place| tokens[*place].token == Token::LParen);
    let Some(close) = closing(places, tokens, open).filter(|_| is_open) else { return false };
    (open + 1..close).all(|word| match &tokens[places[word]].token {
        Token::Word(name) => ![Keyword::NULL, Keyword::TRUE, Keyword::FALSE].contains(&name.keyword),
        Token::Comma => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    #[test]
    fn tables_of_values_are_queries() {
        for (sql, expected) in [
            ("VALUES (1, 2), (3, 4)", "SELECT * FROM (VALUES (1, 2), (3, 4)) AS inline_table (col1, col2)"),
            ("SELECT * FROM VALUES 1, 2 AS t(a)", "SELECT * FROM (VALUES (1), (2)) AS t(a)"),
            ("SELECT * FROM VALUES (1), (2) t WHERE a", "SELECT * FROM (VALUES (1), (2)) t (col1) WHERE a"),
            ("CREATE VIEW v AS VALUES (1) AS t(a)", "CREATE VIEW v AS SELECT * FROM (VALUES (1)) AS t(a)"),
            (
                "SELECT * FROM a JOIN VALUES (f(1, 2), 3) AS b ON true",
                "SELECT * FROM a JOIN (VALUES (f(1, 2), 3)) AS b (col1, col2) ON true",
            ),
            ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"),
            ("INSERT INTO t (a) VALUES (1), (2)", "INSERT INTO t (a) VALUES (1), (2)"),
            ("SELECT * FROM VALUES (1) AS values(a)", "SELECT * FROM (VALUES (1)) AS values(a)"),
            (
                "SELECT * FROM (VALUES (1)) AS t(a)",
                "SELECT * FROM (SELECT * FROM (VALUES (1)) AS inline_table (col1)) AS t(a)",
            ),
            ("x IN (VALUES (1))", "x IN (SELECT * FROM (VALUES (1)) AS inline_table (col1))"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            write_queries(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            let squeezed =
                |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" )", ")");
            assert_eq!(squeezed(&text), expected, "{sql}");
        }
    }
}
