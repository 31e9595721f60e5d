//! Joins that DuckDB has besides: `ASOF JOIN`, which is a lateral subquery with the nearest row, and `POSITIONAL JOIN`, which is refused.
//!
//! The parser reads an `ASOF JOIN` as a plain one, with a name that no statement writes first in its condition.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, SelectItem, TableAlias, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use yeoul_base::ErrorKind;

use super::span::span_of;
use super::template;
use super::visit::each_expression;
use super::words::{is, words};
use crate::names::free_names::each_free_name;
use crate::names::normalized;
use crate::{Error, Result};

/// The name.
const MARK: &str = "\u{0}asof";

/// Marks the condition of an `ASOF JOIN`.
///
/// # Errors
/// `Invalid` for a `POSITIONAL JOIN`.
pub(super) fn mark(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let is_at = |word: usize, keyword: Keyword| token(word).is_some_and(|token| is(token, keyword));
    let mut marks: Vec<(usize, Vec<Token>)> = Vec::new();
    for word in 0..places.len() {
        let is_positional =
            matches!(token(word), Some(Token::Word(name)) if name.value.eq_ignore_ascii_case("positional"));
        if is_positional && is_at(word + 1, Keyword::JOIN) {
            let text = "not supported: POSITIONAL JOIN: the rows of a table have no places";
            return Err(Error::new(ErrorKind::Invalid, text)
                .with_hint(
                    "number the rows of both by row_number() OVER (ORDER BY …), and join by the number",
                )
                .with_span(span_of(&tokens[places[word]])));
        }
        if !is_at(word, Keyword::ASOF) {
            continue;
        }
        const SIDES: [Keyword; 5] =
            [Keyword::LEFT, Keyword::RIGHT, Keyword::FULL, Keyword::INNER, Keyword::OUTER];
        let join = (word + 1..).find(|at| !SIDES.iter().any(|side| is_at(*at, *side)));
        let Some(join) = join.filter(|join| is_at(*join, Keyword::JOIN)) else { continue };
        // Without a condition of its own, the parser refuses it.
        let Some(condition) = condition_of(&places, tokens, join) else { continue };
        let name = Token::make_word(MARK, Some('"'));
        if is_at(condition, Keyword::ON) {
            marks.push((places[condition] + 1, vec![name, Token::make_keyword("AND")]));
        } else if matches!(token(condition + 1), Some(Token::LParen)) {
            marks.push((places[condition + 1] + 1, vec![name, Token::Comma]));
        } else {
            continue;
        }
        marks.push((places[word], Vec::new()));
    }
    marks.sort_by_key(|(place, _)| *place);
    for (place, mark) in marks.into_iter().rev() {
        if mark.is_empty() {
            tokens.remove(place);
            continue;
        }
        let span = tokens[place - 1].span;
        tokens.splice(place..place, mark.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    Ok(())
}

/// The word `ON` or `USING` of a join, which no other join precedes.
fn condition_of(places: &[usize], tokens: &[TokenWithSpan], join: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (word, place) in places.iter().enumerate().skip(join + 1) {
        match &tokens[*place].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            token if depth == 0 && (is(token, Keyword::ON) || is(token, Keyword::USING)) => {
                return Some(word);
            }
            token if depth == 0 && is(token, Keyword::JOIN) => return None,
            _ => {}
        }
    }
    None
}

/// Writes the marked joins of a `FROM` as lateral ones.
///
/// # Errors
/// `Invalid` for a join that keeps rows of the right side, and for a condition that is not one comparison beside others of columns that
/// name their tables.
pub(super) fn write_laterals(tables: &mut TableWithJoins) -> Result<()> {
    let TableWithJoins { relation, joins } = tables;
    let first = name_of(relation);
    for (place, join) in joins.iter_mut().enumerate() {
        let is_left = matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_));
        let constraint = match &mut join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint) => constraint,
            JoinOperator::RightOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::FullOuter(constraint) => {
                if is_marked(constraint) {
                    return Err(refused("ASOF RIGHT JOIN and ASOF FULL JOIN", "ASOF LEFT JOIN"));
                }
                continue;
            }
            _ => continue,
        };
        if !is_marked(constraint) {
            continue;
        }
        let Some(right) = name_of(&join.relation) else {
            return Err(refused("an ASOF JOIN of what has no name", "AS name behind it"));
        };
        let nearest = match constraint {
            JoinConstraint::On(condition) => Nearest::on(condition, &right)?,
            JoinConstraint::Using(names) => {
                // Of several tables, nobody knows which one has the columns.
                let left = first.as_ref().filter(|_| place == 0);
                let left = left.ok_or_else(|| {
                    refused("an ASOF JOIN with USING behind another join", "ON with both columns")
                })?;
                Nearest::using(left, &right, names)?
            }
            JoinConstraint::Natural | JoinConstraint::None => continue,
        };
        let always = JoinConstraint::On(template::expr("true"));
        join.relation = nearest.of(&join.relation, right);
        join.join_operator = if is_left { JoinOperator::Left(always) } else { JoinOperator::Inner(always) };
    }
    Ok(())
}

