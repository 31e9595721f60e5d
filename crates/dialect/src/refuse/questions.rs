//! Clauses that only the columns of a query's tables decide about: `* ILIKE 'p'`, `* REPLACE (… AS c)`, `COLUMNS('p')`, `NATURAL JOIN`, and names that may
//! be those of a column or of an alias of the same `SELECT`.
//!
//! DataFusion leaves the first out, and the second if there is no such column; the third it makes a cross join if there is no common
//! one. The columns are known once it plans the tables. So a column that cannot be there, with a number in its name, stands in the place
//! of such a clause at first; planning fails with the columns that there are, and the clause is put back, decided.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::ilike;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Select,
    SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Value, VisitorMut,
    WildcardAdditionalOptions,
};

use super::refused::Clause;
use crate::names::{column_sets, earlier_aliases};
use crate::parse::visit::walk;
use crate::{Error, Result, names};

/// Begins the name of the column that cannot be there.
const MARK: &str = "\u{0}columns of question ";

/// The clauses of a statement that wait for the columns that there are.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    open: Vec<Option<Question>>,
}

#[derive(Clone, Debug)]
enum Question {
    /// Which of the columns an item stands for.
    Item(Box<SelectItem>),
    /// True if two tables have a common column. Whether the right one is a single table.
    Common { is_single: bool },
    /// Which names of a `SELECT` are those of its aliases.
    Aliases,
}

impl Questions {
    /// How many plannings it takes to decide all of them.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// True if an item waits that names columns with their tables.
    pub(crate) fn has_table(&self) -> bool {
        self.open.iter().flatten().any(
            |open| matches!(open, Question::Item(item) if !matches!(item.as_ref(), SelectItem::Wildcard(_))),
        )
    }

    /// Takes an item out of a `SELECT`, until its columns are known.
    pub(super) fn about_columns(&mut self, item: &mut SelectItem) {
        let mark = self.mark();
        self.open.push(Some(Question::Item(Box::new(item.clone()))));
        *item = SelectItem::UnnamedExpr(mark);
    }

    /// Takes the `NATURAL` out of a join, until the columns of its tables are known.
    pub(super) fn about_common_columns(&mut self, constraint: &mut JoinConstraint, right: &TableFactor) {
        let mark = self.mark();
        let is_single = !matches!(right, TableFactor::NestedJoin { table_with_joins: _, alias: None });
        self.open.push(Some(Question::Common { is_single }));
        *constraint = JoinConstraint::On(mark);
    }

    /// Lets the condition of a `SELECT` wait, and with it which of its names are aliases, until the columns of its tables are known.
    pub(super) fn about_aliases(&mut self, selection: &mut Option<Expr>) {
        let mark = self.mark();
        self.open.push(Some(Question::Aliases));
        *selection = Some(match selection.take() {
            Some(condition) => Expr::BinaryOp {
                left: Box::new(mark),
                op: BinaryOperator::And,
                right: Box::new(Expr::Nested(Box::new(condition))),
            },
            None => mark,
        });
    }

    fn mark(&self) -> Expr {
        Expr::Identifier(Ident::with_quote('"', format!("{MARK}{}", self.open.len())))
    }

    /// Decides the question that planning failed with, and puts its clause back into the statement. False for another error.
    ///
    /// # Errors
    /// `Invalid` for a clause that the columns do not allow.
    pub(crate) fn decide(&mut self, statement: &mut Statement, error: &DataFusionError) -> Result<bool> {
        let DataFusionError::SchemaError(error, _) = error.find_root() else { return Ok(false) };
        let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref() else { return Ok(false) };
        let number = field.name.strip_prefix(MARK).and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number else { return Ok(false) };
        let question = self.open.get_mut(number).and_then(Option::take);
        let Some(question) = question else { return Ok(false) };
        let answer = match question {
            Question::Item(item) => Answer::Items(decided(*item, valid_fields)?),
            Question::Common { is_single } => {
                if !has_common(valid_fields, is_single) {
                    return Err(Clause::NaturalNothing.error());
                }
                Answer::Natural
            }
            Question::Aliases => {
                Answer::Aliases(valid_fields.iter().map(|column| column.name.as_str()).collect())
            }
        };
        match walk(statement, &mut PutBack { mark: field.name.clone(), answer }) {
            ControlFlow::Continue(()) => Ok(true),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

enum Answer<'c> {
    /// The items that one stands for.
    Items(Vec<SelectItem>),
    Natural,
    /// Names of the columns of the tables.
    Aliases(HashSet<&'c str>),
}

/// Puts a clause back where its mark stands.
struct PutBack<'c> {
    mark: String,
    answer: Answer<'c>,
}

impl PutBack<'_> {
    fn is_mark(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Identifier(name) if name.value == self.mark)
    }

    /// Takes the mark out of the condition of a `SELECT`. False if it is not there.
    fn taken_out(&self, selection: &mut Option<Expr>) -> bool {
        match selection {
            Some(mark) if self.is_mark(mark) => *selection = None,
            Some(Expr::BinaryOp { left, op: BinaryOperator::And, right }) if self.is_mark(left) => {
                *selection = Some(std::mem::replace(right.as_mut(), Expr::value(Value::Null)));
            }
            _ => return false,
        }
        true
    }

