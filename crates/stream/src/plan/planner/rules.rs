use crate::error::{Result, invalid};
use crate::plan::{JoinKind, KeptKeys, OutputMode, PlanNode};

/// Refusals of Spark's analyser of output modes and of steps with state one after another.
pub(super) fn check(root: &PlanNode, mode: OutputMode) -> Result<()> {
    let is_aggregate = |step: &PlanNode| matches!(step, PlanNode::Aggregate { .. });
    if mode == OutputMode::Complete && !root.any(&is_aggregate) {
        return Err(invalid("EMIT COMPLETE without an aggregation: a stream's rows have no end")
            .with_hint("leave EMIT out"));
    }
    check_step(root, mode)
}

fn check_step(step: &PlanNode, mode: OutputMode) -> Result<()> {
    match step {
        PlanNode::Aggregate { plan, .. } if mode == OutputMode::Append && plan.window_key.is_none() => {
            return Err(invalid(
                "an aggregation without a watermark and a window has no rows that never change again",
            )
            .with_hint(
                "use EMIT UPDATES, or give the stream a WATERMARK and group by window_start or window_end",
            ));
        }
        PlanNode::Join { plan, .. } => check_join(plan.kind, mode)?,
        _ => {}
    }
    let is_changing = |step: &PlanNode| matches!(step, PlanNode::Aggregate { .. });
    if mode != OutputMode::Append
        && keeps_by_time(step)
        && step.inputs().into_iter().any(|input| input.any(&is_changing))
    {
        return Err(invalid(
            "a step that keeps state after an aggregation whose groups come out more than once: their rows may be late there",
        )
        .with_hint("leave EMIT out: with EMIT ON WINDOW CLOSE it is supported"));
    }
    step.inputs().into_iter().try_for_each(|input| check_step(input, mode))
}

/// True if Spark takes a step for one whose rows may be late.
fn keeps_by_time(step: &PlanNode) -> bool {
    match step {
        PlanNode::Aggregate { .. } | PlanNode::Join { .. } => true,
        PlanNode::Deduplicate { plan, .. } => plan.kept != KeptKeys::ForEver,
        _ => false,
    }
}

fn check_join(kind: JoinKind, mode: OutputMode) -> Result<()> {
    let (is_there, modes) = match kind {
        JoinKind::Inner | JoinKind::LeftSemi => {
            (mode != OutputMode::Complete, "EMIT ON WINDOW CLOSE and EMIT UPDATES")
        }
        JoinKind::Left | JoinKind::Right | JoinKind::Full => {
            (mode == OutputMode::Append, "EMIT ON WINDOW CLOSE, the default")
        }
    };
    if is_there {
        return Ok(());
    }
    let emit = if mode == OutputMode::Complete { "EMIT COMPLETE" } else { "EMIT UPDATES" };
    Err(invalid(format!(
        "a {} join of two streams is not supported with {emit}, only with {modes}",
        kind.name()
    )))
}
