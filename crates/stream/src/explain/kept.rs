use crate::plan::{
    AggregatePlan, DeduplicatePlan, JoinPlan, KeptKeys, OutputMode, StateBound, TimeColumn, WindowKey,
    duration_text,
};
use crate::state_function::Timeout;

/// Time for which groups are kept.
pub(super) fn groups(plan: &AggregatePlan, mode: OutputMode) -> String {
    match plan.window_key {
        _ if mode == OutputMode::Complete => "for ever: EMIT COMPLETE gives all groups".to_owned(),
        None => "for ever: no key is a window or event time with a watermark".to_owned(),
        Some(key) => until_key(key, plan.schema.field(key.key).name()),
    }
}

/// Time for which keys of a deduplication are kept.
pub(super) fn keys(plan: &DeduplicatePlan) -> String {
    match (plan.kept, plan.time) {
        (KeptKeys::UntilTime(key), _) => until_key(key, plan.key_fields[key.key].name()),
        (KeptKeys::WithinWatermark, Some(TimeColumn { delay_ms, .. })) => {
            format!("until the watermark reaches the time of the first row + {}", duration_text(delay_ms))
        }
        _ => "for ever: no key is event time with a watermark".to_owned(),
    }
}

/// Time for which rows of a side of a join are kept.
pub(super) fn rows(plan: &JoinPlan, side: usize) -> String {
    let side = &plan.sides[side];
    let bounds = match &side.bound {
        None => return "for ever: the condition sets no bound of event time".to_owned(),
        Some(StateBound::Key(key)) => return until_key(*key, side.key_fields[key.key].name()),
        Some(StateBound::Range(bounds)) => bounds,
    };
    let time = side.time.map_or("time", |time| side.schema.field(time.column).name());
    let least = bounds.iter().min_by_key(|bound| (bound.offset_us, !bound.holds_at_bound));
    let Some(bound) = least else { return "for ever".to_owned() };
    // A row goes once its time is at the watermark and the offset, or before.
    let verb = if bound.holds_at_bound { "passes" } else { "reaches" };
    format!("until the watermark {verb} {time}{}", signed(bound.offset_us.saturating_neg()))
}

/// Time for which states of a function are kept.
pub(super) fn states(timeout: Timeout) -> &'static str {
    match timeout {
        Timeout::None => "until the function removes them",
        Timeout::ProcessingTime => "until the function removes them, which timeouts by the clock let it do",
        Timeout::EventTime => "until the function removes them, which timeouts by the watermark let it do",
    }
}

fn until_key(key: WindowKey, name: &str) -> String {
    format!("until the watermark reaches {name}{}", signed(key.to_end_ms.saturating_mul(1000)))
}

fn signed(us: i64) -> String {
    let amount = us.unsigned_abs();
    let text = match i64::try_from(amount / 1000) {
        Ok(ms) if amount.is_multiple_of(1000) => duration_text(ms),
        _ => format!("{amount} us"),
    };
    match us.signum() {
        0 => String::new(),
        1 => format!(" + {text}"),
        _ => format!(" - {text}"),
    }
}
