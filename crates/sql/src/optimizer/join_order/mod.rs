//! The order of inner joins, by the estimated rows of what they join.
//!
//! DataFusion joins in the order of the statement, and only exchanges the two sides of a join, if it has statistics of both.
//!
//! - [`interior`]: the operators of a plan that are parts of a graph of joins;
//! - [`graph`]: the graph: relations, and what their rows have to fulfil together;
//! - [`cardinality`]: the rows of sets of relations;
//! - [`search`]: the cheapest order;
//! - [`build`]: its plan;
//! - [`sides`]: the sides of joins that stay in the order of the statement;
//! - [`relation_set`]: sets of relations.

mod build;
mod cardinality;
mod graph;
mod interior;
mod relation_set;
mod search;
mod sides;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tracing::debug;
use yeoul_dialect::settings::Switch;

use self::build::Builder;
use self::cardinality::Cardinalities;
use self::graph::JoinGraph;
use self::interior::Interior;
use self::search::Search;
use self::sides::with_small_sides;

/// The most time that is spent on the orders of one plan. Joins for which there is none left stay as they are.
const TIME_MAX: Duration = Duration::from_millis(400);
/// The fewest relations that can be joined in different orders.
const RELATIONS_MIN: usize = 3;
/// The share of the estimated cost below which another order takes the place of the one that is written.
const GAIN: f64 = 0.9;

/// Joins relations in the order that is estimated to be the cheapest. Runs behind DataFusion's `join_selection`, which would choose the sides of
/// the new joins by estimates of its own.
#[derive(Debug)]
pub(super) struct JoinOrder;

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !Switch::OrderJoins.is_on(config) || !config.optimizer.join_reordering {
            return Ok(plan);
        }
        let deadline = Instant::now() + TIME_MAX;
        with_small_sides(ordered(plan, config, deadline)?, config, deadline)
    }

    fn name(&self) -> &str {
        "JoinOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan with the joins of each of its graphs in order.
fn ordered(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    deadline: Instant,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_graph = Interior::of(&plan).is_some();
    let plan = with_ordered_relations(plan, config, deadline)?;
    if !is_graph {
        return Ok(plan);
    }
    match reordered(&plan, config, deadline) {
        Ok(other) => Ok(other.unwrap_or(plan)),
        Err(error) => {
            debug!(%error, "joins stay in the order of the statement");
            Ok(plan)
        }
    }
}

/// A plan with ordered joins below it: below the relations of the graph that it is the top of, if it is.
fn with_ordered_relations(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    deadline: Instant,
) -> Result<Arc<dyn ExecutionPlan>> {
    let within = Interior::of(&plan).map(|interior| interior.inputs()).unwrap_or_default();
    let children = plan.children().into_iter().map(|child| {
        let is_within = within.iter().any(|input| Arc::ptr_eq(input, child));
        let below = if is_within { with_ordered_relations } else { ordered };
        below(Arc::clone(child), config, deadline)
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// The same joins in a cheaper order; `None` if there is none.
fn reordered(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    deadline: Instant,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.boundedness().is_unbounded() {
        return Ok(None);
    }
    let Some(graph) = JoinGraph::collect(plan)? else { return Ok(None) };
    if graph.relations.len() < RELATIONS_MIN {
        return Ok(None);
    }
    let Some(cardinalities) = Cardinalities::of(&graph)? else { return Ok(None) };
    let mut search = Search::new(&graph, cardinalities, deadline);
    let Some(tree) = search.best() else { return Ok(None) };
    let (Some(before), Some(after)) = (search.cost(&graph.written), search.cost(&tree)) else {
        return Ok(None);
    };
    debug!(relations = graph.relations.len(), before, after, "the cost of an order of joins");
    if tree == graph.written || after >= before * GAIN {
        return Ok(None);
    }
    let mut builder = Builder { graph: &graph, cardinalities: &mut search.cardinalities, config };
    builder.build(&tree, &plan.schema()).map(Some)
}
