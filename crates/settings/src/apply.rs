//! Puts the entries of files into options.

use std::collections::BTreeSet;

use yeoul_base::{Error, ErrorKind, Result};

use crate::entry::Entry;
use crate::notice::Notice;
use crate::references::{References, Values};
use crate::similar::similar;
use crate::table::{Found, Level, Setting, Table};

/// The most unknown keys for which a similar one is looked up: a file with more is hardly a settings file.
const SUGGESTIONS_MAX: usize = 8;

/// Says of a setting that is honoured, by its present name, why it changes nothing in this file: another process reads it.
pub type Elsewhere<'r> = dyn Fn(&Setting, &str) -> Option<&'static str> + 'r;

/// What the entries of files mean.
pub struct Rules<'r> {
    /// The keys.
    pub table: &'r Table,
    /// What `${…}` in a value stands for.
    pub references: References<'r>,
    /// The honoured keys that change nothing here.
    pub elsewhere: &'r Elsewhere<'r>,
    /// Says of a key that is not in the table why it is refused nevertheless, unless its value turns it off: it promises what
    /// nothing here keeps, and a warning would be overlooked.
    pub promises: &'r dyn Fn(&str) -> Option<&'static str>,
    /// The page that says what each key does, for hints.
    pub page: &'static str,
}

/// Replaces the references in an entry. Call it only when the value is needed: what one process' settings refer to may not
/// exist where another one runs that reads the same file.
pub type Resolve<'a> = dyn Fn() -> Result<Entry> + 'a;

