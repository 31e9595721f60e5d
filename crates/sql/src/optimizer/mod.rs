//! Rules over DataFusion's plans. The tables [`ANALYZER`], [`OPTIMIZER`] and [`PHYSICAL`] say in which order they run.
//!
//! - [`correlated_subqueries`]: refuses subqueries of which DataFusion's joins would make something else;
//! - [`empty_subqueries`]: a subquery without rows is null, whatever its column may be;
//! - [`exact_numbers`]: integers that do not wrap around, quotients of decimals that are rounded;
//! - [`fenced_limits`]: keeps dynamic filters above a limit;
//! - [`filter_ranges`]: lets a filter take no column for constant that is not;
//! - [`finer_literals`]: compares dates and timestamps with literals of a finer unit in their own unit;
//! - [`grand_totals`]: keeps filters without columns above an aggregate that always has a row;
//! - [`grouping_sets`]: lets the keys of `ROLLUP`, `CUBE` and `GROUPING SETS` have no order;
//! - [`in_lists`]: items of `IN` lists that are computed for each row;
//! - [`in_subqueries`]: `IN` with subqueries, which is unknown where nulls make it neither true nor false;
//! - [`key_dependencies`]: hides that a key is unique where that is no longer so;
//! - [`kept_names`]: how rules rewrite expressions, and pass columns on, without renaming them;
//! - [`late_materialization`]: lets a scan that a join filters do so before it decodes all columns;
//! - [`lifted_columns`]: gives conditions that leave a correlated subquery columns that are told apart outside;
//! - [`limited_groups`]: lets an aggregate forget a limit that it would take for that of a top-k;
//! - [`merge_filters`]: conditions without columns in joins by merging;
//! - [`min_max_filters`]: filters scans by a grand total's `min` and `max` only if none of them is forgotten;
//! - [`null_equal_joins`]: keeps join trees with `IS NOT DISTINCT FROM` as they are;
//! - [`outer_aggregates`]: refuses aggregates of outer columns only, which belong to the query around;
//! - [`outer_sides`]: lets no column be constant that an outer join fills with nulls;
//! - [`parts_apart`]: runs rules on each side of a node separately, where across it they would be wrong;
//! - [`rule_order`]: how our rules find their places among DataFusion's;
//! - [`scalar_subqueries`]: correlated subqueries that stand for a value without an aggregate, as aggregates;
//! - [`set_operations`]: `INTERSECT ALL` and `EXCEPT ALL`, which count, and the names of a `UNION`'s inputs;
//! - [`spilling_joins`]: replaces hash joins with joins that spill, once memory has run out;
//! - [`state_batches`]: small batches for the states of groups that grow with the rows;
//! - [`unbounded_floats`]: prunes nothing by Parquet's ranges of floats, which leave out NaN;
//! - [`unnesting`]: subqueries that DataFusion cannot join, as joins with the distinct values of their outer columns;
//! - [`value_subqueries`]: `IN`, `EXISTS`, `ANY` and `ALL` as values, outside filters.

mod correlated_subqueries;
mod empty_subqueries;
mod exact_numbers;
mod fenced_limits;
mod filter_ranges;
mod finer_literals;
mod grand_totals;
mod grouping_sets;
mod in_lists;
mod in_subqueries;
pub(crate) mod kept_names;
pub(crate) mod key_dependencies;
mod late_materialization;
mod lifted_columns;
mod limited_groups;
mod merge_filters;
mod min_max_filters;
mod null_equal_joins;
mod outer_aggregates;
mod outer_sides;
mod parts_apart;
mod rule_order;
mod scalar_subqueries;
mod set_operations;
mod spilling_joins;
mod state_batches;
mod unbounded_floats;
mod unnesting;
mod value_subqueries;

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use self::rule_order::Step::{self, Around, Before, Behind, First, Last};
use self::rule_order::in_order;

