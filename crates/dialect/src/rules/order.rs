//! The order of our rules among DataFusion's: a table for each time at which rules run.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;

use super::rule_order::Step::{self, Around, Before, Behind, First, Last};
use super::rule_order::in_order;
use super::{
    fenced_limits, filter_equalities, filter_ranges, float_merges, grand_totals, grouping_sets, in_lists,
    key_dependencies, lambda_places, limited_groups, merge_filters, merged_orders, min_max_filters,
    misplaced_keys, null_equal_joins, outer_sides, parts_apart, recursive_types, set_operations,
    three_values, unbounded_floats, window_keys,
};
use crate::numbers::{exact_numbers, float_decimals, float_digits, float_zeros};
use crate::rewrite::{AnalyzingRule, LogicalRule, PhysicalRule};
use crate::subqueries::{
    correlated_subqueries, empty_subqueries, in_subqueries, lateral_joins, lateral_rows, ordering_subqueries,
    outer_aggregates, outer_types, scalar_subqueries, self_comparisons, unnesting,
};
use crate::time::{
    clock_functions, dates_as_timestamps, finer_literals, interval_frames, interval_order, patterns,
    spark_moments, time_values,
};
use crate::types::{list_casts, null_parents, refused_operands};

/// The rules that run once on each plan, before the optimizer.
const ANALYZER: [Step<AnalyzingRule>; 16] = [
    // Before DataFusion adds casts of its own.
    First(|| Arc::new(list_casts::ListCasts)),
    First(|| Arc::new(clock_functions::ClockCasts)),
    First(|| Arc::new(refused_operands::RefusedOperands)),
    First(|| Arc::new(recursive_types::RecursiveTypes)),
    First(|| Arc::new(lateral_rows::LateralRows)),
    First(|| Arc::new(float_decimals::FloatDecimals)),
    First(|| Arc::new(dates_as_timestamps::DatesAsTimestamps)),
    First(|| Arc::new(interval_frames::IntervalFrames)),
    Around("type_coercion", |rule| Arc::new(outer_types::OuterTypes(rule))),
    Last(|| Arc::new(scalar_subqueries::ScalarSubqueries)),
    Last(|| Arc::new(empty_subqueries::EmptySubqueries)),
    Last(|| Arc::new(set_operations::SetOperations)),
    Last(|| Arc::new(ordering_subqueries::OrderingSubqueries)),
    Last(|| Arc::new(outer_aggregates::OuterAggregates)),
    Last(|| Arc::new(exact_numbers::ExactNumbers)),
    Last(|| Arc::new(three_values::ThreeValues)),
];

/// The rules of the analyzer that come behind `unnesting`, once all types are known.
const VALUES: [Step<AnalyzingRule>; 7] = [
    Last(|| Arc::new(float_digits::FloatDigits)),
    Last(|| Arc::new(spark_moments::MomentCasts)),
    Last(|| Arc::new(patterns::Patterns)),
    Last(|| Arc::new(time_values::TimeValues)),
    Last(|| Arc::new(interval_order::IntervalOrder)),
    Last(|| Arc::new(float_zeros::FloatZeros)),
    Last(|| Arc::new(null_parents::NullParents)),
];

/// The rules of each round of the optimizer. DataFusion's own move conditions about: what looks at subqueries is before them.
const OPTIMIZER: [Step<LogicalRule>; 12] = [
    First(|| Arc::new(key_dependencies::KeyDependencies)),
    First(|| Arc::new(correlated_subqueries::CorrelatedSubqueries)),
    First(|| Arc::new(in_subqueries::InSubqueries)),
    // Constants are literals from here on.
    Behind("simplify_expressions", || Arc::new(finer_literals::FinerLiterals)),
    Around("replace_distinct_aggregate", |rule| Arc::new(key_dependencies::DistinctsFromAbove(rule))),
    // A DISTINCT is known to have a key from here on.
    Behind("replace_distinct_aggregate", || Arc::new(key_dependencies::KeyDependencies)),
    Around("eliminate_join", |rule| Arc::new(lateral_joins::LateralJoins(rule))),
    // The first that makes a join of a subquery. Lists of one value are comparisons by then.
    Before("decorrelate_predicate_subquery", || Arc::new(self_comparisons::SelfComparisons)),
    Around("extract_equijoin_predicate", |rule| Arc::new(null_equal_joins::KeysOfOneJoin(rule))),
    Around("eliminate_cross_join", |rule| Arc::new(null_equal_joins::TreesOfJoins(rule))),
    Around("push_down_filter", |rule| Arc::new(grand_totals::GrandTotals(rule))),
    // Their items may be computed by now, where a column stood before.
    Last(|| Arc::new(in_lists::InLists)),
];

