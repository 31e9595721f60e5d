//! Rules for speed and memory. The tables [`PLANNING`], [`PHYSICAL`] and [`SPILLING`] say in which order they run, among those of the dialect.
//!
//! - [`copy_claims`]: has operators above large values ask for the memory of their copies;
//! - [`estimates`]: the rows of plans, by the footers of files; [`join_order`]: the order of joins, by these;
//! - [`filtered_scans`]: scans that ask conditions and filters of their rows;
//! - [`grouping_levels`]: has grouping sets computed from larger ones;
//! - [`round_limits`]: stops recursive queries that never end;
//! - [`safe_conditions`]: conditions that cannot fail;
//! - [`share_subplans`]: equal parts of a query, computed once;
//! - [`spilling_joins`]: replaces hash joins with joins that spill, once memory has run out;
//! - [`state_batches`]: small batches for the states of groups that grow with the rows;
//! - [`wide_rows`]: small batches above scans of wide rows.

mod copy_claims;
mod estimates;
mod filtered_scans;
mod grouping_levels;
mod join_order;
mod round_limits;
mod safe_conditions;
mod share_subplans;
pub(crate) mod spilling_joins;
mod state_batches;
mod wide_rows;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SessionState};
use yeoul_dialect::rules::Step::{self, Before, Behind, First, Last};
use yeoul_dialect::rules::in_order;
use yeoul_dialect::{LogicalRule, PhysicalRule};

pub(crate) use estimates::ShownEstimates;

/// The rules that run once on the physical plan of a whole query, whoever runs its stages.
pub(crate) const PLANNING: [Step<PhysicalRule>; 1] =
    // That one chooses the sides of joins by estimates of its own; all later ones find what these joins need.
    [Behind("join_selection", || Arc::new(join_order::JoinOrder))];

/// The rules of the optimizer of queries that run in this process.
const LOGICAL: [Step<LogicalRule>; 1] =
    // Copies of a subplan are equal only until others have pushed something into them.
    [First(|| Arc::new(share_subplans::ShareSubplans))];

/// The rules that run on the physical plan of a query that runs in this process.
const SHOWING: [Step<PhysicalRule>; 1] =
    // Others would change what the first reader reads.
    [Last(|| Arc::new(share_subplans::ShownSubplans))];

/// The rules that run once on each physical plan, or on each stage of one.
pub(crate) const PHYSICAL: [Step<PhysicalRule>; 6] = [
    // Others match on a scan's type, which it changes.
    Before("LimitedGroups", || Arc::new(filtered_scans::FilteredScans)),
    // Limits of groups go into the aggregates that it changes.
    Last(|| Arc::new(grouping_levels::GroupingLevels)),
    Last(|| Arc::new(state_batches::StateBatches)),
    Last(|| Arc::new(round_limits::RoundLimits)),
    // Others match on the inputs of operators.
    Last(|| Arc::new(copy_claims::CopyClaims)),
    Last(|| Arc::new(wide_rows::WideRows)),
];

/// The rules that a query gets in addition when it is planned again because memory ran out.
const SPILLING: [Step<PhysicalRule>; 1] = [
    // That one gives each operator the order and partitions that it requires, and may rely on the order of the probe side, which a stock
    // hash join keeps and ours does not.
    Before("EnsureRequirements", || Arc::new(spilling_joins::SpillingJoins)),
];

/// `state`, which has our rules, with subplans that are shared.
///
/// # Errors
/// Those of the registry of functions.
pub(crate) fn with_shared_subplans(state: SessionState) -> Result<SessionState> {
    let logical = in_order(state.optimizers(), &LOGICAL, |rule| rule.name());
    let physical = in_order(state.physical_optimizers(), &SHOWING, |rule| rule.name());
    let functions = state.scalar_functions().clone();
    let builder = SessionStateBuilder::new_from_existing(state)
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .with_query_planner(Arc::new(share_subplans::SharingPlanner));
    let mut state = builder.build();
    // The builder gives some names to other functions, which have them as aliases.
    for (name, function) in &functions {
        if !state.scalar_functions().get(name).is_some_and(|other| Arc::ptr_eq(other, function)) {
            state.register_udf(Arc::clone(function))?;
        }
    }
    Ok(state)
}

/// `state`, which has our rules, with joins that spill.
pub(crate) fn with_spilling_joins(state: SessionState) -> SessionState {
    let physical = in_order(state.physical_optimizers(), &SPILLING, |rule| rule.name());
    SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(physical).build()
}

#[cfg(test)]
mod tests {
    use yeoul_dialect::Dialect;

    use super::*;

    fn physical_names(state: &SessionState) -> Vec<String> {
        state.physical_optimizers().iter().map(|rule| rule.name().to_owned()).collect()
    }

    fn state() -> SessionState {
        let builder = SessionStateBuilder::new().with_default_features();
        Dialect::default().session_state(builder, &[&PLANNING[..], &PHYSICAL].concat()).unwrap()
    }

    #[test]
    fn each_rule_stands_where_the_table_has_it() {
        let physical = physical_names(&state());
        assert_eq!(
            physical[physical.len() - 8..],
            [
                "FilteredScans",
                "LimitedGroups",
                "MisplacedKeys",
                "GroupingLevels",
                "StateBatches",
                "RoundLimits",
                "CopyClaims",
                "WideRows"
            ]
        );
    }

    #[test]
    fn joins_are_ordered_once_their_sides_are_chosen() {
        let physical = physical_names(&state());
        let place = physical.iter().position(|name| name == "JoinOrder").unwrap();
        assert_eq!(physical[place - 1], "join_selection", "{physical:?}");
    }

    #[test]
    fn subplans_are_found_before_all_rules_and_shown_behind_them() {
        let state = with_shared_subplans(state()).unwrap();
        assert_eq!(state.optimizers()[0].name(), "share_subplans");
        assert_eq!(physical_names(&state).last().unwrap(), "ShownSubplans");
    }

    #[test]
    fn each_name_means_the_function_that_it_meant() {
        let before = state();
        let functions = before.scalar_functions().clone();
        let after = with_shared_subplans(before).unwrap();
        for (name, function) in functions {
            assert!(Arc::ptr_eq(&after.scalar_functions()[&name], &function), "{name}");
        }
    }

    #[test]
    fn joins_that_spill_stand_before_the_rule_that_arranges_inputs() {
        let physical = physical_names(&with_spilling_joins(state()));
        let place = physical.iter().position(|name| name == "SpillingJoins").unwrap();
        assert_eq!(physical[place + 1], "EnsureRequirements", "{physical:?}");
    }
}