    fn in_joins(&self, table: &mut TableWithJoins) {
        for join in &mut table.joins {
            let constraint = match &mut join.join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint)
                | JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::LeftSemi(constraint)
                | JoinOperator::RightSemi(constraint)
                | JoinOperator::LeftAnti(constraint)
                | JoinOperator::RightAnti(constraint) => constraint,
                _ => continue,
            };
            if matches!(constraint, JoinConstraint::On(mark) if self.is_mark(mark)) {
                *constraint = JoinConstraint::Natural;
            }
        }
    }
}

impl VisitorMut for PutBack<'_> {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match &self.answer {
            Answer::Items(items) => {
                let is_mark =
                    |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(mark) if self.is_mark(mark));
                if let Some(place) = select.projection.iter().position(is_mark) {
                    select.projection.splice(place..=place, items.iter().cloned());
                }
            }
            Answer::Natural => select.from.iter_mut().for_each(|table| self.in_joins(table)),
            Answer::Aliases(columns) => {
                if self.taken_out(&mut select.selection)
                    && let Err(error) = earlier_aliases::replace(select, columns)
                {
                    return ControlFlow::Break(error);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let (Answer::Natural, TableFactor::NestedJoin { table_with_joins, alias: _ }) =
            (&self.answer, factor)
        {
            self.in_joins(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

/// The columns that an item stands for: a `*` with what stands behind it, as planning honours it, or the columns of a set.
fn decided(mut item: SelectItem, columns: &[Column]) -> Result<Vec<SelectItem>> {
    let (options, names) = match &mut item {
        SelectItem::Wildcard(options) => {
            (options, columns.iter().map(|column| column.name.as_str()).collect())
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
            (options, columns_of(table, columns))
        }
        _ => return column_sets::expanded(&item, columns),
    };
    decide_wildcard(options, &names)?;
    Ok(vec![item])
}

fn columns_of<'c>(table: &ObjectName, columns: &'c [Column]) -> HashSet<&'c str> {
    let table = table.0.last().and_then(|part| part.as_ident()).map(names::normalized);
    let is_of = |column: &&Column| column.relation.as_ref().map(|table| table.table()) == table.as_deref();
    columns.iter().filter(is_of).map(|column| column.name.as_str()).collect()
}

fn decide_wildcard(options: &mut WildcardAdditionalOptions, names: &HashSet<&str>) -> Result<()> {
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    for replaced in replaced {
        if !names.contains(replaced.column_name.value.as_str()) {
            return Err(Clause::WildcardMissing.error_at_name(&replaced.column_name));
        }
    }
    let Some(ilike) = options.opt_ilike.take() else { return Ok(()) };
    let listed: Vec<&str> = names.iter().copied().collect();
    let is_like = is_ilike(&listed, &ilike.pattern)?;
    let mut others: Vec<&str> =
        listed.iter().zip(is_like).filter_map(|(name, is_like)| (!is_like).then_some(*name)).collect();
    if others.len() == names.len() {
        return Err(unmatched(&ilike.pattern, names));
    }
    others.sort_unstable();
    let quoted = |name: &str| ObjectName::from(Ident::with_quote('"', name));
    let others: Vec<ObjectName> = others.into_iter().map(quoted).collect();
    options.opt_exclude = (!others.is_empty()).then_some(ExcludeSelectItem::Multiple(others));
    Ok(())
}

fn unmatched(pattern: &str, names: &HashSet<&str>) -> Error {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    let names = crate::suggest::list(&names);
    Clause::WildcardUnmatched.error().with_hint(format!("'{pattern}' has to match one of {names}"))
}

/// Which of the names are like a pattern, whatever their case.
fn is_ilike(names: &[&str], pattern: &str) -> Result<Vec<bool>> {
    let (names, pattern) = (StringArray::from(names.to_vec()), StringArray::new_scalar(pattern));
    let is_like = ilike(&names, &pattern).map_err(DataFusionError::from)?;
    Ok(is_like.iter().map(|is_like| is_like == Some(true)).collect())
}

/// True if a join's columns, those of its left side first, contain one that both sides have. DataFusion does not say where the right
/// side begins; of a single table, all columns have the same qualifier.
fn has_common(columns: &[Column], is_single: bool) -> bool {
    let mut names = HashSet::new();
    if !is_single {
        return !columns.iter().all(|column| names.insert(&column.name));
    }
    let last = columns.last().map(|column| &column.relation);
    let right = columns.iter().rev().take_while(|column| Some(&column.relation) == last).count();
    let (left, right) = columns.split_at(columns.len() - right);
    names.extend(left.iter().map(|column| &column.name));
    right.iter().any(|column| names.contains(&column.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_of_like_whatever_the_case() {
        let names = ["id", "Name", "name_2", "nameX2"];
        assert_eq!(is_ilike(&names, "NAME%").unwrap(), [false, true, true, true]);
        assert_eq!(is_ilike(&names, "name\\_2").unwrap(), [false, false, true, false]);
    }

    #[test]
    fn a_common_column_is_one_of_both_sides() {
        let columns =
            |names: &[&str]| names.iter().map(|name| Column::from_qualified_name(*name)).collect::<Vec<_>>();
        assert!(has_common(&columns(&["a.x", "a.y", "b.y"]), true));
        assert!(!has_common(&columns(&["a.x", "b.x", "c.y"]), true));
        assert!(has_common(&columns(&["a.x", "b.y", "c.x", "c.z"]), true));
        assert!(!has_common(&columns(&["a.x", "b.y"]), false));
        assert!(has_common(&columns(&["a.x", "b.y", "c.x"]), false));
    }
}
