use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::{WatermarkDefinition, WindowFunction};

/// What is done with a stream's rows, in this order. Columns are numbered in the rows that a step gets.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Filters that do not name the time column: Spark moves them below the watermark, so what they drop does not move it.
    pub before_watermark: Vec<Stage>,
    /// The time column, and how late rows may be.
    pub watermark: Option<WatermarkDefinition>,
    /// Windows, whose starts and ends become the last two columns; a row is repeated for each.
    pub windows: Option<WindowFunction>,
    /// Filters and projections before the aggregation, or all of them.
    pub stages: Vec<Stage>,
    /// The aggregation.
    pub aggregate: Option<AggregatePlan>,
    /// Filters and projections of the groups.
    pub after_aggregate: Vec<Stage>,
    /// What comes out.
    pub schema: SchemaRef,
}

/// A step that looks at each row for itself.
#[derive(Debug, Clone)]
pub enum Stage {
    /// Rows for which this is true go on.
    Filter(Arc<dyn PhysicalExpr>),
    /// Each row becomes another one.
    Project {
        /// Its columns.
        expressions: Vec<Arc<dyn PhysicalExpr>>,
        /// Their names and types.
        schema: SchemaRef,
    },
}

/// An aggregation by groups.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// What rows are grouped by.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The key that is the window's end or, by so many milliseconds before it, its start. Without it groups live for ever.
    pub window_key: Option<WindowKey>,
    /// What is computed of each group.
    pub calls: Vec<AggregateCall>,
    /// Keys and results.
    pub schema: SchemaRef,
}

/// Which key says when a group's window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowKey {
    /// Number of the key.
    pub key: usize,
    /// Milliseconds from it to the window's end.
    pub to_end_ms: i64,
}

/// An aggregate function with its arguments.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// The function over the columns of its rows; integers are added as decimal numbers, which do not wrap.
    pub function: Arc<AggregateFunctionExpr>,
    /// Type of the result: what the function gives is cast to it, or the query fails.
    pub result_type: DataType,
}
