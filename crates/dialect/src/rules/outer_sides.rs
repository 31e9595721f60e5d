use std::fmt;
use std::sync::Arc;

use crate::rewrite::TreeWalk;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// Hides from an outer join which columns are constant on the side that it fills with nulls, with an [`OuterSide`] between.
///
/// DataFusion takes them for constant above the join, too, and drops a sort by them: `SELECT b.n FROM a LEFT JOIN (SELECT * FROM b WHERE
/// n = 7) AS b ON … ORDER BY b.n`. The nodes stay in the plan: a sort asks again when it runs whether there is anything to do.
#[derive(Debug)]
pub(super) struct OuterSides;

impl PhysicalOptimizerRule for OuterSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hidden = plan.rewrite_up(&mut |node| {
            let (left, right) = match join_type(&node) {
                Some(JoinType::Left) => (false, true),
                Some(JoinType::Right) => (true, false),
                Some(JoinType::Full) => (true, true),
                _ => return Ok(Transformed::no(node)),
            };
            let children = node.children().into_iter().zip([left, right]);
            let children = children.map(|(side, is_filled)| match is_filled && has_constants(side) {
                true => Ok(Arc::new(OuterSide::new(Arc::clone(side))?) as _),
                false => Ok(Arc::clone(side)),
            });
            let children = children.collect::<Result<_>>()?;
            Ok(Transformed::yes(replace_children_if_necessary(node, children)?))
        });
        hidden.data()
    }

    fn name(&self) -> &str {
        "OuterSides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn join_type(node: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    let nested = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    hash.or_else(merge).or_else(nested)
}

fn has_constants(side: &Arc<dyn ExecutionPlan>) -> bool {
    !side.equivalence_properties().constants().is_empty()
}

/// The side of an outer join that is filled with nulls, without its constants.
#[derive(Debug)]
pub(crate) struct OuterSide {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OuterSide {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let known = input.equivalence_properties();
        let orderings = known.oeq_class().iter().cloned();
        let mut properties = EquivalenceProperties::new_with_orderings(input.schema(), orderings);
        for class in known.eq_group().iter() {
            // What equals a literal is constant again.
            let mut alike = class.iter().filter(|alike| !alike.is::<Literal>());
            let Some(first) = alike.next() else { continue };
            for other in alike {
                properties.add_equal_conditions(Arc::clone(first), Arc::clone(other))?;
            }
        }
        let properties = PlanProperties::new(
            properties,
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(Self { input, properties: Arc::new(properties) })
    }
}

impl DisplayAs for OuterSide {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for OuterSide {
    fn name(&self) -> &str {
        "OuterSide"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0))?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }
}
