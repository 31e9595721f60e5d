use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::{WatermarkClock, WindowFunction};
use crate::state_function::StateFunction;

/// Work on the rows of a query's streams: a tree whose leaves read streams and whose root gives what comes out.
/// Columns are numbered in the rows that a step gets.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The last step.
    pub root: PlanNode,
    /// Schema or rows that come out.
    pub schema: SchemaRef,
}

/// A step of a pipeline with those before it.
#[derive(Debug, Clone)]
pub enum PlanNode {
    /// Rows of a stream.
    Scan(ScanPlan),
    /// Filters and projections.
    Calc {
        /// The step before.
        input: Box<PlanNode>,
        /// Steps that look at each row for itself, in this order.
        stages: Vec<Stage>,
    },
    /// Windows, whose starts and ends become the last two columns, or with their times the last three; a row is repeated for each.
    Windows {
        /// The step before.
        input: Box<PlanNode>,
        /// The windows.
        function: WindowFunction,
        /// True if the time by which what comes of a window is in a next one, the last of it, is wanted.
        with_time: bool,
        /// Schema of the rows before.
        schema: SchemaRef,
    },
    /// Groups.
    Aggregate {
        /// The step before.
        input: Box<PlanNode>,
        /// The aggregation.
        plan: AggregatePlan,
    },
    /// Rows whose keys were not there before.
    Deduplicate {
        /// The step before.
        input: Box<PlanNode>,
        /// The deduplication.
        plan: DeduplicatePlan,
    },
    /// Pairs of rows of two inputs.
    Join {
        /// The left and the right step before.
        inputs: Box<[PlanNode; 2]>,
        /// The join.
        plan: JoinPlan,
    },
    /// Rows with those of a table at rest.
    Lookup {
        /// The step before.
        input: Box<PlanNode>,
        /// The join.
        plan: LookupPlan,
    },
    /// Rows that a function gives of the rows of each key and the key's state.
    Keyed {
        /// The step before.
        input: Box<PlanNode>,
        /// The function.
        plan: KeyedPlan,
    },
    /// Rows of all inputs.
    Union {
        /// The steps before.
        inputs: Vec<PlanNode>,
        /// Schema of the rows.
        schema: SchemaRef,
    },
}

/// A stream that is read.
#[derive(Debug, Clone)]
pub struct ScanPlan {
    /// Number of the stream among the query's.
    pub stream: usize,
    /// Filters that do not name the time column: Spark moves them below the watermark, so what they drop does not move it.
    pub before_watermark: Vec<Stage>,
    /// The time column, and how late rows may be.
    pub watermark: Option<WatermarkPlan>,
}

/// The watermark of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkPlan {
    /// Number of the time column.
    pub column: usize,
    /// Milliseconds that the watermark stays behind the greatest time.
    pub delay_ms: i64,
    /// Rules by the machine's clock.
    pub clock: WatermarkClock,
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

/// A column that carries event time: what is over is told by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeColumn {
    /// Number of the column.
    pub column: usize,
    /// Milliseconds from it to the time that counts: from a window's start to its end.
    pub to_end_ms: i64,
    /// True if it is a start or an end of a window.
    pub is_window: bool,
    /// Delay of its watermark.
    pub delay_ms: i64,
}

/// An aggregation by groups.
#[derive(Debug, Clone)]
pub struct AggregatePlan {
    /// What rows are grouped by.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The key that is the window's end or, by so many milliseconds before it, its start, or event time itself. Without it
    /// groups live for ever.
    pub window_key: Option<WindowKey>,
    /// What is computed of each group.
    pub calls: Vec<AggregateCall>,
    /// Schema of its rows.
    pub input: SchemaRef,
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
    /// The function over the columns of its rows.
    pub function: Arc<AggregateFunctionExpr>,
    /// Condition on the rows of a group that count (`FILTER`).
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

/// A deduplication: the first row of each key goes on.
#[derive(Debug, Clone)]
pub struct DeduplicatePlan {
    /// Keys that make rows the same.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Names and types of the keys.
    pub key_fields: Vec<FieldRef>,
    /// The column by which rows are late, if it reaches this step.
    pub time: Option<TimeColumn>,
    /// Time for which a key is kept.
    pub kept: KeptKeys,
}

/// Time for which the keys of a deduplication are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptKeys {
    /// For ever.
    ForEver,
    /// Until the key's own time is over.
    UntilTime(WindowKey),
    /// Until the time of the first row is over by the watermark's delay.
    WithinWatermark,
}

