//! Operators above a mention, and the plan whose rows and columns suit all readers of a subplan.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator};

use super::mention::{Mention, SubplanId};

/// The most filters that are joined by `OR`.
const FILTERS_MAX: usize = 32;

/// A mention, with what is read of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    /// All of these hold of the rows that it reads.
    pub(super) filters: Vec<Expr>,
    /// Places of the columns; `None` for all.
    pub(super) columns: Option<BTreeSet<usize>>,
    /// True if a limit stands directly above, so that the first rows are enough.
    pub(super) is_limited: bool,
}

/// The readers of each subplan that a plan mentions, those in subqueries included.
pub(super) fn of_plan(plan: &LogicalPlan, readers: &mut HashMap<SubplanId, Vec<Reader>>) -> Result<()> {
    walk(plan, Above::default(), readers)
}

/// Filters and columns between a node and the nearest operator above it that is no filter.
#[derive(Clone, Default)]
struct Above {
    filters: Vec<Expr>,
    /// The columns that are read; `None` for all.
    columns: Option<Vec<Column>>,
    is_limited: bool,
}

fn walk(plan: &LogicalPlan, above: Above, readers: &mut HashMap<SubplanId, Vec<Reader>>) -> Result<()> {
    if let Some(mention) = Mention::of(plan) {
        let place = |column: &Column| mention.schema.maybe_index_of_column(column);
        let columns: Option<BTreeSet<usize>> =
            above.columns.and_then(|columns| columns.iter().map(place).collect());
        let reader = Reader { filters: above.filters, columns, is_limited: above.is_limited };
        readers.entry(mention.id).or_default().push(reader);
        return Ok(());
    }
    plan.apply_subqueries(|subquery| {
        walk(subquery, Above::default(), readers)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let below = match plan {
        // Filters stay above a choice of columns, which have the same names below it.
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_column) => {
            Above { columns: columns_of(plan)?, ..above }
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => {
            Above { columns: columns_of(plan)?, ..Above::default() }
        }
        LogicalPlan::Filter(filter) => {
            let mut below = above;
            below.columns = match (below.columns, columns_of(plan)?) {
                (Some(mut columns), Some(more)) => {
                    columns.extend(more);
                    Some(columns)
                }
                _ => None,
            };
            below.filters.extend(split_conjunction(&filter.predicate).into_iter().cloned());
            below
        }
        LogicalPlan::Limit(_) => Above { is_limited: true, ..Above::default() },
        _ => Above::default(),
    };
    for input in plan.inputs() {
        walk(input, below.clone(), readers)?;
    }
    Ok(())
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_))
}

fn has_subquery(exprs: &[Expr]) -> Result<bool> {
    exprs.iter().try_fold(false, |has_one, expr| Ok(has_one || expr.exists(|part| Ok(is_subquery(part)))?))
}

/// The columns that the expressions of a node read; `None` if one has a subquery, which may read others.
fn columns_of(plan: &LogicalPlan) -> Result<Option<Vec<Column>>> {
    let mut columns = Some(Vec::new());
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            match part {
                Expr::Column(column) => columns.iter_mut().for_each(|columns| columns.push(column.clone())),
                part if is_subquery(part) => columns = None,
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(columns)
}

/// The subplan with the columns that any of its readers needs, and the rows that any of their filters keeps. Each reader filters for
/// itself.
pub(super) fn merged(subplan: &LogicalPlan, readers: &[Reader]) -> Result<LogicalPlan> {
    let filters: Option<Vec<Expr>> = readers.iter().map(|reader| moved(&reader.filters)).collect();
    let mut distinct: Vec<Expr> = Vec::new();
    for filter in filters.into_iter().flatten() {
        if !distinct.contains(&filter) {
            distinct.push(filter);
        }
    }
    let filter = if distinct.len() <= FILTERS_MAX { disjunction(distinct) } else { None };
    let columns: Option<BTreeSet<usize>> = readers.iter().try_fold(BTreeSet::new(), |all, reader| {
        Some(all.union(reader.columns.as_ref()?).copied().collect())
    });
    read(subplan, filter, columns.as_ref())
}

/// Plan of one reader if the subplan were its own.
pub(super) fn alone(subplan: &LogicalPlan, reader: &Reader) -> Result<LogicalPlan> {
    let filter = match has_subquery(&reader.filters)? {
        true => moved(&reader.filters),
        false => conjunction(reader.filters.iter().cloned()),
    };
    read(subplan, filter, reader.columns.as_ref())
}

fn read(
    subplan: &LogicalPlan,
    filter: Option<Expr>,
    columns: Option<&BTreeSet<usize>>,
) -> Result<LogicalPlan> {
    let mut plan = LogicalPlanBuilder::from(subplan.clone());
    if let Some(filter) = filter {
        plan = plan.filter(filter)?;
    }
    let schema = subplan.schema();
    if let Some(columns) = columns.filter(|columns| columns.len() < schema.fields().len()) {
        // A plan without columns would not keep the number of its rows on disk.
        let first = columns.is_empty().then_some(0);
        let columns = columns.iter().copied().chain(first).map(|place| column(schema, place));
        plan = plan.project(columns.collect::<Vec<_>>())?;
    }
    plan.build()
}

fn column(schema: &DFSchema, place: usize) -> Expr {
    Expr::Column(Column::from(schema.qualified_field(place)))
}

/// The filters that may be asked of rows which another reader's filter leaves out, joined by `AND`; `None` if there is none.
fn moved(filters: &[Expr]) -> Option<Expr> {
    conjunction(filters.iter().filter(|filter| cannot_fail(filter)).cloned())
}

fn compares(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
            | Operator::And
            | Operator::Or
    )
}

/// True of comparisons of columns and constants: whatever the row, they have an answer.
fn cannot_fail(filter: &Expr) -> bool {
    match filter {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            compares(*op) && cannot_fail(left) && cannot_fail(right)
        }
        Expr::Not(expr)
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::IsTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsNotUnknown(expr) => cannot_fail(expr),
        Expr::Between(between) => {
            [&between.expr, &between.low, &between.high].into_iter().all(|expr| cannot_fail(expr))
        }
        Expr::InList(InList { expr, list, .. }) => cannot_fail(expr) && list.iter().all(cannot_fail),
        _ => false,
    }
}
