//! Celeborn's settings, and what each of them does here.
//!
//! `table.tsv` has every key that Celeborn documents from 0.5.4 to 0.7.0, with its deprecated names and one level each.
//! [`apply`] puts the entries of a `celeborn-defaults.conf` into
//! the options of a master or a worker, and [`reference`] makes the page `docs/reference/shuffle-settings.md` of the same
//! table.

pub mod apply;
pub mod reference;

use std::sync::LazyLock;

use yeoul_settings::Table;

use crate::{Error, Kind, Result};

/// The groups of keys in Celeborn's documentation, as the table names them.
mod group {
    /// The master's, with high availability and quotas.
    pub const MASTER: &str = "master";
    /// A worker's.
    pub const WORKER: &str = "worker";
    /// Of all connections.
    pub const NETWORK: &str = "network";
    /// Of metrics.
    pub const METRICS: &str = "metrics";
    /// The client's, in the configuration of Spark.
    pub const CLIENT: &str = "client";
}

/// All documented keys, by group and name.
pub static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("table.tsv"), &["celeborn.", "remote-shuffle."]));

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

/// Whether a key promises security: who may do what, or that nobody listens. Such a key is refused unless it is honoured, even
/// if a later version of Celeborn has added it.
pub fn promises_security(key: &str) -> bool {
    let is_of_security = |part: &str| matches!(part, "auth" | "ssl" | "spnego");
    key.starts_with("celeborn.") && (key.split('.').any(is_of_security) || key.ends_with("HostPattern"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use yeoul_settings::Level;

    use super::*;

    #[test]
    fn every_key_is_there_once_with_a_reason_for_what_it_does_not_do() {
        let keys: BTreeSet<&str> = TABLE.settings().iter().map(|setting| setting.key).collect();
        assert_eq!(keys.len(), TABLE.settings().len());
        assert!(keys.len() > 490, "{}", keys.len());
        for setting in TABLE.settings() {
            assert!(setting.key.starts_with("celeborn."));
            assert!(setting.level == Level::Honoured || !setting.note.is_empty(), "{}", setting.key);
        }
    }

    #[test]
    fn no_key_that_promises_security_is_only_warned_about() {
        let promising: Vec<_> =
            TABLE.settings().iter().filter(|setting| promises_security(setting.key)).collect();
        assert!(promising.len() > 40, "{}", promising.len());
        for setting in promising {
            assert_eq!(setting.level, Level::Refused, "{}", setting.key);
        }
        let others = ["celeborn.worker.authority", "celeborn.ssl", "celeborn.master.hostPatterns"];
        assert_eq!(others.map(promises_security), [false, true, false]);
    }

    #[test]
    fn a_deprecated_name_is_of_one_setting() {
        let settings = TABLE.settings().iter();
        let deprecated =
            settings.flat_map(|setting| setting.deprecated().zip(1..).map(move |name| (setting, name)));
        let deprecated: Vec<_> = deprecated.collect();
        assert_eq!(deprecated.len(), 101, "as many as Celeborn 0.5.4 documents");
        for (setting, (name, rank)) in deprecated {
            let found = TABLE.find(name).unwrap();
            assert_eq!((found.setting.key, found.rank), (setting.key, rank), "{name}");
            // A placeholder has its place in the present name, too.
            assert!(!name.contains('<') || setting.key.contains('<'), "{name}");
        }
        let find = |key| TABLE.find(key).map(|found| (found.name.into_owned(), found.rank));
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
        let setting = |key| TABLE.find(key).unwrap().setting;
        assert_eq!(setting("celeborn.ssl.rpc.enabled").level, Level::Refused);
        assert_eq!(setting("celeborn.push.io.mode").key, "celeborn.<module>.io.mode");
        assert_eq!(setting("celeborn.worker.push.io.threads").key, "celeborn.worker.push.io.threads");
        assert_eq!(setting("celeborn.master.ha.node.1.host").level, Level::NoEffect);
        assert!(TABLE.find("celeborn.master.prot").is_none());
        assert!(TABLE.find("celeborn.ssl..enabled").is_none());
    }
}
