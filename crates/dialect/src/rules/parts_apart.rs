use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::{OutputRequirementExec, OutputRequirements};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::rewrite::{PhysicalRule, TreeWalk};

/// Runs a DataFusion rule on each side of a barrier node separately, because across it the rule changes the result:
///
/// - `EnsureRequirements` moves a sort below an `OFFSET`: the sort's limit does not count the rows to be skipped
///   (datafusion#24958), and the `OFFSET` skips sorted rows instead of the first ones (datafusion#25378).
/// - `FilterPushdown` binds columns by name, and a join may have two of the same name (datafusion#25259).
/// - `ProjectionPushdown` moves a projection below a join by merging, whose filter then looks for its columns in their old places. It
///   moves one below a filter that has a projection itself, and takes the places behind that for those before it.
/// - `LimitAggregation` drops groups that a window above still counts (datafusion#25066).
/// - `aggregate_statistics` looks for the first half of a grand total below its second half, passes by one with a `FILTER`, and takes
///   the functions of another grand total further down for those of the first.
#[derive(Debug)]
pub(super) struct PartsApart {
    rule: PhysicalRule,
    /// The rules to run on the subplan from a barrier down, as if that were the whole plan.
    for_part: Vec<PhysicalRule>,
    is_part: Predicate,
}

type Predicate = fn(&Arc<dyn ExecutionPlan>) -> bool;

impl PartsApart {
    /// `EnsureRequirements`, on each side of an `OFFSET`.
    pub(super) fn of_offsets(rule: PhysicalRule) -> PhysicalRule {
        let (add, remove) = (OutputRequirements::new_add_mode(), OutputRequirements::new_remove_mode());
        let for_part = vec![Arc::new(add) as PhysicalRule, Arc::clone(&rule), Arc::new(remove)];
        Arc::new(Self { rule, for_part, is_part: passes_over_rows })
    }

    /// `FilterPushdown`, on each side of a node that has columns of one name.
    pub(super) fn of_names_alike(rule: PhysicalRule) -> PhysicalRule {
        Arc::new(Self { for_part: vec![Arc::clone(&rule)], rule, is_part: has_names_alike })
    }

    /// `ProjectionPushdown`, on each side of a join by merging with a filter, and of a filter with a projection.
    pub(super) fn of_mistaken_places(rule: PhysicalRule) -> PhysicalRule {
        let is_part = |node: &Arc<dyn ExecutionPlan>| is_filtered_merge(node) || is_projected_filter(node);
        Arc::new(Self { for_part: vec![Arc::clone(&rule)], rule, is_part })
    }

    /// `aggregate_statistics`, on each side of the first half of a grand total with a `FILTER`.
    pub(super) fn of_filtered_totals(rule: PhysicalRule) -> PhysicalRule {
        Arc::new(Self { for_part: vec![Arc::clone(&rule)], rule, is_part: is_filtered_total })
    }

    /// `LimitAggregation`, on each side of a window.
    pub(super) fn of_windows(rule: PhysicalRule) -> PhysicalRule {
        Arc::new(Self { for_part: vec![Arc::clone(&rule)], rule, is_part: is_window })
    }
}

impl PhysicalOptimizerRule for PartsApart {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.rewrite_up(&mut |node| {
            if !(self.is_part)(&node) {
                return Ok(Transformed::no(node));
            }
            let part = self.for_part.iter().try_fold(node, |part, rule| rule.optimize(part, config))?;
            Ok(Transformed::yes(Arc::new(Part(part)) as _))
        });
        let plan = self.rule.optimize(plan.data()?, config)?;
        let whole = plan.rewrite_down(&mut |node| match node.downcast_ref::<Part>() {
            Some(part) => Ok(Transformed::yes(Arc::clone(&part.0))),
            None => Ok(Transformed::no(node)),
        });
        whole.data()
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// True if it is a limit with an `OFFSET`, but not that of the whole answer with an `OutputRequirementExec` below.
fn passes_over_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| limit.skip() > 0)
        && !node.has_any(&mut |below| Ok(below.is::<OutputRequirementExec>())).unwrap_or(true)
}

/// True if a filter pushed into this node could bind to the wrong one of two columns of the same name.
fn has_names_alike(node: &Arc<dyn ExecutionPlan>) -> bool {
    let alike = |node: &Arc<dyn ExecutionPlan>| {
        let schema = node.schema();
        let mut names = HashSet::new();
        !schema.fields().iter().all(|field| names.insert(field.name()))
    };
    // A filter with a projection takes over the filters that its input refuses, and binds them by the input's names.
    alike(node) || (node.is::<FilterExec>() && node.children().into_iter().any(alike))
}

fn is_window(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>()
}

fn is_filtered_total(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        aggregate.mode().input_mode() == AggregateInputMode::Raw
            && aggregate.group_expr().is_empty()
            && aggregate.filter_expr().iter().any(Option::is_some)
    })
}

fn is_filtered_merge(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<SortMergeJoinExec>().is_some_and(|join| join.filter().is_some())
}

fn is_projected_filter(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<FilterExec>().is_some_and(|filter| filter.projection().is_some())
}

/// A leaf that stands for a subplan while a rule runs on the plan above it.
#[derive(Debug)]
struct Part(Arc<dyn ExecutionPlan>);

impl DisplayAs for Part {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Part {
    fn name(&self) -> &str {
        "Part"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
