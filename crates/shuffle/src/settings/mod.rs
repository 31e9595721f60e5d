//! Celeborn's settings, and what each of them does here.
//!
//! `table.tsv` has every key that Celeborn 0.5.4 documents, with its deprecated names and one [`Level`] each, and those keys of
//! later versions that would promise something: quotas, tags, object stores, security and durability. A `celeborn-defaults.conf` is read by [`file`], its entries are put into the options of a master or a worker by [`apply`],
//! which replaces the references in its values, and [`reference`] makes the page `docs/reference/shuffle-settings.md` of the
//! same table.

pub mod apply;
pub mod file;
pub mod reference;
mod references;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use self::references::Environment;
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
    /// Its purpose is met in another way; it is accepted and changes nothing.
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

/// The group of a key in Celeborn's documentation.
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
    /// Its default in Celeborn 0.5.4, or in 0.6 if 0.5.4 does not have it.
    pub default: &'static str,
    /// Its group.
    pub group: Group,
    /// What it does here.
    pub level: Level,
    /// A note on what it does.
    pub note: &'static str,
    /// The names that it had in earlier versions and that Celeborn 0.5.4 still takes, with commas.
    deprecated: &'static str,
}

impl Setting {
    /// The names that it had in earlier versions and that Celeborn 0.5.4 still takes: of several that are given, the first.
    pub fn deprecated(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.deprecated.split(',').filter(|name| !name.is_empty())
    }

    /// Its names with their ranks, see [`Found::rank`].
    fn names(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        std::iter::once(self.key).chain(self.deprecated()).zip(0..)
    }
}

/// A setting, with the name by which it was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'k> {
    /// The setting.
    pub setting: &'static Setting,
    /// Its present name, with what stands for `<…>`.
    pub name: Cow<'k, str>,
    /// 0 for the present name, else the place of the deprecated one, from 1. If several names are given, the lowest
    /// rank counts.
    pub rank: usize,
}

/// What stands for `<…>` in a key of that pattern; `None` if it is of another one.
fn placeholder<'k>(pattern: &str, key: &'k str) -> Option<&'k str> {
    let (mut wanted, mut given) = (pattern.split('.'), key.split('.'));
    let mut stands = "";
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(stands),
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) if wanted.starts_with('<') && !given.is_empty() => stands = given,
            _ => return None,
        }
    }
}

/// A key with a text for its `<…>`.
fn with_placeholder(key: &str, stands: &str) -> String {
    let parts = key.split('.').map(|part| if part.starts_with('<') { stands } else { part });
    parts.collect::<Vec<_>>().join(".")
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
        let mut field = || fields.next().expect("a line of the table has four fields, or five");
        let (key, default, level, note) = (field(), field(), field(), field());
        let level = Level::parse(level).expect("a level of the table is one of four");
        let deprecated = fields.next().unwrap_or_default();
        table.push(Setting { key, default, group, level, note, deprecated });
    }
    table
});

/// A name of a setting, with its rank.
type Named = (&'static str, &'static Setting, usize);

fn names() -> impl Iterator<Item = Named> {
    TABLE.iter().flat_map(|setting| setting.names().map(move |(name, rank)| (name, setting, rank)))
}

static EXACT: LazyLock<BTreeMap<&str, (&Setting, usize)>> =
    LazyLock::new(|| names().map(|(name, setting, rank)| (name, (setting, rank))).collect());

static WITH_PLACEHOLDER: LazyLock<Vec<Named>> =
    LazyLock::new(|| names().filter(|(name, ..)| name.contains('<')).collect());

/// All documented keys, by group and name.
pub fn table() -> &'static [Setting] {
    &TABLE
}

/// Whether a key promises security: who may do what, or that nobody listens. Such a key is refused unless it is honoured, even
/// if a later version of Celeborn has added it.
pub fn promises_security(key: &str) -> bool {
    let is_of_security = |part: &str| matches!(part, "auth" | "ssl" | "spnego");
    key.starts_with("celeborn.") && (key.split('.').any(is_of_security) || key.ends_with("HostPattern"))
}

/// The setting of a key, if it is documented, by its present or a deprecated name. A name that is written out wins over one
/// with a placeholder.
pub fn find(key: &str) -> Option<Found<'_>> {
    // All keys begin so, and a file that is no settings file has thousands that do not.
    if !key.starts_with("celeborn.") && !key.starts_with("remote-shuffle.") {
        return None;
    }
    if let Some((setting, rank)) = EXACT.get(key).copied() {
        let name = if rank == 0 { key } else { setting.key };
        return Some(Found { setting, name: name.into(), rank });
    }
    WITH_PLACEHOLDER.iter().find_map(|(pattern, setting, rank)| {
        let stands = placeholder(pattern, key)?;
        let name = if *rank == 0 { key.into() } else { with_placeholder(setting.key, stands).into() };
        Some(Found { setting, name, rank: *rank })
    })
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
    fn no_key_that_promises_security_is_only_warned_about() {
        let promising: Vec<_> = table().iter().filter(|setting| promises_security(setting.key)).collect();
        assert!(promising.len() > 40, "{}", promising.len());
        for setting in promising {
            assert_eq!(setting.level, Level::Refused, "{}", setting.key);
        }
        let others = ["celeborn.worker.authority", "celeborn.ssl", "celeborn.master.hostPatterns"];
        assert_eq!(others.map(promises_security), [false, true, false]);
    }

    #[test]
    fn a_deprecated_name_is_of_one_setting() {
        let names: Vec<Named> = names().collect();
        let different: BTreeSet<&str> = names.iter().map(|(name, ..)| *name).collect();
        assert_eq!(different.len(), names.len());
        let deprecated = names.iter().filter(|(.., rank)| *rank > 0);
        assert_eq!(deprecated.clone().count(), 101, "as many as Celeborn 0.5.4 documents");
        for (name, setting, rank) in deprecated {
            let found = find(name).unwrap();
            assert_eq!((found.setting.key, found.rank), (setting.key, *rank), "{name}");
            // A placeholder has its place in the present name, too.
            assert!(!name.contains('<') || setting.key.contains('<'), "{name}");
        }
        let find = |key| find(key).map(|found| (found.name.into_owned(), found.rank));
        let host = "celeborn.master.ha.node.7.host".to_owned();
        assert_eq!(find("celeborn.ha.master.node.7.host"), Some((host, 1)));
        let port = "celeborn.worker.http.port".to_owned();
        assert_eq!(find("celeborn.worker.metrics.prometheus.port"), Some((port, 2)));
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
        let setting = |key| find(key).unwrap().setting;
        assert_eq!(setting("celeborn.ssl.rpc.enabled").level, Level::Refused);
        assert_eq!(setting("celeborn.push.io.mode").key, "celeborn.<module>.io.mode");
        assert_eq!(setting("celeborn.worker.push.io.threads").key, "celeborn.worker.push.io.threads");
        assert_eq!(setting("celeborn.master.ha.node.1.host").level, Level::NoEffect);
        assert!(find("celeborn.master.prot").is_none());
        assert!(find("celeborn.ssl..enabled").is_none());
    }
}
