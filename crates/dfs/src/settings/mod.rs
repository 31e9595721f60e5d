//! Hadoop's settings, and what each of them does here.
//!
//! `table.tsv` has every key that HDFS documents for its servers and its client, with one level each. [`apply`] puts the entries of
//! `core-site.xml` and `hdfs-site.xml` into options, and [`reference`] makes the page `docs/reference/dfs-settings.md` of the same
//! table.

pub mod apply;

use std::sync::LazyLock;

use yeoul_settings::Table;

/// The groups of keys, as the table names them.
mod group {
    /// Of `core-default.xml`.
    pub const CORE: &str = "core";
    /// The client's.
    pub const CLIENT: &str = "client";
}

/// All documented keys, by group and name.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("table.tsv"), &[]));
