mod dependent_join;
mod outer_columns;
mod places;
mod repeatable;

use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Spans};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerContext};
use tracing::debug;
use yeoul_base::ErrorKind;

pub(super) use self::outer_columns::map_outer_columns;
use self::outer_columns::{free_columns, is_lateral};
use self::places::in_node;
use super::shape::has_subquery;
use crate::Error;
use crate::rewrite::{LogicalRule, PlanWalk, TreeWalk};

/// Correlated subqueries that DataFusion cannot make joins of, or of which it would make something else: below aggregates and windows,
/// on sides of outer joins, two queries further in.
///
/// Each is computed once for all of the rows around it: see [`DependentJoin`]. That takes the rows around it twice. So it is what is
/// left where DataFusion's own joins fail: a statement is planned with them first.
#[derive(Debug)]
pub(crate) struct Unnesting {
    /// The optimizer's, ours among them, which tell whether a statement can do without.
    pub(crate) rules: Vec<LogicalRule>,
}

impl Unnesting {
    /// True if the optimizer makes a plan without subqueries, but for those that are computed once.
    fn is_answered(&self, plan: &LogicalPlan, options: &ConfigOptions) -> Result<bool> {
        let context = OptimizerContext::new_with_config_options(Arc::new(options.clone()));
        let plan = Optimizer::with_rules(self.rules.clone()).optimize(plan.clone(), &context, |_, _| {})?;
        Ok(!has_dependent(&plan)?)
    }
}

impl AnalyzerRule for Unnesting {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        if !may_be_refused(&plan)? {
            return Ok(plan);
        }
        let stopped = match self.is_answered(&plan, options) {
            Ok(true) => return Ok(plan),
            answered => answered.err(),
        };
        debug!(?stopped, "a statement is planned again without correlated subqueries");
        let answered = unnested(plan.clone()).and_then(|unnested| {
            let is_answered = unnested.transformed && self.is_answered(&unnested.data, options)?;
            Ok(is_answered.then_some(unnested.data))
        });
        match answered {
            Ok(Some(unnested)) => return Ok(unnested),
            Ok(None) => {}
            Err(error) => debug!(%error, "a statement's subqueries are left"),
        }
        match stopped {
            // The optimizer lost track of columns: its error names some that are there.
            Some(error) if matches!(error.find_root(), DataFusionError::SchemaError(..)) => Err(lost()),
            // What stopped it says what is not supported.
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "unnesting"
    }
}

fn lost() -> DataFusionError {
    let message = "not supported: a subquery that names a column of the query around it, in this place";
    let hint =
        "join with its rows instead: … FROM a LEFT JOIN (SELECT key, … GROUP BY key) AS b ON b.key = a.key";
    Error::new(ErrorKind::Invalid, message).with_hint(hint).into()
}

/// True if a plan has subqueries that depend on the rows around them, or predicates where DataFusion has no joins for them.
fn may_be_refused(plan: &LogicalPlan) -> Result<bool> {
    let mut may_be = false;
    plan.each_with_subqueries(&mut |node| {
        may_be |= matches!(node, LogicalPlan::Join(join) if is_lateral(&join.right));
        let is_odd = matches!(node, LogicalPlan::Join(_) | LogicalPlan::Sort(_));
        let is_filter = matches!(node, LogicalPlan::Filter(_));
        node.each_expression(&mut |expr| {
            may_be |= expr.has_any(&mut |expr| {
                Ok(match expr {
                    Expr::InSubquery(_) | Expr::Exists(_) => is_odd,
                    Expr::SetComparison(comparison) => !is_filter || has_subquery(&comparison.expr)?,
                    other => matches!(other, Expr::OuterReferenceColumn(..)),
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if may_be { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(may_be)
}

/// True if a plan has subqueries that are no values which are computed once for the statement.
fn has_dependent(plan: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    plan.each_with_subqueries(&mut |node| {
        // What a LATERAL leaves behind may stand below another node than its join.
        has_any |= node.inputs().iter().any(|input| matches!(input, LogicalPlan::Subquery(_)));
        node.each_expression(&mut |expr| {
            has_any |= expr.has_any(&mut |expr| {
                Ok(match expr {
                    Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => true,
                    other => matches!(other, Expr::OuterReferenceColumn(..)),
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has_any)
}

/// Marks as `LATERAL` what is so by a subquery within it only, which DataFusion does not look into.
///
/// No query is around a statement: such a column is one of the join's left side.
fn with_lateral(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.rewrite_down(&mut |node| match node {
        LogicalPlan::Subquery(_) => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
        LogicalPlan::Join(mut join) if !is_lateral(&join.right) && !free_columns(&join.right)?.is_empty() => {
            join.right = Arc::new(LogicalPlan::Subquery(Subquery {
                subquery: Arc::clone(&join.right),
                outer_ref_columns: Vec::new(),
                spans: Spans::default(),
            }));
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    });
    plan.data()
}

/// A plan with joins in place of its dependent subqueries, where that can be done.
fn unnested(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // The names are those of one statement, which is analyzed once.
    let names = AliasGenerator::new();
    let plan = with_lateral(plan)?;
    let plan = plan.rewrite_down_with_subqueries(&mut |node| match in_node(&node, &names) {
        Ok(Some(node)) => Ok(Transformed::yes(node)),
        Ok(None) => Ok(Transformed::no(node)),
        Err(error) => {
            debug!(%error, "a subquery is left");
            Ok(Transformed::no(node))
        }
    })?;
    // A value may be null by a join, and what stands above computes with it.
    plan.transform_data(|plan| {
        plan.rewrite_up_with_subqueries(&mut |node| node.recompute_schema().map(Transformed::yes))
    })
}
