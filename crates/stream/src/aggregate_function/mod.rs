//! Aggregate functions of Spark that keep values of rows, in the order in which the rows come.
//!
//! - [`first_and_last`]: `first` and `last`
//! - [`collections`]: `collect_list` (`array_agg`) and `collect_set`

mod collect;
mod first_last;
mod kept_values;

pub use collect::collections;
pub use first_last::first_and_last;

use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::logical_expr::{Accumulator, EmitTo};

/// The accumulator of a single group: streams aggregate many groups at once.
fn no_single_group(name: &str) -> Result<Box<dyn Accumulator>> {
    not_impl_err!("{name} of one group alone")
}

/// All groups are asked for: streams never give some of them to save memory.
fn of_all_groups(emit_to: EmitTo) -> Result<()> {
    match emit_to {
        EmitTo::All => Ok(()),
        EmitTo::First(_) => {
            Err(DataFusionError::Internal("results of the first groups alone were asked for".to_owned()))
        }
    }
}
