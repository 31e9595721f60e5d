use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;

use super::PlanNode;

/// A join of a stream with a table at rest: it keeps no state, since no row of the table comes later.
#[derive(Debug, Clone)]
pub struct LookupPlan {
    /// Rows that come out.
    pub kind: LookupKind,
    /// The side that is the stream: 0 is left.
    pub stream_side: usize,
    /// Keys of the stream's rows that have to be equal to the table's; without any, each pair is looked at.
    pub stream_keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Keys of the table's rows, of the same types.
    pub table_keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Names and types of the keys.
    pub key_fields: Vec<FieldRef>,
    /// Condition that has to hold for a pair beside the equal keys, over left and right columns.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Left and right columns.
    pub pair_schema: SchemaRef,
    /// Schema of the rows that come out.
    pub schema: SchemaRef,
    /// The table.
    pub table: TableRows,
}

/// Rows of a stream that come out of a join with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupKind {
    /// Pairs that match.
    Inner,
    /// Those, and rows of the stream without a match.
    Outer,
    /// Rows of the stream that have a match, once.
    Semi,
    /// Rows of the stream that have none.
    Anti,
}

/// Rows of a table.
#[derive(Debug, Clone)]
pub enum TableRows {
    /// What they are read by, when the query starts.
    Planned(Arc<TablePlan>),
    /// Rows that were read.
    Read(RecordBatch),
}

/// Columns and filters over the files of tables.
#[derive(Debug)]
pub struct TablePlan {
    /// Session in which the plan was made.
    pub state: SessionState,
    /// The plan.
    pub plan: LogicalPlan,
}

impl PlanNode {
    /// Joins with tables in it and before it.
    pub fn lookups_mut(&mut self) -> Vec<&mut LookupPlan> {
        match self {
            Self::Lookup { input, plan } => {
                let mut all = input.lookups_mut();
                all.push(plan);
                all
            }
            Self::Scan(_) => Vec::new(),
            Self::Calc { input, .. }
            | Self::Windows { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Deduplicate { input, .. }
            | Self::Keyed { input, .. } => input.lookups_mut(),
            Self::Join { inputs, .. } => inputs.iter_mut().flat_map(Self::lookups_mut).collect(),
            Self::Union { inputs, .. } => inputs.iter_mut().flat_map(Self::lookups_mut).collect(),
        }
    }
}
