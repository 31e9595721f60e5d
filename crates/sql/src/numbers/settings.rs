//! The settings of SQL's numbers, which are Yeoul's own: `SET yeoul.wrap_integers = true`.

use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;

extensions_options! {
    /// How numbers are computed.
    pub(crate) struct NumberSettings {
        /// Should +, -, * and sum of integers wrap around where their result does not fit, as in DataFusion and in Java? Otherwise that is an error.
        pub wrap_integers: bool, default = false
    }
}

impl ConfigExtension for NumberSettings {
    const PREFIX: &'static str = "yeoul";
}

/// Whether integers wrap around.
pub(crate) fn wraps_integers(config: &ConfigOptions) -> bool {
    config.extensions.get::<NumberSettings>().is_some_and(|settings| settings.wrap_integers)
}
