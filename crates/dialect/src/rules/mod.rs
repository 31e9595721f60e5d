//! Rules over DataFusion's plans that mend its answers. [`order`] has the tables that say in which order all of ours run.
//!
//! - [`fenced_limits`]: keeps dynamic filters above a limit;
//! - [`filter_equalities`]: lets a filter take no column for an expression that it equals;
//! - [`filter_ranges`]: lets a filter take no column for constant that is not;
//! - [`float_merges`]: joins by hashing where floats are keys;
//! - [`grand_totals`]: keeps filters without columns above an aggregate that always has a row;
//! - [`grouping_sets`]: lets the keys of `ROLLUP`, `CUBE` and `GROUPING SETS` have no order;
//! - [`hiding`]: the operator that hides which columns are constant, equal or unique;
//! - [`in_lists`]: items of `IN` lists that are computed for each row;
//! - [`key_dependencies`]: hides that a key is unique where that is no longer so;
//! - [`lambda_places`]: reads parameters of lambdas from no column;
//! - [`limited_groups`]: lets an aggregate forget a limit that it would take for that of a top-k;
//! - [`merge_filters`]: conditions without columns in joins by merging;
//! - [`merged_orders`]: merges sorted partitions by all that they are sorted by;
//! - [`min_max_filters`]: filters scans by a grand total's `min` and `max` only if none of them is forgotten;
//! - [`misplaced_keys`]: hides that columns are unique where others are;
//! - [`null_equal_joins`]: keeps join trees with `IS NOT DISTINCT FROM` as they are;
//! - [`outer_sides`]: lets no column be constant that an outer join fills with nulls;
//! - [`parts_apart`]: runs rules on each side of a node separately, where across it they would be wrong;
//! - [`recursive_types`]: refuses rounds of a recursive query that lose digits;
//! - [`rule_order`]: the places of our rules among DataFusion's;
//! - [`set_operations`]: `INTERSECT ALL` and `EXCEPT ALL`, which count, and the names of a `UNION`'s inputs;
//! - [`spark_casts`]: the walk over casts that rules of Spark's dialect share;
//! - [`three_values`]: keeps null where a condition would be simplified to two values;
//! - [`unbounded_floats`]: prunes nothing by Parquet's ranges of floats, which leave out NaN;
//! - [`window_keys`]: windows whose keys are computed of columns that equal others.

mod fenced_limits;
mod filter_equalities;
pub(crate) mod filter_ranges;
mod float_merges;
mod grand_totals;
pub(crate) mod grouping_sets;
pub(crate) mod hiding;
mod in_lists;
pub(crate) mod key_dependencies;
mod lambda_places;
mod limited_groups;
mod merge_filters;
mod merged_orders;
mod min_max_filters;
mod misplaced_keys;
mod null_equal_joins;
mod order;
mod outer_sides;
mod parts_apart;
mod recursive_types;
mod rule_order;
mod set_operations;
pub(crate) mod spark_casts;
mod three_values;
mod unbounded_floats;
mod window_keys;

pub(crate) use order::with_rules;
pub use rule_order::{Step, in_order};
