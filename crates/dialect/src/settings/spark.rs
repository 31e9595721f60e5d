//! Keys of Spark, each honoured, accepted because no answer depends on it, or refused. `spark.tsv` has those that are not refused.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use datafusion::common::Result;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use yeoul_base::ErrorKind;

use crate::Error;

/// A key of the table, or the beginning of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Part of the key behind `spark.`, in small letters.
    pub name: &'static str,
    /// The value that is what is done anyway. `None` for keys that begin so and change how fast an answer is, and not the answer.
    pub only: Option<&'static str>,
    /// Advice for another value.
    pub instead: &'static str,
}

/// All keys that are not refused.
pub(crate) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let lines = include_str!("spark.tsv").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [name, only, instead] = columns[..] else { panic!("spark.tsv: {line}") };
            Key { name, only: Some(only).filter(|only| !only.is_empty()), instead }
        })
        .collect()
});

/// The values that were set. There is no other use of them than to be shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparkSettings(BTreeMap<String, String>);

impl ConfigExtension for SparkSettings {
    const PREFIX: &'static str = "spark";
}

impl ExtensionOptions for SparkSettings {
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
        let key = key.to_ascii_lowercase();
        let known = KEYS.iter().find(|known| match known.only {
            Some(_) => known.name == key,
            None => key.starts_with(known.name),
        });
        match known {
            Some(Key { only: Some(only), instead, .. }) if !value.eq_ignore_ascii_case(only) => {
                let text = format!("not supported: spark.{key} = {value}");
                return Err(Error::new(ErrorKind::Invalid, text).with_hint(*instead).into());
            }
            Some(_) => {}
            None => {
                let text = format!("not supported: the setting spark.{key}");
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("settings that change no answer are accepted; docs/reference/sql-dialects.md lists all")
                    .into());
            }
        }
        self.0.insert(key, value.to_owned());
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |(key, value): (&String, &String)| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(value.clone()),
            description: "A setting of Spark's.",
        };
        self.0.iter().map(entry).collect()
    }
}