fn refused(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
        .with_hint(format!("write instead: {instead}"))
}

fn is_mark(name: &Ident) -> bool {
    name.value == MARK
}

fn is_marked(constraint: &JoinConstraint) -> bool {
    match constraint {
        JoinConstraint::On(condition) => {
            // Behind the parser the mark is the leftmost of all.
            let mut leftmost = condition;
            while let Expr::BinaryOp { left, .. } = leftmost {
                leftmost = left;
            }
            matches!(leftmost, Expr::Identifier(name) if is_mark(name))
        }
        JoinConstraint::Using(names) => {
            names.first().and_then(|name| name.0.first()?.as_ident()).is_some_and(is_mark)
        }
        JoinConstraint::Natural | JoinConstraint::None => false,
    }
}

/// The name by which a statement knows a table.
fn name_of(table: &TableFactor) -> Option<Ident> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, .. } => {
            let name = name.0.last()?.as_ident()?.clone();
            // The name of a file.
            Some(if name.quote_style == Some('\'') { Ident::with_quote('"', name.value) } else { name })
        }
        _ => None,
    }
}

/// Condition that a row of the right side has to meet, and the order in which the nearest comes first.
struct Nearest {
    condition: Expr,
    /// The key that the right side is ordered by.
    key: Expr,
    is_ascending: bool,
    /// Columns that the right side does not show.
    merged: Vec<ObjectName>,
}

impl Nearest {
    fn on(condition: &Expr, right: &Ident) -> Result<Self> {
        let mut parts = Vec::new();
        conjunction(condition, &mut parts);
        if !matches!(parts.first(), Some(Expr::Identifier(name)) if is_mark(name)) {
            return Err(refused("OR in the condition of an ASOF JOIN", "conditions with AND between them"));
        }
        let parts = parts[1..].to_vec();
        for part in &parts {
            let mut bare = None;
            each_free_name(&mut part.clone(), &mut |_, name| bare = Some(name.to_owned()));
            if let Some(bare) = bare {
                let what = format!("the column {bare} without its table in the condition of an ASOF JOIN");
                return Err(refused(&what, "the table before it: t.time >= s.time"));
            }
        }
        let mut comparisons = parts.iter().filter_map(Comparison::of);
        let (Some(comparison), None) = (comparisons.next(), comparisons.next()) else {
            let what = "an ASOF JOIN without one comparison by >=, >, <= or <";
            return Err(refused(what, "t.key = s.key AND t.time >= s.time"));
        };
        let (key, is_ascending) = comparison.of_right(right)?;
        let and = |left: Expr, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        let condition = parts.iter().cloned().reduce(and).expect("there is a comparison");
        Ok(Self { condition, key, is_ascending, merged: Vec::new() })
    }

