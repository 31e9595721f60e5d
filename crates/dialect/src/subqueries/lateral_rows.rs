use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullHandling, Result};
use datafusion::logical_expr::builder::unnest_with_options;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery, Unnest, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::{PlanWalk, TreeWalk};

/// Computes what stands in a `FROM` beside a table, and is made of each of its rows alone, together with that row: `FROM sales AS s,
/// unnest(s.tags) AS u(tag)`. DataFusion joins with subqueries, and has no join for `unnest`.
#[derive(Debug)]
pub(crate) struct LateralRows;

impl AnalyzerRule for LateralRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.rewrite_up_with_subqueries(&mut |node| {
            let beside = match &node {
                LogicalPlan::Join(join) => beside(join)?,
                _ => None,
            };
            Ok(beside.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "lateral_rows"
    }
}

/// The rows of the left side with those that are made of each. `None` if the right side is something else.
fn beside(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(subquery) = lateral(&join.right) else { return Ok(None) };
    let is_always = match &join.filter {
        None => true,
        Some(filter) => *filter == lit(true),
    };
    let keeps_rows = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left if is_always && is_one_list(&subquery.subquery) => true,
        _ => return Ok(None),
    };
    if !join.on.is_empty() {
        return Ok(None);
    }
    let lifting = Lifting { left: &join.left, keeps_rows };
    let Some(rows) = lifting.lifted(&subquery.subquery)? else { return Ok(None) };
    let made = subquery.subquery.schema().columns().into_iter().zip(join.right.schema().iter());
    let of_left = join.left.schema().iter().enumerate().map(|(at, named)| (lifted_column(at), named));
    let columns = of_left
        .chain(made)
        .map(|(column, (table, field))| Expr::Column(column).alias_qualified(table.cloned(), field.name()));
    let mut rows = LogicalPlanBuilder::from(rows).project(columns)?;
    if let Some(filter) = join.filter.as_ref().filter(|_| !is_always) {
        rows = rows.filter(filter.clone())?;
    }
    rows.build().map(Some)
}

fn lateral(side: &LogicalPlan) -> Option<&Subquery> {
    match side {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

/// True of the elements of one list as they are: a row that has none is null in all of their columns.
fn is_one_list(made: &LogicalPlan) -> bool {
    let is_column = |expr: &Expr| matches!(expr.clone().unalias_nested().data, Expr::Column(_));
    match made {
        LogicalPlan::SubqueryAlias(alias) => is_one_list(&alias.input),
        LogicalPlan::Projection(columns) => columns.expr.iter().all(is_column) && is_one_list(&columns.input),
        LogicalPlan::Unnest(Unnest { input, exec_columns, list_type_columns, .. }) => {
            let is_single = exec_columns.len() == 1 && list_type_columns.len() == 1;
            let LogicalPlan::Projection(list) = input.as_ref() else { return false };
            is_single && list.expr.len() == 1 && matches!(list.input.as_ref(), LogicalPlan::EmptyRelation(_))
        }
        _ => false,
    }
}

/// The name of a column of the left side on its way through the right one.
fn lifted_column(at: usize) -> Column {
    Column::new_unqualified(format!("__lateral_{at}"))
}

struct Lifting<'a> {
    left: &'a Arc<LogicalPlan>,
    /// True if a row stays that has no element.
    keeps_rows: bool,
}

impl Lifting<'_> {
    /// A plan over one row without columns as a plan over the rows of the left side, which keeps their columns behind its own.
    fn lifted(&self, made: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let input = match made {
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty() =>
            {
                let columns = self.left.schema().columns().into_iter().enumerate();
                let columns = columns.map(|(at, column)| Expr::Column(column).alias(lifted_column(at).name));
                let left = LogicalPlanBuilder::from(self.left.as_ref().clone());
                return left.project(columns)?.build().map(Some);
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::SubqueryAlias(_) => match self.lifted(made.inputs()[0])? {
                Some(input) => input,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let of_left = || (0..self.left.schema().fields().len()).map(|at| Expr::Column(lifted_column(at)));
        let plan = match made {
            LogicalPlan::Projection(columns) => {
                let mut made = Vec::with_capacity(columns.expr.len());
                for (expr, (table, field)) in columns.expr.iter().zip(columns.schema.iter()) {
                    let Some(expr) = self.inside(expr)? else { return Ok(None) };
                    made.push(expr.alias_qualified(table.cloned(), field.name()));
                }
                LogicalPlanBuilder::from(input).project(made.into_iter().chain(of_left()))?.build()?
            }
            LogicalPlan::Filter(filter) => {
                let Some(condition) = self.inside(&filter.predicate)? else { return Ok(None) };
                LogicalPlanBuilder::from(input).filter(condition)?.build()?
            }
            LogicalPlan::Unnest(unnest) => {
                let mut options = unnest.options.clone();
                if self.keeps_rows {
                    options.null_handling = NullHandling::PreserveAndExpandEmpty;
                }
                unnest_with_options(input, unnest.exec_columns.clone(), options)?
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.input.schema().columns().into_iter().zip(alias.schema.iter());
                let columns = columns.map(|(column, (table, field))| {
                    Expr::Column(column).alias_qualified(table.cloned(), field.name())
                });
                LogicalPlanBuilder::from(input).project(columns.chain(of_left()))?.build()?
            }
            _ => unreachable!("it has an input"),
        };
        Ok(Some(plan))
    }

    /// An expression whose outer columns are those that are lifted. `None` if it has others, or subqueries.
    fn inside(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut is_ours = true;
        let expr = expr.clone().rewrite_up(&mut |expr| {
            Ok(match expr {
                Expr::OuterReferenceColumn(_, column) => {
                    match self.left.schema().maybe_index_of_column(&column) {
                        Some(at) => Transformed::yes(Expr::Column(lifted_column(at))),
                        None => {
                            is_ours = false;
                            Transformed::no(Expr::Column(column))
                        }
                    }
                }
                expr @ (Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)) => {
                    is_ours = false;
                    Transformed::no(expr)
                }
                expr => Transformed::no(expr),
            })
        });
        Ok(Some(expr.data()?).filter(|_| is_ours))
    }
}
