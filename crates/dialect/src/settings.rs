//! The settings of Yeoul's own, beside DataFusion's: `SET yeoul.wrap_integers = true`.
//!
//! - [`spark`]: keys of Spark's, in its dialect.

mod spark;

use std::any::Any;

use datafusion::common::Result;
use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions,
};
use datafusion::common::config_err;

pub(crate) use spark::{KEYS as KEYS_OF_SPARK, SparkSettings};

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// `yeoul.wrap_integers`: integers wrap around.
    WrapIntegers,
    /// `yeoul.order_joins`: joins run in the order that is estimated to be the fastest.
    OrderJoins,
    /// `yeoul.share_subplans`: equal parts of a query are computed once.
    ShareSubplans,
    /// `yeoul.filter_scans`: Parquet scans ask conditions and filters of their rows in the way that they measure to be the fastest.
    FilterScans,
    /// `yeoul.grouping_levels`: grouping sets are computed from the groups of larger ones.
    GroupingLevels,
}

impl Switch {
    const ALL: [Self; 5] =
        [Self::WrapIntegers, Self::OrderJoins, Self::ShareSubplans, Self::FilterScans, Self::GroupingLevels];

    /// The key behind [`Settings::PREFIX`].
    const fn key(self) -> &'static str {
        match self {
            Self::WrapIntegers => "wrap_integers",
            Self::OrderJoins => "order_joins",
            Self::ShareSubplans => "share_subplans",
            Self::FilterScans => "filter_scans",
            Self::GroupingLevels => "grouping_levels",
        }
    }

    const fn is_on_at_first(self) -> bool {
        match self {
            Self::WrapIntegers => false,
            Self::OrderJoins | Self::ShareSubplans | Self::FilterScans | Self::GroupingLevels => true,
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
            Self::ShareSubplans => {
                "Should equal parts of a query be computed once, where that is estimated to be faster? Otherwise each is computed where it stands."
            }
            Self::FilterScans => {
                "Should scans of Parquet files ask conditions, and filters of joins, of their rows, in the way that they measure to be the fastest? Otherwise filters of joins only skip row groups."
            }
            Self::GroupingLevels => {
                "Should each set of GROUPING SETS, ROLLUP and CUBE be computed from the groups of a larger one? Otherwise each is computed from the rows."
            }
        }
    }

    /// The value in a configuration.
    pub fn is_on(self, config: &ConfigOptions) -> bool {
        let settings = config.extensions.get::<Settings>();
        settings.map_or(self.is_on_at_first(), |settings| settings.switches[self as usize])
    }

    /// Sets the value in a configuration.
    ///
    /// # Errors
    /// DataFusion's, for a configuration without these settings.
    pub fn set(self, config: &mut ConfigOptions, is_on: bool) -> Result<()> {
        config.set(&format!("{}.{}", Settings::PREFIX, self.key()), if is_on { "true" } else { "false" })
    }
}

/// System whose statements a session takes: `yeoul.dialect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum System {
    /// The own dialect: most of PostgreSQL's and DuckDB's.
    #[default]
    Own,
    /// Spark.
    Spark,
}

impl System {
    /// The key of the setting, behind [`Settings::PREFIX`].
    const KEY: &'static str = "dialect";

    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("yeoul", Self::Own), ("spark", Self::Spark)];

    /// Name of the setting.
    pub const SETTING: &'static str = "yeoul.dialect";

    /// The value in a configuration.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Settings>().map_or(Self::Own, |settings| settings.system)
    }

    /// Name in a setting.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, system)| *system == self).map_or("yeoul", |(name, _)| name)
    }
}

impl std::str::FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let names = || Self::ALL.map(|(name, _)| name).join(" and ");
        found
            .map(|(_, system)| system)
            .ok_or_else(|| format!("there is no dialect '{name}': there are {}", names()))
    }
}

/// The values of all switches. DataFusion's macro for such settings lists them without their prefix, under which neither `SHOW` nor
/// `RESET` finds them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    switches: [bool; Switch::ALL.len()],
    system: System,
}

impl Default for Settings {
    fn default() -> Self {
        Self { switches: Switch::ALL.map(Switch::is_on_at_first), system: System::default() }
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
        if key == System::KEY {
            self.system = value.parse().map_err(datafusion::common::DataFusionError::Configuration)?;
            return Ok(());
        }
        match Switch::ALL.into_iter().find(|switch| switch.key() == key) {
            Some(switch) => ConfigField::set(&mut self.switches[switch as usize], "", value),
            None => config_err!("there is no setting '{}.{key}'", Self::PREFIX),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |switch: Switch| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, switch.key()),
            value: Some(self.switches[switch as usize].to_string()),
            description: switch.description(),
        };
        let system = ConfigEntry {
            key: System::SETTING.to_owned(),
            value: Some(self.system.name().to_owned()),
            description: "The system whose statements are taken: yeoul, or spark.",
        };
        Switch::ALL.into_iter().map(entry).chain([system]).collect()
    }
}
