use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rewrite::rewrite_plan;

/// Frames of windows that are ordered by an interval. DataFusion refuses `RANGE`, which is what a window without a frame has, because it
/// cannot add an offset to an interval. Without an offset, `GROUPS` means the same.
#[derive(Debug)]
pub(crate) struct IntervalFrames;

impl AnalyzerRule for IntervalFrames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|mut expr, columns| {
            let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
            let params = &mut call.params;
            let kind = params.order_by.first().map(|sort| sort.expr.get_type(columns)).transpose()?;
            let is_by_interval = matches!(kind, Some(DataType::Interval(_)));
            if !is_by_interval || !is_range_without_offset(&params.window_frame) {
                return Ok(Transformed::no(expr));
            }
            params.window_frame.units = WindowFrameUnits::Groups;
            Ok(Transformed::yes(expr))
        })
    }

    fn name(&self) -> &str {
        "interval_frames"
    }
}

fn is_range_without_offset(frame: &WindowFrame) -> bool {
    let has_none = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => offset.is_null(),
        WindowFrameBound::CurrentRow => true,
    };
    frame.units == WindowFrameUnits::Range && has_none(&frame.start_bound) && has_none(&frame.end_bound)
}