/// The rules that run once on each physical plan.
const PHYSICAL: [Step<PhysicalRule>; 21] = [
    // Before projections take the places of others.
    First(|| Arc::new(lambda_places::LambdaPlaces)),
    // Before all that look at orders.
    First(|| Arc::new(grouping_sets::GroupingSets)),
    First(|| Arc::new(filter_ranges::FilterRanges)),
    First(|| Arc::new(filter_equalities::FilterEqualities)),
    First(|| Arc::new(outer_sides::OuterSides)),
    // Before sides are sorted.
    First(|| Arc::new(float_merges::FloatMerges)),
    Around("aggregate_statistics", parts_apart::PartsApart::of_filtered_totals),
    // It drops sorts.
    Before("EnsureRequirements", || Arc::new(misplaced_keys::MisplacedKeys)),
    // What it hides decides how rows are sorted.
    Before("EnsureRequirements", || Arc::new(window_keys::WindowKeys)),
    Around("EnsureRequirements", parts_apart::PartsApart::of_offsets),
    // It makes merges.
    Around("EnsureRequirements", |rule| Arc::new(merged_orders::MergedOrders(rule))),
    Around("ProjectionPushdown", parts_apart::PartsApart::of_mistaken_places),
    Around("LimitAggregation", parts_apart::PartsApart::of_windows),
    Around("FilterPushdown", parts_apart::PartsApart::of_names_alike),
    // The first that tells scans of orders or dynamic filters. Limits are at their final places by then.
    Before("PushdownSort", || Arc::new(fenced_limits::FencedLimits)),
    Around("FilterPushdown(Post)", |rule| Arc::new(min_max_filters::MinMaxFilters(rule))),
    Around("FilterPushdown(Post)", parts_apart::PartsApart::of_names_alike),
    Last(|| Arc::new(merge_filters::MergeFilters)),
    Last(|| Arc::new(unbounded_floats::UnboundedFloats)),
    Last(|| Arc::new(limited_groups::LimitedGroups)),
    // Projections are at their final places by then, and a sort asks again when it runs.
    Last(|| Arc::new(misplaced_keys::MisplacedKeys)),
];

/// `state` with our rules among DataFusion's, and those of an engine among all of them.
pub(crate) fn with_rules(state: SessionState, engine: &[Step<PhysicalRule>]) -> SessionState {
    let logical = in_order(state.optimizers(), &OPTIMIZER, |rule| rule.name());
    let physical = in_order(state.physical_optimizers(), &PHYSICAL, |rule| rule.name());
    let physical = in_order(&physical, engine, |rule| rule.name());
    let mut analyzing = in_order(&state.analyzer().rules, &ANALYZER, |rule| rule.name());
    // It tries the whole optimizer.
    analyzing.push(Arc::new(unnesting::Unnesting { rules: logical.clone() }));
    let analyzing = in_order(&analyzing, &VALUES, |rule| rule.name());
    SessionStateBuilder::new_from_existing(state)
        .with_analyzer_rules(analyzing)
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build()
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
        let state = with_rules(SessionContext::new().state(), &[]);
        let logical: Vec<&str> = state.optimizers().iter().map(|rule| rule.name()).collect();
        assert_eq!(logical[..3], ["key_dependencies", "correlated_subqueries", "in_subqueries"]);
        assert_eq!(logical.last(), Some(&"in_lists"));
        let behind = logical.iter().position(|rule| *rule == "replace_distinct_aggregate").unwrap() + 1;
        assert_eq!(logical[behind], "key_dependencies");
        let literals = logical.iter().position(|rule| *rule == "simplify_expressions").unwrap() + 1;
        assert_eq!(logical[literals], "finer_literals");
        let joins = logical.iter().position(|rule| *rule == "decorrelate_predicate_subquery").unwrap();
        assert_eq!(logical[joins - 1], "self_comparisons");
        assert!(literals < joins, "{logical:?}");
        let wrapped = |name: &str| {
            let rule = state.optimizers().iter().find(|rule| rule.name() == name).unwrap();
            format!("{rule:?}").split('(').next().unwrap().to_owned()
        };
        assert_eq!(wrapped("replace_distinct_aggregate"), "DistinctsFromAbove");
        assert_eq!(wrapped("eliminate_join"), "LateralJoins");
        assert_eq!(wrapped("extract_equijoin_predicate"), "KeysOfOneJoin");
        assert_eq!(wrapped("eliminate_cross_join"), "TreesOfJoins");
        assert_eq!(wrapped("push_down_filter"), "GrandTotals");

        let physical = physical_names(&state);
        let place = |name: &str| physical.iter().position(|rule| rule == name).unwrap();
        let first =
            ["LambdaPlaces", "GroupingSets", "FilterRanges", "FilterEqualities", "OuterSides", "FloatMerges"];
        assert_eq!(physical[..6], first);
        assert_eq!(physical[place("FencedLimits") + 1], "PushdownSort");
        assert!(place("LimitPushdown") < place("FencedLimits"), "{physical:?}");
        assert!(place("FencedLimits") < place("FilterPushdown(Post)"), "{physical:?}");
        let ensures = place("EnsureRequirements");
        assert_eq!(physical[ensures - 2..ensures], ["MisplacedKeys", "WindowKeys"]);
        let ensuring = state.physical_optimizers().iter().find(|rule| rule.name() == "EnsureRequirements");
        assert!(format!("{ensuring:?}").contains("MergedOrders(PartsApart"), "{ensuring:?}");
        let last = ["MergeFilters", "UnboundedFloats", "LimitedGroups", "MisplacedKeys"];
        assert_eq!(physical[physical.len() - 4..], last);
        let post = state.physical_optimizers().iter().find(|rule| rule.name() == "FilterPushdown(Post)");
        assert!(format!("{post:?}").contains("MinMaxFilters"), "{post:?}");
        let apart = state.physical_optimizers().iter();
        assert_eq!(apart.filter(|rule| format!("{rule:?}").starts_with("PartsApart")).count(), 6);

        let analyzing: Vec<&str> = state.analyzer().rules.iter().map(|rule| rule.name()).collect();
        let own = &analyzing[analyzing.len() - 15..];
        assert_eq!(
            own,
            [
                "scalar_subqueries",
                "empty_subqueries",
                "set_operations",
                "ordering_subqueries",
                "outer_aggregates",
                "exact_numbers",
                "three_values",
                "unnesting",
                "float_digits",
                "moment_casts",
                "patterns",
                "time_values",
                "interval_order",
                "float_zeros",
                "null_parents"
            ]
        );
    }
}