type AnalyzingRule = Arc<dyn AnalyzerRule + Send + Sync>;
type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rules that run once on each plan, before the optimizer. `unnesting` is behind them: it tries the whole optimizer.
const ANALYZER: [Step<AnalyzingRule>; 5] = [
    Last(|| Arc::new(scalar_subqueries::ScalarSubqueries)),
    Last(|| Arc::new(empty_subqueries::EmptySubqueries)),
    Last(|| Arc::new(set_operations::SetOperations)),
    Last(|| Arc::new(outer_aggregates::OuterAggregates)),
    Last(|| Arc::new(exact_numbers::ExactNumbers)),
];

/// The rules of each round of the optimizer. DataFusion's own move conditions about: what looks at subqueries is before them.
const OPTIMIZER: [Step<LogicalRule>; 10] = [
    First(|| Arc::new(key_dependencies::KeyDependencies)),
    First(|| Arc::new(correlated_subqueries::CorrelatedSubqueries)),
    First(|| Arc::new(in_subqueries::InSubqueries)),
    // Constants are literals from here on.
    Behind("simplify_expressions", || Arc::new(finer_literals::FinerLiterals)),
    Around("replace_distinct_aggregate", |rule| Arc::new(key_dependencies::DistinctsFromAbove(rule))),
    // A DISTINCT is known to have a key from here on.
    Behind("replace_distinct_aggregate", || Arc::new(key_dependencies::KeyDependencies)),
    Around("extract_equijoin_predicate", |rule| Arc::new(null_equal_joins::KeysOfOneJoin(rule))),
    Around("eliminate_cross_join", |rule| Arc::new(null_equal_joins::TreesOfJoins(rule))),
    Around("push_down_filter", |rule| Arc::new(grand_totals::GrandTotals(rule))),
    // Their items may be computed by now, where a column stood before.
    Last(|| Arc::new(in_lists::InLists)),
];

/// The rules that run once on each physical plan.
const PHYSICAL: [Step<PhysicalRule>; 16] = [
    // Before all that look at orders.
    First(|| Arc::new(grouping_sets::GroupingSets)),
    First(|| Arc::new(filter_ranges::FilterRanges)),
    First(|| Arc::new(outer_sides::OuterSides)),
    Around("aggregate_statistics", parts_apart::PartsApart::of_filtered_totals),
    Around("EnsureRequirements", parts_apart::PartsApart::of_offsets),
    Around("ProjectionPushdown", parts_apart::PartsApart::of_filtered_merges),
    Around("LimitAggregation", parts_apart::PartsApart::of_windows),
    Around("FilterPushdown", parts_apart::PartsApart::of_names_alike),
    // The first that tells scans of orders or dynamic filters. Limits are at their final places by then.
    Before("PushdownSort", || Arc::new(fenced_limits::FencedLimits)),
    Around("FilterPushdown(Post)", |rule| Arc::new(min_max_filters::MinMaxFilters(rule))),
    Around("FilterPushdown(Post)", parts_apart::PartsApart::of_names_alike),
    Last(|| Arc::new(merge_filters::MergeFilters)),
    Last(|| Arc::new(unbounded_floats::UnboundedFloats)),
    // Others match on a scan's type, which it changes.
    Last(|| Arc::new(late_materialization::LateMaterialization)),
    Last(|| Arc::new(limited_groups::LimitedGroups)),
    Last(|| Arc::new(state_batches::StateBatches)),
];

/// The rules that a query gets in addition when it is planned again because memory ran out.
const SPILLING: [Step<PhysicalRule>; 1] = [
    // That one gives each operator the order and partitions that it requires, and may rely on the order of the probe side, which a stock
    // hash join keeps and ours does not.
    Before("EnsureRequirements", || Arc::new(spilling_joins::SpillingJoins)),
];