/// A state function over the rows of each key.
#[derive(Debug, Clone)]
pub struct KeyedPlan {
    /// Name of the function.
    pub name: String,
    /// The function.
    pub function: Arc<dyn StateFunction>,
    /// Keys.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Names and types of the keys.
    pub key_fields: Vec<FieldRef>,
    /// Schema of its rows.
    pub input: SchemaRef,
    /// The column by which rows are late, with timeouts by the watermark.
    pub time: Option<TimeColumn>,
    /// Schema of the rows that come out.
    pub schema: SchemaRef,
}

/// Rows of which a join gives pairs or single ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// Those, and left rows without a match.
    Left,
    /// Pairs that match, and right rows without a match.
    Right,
    /// Pairs that match, and rows of both sides without a match.
    Full,
    /// Left rows that have a match, once.
    LeftSemi,
}

/// A join of two streams.
#[derive(Debug, Clone)]
pub struct JoinPlan {
    /// Schema or rows that come out.
    pub kind: JoinKind,
    /// Left and right side.
    pub sides: [JoinSidePlan; 2],
    /// Condition that has to hold for a pair beside the equal keys, over left and right columns.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// Left and right columns.
    pub pair_schema: SchemaRef,
    /// Schema or rows that come out.
    pub schema: SchemaRef,
}

/// A join of a stream with a table at rest: each row of the stream meets the table's rows once, and is not kept.
#[derive(Debug, Clone)]
pub struct LookupPlan {
    /// Rows that come out.
    pub kind: LookupKind,
    /// Number of the table among the query's.
    pub table: usize,
    /// Steps that each row of the table takes when it is read.
    pub table_stages: Vec<Stage>,
    /// Keys of the stream's rows.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Keys of the table's rows after these steps, of the same types.
    pub table_keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Types of the keys.
    pub key_fields: Vec<FieldRef>,
    /// Condition that has to hold for a pair beside the equal keys.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// True if the stream's columns come before the table's.
    pub is_stream_first: bool,
    /// Schema of the table's rows after its steps.
    pub table_schema: SchemaRef,
    /// Schema of pairs.
    pub pair_schema: SchemaRef,
    /// Schema of the rows that come out.
    pub schema: SchemaRef,
}

/// Rows of which a join with a table at rest gives pairs or single ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupKind {
    /// Pairs that match.
    Inner,
    /// Those, and rows of the stream without a match.
    Outer,
    /// Rows of the stream that have a match, once.
    LeftSemi,
    /// Rows of the stream that have none.
    LeftAnti,
}

/// A side of a join.
#[derive(Debug, Clone)]
pub struct JoinSidePlan {
    /// Keys that have to be equal on both sides; the types of both sides are the same.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Names and types of the keys.
    pub key_fields: Vec<FieldRef>,
    /// Schema of its rows.
    pub schema: SchemaRef,
    /// The part of the condition that concerns this side alone: a row that fails it has no match.
    pub own_filter: Option<Arc<dyn PhysicalExpr>>,
    /// The column by which its rows are late.
    pub time: Option<TimeColumn>,
    /// When its rows need no longer be kept; without it they are kept for ever.
    pub bound: Option<StateBound>,
}

/// When a row of a join need no longer be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateBound {
    /// Once the time in a key is over.
    Key(WindowKey),
    /// Once its time is at the least of these bounds or before.
    Range(Vec<RangeBound>),
}

