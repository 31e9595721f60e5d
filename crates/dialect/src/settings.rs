//! The settings of Yeoul's own, beside DataFusion's: `SET yeoul.wrap_integers = true`.

use std::any::Any;

use datafusion::common::Result;
use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::config_err;

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `yeoul.wrap_integers`: integers wrap around.
    WrapIntegers,
    /// `yeoul.order_joins`: joins run in the order that is estimated to be the fastest.
    OrderJoins,
}

impl Switch {
    const ALL: [Self; 2] = [Self::WrapIntegers, Self::OrderJoins];

    /// The key behind [`Settings::PREFIX`].
    const fn key(self) -> &'static str {
        match self {
            Self::WrapIntegers => "wrap_integers",
            Self::OrderJoins => "order_joins",
        }
    }

    const fn is_on_at_first(self) -> bool {
        match self {
            Self::WrapIntegers => false,
            Self::OrderJoins => true,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::WrapIntegers => {
                "Should +, -, * and sum of integers wrap around where their result does not fit, as in DataFusion and in Java? Otherwise that is an error."
            }
            Self::OrderJoins => {
                "Should joins run in the order that is estimated to be the fastest? Otherwise they run in the order of the statement."
            }
        }
    }

    /// The value in a configuration.
    pub fn is_on(self, config: &ConfigOptions) -> bool {
        let settings = config.extensions.get::<Settings>();
        settings.map_or(self.is_on_at_first(), |settings| settings.0[self as usize])
    }
}

/// The values of all switches. DataFusion's macro for such settings lists them without their prefix, under which neither `SHOW` nor
/// `RESET` finds them.
#[derive(Clone, Debug)]
pub(crate) struct Settings([bool; Switch::ALL.len()]);

impl Default for Settings {
    fn default() -> Self {
        Self(Switch::ALL.map(Switch::is_on_at_first))
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "yeoul";
}

impl ExtensionOptions for Settings {
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
        match Switch::ALL.into_iter().find(|switch| switch.key() == key) {
            Some(switch) => ConfigField::set(&mut self.0[switch as usize], "", value),
            None => config_err!("there is no setting '{}.{key}'", Self::PREFIX),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |switch: Switch| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, switch.key()),
            value: Some(self.0[switch as usize].to_string()),
            description: switch.description(),
        };
        Switch::ALL.into_iter().map(entry).collect()
    }
}
