//! Names of tables and columns, where SQL and DataFusion differ about which one a name is.
//!
//! - [`any_case`]: names without regard to case; [`as_written`]: names that keep their letters;
//! - [`cast_keys`]: keys that differ by a cast only; [`cast_names`]: casts within aggregates, as names tell them apart;
//! - [`column_sets`]: sets of columns, as in `COLUMNS('regex')`;
//! - [`column_texts`]: headings of an answer's columns that have no name;
//! - [`earlier_aliases`]: aliases that a `SELECT` uses again;
//! - [`free_names`]: names that an expression has from where it stands;
//! - [`join_mark`]: finds the joins with `USING`, and `NATURAL` ones, in a plan that is being made;
//! - [`join_names`]: lets a statement name their columns as SQL does;
//! - [`joined_columns`]: names of the columns of such a join;
//! - [`merged_join`]: the plan of such a join;
//! - [`same_names`]: columns of one `SELECT` that DataFusion would call the same;
//! - [`session_variables`]: names of a session's variables;
//! - [`scopes`]: the tables that a column's name may be of;
//! - [`tables_alike`]: tables of one name in several schemas.

pub(crate) mod any_case;
pub(crate) mod as_written;
mod cast_keys;
pub(crate) mod cast_names;
pub(crate) mod column_sets;
pub(crate) mod column_texts;
pub(crate) mod earlier_aliases;
pub(crate) mod free_names;
pub(crate) mod join_mark;
pub(crate) mod join_names;
pub(crate) mod joined_columns;
pub(crate) mod merged_join;
pub(crate) mod same_names;
pub(crate) mod scopes;
pub(crate) mod session_variables;
pub(crate) mod tables_alike;

use datafusion::common::DataFusionError;
use datafusion::sql::parser::Statement;

use crate::parse::visit::visit;
use crate::types::identity::Identity;

pub use column_texts::ColumnTexts;
pub use same_names::normalized;

/// Gives columns names of their own, if planning failed because they had the same: those of one `SELECT`, then casts. False if there is
/// nothing to change.
pub(crate) fn name_apart(statement: &mut Statement, error: &DataFusionError) -> bool {
    let is_apart = same_names::Apart::after(error).is_some_and(|mut apart| {
        visit(statement, &mut apart);
        apart.is_changed
    });
    is_apart || (cast_keys::may_be_cause(error) && name_casts(statement))
}

/// Names the casts of a statement, if they are not. False if it has none.
pub(crate) fn name_casts(statement: &mut Statement) -> bool {
    let mut names = cast_keys::NameCasts::default();
    if !statement.to_string().contains(Identity::NamedCast.sql_name()) {
        visit(statement, &mut names);
    }
    names.is_changed
}
