//! Applies the entries of Hadoop's files to options.

use yeoul_settings::{Entry, Environment, Notice, References, Resolve, Rules};

use super::{TABLE, group};
use crate::client;
use crate::error::Result;

/// What the values of files refer to.
pub struct Surroundings<'s> {
    /// Variables of the environment.
    pub environment: &'s Environment<'s>,
    /// What a JVM would know as system properties, such as `user.name`.
    pub properties: &'s Environment<'s>,
}

/// Applies entries to a client's options. Those of servers change nothing and are not mentioned.
///
/// # Errors
/// `Invalid` for a value that its key does not take or that refers to something that does not exist, and for settings that
/// are refused.
pub fn to_client(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    options: &mut client::Options,
) -> Result<()> {
    let is_clients = |entry: &&Entry| {
        let found = TABLE.find(&entry.key);
        found.is_none_or(|found| matches!(found.setting.group, group::CORE | group::CLIENT))
    };
    let entries: Vec<Entry> = entries.iter().filter(is_clients).cloned().collect();
    apply(&entries, surroundings, |name, entry| set_client(name, entry, options)).map(drop)
}

fn apply(
    entries: &[Entry],
    surroundings: &Surroundings<'_>,
    set: impl FnMut(&str, &Resolve<'_>) -> Result<()>,
) -> Result<Vec<Notice>> {
    let Surroundings { environment, properties } = surroundings;
    let rules = Rules {
        table: &TABLE,
        references: References::Hadoop { environment, properties },
        elsewhere: &|_, _| None,
        promises: &|_| None,
        page: "docs/reference/dfs-settings.md",
    };
    yeoul_settings::apply(entries, &rules, set)
}

fn set_client(name: &str, entry: &Resolve<'_>, options: &mut client::Options) -> Result<()> {
    match name {
        "fs.defaultFS" => {
            let value = entry()?.value;
            // Hadoop's default, and that of files which leave it to the command line.
            options.default_fs = (value != "file:///").then_some(value);
        }
        "fs.permissions.umask-mode" => options.umask = umask(&entry()?)?,
        "dfs.replication" => options.replication = Some(replication(&entry()?)?),
        "dfs.blocksize" => options.block_size = Some(entry()?.size()?),
        _ => {}
    }
    Ok(())
}

/// Copies of a block.
fn replication(entry: &Entry) -> Result<u16> {
    entry.read("a number from 1 to 512", |text| text.parse().ok().filter(|copies| (1..=512).contains(copies)))
}

/// Bits of a mode that nothing new gets: octal digits, or Hadoop's symbols, which name what new things may get.
fn umask(entry: &Entry) -> Result<u16> {
    let read = |text: &str| {
        if text.contains(['=', '+', '-']) {
            symbolic_umask(text)
        } else {
            u16::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777)
        }
    };
    entry.read("octal digits such as 022, or u=rwx,g=rx,o=", read)
}

/// The mask that lets through what a text such as `u=rwx,g=rx,o=` names; only `=`, for each of the three.
fn symbolic_umask(text: &str) -> Option<u16> {
    let mut allowed = [None; 3];
    for part in text.split(',') {
        let (who, what) = part.split_once('=')?;
        let bits = what.chars().try_fold(0, |bits, c| Some(bits | (4_u16 >> "rwx".find(c)?)))?;
        for who in who.chars() {
            match "ugo".find(who) {
                Some(at) => allowed[at] = Some(bits),
                None if who == 'a' => allowed = [Some(bits); 3],
                None => return None,
            }
        }
    }
    let [user, group, others] = allowed;
    Some(0o777 & !(user? << 6 | group? << 3 | others?))
}

#[cfg(test)]
mod tests {
    use yeoul_settings::Origin;

    use super::*;
    use crate::error::Kind;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.to_owned(), origin: Origin::named("-D") }
    }

    fn applied(entries: &[(&str, &str)]) -> Result<client::Options> {
        let nothing = |_: &str| None;
        let surroundings = Surroundings { environment: &nothing, properties: &nothing };
        let entries: Vec<Entry> = entries.iter().map(|(key, value)| entry(key, value)).collect();
        let mut options = client::Options::default();
        to_client(&entries, &surroundings, &mut options).map(|()| options)
    }

    #[test]
    fn a_client_takes_its_address_and_what_files_are_like() {
        let options = applied(&[
            ("fs.defaultFS", "hdfs://n1:9000"),
            ("dfs.replication", "2"),
            ("dfs.blocksize", "64m"),
            ("dfs.umaskmode", "u=rwx,g=rx,o="),
        ])
        .unwrap();
        assert_eq!(options.default_fs.as_deref(), Some("hdfs://n1:9000"));
        assert_eq!(
            (options.replication, options.block_size, options.umask),
            (Some(2), Some(64 << 20), 0o027)
        );
        assert_eq!(applied(&[("fs.default.name", "file:///")]).unwrap().default_fs, None);
    }

    #[test]
    fn what_a_key_does_not_take_is_named() {
        for (key, value, expected) in [
            ("dfs.replication", "0", "-D: dfs.replication = 0: expected a number from 1 to 512"),
            ("dfs.blocksize", "big", "-D: dfs.blocksize = big: expected a size such as 8m"),
            (
                "fs.permissions.umask-mode",
                "999",
                "-D: fs.permissions.umask-mode = 999: expected octal digits",
            ),
            ("fs.permissions.umask-mode", "u=rwx", "-D: fs.permissions.umask-mode = u=rwx: expected octal"),
        ] {
            let error = applied(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
