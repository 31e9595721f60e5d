use crate::error::{Result, invalid};
use crate::plan::{JoinKind, KeptKeys, KeyedPlan, OutputMode, PlanNode};
use crate::state_function::{FunctionMode, Timeout};

/// Refusals of Spark's analyser of output modes and of steps with state one after another.
pub(super) fn check(root: &PlanNode, mode: OutputMode) -> Result<()> {
    let is_aggregate = |step: &PlanNode| matches!(step, PlanNode::Aggregate { .. });
    if mode == OutputMode::Complete && !root.any(&is_aggregate) {
        return Err(invalid("EMIT COMPLETE without an aggregation: a stream's rows have no end")
            .with_hint("leave EMIT out"));
    }
    check_step(root, mode, root.any(&is_aggregate))
}

fn check_step(step: &PlanNode, mode: OutputMode, has_aggregate: bool) -> Result<()> {
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
        PlanNode::Keyed { plan, .. } => check_keyed(plan, mode, has_aggregate)?,
        _ => {}
    }
    let times_out = |step: &PlanNode| matches!(step, PlanNode::Keyed { plan, .. } if plan.function.timeout() == Timeout::EventTime);
    if step.has_state() && step.inputs().into_iter().any(|input| input.any(&times_out)) {
        return Err(invalid(
            "a step that keeps state after a state function with timeouts by event time is not supported: its rows may be late there",
        )
        .with_hint("write what it gives to a topic, and read that with another query"));
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
    step.inputs().into_iter().try_for_each(|input| check_step(input, mode, has_aggregate))
}

/// True if Spark takes a step for one whose rows may be late.
fn keeps_by_time(step: &PlanNode) -> bool {
    match step {
        PlanNode::Aggregate { .. } | PlanNode::Join { .. } | PlanNode::Keyed { .. } => true,
        PlanNode::Deduplicate { plan, .. } => plan.kept != KeptKeys::ForEver,
        _ => false,
    }
}

/// The mode of a function has to be the query's, and with groups among its steps it gives rows that never change.
fn check_keyed(plan: &KeyedPlan, mode: OutputMode, has_aggregate: bool) -> Result<()> {
    let name = &plan.name;
    match (plan.function.mode(), mode) {
        (FunctionMode::Update, _) if has_aggregate => Err(invalid(format!(
            "the state function {name} gives rows that change, which is not supported with an aggregation"
        ))),
        (FunctionMode::Update, OutputMode::Append | OutputMode::Complete) => Err(invalid(format!(
            "the state function {name} gives rows that change: it is only supported with EMIT UPDATES"
        ))),
        (FunctionMode::Append, OutputMode::Update | OutputMode::Complete) if !has_aggregate => {
            let text = format!(
                "the state function {name} gives rows that never change: it is not supported with EMIT UPDATES"
            );
            Err(invalid(text).with_hint("leave EMIT out"))
        }
        _ => Ok(()),
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
