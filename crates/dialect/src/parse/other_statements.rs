//! Statements that others write in other words, and clauses with a mark in their place until planning knows the columns:
//!
//! - `DESCRIBE FUNCTION f` is `SHOW FUNCTIONS LIKE 'f'`, and `SHOW SCHEMAS` and `SHOW TABLES` are queries;
//! - `LIMIT 50 %` and `LIMIT 50 PERCENT` have the mark [`SHARE`], and `INSERT INTO t BY NAME` the mark [`BY_NAME`].

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::words::{is, words};

/// Name of the function whose argument is a share of the rows, in percent.
pub(crate) const SHARE: &str = "limit in percent";

/// Name of the one column of an `INSERT` whose columns are those of its query.
pub(crate) const BY_NAME: &str = "\u{0}by name";

/// The query that `SHOW SCHEMAS` is.
const SCHEMAS: &str = "SELECT catalog_name AS database_name, schema_name FROM information_schema.schemata \
                       WHERE schema_name <> 'information_schema' ORDER BY 1, 2";

/// The query that `SHOW TABLES` is: those of the user, not the views of the system.
const TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema <> 'information_schema' ORDER BY 1, 2, 3";

/// Writes these in words that the parser reads.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let at = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let is_at = |word: usize, keyword: Keyword| at(word).is_some_and(|token| is(token, keyword));
    if (is_at(0, Keyword::DESCRIBE) || is_at(0, Keyword::DESC)) && is_at(1, Keyword::FUNCTION) {
        let name = if is_at(2, Keyword::EXTENDED) { 3 } else { 2 };
        let name = places.get(name).filter(|_| is_end(at(name + 1))).map(|place| tokens[*place].clone());
        if let Some(name) = name
            && let Token::Word(Word { value: text, .. }) | Token::SingleQuotedString(text) = &name.token
        {
            let pattern = Token::SingleQuotedString(text.to_lowercase());
            let show =
                [Token::make_keyword("SHOW"), Token::make_keyword("FUNCTIONS"), Token::make_keyword("LIKE")];
            *tokens = show
                .into_iter()
                .chain([pattern])
                .map(|token| TokenWithSpan { token, span: name.span })
                .collect();
        }
        return;
    }
    let shown = [(Keyword::SCHEMAS, SCHEMAS), (Keyword::TABLES, TABLES)];
    let shown = shown.into_iter().find(|(keyword, _)| is_at(1, *keyword) && is_end(at(2)));
    if let Some((_, text)) = shown.filter(|_| is_at(0, Keyword::SHOW)) {
        let span = tokens[places[0]].span;
        let query = super::template::tokens(text);
        *tokens = query.into_iter().map(|token| TokenWithSpan { token, span }).collect();
        return;
    }
    let mut changes: Vec<(usize, Vec<Token>)> = Vec::new();
    let marked = |mark: &str| Token::make_word(mark, Some('"'));
    if is_at(0, Keyword::INSERT) && is_at(1, Keyword::INTO) {
        // The name of the table has dots between its parts.
        let mut behind = 3;
        while matches!(at(behind), Some(Token::Period)) {
            behind += 2;
        }
        let is_by_name =
            matches!(at(behind + 1), Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("name"));
        if is_at(behind, Keyword::BY) && is_by_name {
            changes.push((places[behind], vec![Token::LParen, marked(BY_NAME), Token::RParen]));
            changes.push((places[behind + 1], Vec::new()));
        }
    }
    for (word, place) in places.iter().enumerate() {
        let is_share = is(&tokens[*place].token, Keyword::LIMIT)
            && matches!(at(word + 1), Some(Token::Number(..)))
            && match at(word + 2) {
                Some(Token::Mod) => is_end(at(word + 3)) || is_at(word + 3, Keyword::OFFSET),
                Some(token) => is(token, Keyword::PERCENT),
                None => false,
            };
        if is_share {
            let number = tokens[places[word + 1]].token.clone();
            changes.push((places[word + 1], vec![marked(SHARE), Token::LParen, number, Token::RParen]));
            changes.push((places[word + 2], Vec::new()));
        }
    }
    for (place, written) in changes.into_iter().rev() {
        let span = tokens[place].span;
        tokens.splice(place..=place, written.into_iter().map(|token| TokenWithSpan { token, span }));
    }
}

fn is_end(token: Option<&Token>) -> bool {
    matches!(token, None | Some(Token::EOF | Token::RParen | Token::SemiColon))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::super::grammar::Grammar;
    use super::*;

    #[test]
    fn what_others_write_is_what_the_parser_reads() {
        for (written, expected) in [
            ("DESCRIBE FUNCTION Abs", "SHOWFUNCTIONSLIKE'abs'"),
            ("desc function extended abs", "SHOWFUNCTIONSLIKE'abs'"),
            ("DESCRIBE t", "DESCRIBE t"),
            ("SELECT * FROM t LIMIT 50%", "SELECT * FROM t LIMIT \"limit in percent\"(50)"),
            (
                "(SELECT 1 LIMIT 12.5 PERCENT) OFFSET 1",
                "(SELECT 1 LIMIT \"limit in percent\"(12.5) ) OFFSET 1",
            ),
            ("SELECT 1 LIMIT 5 % OFFSET 2", "SELECT 1 LIMIT \"limit in percent\"(5)  OFFSET 2"),
            ("SELECT 1 LIMIT 50 % 7", "SELECT 1 LIMIT 50 % 7"),
            ("INSERT INTO a.t BY NAME SELECT 1 AS x", "INSERT INTO a.t (\"\0by name\")  SELECT 1 AS x"),
            ("INSERT INTO t SELECT 1", "INSERT INTO t SELECT 1"),
            ("INSERT INTO t (by, name) SELECT 1, 2", "INSERT INTO t (by, name) SELECT 1, 2"),
        ] {
            let mut tokens = Tokenizer::new(&Grammar, written).tokenize_with_location().unwrap();
            translate(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{written}");
        }
    }
}
