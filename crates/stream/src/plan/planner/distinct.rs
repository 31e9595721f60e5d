use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, Extension, LogicalPlan, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, UserDefinedLogicalNodeCore, Volatility,
};

use super::walk::Built;
use super::{physical, planning};
use crate::error::{Result, invalid};
use crate::plan::{DeduplicatePlan, KeptKeys, PlanNode, WindowKey};

/// Name of the function that stands for `WITHIN WATERMARK` among the expressions of `DISTINCT ON`.
pub(in crate::plan) const WITHIN_WATERMARK: &str = "yeoul_within_watermark";

/// A deduplication in a logical plan. The optimizer makes groups of `DISTINCT`, and takes filters through `DISTINCT ON`; of this
/// it knows nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub(super) struct DistinctNode {
    keys: Vec<Expr>,
    within_watermark: bool,
    pub input: LogicalPlan,
}

/// Puts deduplications in the place of `DISTINCT`.
pub(super) fn replace(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut refused = None;
    let replaced = plan.transform_up(|plan| {
        let LogicalPlan::Distinct(distinct) = plan else { return Ok(Transformed::no(plan)) };
        let (mut keys, select, input) = match distinct {
            Distinct::All(input) => {
                let columns = input.schema().columns();
                (columns.into_iter().map(Expr::Column).collect(), None, input)
            }
            Distinct::On(on) => {
                if on.sort_expr.is_some() {
                    refused =
                        Some("DISTINCT ON with ORDER BY: the first row that comes is kept, whatever it is");
                }
                (on.on_expr, Some(on.select_expr), on.input)
            }
        };
        let is_mark = |expr: &Expr| matches!(expr, Expr::ScalarFunction(f) if f.name() == WITHIN_WATERMARK);
        let count = keys.len();
        keys.retain(|key| !is_mark(key));
        let within_watermark = keys.len() < count;
        let node = DistinctNode { keys, within_watermark, input: Arc::unwrap_or_clone(input) };
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        Ok(Transformed::yes(match select {
            None => plan,
            Some(select) => LogicalPlan::Projection(Projection::try_new(select, Arc::new(plan))?),
        }))
    });
    let replaced = replaced.map_err(planning)?.data;
    refused.map_or(Ok(replaced), |text| Err(invalid(text)))
}

/// Adds a deduplication.
pub(super) fn plan(state: &SessionState, built: Built, node: &DistinctNode) -> Result<Built> {
    let schema = node.input.schema();
    let (mut keys, mut key_fields) = (Vec::new(), Vec::<FieldRef>::new());
    for key in &node.keys {
        keys.push(physical(state, key.clone(), schema)?);
        key_fields.push(key.to_field(schema).map_err(planning)?.1);
    }
    let time = built.late_time(schema)?;
    let kept = match (node.within_watermark, built.time_key(&keys)) {
        (true, _) if time.is_none() => {
            return Err(invalid(
                "DISTINCT WITHIN WATERMARK (dropDuplicatesWithinWatermark) is not supported without watermark",
            )
            .with_hint("give the stream a WATERMARK, and let its column come to the DISTINCT"));
        }
        (true, _) => KeptKeys::WithinWatermark,
        (false, Some((key, time))) => KeptKeys::UntilTime(WindowKey { key, to_end_ms: time.to_end_ms }),
        (false, None) => KeptKeys::ForEver,
    };
    let plan = DeduplicatePlan { keys, key_fields, time, kept };
    let (input, times) = (Box::new(built.node), built.times);
    Ok(Built { node: PlanNode::Deduplicate { input, plan }, times, at_rest: None })
}

impl UserDefinedLogicalNodeCore for DistinctNode {
    fn name(&self) -> &str {
        "Deduplicate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deduplicate: {:?}, within watermark: {}", self.keys, self.within_watermark)
    }

    fn with_exprs_and_inputs(&self, keys: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DataFusionResult<Self> {
        let input = inputs.pop().expect("it has one input");
        Ok(Self { keys, within_watermark: self.within_watermark, input })
    }

    /// Columns of the input: those that are wanted and those of the keys, as Spark prunes them; within the watermark the time is
    /// needed, too.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        if self.within_watermark {
            return Some(vec![(0..schema.fields().len()).collect()]);
        }
        let of_keys = self.keys.iter().flat_map(Expr::column_refs);
        let of_keys = of_keys.filter_map(|column| schema.maybe_index_of_column(column));
        let mut all: Vec<usize> = output_columns.iter().copied().chain(of_keys).collect();
        all.sort_unstable();
        all.dedup();
        Some(vec![all])
    }
}

/// The function that stands for `WITHIN WATERMARK`; nothing ever computes it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WithinWatermark {
    signature: Signature,
}

/// That function.
pub(in crate::plan) fn within_watermark() -> ScalarUDF {
    ScalarUDF::from(WithinWatermark { signature: Signature::nullary(Volatility::Volatile) })
}

impl ScalarUDFImpl for WithinWatermark {
    fn name(&self) -> &str {
        WITHIN_WATERMARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        datafusion::common::plan_err!("WITHIN WATERMARK is a part of DISTINCT ON")
    }
}
