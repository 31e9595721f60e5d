//! Subqueries, of which DataFusion has joins for some, and for others joins that mean something else.
//!
//! - [`correlated_subqueries`]: refuses those of which DataFusion's joins would make something else;
//! - [`empty_subqueries`]: one without rows is null, whatever its column may be;
//! - [`in_subqueries`]: `IN` with subqueries in filters; [`value_subqueries`]: `IN`, `EXISTS`, `ANY` and `ALL` as values;
//! - [`lateral_joins`]: keeps joins whose columns a `JOIN LATERAL` uses;
//! - [`lateral_rows`]: computes `unnest` of a row's lists beside that row;
//! - [`lifted_columns`]: gives conditions that leave a correlated subquery columns that are told apart outside;
//! - [`ordering_subqueries`]: subqueries in what an aggregate orders by;
//! - [`outer_aggregates`]: refuses aggregates of outer columns only, which belong to the query around;
//! - [`outer_types`]: gives outer columns the types that they have in the query around;
//! - [`scalar_subqueries`]: correlated subqueries that stand for a value without an aggregate, as aggregates;
//! - [`self_comparisons`]: an outer column that is compared with itself, which is true but for a null;
//! - [`shape`]: the place of a subquery, its conditions and its rows;
//! - [`unnesting`]: subqueries that DataFusion cannot join, as joins with the distinct values of their outer columns.

pub(crate) mod correlated_subqueries;
pub(crate) mod empty_subqueries;
pub(crate) mod in_subqueries;
pub(crate) mod lateral_joins;
pub(crate) mod lateral_rows;
mod lifted_columns;
pub(crate) mod ordering_subqueries;
pub(crate) mod outer_aggregates;
pub(crate) mod outer_types;
pub(crate) mod scalar_subqueries;
pub(crate) mod self_comparisons;
mod shape;
pub(crate) mod unnesting;
mod value_subqueries;
