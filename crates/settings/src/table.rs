//! The documented keys of a system, and what each of them does here.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a key does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It does what it does in the other system.
    Honoured,
    /// Its purpose is met in another way; it is accepted and changes nothing.
    OtherMechanism,
    /// There is nothing here that it could change; it is accepted.
    NoEffect,
    /// Any value but the default would promise what is not kept: it is an error.
    Refused,
}

impl Level {
    /// All levels, in the order in which pages count them.
    pub const ALL: [Self; 4] = [Self::Honoured, Self::OtherMechanism, Self::NoEffect, Self::Refused];

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

/// A documented key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The key; `<…>` stands for one part.
    pub key: &'static str,
    /// Its default in the other system; `<…>` describes where that finds it.
    pub default: &'static str,
    /// The group in which its documentation has it.
    pub group: &'static str,
    /// What it does here.
    pub level: Level,
    /// A note on what it does.
    pub note: &'static str,
    /// The names that it had in earlier versions, with commas.
    deprecated: &'static str,
}

impl Setting {
    /// The names that it had in earlier versions and that still do: of several that are given, the first counts.
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
pub struct Found<'t, 'k> {
    /// The setting.
    pub setting: &'t Setting,
    /// Its present name, with what stands for `<…>`.
    pub name: Cow<'k, str>,
    /// 0 for the present name, else the place of the deprecated one, from 1. If several names are given, the lowest
    /// rank counts.
    pub rank: usize,
}

/// A name, the place of its setting in the table, and its rank.
type Named = (&'static str, usize, usize);

/// All documented keys of a system.
#[derive(Debug)]
pub struct Table {
    settings: Vec<Setting>,
    prefixes: &'static [&'static str],
    exact: BTreeMap<&'static str, (usize, usize)>,
    with_placeholder: Vec<Named>,
}

impl Table {
    /// Reads a table. Each line of `text` has, with tabs between them, a key, its default, a level (`honoured`, `other`,
    /// `none` or `refused`), a note, and the deprecated names with commas, which may be left out. A line `@NAME` begins a
    /// group, and one that begins with `#` is a comment. All keys and deprecated names begin with one of `prefixes`, if
    /// there are some.
    ///
    /// # Panics
    /// If it is no such table: it is part of the program.
    pub fn parse(text: &'static str, prefixes: &'static [&'static str]) -> Self {
        let (mut group, mut settings) = ("", Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('@') {
                group = name;
                continue;
            }
            let mut fields = line.split('\t');
            let mut field = || fields.next().expect("a line of the table has four fields, or five");
            let (key, default, level, note) = (field(), field(), field(), field());
            let level = Level::parse(level).expect("a level of the table is one of four");
            let deprecated = fields.next().unwrap_or_default();
            settings.push(Setting { key, default, group, level, note, deprecated });
        }
        let mut table = Self { settings, prefixes, exact: BTreeMap::new(), with_placeholder: Vec::new() };
        let names: Vec<Named> = table.names().collect();
        for named in names {
            let (name, at, rank) = named;
            assert!(table.may_have(name), "{name} has none of the table's prefixes");
            let before = table.exact.insert(name, (at, rank));
            assert_eq!(before, None, "{name} is there twice");
            if name.contains('<') {
                table.with_placeholder.push(named);
            }
        }
        table
    }

    /// All settings, by group and name.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The setting of a key, if it is documented, by its present or a deprecated name. A name that is written out wins over
    /// one with a placeholder.
    pub fn find<'k>(&self, key: &'k str) -> Option<Found<'_, 'k>> {
        // A file that is no settings file has thousands of others.
        if !self.may_have(key) {
            return None;
        }
        if let Some((at, rank)) = self.exact.get(key).copied() {
            let setting = &self.settings[at];
            let name = if rank == 0 { key } else { setting.key };
            return Some(Found { setting, name: name.into(), rank });
        }
        self.with_placeholder.iter().find_map(|(pattern, at, rank)| {
            let (setting, stands) = (&self.settings[*at], placeholder(pattern, key)?);
            let name = if *rank == 0 { key.into() } else { with_placeholder(setting.key, stands).into() };
            Some(Found { setting, name, rank: *rank })
        })
    }

    fn names(&self) -> impl Iterator<Item = Named> {
        let settings = self.settings.iter().enumerate();
        settings.flat_map(|(at, setting)| setting.names().map(move |(name, rank)| (name, at, rank)))
    }

    fn may_have(&self, key: &str) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
# key	default	level	note	deprecated
@server
lamp.node.<id>.host	<localhost>	honoured		light.<id>.host
lamp.node.main.host		none	there is no main node
lamp.port	80	honoured		light.port,lamp.socket
@client
lamp.auth.enabled	false	refused	nobody is authenticated
";

    #[test]
    fn a_key_is_found_by_each_of_its_names() {
        let table = Table::parse(TABLE, &["lamp.", "light."]);
        let find =
            |key| table.find(key).map(|found| (found.setting.key, found.name.into_owned(), found.rank));
        let some = |key, name: &str, rank| Some((key, name.to_owned(), rank));
        assert_eq!(find("lamp.port"), some("lamp.port", "lamp.port", 0));
        assert_eq!(find("light.port"), some("lamp.port", "lamp.port", 1));
        assert_eq!(find("lamp.socket"), some("lamp.port", "lamp.port", 2));
        assert_eq!(find("lamp.node.7.host"), some("lamp.node.<id>.host", "lamp.node.7.host", 0));
        assert_eq!(find("light.7.host"), some("lamp.node.<id>.host", "lamp.node.7.host", 1));
        assert_eq!(find("lamp.node.main.host"), some("lamp.node.main.host", "lamp.node.main.host", 0));
        for key in ["lamp.node..host", "lamp.node.7.8.host", "lamp.prot", "other.port", ""] {
            assert_eq!(find(key), None, "{key}");
        }
        let groups: Vec<_> = table.settings().iter().map(|setting| (setting.group, setting.level)).collect();
        assert_eq!(groups[1], ("server", Level::NoEffect));
        assert_eq!(groups[3], ("client", Level::Refused));
    }

    #[test]
    #[should_panic(expected = "lamp.b is there twice")]
    fn a_name_is_of_one_setting() {
        Table::parse("lamp.b\t\thonoured\t\nlamp.a\t\thonoured\t\tlamp.b\n", &[]);
    }
}
