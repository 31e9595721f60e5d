use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraints, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use serde::{Deserialize, Serialize};

/// What an operator hides of its input from the rules above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Hidden {
    /// Which columns are unique.
    Keys,
    /// Which columns are constant, and which are unique.
    Constants,
    /// Orders other than that by which it is merged.
    Orders,
    /// Which columns are equal, and which are constant.
    Equalities,
}

/// An operator that lets rows through and hides something that DataFusion takes for known of them.
#[derive(Debug)]
pub(crate) struct HidingExec {
    input: Arc<dyn ExecutionPlan>,
    hidden: Hidden,
    properties: Arc<PlanProperties>,
}

impl HidingExec {
    /// One over an input.
    ///
    /// # Errors
    /// As the input's equivalences have them.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, hidden: Hidden) -> Result<Self> {
        let known = input.equivalence_properties();
        let properties = match (hidden, input.downcast_ref::<SortPreservingMergeExec>()) {
            (Hidden::Keys, _) => known.clone().with_constraints(Constraints::default()),
            (Hidden::Orders, Some(merge)) => in_order(known, merge.expr().clone()),
            (Hidden::Orders, None) => known.clone(),
            (Hidden::Constants, _) => without_constants(known)?,
            (Hidden::Equalities, _) => without_equalities(known),
        };
        let properties = PlanProperties::new(
            properties,
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(Self { input, hidden, properties: Arc::new(properties) })
    }

    pub(crate) fn hidden(&self) -> Hidden {
        self.hidden
    }
}

/// What is known, of orders only this one.
pub(super) fn in_order(known: &EquivalenceProperties, order: LexOrdering) -> EquivalenceProperties {
    let mut properties = known.clone();
    properties.clear_orderings();
    properties.add_ordering(order);
    properties
}

/// Orders and unique columns, without what is constant or equal.
fn without_equalities(known: &EquivalenceProperties) -> EquivalenceProperties {
    let orderings = known.oeq_class().iter().cloned();
    EquivalenceProperties::new_with_orderings(Arc::clone(known.schema()), orderings)
        .with_constraints(known.constraints().clone())
}

/// Orders and equal columns, without what is constant or unique.
fn without_constants(known: &EquivalenceProperties) -> Result<EquivalenceProperties> {
    let orderings = known.oeq_class().iter().cloned();
    let mut properties = EquivalenceProperties::new_with_orderings(Arc::clone(known.schema()), orderings);
    for class in known.eq_group().iter() {
        // What equals a literal is constant again.
        let mut alike = class.iter().filter(|alike| !alike.is::<Literal>());
        let Some(first) = alike.next() else { continue };
        for other in alike {
            properties.add_equal_conditions(Arc::clone(first), Arc::clone(other))?;
        }
    }
    Ok(properties)
}

impl DisplayAs for HidingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for HidingExec {
    fn name(&self) -> &str {
        "HidingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// It does, but rules would ask for an order below it, where what it hides is known.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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
        Ok(Arc::new(Self::new(children.swap_remove(0), self.hidden)?))
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