/// Bound that a condition on the times of both sides sets for rows of one side: those at `watermark + offset` or before, or a millisecond
/// earlier if equal times match, match nothing that is yet to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeBound {
    /// Microseconds from the watermark to the bound.
    pub offset_us: i64,
    /// True if the condition holds at the bound itself.
    pub holds_at_bound: bool,
}

impl JoinKind {
    /// True if rows of a side (0 is left) without a match come out.
    pub fn gives_unmatched(self, side: usize) -> bool {
        matches!((self, side), (Self::Full, _) | (Self::Left, 0) | (Self::Right, 1))
    }

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inner => "INNER",
            Self::Left => "LEFT OUTER",
            Self::Right => "RIGHT OUTER",
            Self::Full => "FULL OUTER",
            Self::LeftSemi => "LEFT SEMI",
        }
    }
}

impl LookupPlan {
    /// Name of the join in SQL.
    pub fn name(&self) -> &'static str {
        match self.kind {
            LookupKind::Inner => "INNER",
            LookupKind::Outer if self.is_stream_first => "LEFT OUTER",
            LookupKind::Outer => "RIGHT OUTER",
            LookupKind::LeftSemi => "LEFT SEMI",
            LookupKind::LeftAnti => "LEFT ANTI",
        }
    }
}

impl JoinPlan {
    /// Watermark of a side's state when the join's watermark is `watermark_ms`.
    pub fn state_watermark_ms(&self, side: usize, watermark_ms: i64) -> Option<i64> {
        match self.sides[side].bound.as_ref()? {
            StateBound::Key(_) => Some(watermark_ms),
            StateBound::Range(bounds) => bounds.iter().map(|bound| bound.at_ms(watermark_ms)).min(),
        }
    }

    /// Watermark of what comes out.
    pub fn output_watermark_ms(&self, watermark_ms: i64) -> i64 {
        let sides = [0, 1].map(|side| self.state_watermark_ms(side, watermark_ms));
        sides.into_iter().flatten().fold(watermark_ms, i64::min)
    }
}

impl RangeBound {
    /// Rows at this time or before are over.
    pub fn at_ms(self, watermark_ms: i64) -> i64 {
        // Spark cuts towards zero, and then goes back a millisecond.
        let at = watermark_ms.saturating_mul(1000).saturating_add(self.offset_us) / 1000;
        at - i64::from(self.holds_at_bound)
    }
}

impl PlanNode {
    /// Steps before this one.
    pub fn inputs(&self) -> Vec<&PlanNode> {
        match self {
            Self::Scan(_) => Vec::new(),
            Self::Calc { input, .. }
            | Self::Windows { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Deduplicate { input, .. }
            | Self::Lookup { input, .. }
            | Self::Keyed { input, .. } => vec![input],
            Self::Join { inputs, .. } => inputs.iter().collect(),
            Self::Union { inputs, .. } => inputs.iter().collect(),
        }
    }

    /// True if it keeps state.
    pub fn has_state(&self) -> bool {
        matches!(
            self,
            Self::Aggregate { .. } | Self::Deduplicate { .. } | Self::Join { .. } | Self::Keyed { .. }
        )
    }

    /// True if a step that satisfies this is among it and those before it.
    pub fn any(&self, is_wanted: &impl Fn(&PlanNode) -> bool) -> bool {
        is_wanted(self) || self.inputs().into_iter().any(|input| input.any(is_wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_cut_to_milliseconds_as_spark_cuts_them() {
        let bound = |offset_us, holds_at_bound| RangeBound { offset_us, holds_at_bound };
        assert_eq!(bound(-5_000_000, false).at_ms(20_000), 15_000);
        assert_eq!(bound(-5_000_000, true).at_ms(20_000), 14_999);
        assert_eq!(bound(1_500, false).at_ms(20_000), 20_001);
        assert_eq!(
            bound(-500, true).at_ms(20_000),
            19_998,
            "19,999.5 is cut, then a millisecond is taken away"
        );
        assert_eq!(bound(-1_500, false).at_ms(0), -1, "towards zero, as a cast of a double");
        assert_eq!(bound(i64::MIN, true).at_ms(0), i64::MIN / 1000 - 1);
    }
}
