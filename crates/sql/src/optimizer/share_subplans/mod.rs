//! Equal subplans of a query, computed once and read by all places that mention them.
//!
//! DataFusion plans a subplan as often as a query mentions it: each mention of a `WITH` query or of a view is a copy.
//!
//! [`ShareSubplans`] runs before all other rules of the optimizer, when copies are still equal. It puts a [`Mention`](mention::Mention) in
//! the place of each copy: a node without inputs, which no filter and no column passes. The [`SharingPlanner`] sees what the optimizer has
//! left above the mentions, and decides for each subplan by its estimated work. What is shared is planned by itself, with the columns that
//! any reader needs and the rows that any reader's filter keeps; all readers are [`SharedSubplanExec`]s of that plan. What is not shared is
//! put back, and the query optimized again.
//!
//! Equality is that of logical plans, which compare everything that decides their rows but for the tables behind their names, which
//! [`repeats`] compares.
//!
//! - [`mention`]: the node;
//! - [`repeats`]: the equal subplans of a plan;
//! - [`readers`]: what stands above a mention, and the plan that suits all of them;
//! - [`planner`]: the decision, and the physical plan.

mod mention;
mod planner;
mod readers;
mod repeats;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use yeoul_dialect::settings::Switch;

pub(crate) use self::planner::SharingPlanner;
use self::repeats::Repeats;
use crate::operators::shared_subplan::SharedSubplanExec;

/// Puts mentions in the places of equal subplans.
#[derive(Debug)]
pub(crate) struct ShareSubplans;

impl OptimizerRule for ShareSubplans {
    fn name(&self) -> &str {
        "share_subplans"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !Switch::ShareSubplans.is_on(&config.options()) || mention::has_any(&plan)? {
            return Ok(Transformed::no(plan));
        }
        Ok(match Repeats::of(&plan)? {
            Some(repeats) => Transformed::yes(repeats.with_mentions()?),
            None => Transformed::no(plan),
        })
    }
}

/// Has one reader of each shared subplan show it as its input. Runs behind all other rules, which would change what that one reads.
#[derive(Debug)]
pub(super) struct ShownSubplans;

impl PhysicalOptimizerRule for ShownSubplans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| match node.downcast_ref::<SharedSubplanExec>() {
            Some(reader) => {
                let shown = reader.shown().map(|shown| Arc::new(shown) as _);
                let is_new = shown.is_some();
                // What it shows is planned, and shows its own.
                Ok(Transformed::new(shown.unwrap_or(node), is_new, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "ShownSubplans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
