//! Hadoop's settings, and what each of them does here.
//!
//! `table.tsv` has every key that HDFS documents for its servers and its client, with one level each. [`apply`] puts the entries of
//! `core-site.xml` and `hdfs-site.xml` into options, and [`reference`] makes the page `docs/reference/dfs-settings.md` of the same
//! table.

pub mod apply;
pub mod reference;

use std::sync::LazyLock;

use yeoul_settings::Table;

/// The groups of keys, as the table names them.
mod group {
    /// Of `core-default.xml`.
    pub const CORE: &str = "core";
    /// The NameNode's, with high availability.
    pub const NAMENODE: &str = "namenode";
    /// A DataNode's.
    pub const DATANODE: &str = "datanode";
    /// The client's.
    pub const CLIENT: &str = "client";
}

/// All documented keys, by group and name.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("table.tsv"), &[]));

/// True for a key that promises security, that is who may do what, or that nobody listens: it is refused unless it is honoured,
/// even if a later version of Hadoop has added it.
fn promises_security(key: &str) -> bool {
    let words = ["auth", "authentication", "authorization", "encrypt", "encryption", "ssl", "tls"];
    let is_servers = ["dfs.", "hadoop.security.", "hadoop.ssl."].iter().any(|prefix| key.starts_with(prefix));
    is_servers && !key.starts_with("dfs.client.") && key.split(['.', '-']).any(|part| words.contains(&part))
}

#[cfg(test)]
mod tests {
    use yeoul_settings::Level;

    use super::*;

    #[test]
    fn each_key_that_is_not_honoured_has_a_reason() {
        assert!(TABLE.settings().len() > 600, "{}", TABLE.settings().len());
        for setting in TABLE.settings() {
            assert!(setting.level == Level::Honoured || !setting.note.is_empty(), "{}", setting.key);
        }
    }

    #[test]
    fn a_key_that_promises_security_is_known_by_its_words() {
        for key in ["dfs.encrypt.data.transfer.new", "dfs.namenode.auth.mode", "hadoop.ssl.x"] {
            assert!(promises_security(key), "{key}");
        }
        for key in ["dfs.client.auth.x", "dfs.namenode.author", "ipc.ssl"] {
            assert!(!promises_security(key), "{key}");
        }
    }
}
