use std::sync::Arc;

use crate::rewrite::TreeWalk;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinSide, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

/// Gives the condition of a join by merging a column if it has none, as in `a FULL JOIN b ON a.k = b.k AND EXISTS (SELECT … FROM c)`:
/// DataFusion's operator does not look at a condition without columns.
#[derive(Debug)]
pub(super) struct MergeFilters;

impl PhysicalOptimizerRule for MergeFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.rewrite_up(&mut |node| {
            let Some(join) = node.downcast_ref::<SortMergeJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let Some(filter) = join.filter().as_ref().filter(|filter| filter.column_indices().is_empty())
            else {
                return Ok(Transformed::no(node));
            };
            let column = ColumnIndex { index: 0, side: JoinSide::Left };
            let schema = Schema::new(vec![join.left().schema().field(0).clone()]);
            let filter = JoinFilter::new(Arc::clone(filter.expression()), vec![column], Arc::new(schema));
            let join = SortMergeJoinExec::try_new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                join.on().to_vec(),
                Some(filter),
                join.join_type(),
                join.sort_options().to_vec(),
                join.null_equality(),
            )?;
            Ok(Transformed::yes(Arc::new(join) as _))
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "MergeFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