    /// Columns that are equal, but for the last, in which the right side is not greater.
    fn using(left: &Ident, right: &Ident, names: &[ObjectName]) -> Result<Self> {
        let column = |table: &Ident, name: &ObjectName| {
            let name = name.0.last().and_then(|part| part.as_ident()).cloned();
            Expr::CompoundIdentifier([Some(table.clone()), name].into_iter().flatten().collect())
        };
        let names = &names[1..];
        let Some(last) = names.last() else {
            return Err(refused("an ASOF JOIN without columns in USING", "USING (key, time)"));
        };
        let compared = names.iter().map(|name| Expr::BinaryOp {
            left: Box::new(column(left, name)),
            op: if name == last { BinaryOperator::GtEq } else { BinaryOperator::Eq },
            right: Box::new(column(right, name)),
        });
        let and = |left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        let condition = compared.reduce(and).expect("there is a column");
        Ok(Self { condition, key: column(right, last), is_ascending: false, merged: names.to_vec() })
    }

    /// The nearest row of a table, as a table of its name.
    fn of(self, table: &TableFactor, name: Ident) -> TableFactor {
        let mut query = template::query("SELECT * FROM t LIMIT 1");
        let options = OrderByOptions { asc: Some(self.is_ascending), nulls_first: None };
        let key = OrderByExpr { expr: self.key, options, with_fill: None };
        query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![key]), interpolate: None });
        let select = template::select(&mut query);
        select.from = vec![TableWithJoins { relation: table.clone(), joins: Vec::new() }];
        select.selection = Some(self.condition);
        if !self.merged.is_empty() {
            let excluded = WildcardAdditionalOptions {
                opt_exclude: Some(ExcludeSelectItem::Multiple(self.merged)),
                ..WildcardAdditionalOptions::default()
            };
            select.projection = vec![SelectItem::Wildcard(excluded)];
        }
        let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        TableFactor::Derived { lateral: true, subquery: Box::new(query), alias: Some(alias), sample: None }
    }
}

fn conjunction(expr: &Expr, parts: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunction(left, parts);
            conjunction(right, parts);
        }
        other => parts.push(other.clone()),
    }
}

/// The comparison that says which row is the nearest.
struct Comparison<'a> {
    left: &'a Expr,
    right: &'a Expr,
    /// True if the left side is the greater one.
    is_greater: bool,
}

impl<'a> Comparison<'a> {
    fn of(expr: &'a Expr) -> Option<Self> {
        let Expr::BinaryOp { left, op, right } = expr else { return None };
        let is_greater = match op {
            BinaryOperator::Gt | BinaryOperator::GtEq => true,
            BinaryOperator::Lt | BinaryOperator::LtEq => false,
            _ => return None,
        };
        Some(Self { left, right, is_greater })
    }

    /// The side of the right table, and whether its least value is the nearest.
    fn of_right(&self, table: &Ident) -> Result<(Expr, bool)> {
        match [self.left, self.right].map(|side| Tables::of(side, table)) {
            [Tables::Others, Tables::Right] => Ok((self.right.clone(), !self.is_greater)),
            [Tables::Right, Tables::Others] => Ok((self.left.clone(), self.is_greater)),
            _ => Err(refused(
                "an ASOF JOIN whose comparison has not one table on each side",
                "t.time >= s.time",
            )),
        }
    }
}

/// The tables of the columns in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    None,
    Right,
    Others,
    Both,
}

impl Tables {
    fn of(expr: &Expr, right: &Ident) -> Self {
        let mut found = Self::None;
        each_expression(&mut expr.clone(), &mut |expr| {
            let Expr::CompoundIdentifier(parts) = expr else { return };
            let is_right =
                parts.iter().rev().nth(1).is_some_and(|table| normalized(table) == normalized(right));
            let of = if is_right { Self::Right } else { Self::Others };
            found = if found == Self::None || found == of { of } else { Self::Both };
        });
        found
    }
}
