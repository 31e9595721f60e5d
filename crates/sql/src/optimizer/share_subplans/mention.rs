//! The node of a logical plan that stands for a subplan which others mention, too.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use super::repeats::Repeats;

/// Number of a repeated subplan in its statement. What it mentions itself has greater ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SubplanId(pub(super) usize);

/// A place that mentions a subplan. It has no inputs, so that each rule takes it for a table of which nothing is known but its columns.
#[derive(Clone)]
pub(super) struct Mention {
    pub(super) id: SubplanId,
    pub(super) schema: DFSchemaRef,
    /// All of the statement, which the planner needs; `None` within it.
    pub(super) repeats: Option<Arc<Repeats>>,
}

impl Mention {
    pub(super) fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
            _ => None,
        }
    }

    pub(super) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

/// Calls `visit` with each mention of a plan, those in subqueries included.
pub(super) fn for_each(plan: &LogicalPlan, mut visit: impl FnMut(&Mention)) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let Some(mention) = Mention::of(node) {
            visit(mention);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

pub(super) fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    for_each(plan, |_| found = true)?;
    Ok(found)
}

/// A plan with others in the places of its mentions, and of those in the others; a mention stays for which there is `None`.
pub(super) fn replaced(
    plan: LogicalPlan,
    other: &impl Fn(&Mention) -> Option<LogicalPlan>,
) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        Ok(match Mention::of(&node).and_then(other) {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(node),
        })
    })
    .data()
}

impl fmt::Debug for Mention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mention({})", self.id.0)
    }
}

impl PartialEq for Mention {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.schema == other.schema
    }
}

impl Eq for Mention {}

impl Hash for Mention {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
        self.schema.hash(state);
    }
}

impl PartialOrd for Mention {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // Those that differ in their columns only are not comparable.
        Some(self.id.cmp(&other.id)).filter(|order| order.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Mention {
    fn name(&self) -> &str {
        "SharedSubplan"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSubplan: subplan={}", self.id.0)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}
