//! Celeborn's settings: which of them do what here.
//!
//! `table.tsv` has every key that Celeborn 0.5.4 documents, with one [`Level`] each. A `celeborn-defaults.conf` is read by
//! [`file`], its entries are put into the options of a master or a worker by [`apply`], and [`reference`] makes the page
//! `docs/reference/shuffle-settings.md` of the same table.

pub mod apply;
pub mod file;
pub mod reference;
mod value;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use self::value::{bytes, duration};
use crate::{Error, Kind, Result};

/// `host:port` of a master, with Celeborn's port where a text names none. Celeborn's own scripts write it as an address,
/// `celeborn://host:port`.
///
/// # Errors
/// `Invalid` where there is no host or no such port.
pub fn master_endpoint(text: &str) -> Result<String> {
    let named = text.strip_prefix("celeborn://").unwrap_or(text);
    let endpoint = if named.contains(':') { named.to_owned() } else { format!("{named}:9097") };
    let is_valid = endpoint.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host =
            !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'));
        is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_valid {
        Ok(endpoint)
    } else {
        Err(Error::new(Kind::Invalid, format!("'{text:.100}' is no address of a master"))
            .with_hint("give it as HOST:PORT, such as 10.0.0.1:9097 or [fd00::7]:9097"))
    }
}

/// What a key does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It does what it does in Celeborn.
    Honoured,
    /// What it is for is done in another way; it is accepted and changes nothing.
    OtherMechanism,
    /// There is nothing here that it could change; it is accepted.
    NoEffect,
    /// Any value but Celeborn's default would promise what is not kept: it is an error.
    Refused,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "honoured" => Self::Honoured,
            "other" => Self::OtherMechanism,
            "none" => Self::NoEffect,
            "refused" => Self::Refused,
            _ => return None,
        })
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::OtherMechanism => "other mechanism",
            Self::NoEffect => "no effect",
            Self::Refused => "refused",
        }
    }
}

/// Whose setting a key is in Celeborn's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The master's, with high availability and quotas.
    Master,
    /// A worker's.
    Worker,
    /// Of all connections.
    Network,
    /// Of metrics.
    Metrics,
    /// The client's, in the configuration of Spark.
    Client,
}

/// A documented key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The key; `<…>` stands for one part.
    pub key: &'static str,
    /// Its default in Celeborn 0.5.4.
    pub default: &'static str,
    /// Whose.
    pub group: Group,
    /// What it does here.
    pub level: Level,
    /// What there is to say about it.
    pub note: &'static str,
}

impl Setting {
    /// Whether a key is this one.
    fn is(&self, key: &str) -> bool {
        let (mut wanted, mut given) = (self.key.split('.'), key.split('.'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some(wanted), Some(given)) if wanted == given => {}
                (Some(wanted), Some(given)) if wanted.starts_with('<') && !given.is_empty() => {}
                _ => return false,
            }
        }
    }
}

static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut group = Group::Master;
    let mut table = Vec::new();
    for line in include_str!("table.tsv").lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('@') {
            group = match name {
                "master" => Group::Master,
                "worker" => Group::Worker,
                "network" => Group::Network,
                "metrics" => Group::Metrics,
                "client" => Group::Client,
                other => unreachable!("the table has no group {other}"),
            };
            continue;
        }
        let mut fields = line.split('\t');
        let mut field = || fields.next().expect("a line of the table has four fields");
        let (key, default, level, note) = (field(), field(), field(), field());
        let level = Level::parse(level).expect("a level of the table is one of four");
        table.push(Setting { key, default, group, level, note });
    }
    table
});

static EXACT: LazyLock<BTreeMap<&str, &Setting>> =
    LazyLock::new(|| TABLE.iter().map(|setting| (setting.key, setting)).collect());

static WITH_PLACEHOLDER: LazyLock<Vec<&Setting>> =
    LazyLock::new(|| TABLE.iter().filter(|setting| setting.key.contains('<')).collect());

/// All documented keys, by group and name.
pub fn table() -> &'static [Setting] {
    &TABLE
}

/// The setting of a key, if it is documented. A key that is written out wins over one with a placeholder.
pub fn find(key: &str) -> Option<&'static Setting> {
    // All of them begin so, and a file of something else has thousands that do not.
    if !key.starts_with("celeborn.") {
        return None;
    }
    let exact = EXACT.get(key).copied();
    exact.or_else(|| WITH_PLACEHOLDER.iter().copied().find(|setting| setting.is(key)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_is_there_once_with_a_reason_for_what_it_does_not_do() {
        let keys: BTreeSet<&str> = table().iter().map(|setting| setting.key).collect();
        assert_eq!(keys.len(), table().len());
        assert!(keys.len() > 330, "{}", keys.len());
        for setting in table() {
            assert!(setting.key.starts_with("celeborn."));
            assert!(setting.level == Level::Honoured || !setting.note.is_empty(), "{}", setting.key);
        }
    }

    #[test]
    fn a_master_is_named_as_people_name_it() {
        let read = |text: &str| master_endpoint(text).map_err(|error| error.kind());
        for (text, endpoint) in [
            ("10.0.0.1", "10.0.0.1:9097"),
            ("celeborn://m1:9100", "m1:9100"),
            ("celeborn://m1", "m1:9097"),
            ("[fd00::7]:1", "[fd00::7]:1"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(endpoint));
        }
        for text in ["m1:70000", "m1:0", "m1:", ":9097", "http://m1:9097", "fd00::7"] {
            assert_eq!(read(text), Err(Kind::Invalid), "{text}");
        }
    }

    #[test]
    fn placeholders_stand_for_one_part() {
        assert_eq!(find("celeborn.ssl.rpc.enabled").unwrap().level, Level::Refused);
        assert_eq!(find("celeborn.push.io.mode").unwrap().key, "celeborn.<module>.io.mode");
        assert_eq!(find("celeborn.worker.push.io.threads").unwrap().key, "celeborn.worker.push.io.threads");
        assert_eq!(find("celeborn.master.ha.node.1.host").unwrap().level, Level::NoEffect);
        assert!(find("celeborn.master.prot").is_none());
        assert!(find("celeborn.ssl..enabled").is_none());
    }
}
