use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use yeoul_base::ErrorKind;

use crate::Error;

/// The recursive term of a `WITH RECURSIVE`, which stops one that never ends.
#[derive(Debug)]
pub(crate) struct RoundLimitExec {
    term: Arc<dyn ExecutionPlan>,
    name: String,
    rounds_max: u64,
    /// The rounds that have begun.
    rounds: Arc<AtomicU64>,
}

impl RoundLimitExec {
    pub(crate) fn new(term: Arc<dyn ExecutionPlan>, name: &str, rounds_max: u64) -> Self {
        Self { term, name: name.to_owned(), rounds_max, rounds: Arc::default() }
    }
}

impl DisplayAs for RoundLimitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoundLimitExec: rounds={}", self.rounds_max)
    }
}

impl ExecutionPlan for RoundLimitExec {
    fn name(&self) -> &str {
        "RoundLimitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.term.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.term]
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
        let term = children.pop().expect("it has one child");
        let (name, rounds) = (self.name.clone(), Arc::clone(&self.rounds));
        Ok(Arc::new(Self { term, name, rounds_max: self.rounds_max, rounds }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.rounds.fetch_add(1, Ordering::Relaxed) >= self.rounds_max {
            let what = format!(
                "the recursive WITH '{}' has no end after {} rounds, which is the limit",
                self.name, self.rounds_max
            );
            return Err(Error::new(ErrorKind::Invalid, what)
                .with_hint("end it with a WHERE in its recursive part; generate_series makes long series")
                .into());
        }
        self.term.execute(partition, context)
    }
}
