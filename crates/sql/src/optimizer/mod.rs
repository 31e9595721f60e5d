//! Rules over DataFusion's plans.
//!
//! - [`correlated_subqueries`]: refuses subqueries of which DataFusion's joins would make something else;
//! - [`empty_subqueries`]: a subquery without rows is null, whatever its column may be;
//! - [`fenced_limits`]: keeps dynamic filters above a limit;
//! - [`grand_totals`]: keeps filters without columns above an aggregate that always has a row;
//! - [`grouping_sets`]: lets the keys of `ROLLUP`, `CUBE` and `GROUPING SETS` have no order;
//! - [`in_subqueries`]: `IN` with subqueries, which is unknown where nulls make it neither true nor false;
//! - [`kept_names`]: how rules rewrite expressions, and pass columns on, without renaming them;
//! - [`late_materialization`]: lets a scan that a join filters do so before it decodes all columns;
//! - [`lifted_columns`]: gives conditions that leave a correlated subquery columns that are told apart outside;
//! - [`limited_groups`]: lets an aggregate forget a limit that it would take for that of a top-k;
//! - [`null_equal_joins`]: keeps join trees with `IS NOT DISTINCT FROM` as they are;
//! - [`outer_aggregates`]: refuses aggregates of outer columns only, which belong to the query around;
//! - [`parts_apart`]: runs rules on each side of a node separately, where across it they would be wrong;
//! - [`scalar_subqueries`]: correlated subqueries that stand for a value without an aggregate, as aggregates;
//! - [`set_operations`]: `INTERSECT ALL` and `EXCEPT ALL`, which count, and the names of a `UNION`'s inputs;
//! - [`spilling_joins`]: replaces hash joins with joins that spill, once memory has run out;
//! - [`unbounded_floats`]: prunes nothing by Parquet's ranges of floats, which leave out NaN;
//! - [`unnesting`]: subqueries that DataFusion cannot join, as joins with the distinct values of their outer columns;
//! - [`value_subqueries`]: `IN`, `EXISTS`, `ANY` and `ALL` as values, outside filters.

pub(crate) mod correlated_subqueries;
pub(crate) mod empty_subqueries;
pub(crate) mod fenced_limits;
pub(crate) mod grand_totals;
pub(crate) mod grouping_sets;
pub(crate) mod in_subqueries;
mod kept_names;
pub(crate) mod late_materialization;
mod lifted_columns;
pub(crate) mod limited_groups;
pub(crate) mod null_equal_joins;
pub(crate) mod outer_aggregates;
pub(crate) mod parts_apart;
pub(crate) mod scalar_subqueries;
pub(crate) mod set_operations;
pub(crate) mod spilling_joins;
pub(crate) mod unbounded_floats;
pub(crate) mod unnesting;
mod value_subqueries;