/// `state` with our rules among DataFusion's.
pub(crate) fn with_rules(state: SessionState) -> SessionState {
    let logical = in_order(state.optimizers(), &OPTIMIZER, |rule| rule.name());
    let physical = in_order(state.physical_optimizers(), &PHYSICAL, |rule| rule.name());
    let mut analyzing = in_order(&state.analyzer().rules, &ANALYZER, |rule| rule.name());
    analyzing.push(Arc::new(unnesting::Unnesting { rules: logical.clone() }));
    SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzing)
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build()
}

/// `state`, which has our rules, with joins that spill.
pub(crate) fn with_spilling_joins(state: SessionState) -> SessionState {
    let physical = in_order(state.physical_optimizers(), &SPILLING, |rule| rule.name());
    SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(physical).build()
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    fn physical_names(state: &SessionState) -> Vec<String> {
        state.physical_optimizers().iter().map(|rule| rule.name().to_owned()).collect()
    }

    #[test]
    fn each_rule_stands_where_the_table_has_it() {
        let state = with_rules(SessionContext::new().state());
        let logical: Vec<&str> = state.optimizers().iter().map(|rule| rule.name()).collect();
        assert_eq!(logical[..3], ["key_dependencies", "correlated_subqueries", "in_subqueries"]);
        assert_eq!(logical.last(), Some(&"in_lists"));
        let behind = logical.iter().position(|rule| *rule == "replace_distinct_aggregate").unwrap() + 1;
        assert_eq!(logical[behind], "key_dependencies");
        let literals = logical.iter().position(|rule| *rule == "simplify_expressions").unwrap() + 1;
        assert_eq!(logical[literals], "finer_literals");
        let wrapped = |name: &str| {
            let rule = state.optimizers().iter().find(|rule| rule.name() == name).unwrap();
            format!("{rule:?}").split('(').next().unwrap().to_owned()
        };
        assert_eq!(wrapped("replace_distinct_aggregate"), "DistinctsFromAbove");
        assert_eq!(wrapped("extract_equijoin_predicate"), "KeysOfOneJoin");
        assert_eq!(wrapped("eliminate_cross_join"), "TreesOfJoins");
        assert_eq!(wrapped("push_down_filter"), "GrandTotals");

        let physical = physical_names(&state);
        let place = |name: &str| physical.iter().position(|rule| rule == name).unwrap();
        assert_eq!(physical[..3], ["GroupingSets", "FilterRanges", "OuterSides"]);
        assert_eq!(physical[place("FencedLimits") + 1], "PushdownSort");
        assert!(place("LimitPushdown") < place("FencedLimits"), "{physical:?}");
        assert!(place("FencedLimits") < place("FilterPushdown(Post)"), "{physical:?}");
        assert_eq!(
            physical[physical.len() - 4..],
            ["UnboundedFloats", "LateMaterialization", "LimitedGroups", "StateBatches"]
        );
        let post = state.physical_optimizers().iter().find(|rule| rule.name() == "FilterPushdown(Post)");
        assert!(format!("{post:?}").contains("MinMaxFilters"), "{post:?}");
        let apart = state.physical_optimizers().iter();
        assert_eq!(apart.filter(|rule| format!("{rule:?}").starts_with("PartsApart")).count(), 7);

        let analyzing: Vec<&str> = state.analyzer().rules.iter().map(|rule| rule.name()).collect();
        let own = &analyzing[analyzing.len() - 6..];
        assert_eq!(
            own,
            [
                "scalar_subqueries",
                "empty_subqueries",
                "set_operations",
                "outer_aggregates",
                "exact_numbers",
                "unnesting"
            ]
        );
    }

    #[test]
    fn joins_that_spill_stand_before_the_rule_that_arranges_inputs() {
        let physical = physical_names(&with_spilling_joins(with_rules(SessionContext::new().state())));
        let place = physical.iter().position(|name| name == "SpillingJoins").unwrap();
        assert_eq!(physical[place + 1], "EnsureRequirements", "{physical:?}");
    }
}
