//! Operators behind `|>` that the grammar or the planner has not: `SET` and `DROP` are a `SELECT` of what stands before them, and the query
//! behind `UNION`, `EXCEPT` and `INTERSECT` needs no parentheses.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ExceptSelectItem, Expr, Ident, PipeOperator, Query, ReplaceSelectElement,
    ReplaceSelectItem, SelectItem, TableFactor, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::in_place_of;
use crate::parse::template;
use crate::parse::words::{is, words};

/// Encloses the query behind a set operation in parentheses, and writes the `DISTINCT` that it means.
pub(super) fn enclose_queries(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let mut inserted: Vec<(usize, Vec<Token>)> = Vec::new();
    let mut replaced = Vec::new();
    for word in 0..places.len() {
        let is_at = |word: usize, keyword: Keyword| token(word).is_some_and(|token| is(token, keyword));
        let is_operation = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT, Keyword::MINUS]
            .iter()
            .any(|keyword| is_at(word + 1, *keyword));
        if token(word) != Some(&Token::VerticalBarRightAngleBracket) || !is_operation {
            continue;
        }
        let has_quantifier = is_at(word + 2, Keyword::ALL) || is_at(word + 2, Keyword::DISTINCT);
        let first = if has_quantifier { word + 3 } else { word + 2 };
        let Some(begin) = places.get(first).copied() else { continue };
        if is_at(word + 1, Keyword::MINUS) {
            replaced.push(places[word + 1]);
        }
        if !has_quantifier {
            inserted.push((begin, template::tokens("DISTINCT ")));
        }
        if token(first) == Some(&Token::LParen) {
            continue;
        }
        inserted.push((begin, vec![Token::LParen]));
        let mut depth = 0_usize;
        let ends = |word: &usize| match token(*word) {
            Some(Token::LParen) => {
                depth += 1;
                false
            }
            Some(Token::RParen) if depth > 0 => {
                depth -= 1;
                false
            }
            Some(Token::RParen | Token::SemiColon | Token::EOF) => depth == 0,
            Some(Token::VerticalBarRightAngleBracket) => depth == 0,
            _ => false,
        };
        let end = (first..places.len()).find(ends).map_or(tokens.len(), |word| places[word]);
        inserted.push((end, vec![Token::RParen]));
    }
    for place in replaced {
        tokens[place].token = Token::make_keyword("EXCEPT");
    }
    inserted.sort_by_key(|(place, _)| *place);
    for (place, written) in inserted.into_iter().rev() {
        let beside = tokens[place.min(tokens.len() - 1)].clone();
        tokens.splice(place..place, in_place_of(&beside, written));
    }
}

/// Writes the last `SET` or `DROP` of a query as a `SELECT` of a query of all that stands before it. The inner one is written so in its turn.
pub(super) fn write_selects(query: &mut Query) {
    let is_one =
        |operator: &PipeOperator| matches!(operator, PipeOperator::Set { .. } | PipeOperator::Drop { .. });
    let Some(last) = query.pipe_operators.iter().rposition(is_one) else { return };
    let behind = query.pipe_operators.split_off(last + 1);
    let options = match query.pipe_operators.pop() {
        Some(PipeOperator::Drop { columns }) => vec![without(columns)],
        Some(PipeOperator::Set { assignments }) => {
            let set = assignments.into_iter().map(|assignment| match assignment.target {
                AssignmentTarget::ColumnName(name) => {
                    Some((name.0.last()?.as_ident()?.clone(), assignment.value))
                }
                AssignmentTarget::Tuple(_) => None,
            });
            let Some(set) = set.collect::<Option<Vec<_>>>() else { return };
            set.into_iter().map(|(column, value)| with(column, value)).collect()
        }
        _ => return,
    };
    let with = query.with.take();
    let empty = template::query("SELECT * FROM (SELECT 1)");
    let mut whole = mem::replace(query, empty.clone());
    for option in options {
        let mut outer = empty.clone();
        let select = template::select(&mut outer);
        select.projection = vec![SelectItem::Wildcard(option)];
        if let Some(tables) = select.from.first_mut()
            && let TableFactor::Derived { subquery, .. } = &mut tables.relation
        {
            **subquery = whole;
        }
        whole = outer;
    }
    *query = Query { with, pipe_operators: behind, ..whole };
}

/// All columns but these.
fn without(columns: Vec<Ident>) -> WildcardAdditionalOptions {
    let mut columns = columns.into_iter();
    let first = columns.next();
    WildcardAdditionalOptions {
        opt_except: first
            .map(|first_element| ExceptSelectItem { first_element, additional_elements: columns.collect() }),
        ..WildcardAdditionalOptions::default()
    }
}

/// All columns, with another value of one.
fn with(column: Ident, value: Expr) -> WildcardAdditionalOptions {
    let element = ReplaceSelectElement { expr: value, column_name: column, as_keyword: true };
    WildcardAdditionalOptions {
        opt_replace: Some(ReplaceSelectItem { items: vec![Box::new(element)] }),
        ..WildcardAdditionalOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    #[test]
    fn the_query_of_a_set_operation_is_enclosed() {
        for (sql, expected) in [
            ("FROM t |> UNION ALL FROM u", "FROM t |> UNION ALL (FROM u)"),
            ("FROM t |> union FROM u |> WHERE a", "FROM t |> union DISTINCT (FROM u )|> WHERE a"),
            ("FROM t |> EXCEPT (FROM u)", "FROM t |> EXCEPT DISTINCT (FROM u)"),
            ("(FROM t |> UNION ALL SELECT (1))", "(FROM t |> UNION ALL (SELECT (1)))"),
            ("FROM t UNION FROM u", "FROM t UNION FROM u"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            enclose_queries(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{sql}");
        }
    }

    #[test]
    fn set_and_drop_are_selects() {
        for (sql, expected) in [
            ("FROM t |> DROP a, b", "SELECT * EXCEPT (a, b) FROM (FROM t)"),
            (
                "FROM t |> SET a = 1, b = a |> WHERE a",
                "SELECT * REPLACE (a AS b) FROM (SELECT * REPLACE (1 AS a) FROM (FROM t)) |> WHERE a",
            ),
            ("FROM t |> WHERE a", "FROM t |> WHERE a"),
        ] {
            let mut query = template::query(sql);
            write_selects(&mut query);
            assert_eq!(query.to_string(), expected, "{sql}");
        }
    }
}
