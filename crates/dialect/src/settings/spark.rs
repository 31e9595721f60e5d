//! Keys of Spark's settings: `SET spark.sql.shuffle.partitions = 200`. Each is honoured, accepted because no answer depends on it, or
//! refused.

use std::any::Any;
use std::collections::BTreeMap;

use datafusion::common::Result;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use yeoul_base::ErrorKind;

use crate::Error;

/// Keys behind `spark.`, in small letters, whose one value is what is done anyway, and what to write for another.
pub(crate) const FIXED: [(&str, &str, &str); 9] = [
    (
        "sql.ansi.enabled",
        "true",
        "the ANSI rules are the only ones: try_cast, try_add, try_divide and the like are null instead of an error",
    ),
    ("sql.ansi.doublequotedidentifiers", "false", "names have backquotes"),
    ("sql.ansi.enforcereservedkeywords", "false", "leave it as it is"),
    ("sql.casesensitive", "false", "leave it as it is: names have no case"),
    ("sql.crossjoin.enabled", "true", "leave it as it is"),
    ("sql.timestamptype", "timestamp_ntz", "TIMESTAMP has no zone here; write TIMESTAMPTZ for an instant"),
    ("sql.storeassignmentpolicy", "ansi", "leave it as it is"),
    ("sql.groupbyordinal", "true", "leave it as it is"),
    ("sql.orderbyordinal", "true", "leave it as it is"),
];

/// Beginnings of keys, behind `spark.`, that change how fast an answer is and not the answer.
pub(crate) const OF_SPEED: [&str; 16] = [
    "sql.adaptive.",
    "sql.autobroadcastjointhreshold",
    "sql.broadcasttimeout",
    "sql.cbo.",
    "sql.codegen.",
    "sql.shuffle.partitions",
    "sql.files.maxpartitionbytes",
    "sql.inmemorycolumnarstorage.",
    "sql.join.prefersortmergejoin",
    "sql.statistics.",
    "sql.parquet.filterpushdown",
    "sql.parquet.enablevectorizedreader",
    "sql.optimizer.dynamicpartitionpruning.",
    "sql.optimizer.runtime.bloomfilter.",
    "sql.execution.reusesubquery",
    "sql.exchange.reuse",
];

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
        if let Some((_, only, instead)) = FIXED.into_iter().find(|(fixed, ..)| *fixed == key) {
            if !value.eq_ignore_ascii_case(only) {
                let text = format!("not supported: spark.{key} = {value}");
                return Err(Error::new(ErrorKind::Invalid, text).with_hint(instead).into());
            }
        } else if !OF_SPEED.iter().any(|beginning| key.starts_with(beginning)) {
            let text = format!("not supported: the setting spark.{key}");
            return Err(Error::new(ErrorKind::Invalid, text)
                .with_hint(
                    "settings that change no answer are accepted; docs/reference/sql-dialects.md lists all",
                )
                .into());
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