/// Calls `set` with each entry that counts and is honoured, by the present name of its key. Of entries of one name the last
/// counts, and before it one by a name of lower rank.
///
/// # Errors
/// `Invalid` for settings that are refused and for references that lead nowhere, and what `set` says. Some options may have
/// been set by then: throw them away.
pub fn apply(
    entries: &[Entry],
    rules: &Rules<'_>,
    mut set: impl FnMut(&str, &Resolve<'_>) -> Result<()>,
) -> Result<Vec<Notice>> {
    let table = rules.table;
    let found: Vec<Option<Found<'_, '_>>> = entries.iter().map(|entry| table.find(&entry.key)).collect();
    let values = Values::new(entries, &found, table, &rules.references);
    let mut notices = Vec::new();
    let mut unknown = BTreeSet::new();
    for (at, (entry, found)) in entries.iter().zip(&found).enumerate() {
        let (key, origin) = (entry.key.clone(), entry.origin.clone());
        let Some(Found { setting, name, .. }) = found else {
            if let Some(why) = (rules.promises)(&entry.key).filter(|_| !is_off(&entry.value)) {
                return Err(refused(entry, why, rules));
            }
            if unknown.insert(&entry.key) {
                let similar =
                    if unknown.len() <= SUGGESTIONS_MAX { similar(table, &entry.key) } else { None };
                notices.push(Notice::Unknown { key, origin, similar });
            }
            continue;
        };
        if !values.counts(name, at) {
            continue;
        }
        let is_default = entry.value == setting.default;
        match setting.level {
            Level::Honoured => match (rules.elsewhere)(setting, name) {
                Some(note) if !is_default => notices.push(Notice::Ineffective { key, origin, note }),
                Some(_) => {}
                // `<localhost>` and the like: what the other system finds out by itself, as we do.
                None if is_default && entry.value.starts_with('<') => {}
                None => set(name, &|| values.resolved(entry))?,
            },
            Level::OtherMechanism | Level::NoEffect if !is_default => {
                notices.push(Notice::Ineffective { key, origin, note: setting.note });
            }
            Level::OtherMechanism | Level::NoEffect => {}
            Level::Refused => {
                let entry = values.resolved(entry)?;
                if !entry.value.eq_ignore_ascii_case(setting.default) {
                    return Err(refused(&entry, setting.note, rules));
                }
            }
        }
    }
    Ok(notices)
}

/// Whether a value turns off what its key is about.
fn is_off(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("false")
}

/// The error for a setting that would promise what is not kept. A secret is not repeated in it.
fn refused(entry: &Entry, why: &str, rules: &Rules<'_>) -> Error {
    let Entry { key, value, origin } = entry;
    let lower = key.to_ascii_lowercase();
    let is_secret = ["password", "secret", "token"].iter().any(|word| lower.contains(word));
    let value = if is_secret { "…" } else { value };
    Error::new(ErrorKind::Invalid, format!("{origin}: {key} = {value:.80} is refused: {why}"))
        .with_hint(format!("remove the line; {} lists what each key does", rules.page))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::properties;

    const TABLE: &str = "\
@server
lamp.port	80	honoured		light.port
lamp.host	<localhost>	honoured	
lamp.threads	4	other	threads follow the number of cores
lamp.shade	red	none	there is no shade
lamp.auth.enabled	false	refused	nobody is authenticated
@client
lamp.timeout	3s	honoured	
";

    fn applied(text: &str) -> Result<(BTreeMap<String, String>, Vec<String>)> {
        let table = Table::parse(TABLE, &["lamp.", "light."]);
        let environment = |name: &str| (name == "ON").then(|| "true".to_owned());
        let rules = Rules {
            table: &table,
            references: References::Prefixed { environment: &environment, keys: "lamp." },
            elsewhere: &|setting, _| (setting.group == "client").then_some("clients read it"),
            promises: &|key| key.contains("secure").then_some("nothing is secure"),
            page: "the page",
        };
        let mut options = BTreeMap::new();
        let notices = apply(&properties::parse(text), &rules, |key, value| {
            options.insert(key.to_owned(), value()?.value);
            Ok(())
        })?;
        Ok((options, notices.iter().map(Notice::to_string).collect()))
    }

    #[test]
    fn what_counts_is_set_and_what_changes_nothing_is_told() {
        let (options, notices) = applied(
            "light.port 1\nlamp.port 2\nlamp.port 3\nlamp.threads 4\nlamp.shade blue\nlamp.host <localhost>\n\
             lamp.auth.enabled FALSE\nlamp.timeout 3s\nlamp.prot 1\nlamp.prot 2\n",
        )
        .unwrap();
        assert_eq!(options, BTreeMap::from([("lamp.port".to_owned(), "3".to_owned())]));
        let told = [
            "line 5: lamp.shade changes nothing here: there is no shade",
            "line 9: unknown key lamp.prot; did you mean lamp.port?",
        ];
        assert_eq!(notices, told);
        let (options, notices) = applied("light.port 1\nlamp.timeout 4s\nx 1\n").unwrap();
        assert_eq!(options, BTreeMap::from([("lamp.port".to_owned(), "1".to_owned())]));
        assert_eq!(
            notices,
            ["line 2: lamp.timeout changes nothing here: clients read it", "line 3: unknown key x"]
        );
    }

    #[test]
    fn what_would_break_a_promise_is_refused() {
        for (text, expected) in [
            (
                "\nlamp.auth.enabled true",
                "line 2: lamp.auth.enabled = true is refused: nobody is authenticated",
            ),
            ("lamp.secure.token sesame", "line 1: lamp.secure.token = … is refused: nothing is secure"),
            ("lamp.auth.enabled ${env:ON}", "line 1: lamp.auth.enabled = true is refused: nobody"),
            (
                "lamp.auth.enabled ${env:OFF}",
                "line 1: lamp.auth.enabled = ${env:OFF}: the environment has no OFF",
            ),
        ] {
            let error = applied(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
        assert_eq!(applied("lamp.secure.token \nlamp.secure.mode False").unwrap().1.len(), 2, "it is off");
        let hint = applied("lamp.auth.enabled true").unwrap_err().hint().map(str::to_owned);
        assert_eq!(hint.as_deref(), Some("remove the line; the page lists what each key does"));
    }

    #[test]
    fn a_file_that_is_none_is_not_compared_with_all_keys() {
        let text: String = (0..100).map(|at| format!("lamp.por{at} 1\n")).collect();
        let (_, notices) = applied(&text).unwrap();
        let suggested = notices.iter().filter(|notice| notice.contains("did you mean")).count();
        assert_eq!((notices.len(), suggested), (100, SUGGESTIONS_MAX));
    }
}
