//! The setting by which the scheduler tells the tasks of its jobs where the shuffle is.

use std::any::Any;

use datafusion::common::Result;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::config_err;

/// Address of the shuffle's application, for executors; empty for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShuffleSettings {
    /// `host:port`, a space, and a word that is another one for each process that listens there.
    pub application: String,
}

/// The setting's key behind [`ShuffleSettings::PREFIX`].
const APPLICATION: &str = "application";

impl ShuffleSettings {
    /// The application of a job's shuffles; none if rows stay on executors.
    pub fn application_of(config: &ConfigOptions) -> Option<&str> {
        let settings = config.extensions.get::<Self>()?;
        Some(settings.application.as_str()).filter(|application| !application.is_empty())
    }
}

impl ConfigExtension for ShuffleSettings {
    const PREFIX: &'static str = "yeoul_shuffle";
}

impl ExtensionOptions for ShuffleSettings {
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
            APPLICATION => {
                value.clone_into(&mut self.application);
                Ok(())
            }
            _ => config_err!("there is no setting '{}.{key}'", Self::PREFIX),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![ConfigEntry {
            key: format!("{}.{APPLICATION}", Self::PREFIX),
            value: Some(self.application.clone()),
            description: "Where tasks find the application of the shuffle: the scheduler's to say.",
        }]
    }
}
