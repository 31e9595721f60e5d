//! The settings of SQL's numbers, which are Yeoul's own: `SET yeoul.wrap_integers = true`.

use std::any::Any;

use datafusion::common::Result;
use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::config_err;

/// How numbers are computed. DataFusion's macro for such settings lists them without their prefix, under which neither `SHOW` nor
/// `RESET` finds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberSettings {
    wrap_integers: bool,
}

/// The setting's key behind [`NumberSettings::PREFIX`].
const WRAP_INTEGERS: &str = "wrap_integers";

impl ConfigExtension for NumberSettings {
    const PREFIX: &'static str = "yeoul";
}

impl ExtensionOptions for NumberSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            WRAP_INTEGERS => ConfigField::set(&mut self.wrap_integers, "", value),
            _ => config_err!("there is no setting '{}.{key}'", Self::PREFIX),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: format!("{}.{WRAP_INTEGERS}", Self::PREFIX),
            value: Some(self.wrap_integers.to_string()),
            description: "Should +, -, * and sum of integers wrap around where their result does not fit, as in DataFusion and in Java? Otherwise that is an error.",
        }]
    }
}

/// Whether integers wrap around.
pub(crate) fn wraps_integers(config: &ConfigOptions) -> bool {
    config.extensions.get::<NumberSettings>().is_some_and(|settings| settings.wrap_integers)
}
