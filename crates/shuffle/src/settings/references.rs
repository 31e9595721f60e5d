//! The value of each key of a file: which of several entries counts, with `${…}` in its value replaced.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::file::Entry;
use super::{Found, find};
use crate::{Error, Kind, Result};

/// Looks up a variable of the environment.
pub type Environment<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// The most references that one value may expand to, nested ones included: more are hardly meant.
const REFERENCES_MAX: usize = 256;
/// The most bytes that one value may expand to.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// A file's entries by their keys.
pub(super) struct Values<'a> {
    entries: &'a [Entry],
    environment: &'a Environment<'a>,
    /// By present name, the rank of the name that was given and where the entry stands.
    by_name: BTreeMap<Cow<'a, str>, (usize, usize)>,
}

impl<'a> Values<'a> {
    /// `found` has the settings of the entries, in their order. Keys that Celeborn does not document have values as well.
    pub fn new(entries: &'a [Entry], found: &[Option<Found<'a>>], environment: &'a Environment<'a>) -> Self {
        let mut by_name = BTreeMap::new();
        for (at, (entry, found)) in entries.iter().zip(found).enumerate() {
            let (name, rank) = match found {
                Some(found) => (found.name.clone(), found.rank),
                None => (Cow::Borrowed(entry.key.as_str()), 0),
            };
            let kept = by_name.entry(name).or_insert((rank, at));
            // Of entries of one name the last counts, as in Java's properties.
            if rank <= kept.0 {
                *kept = (rank, at);
            }
        }
        Self { entries, environment, by_name }
    }

    /// Whether the entry there is the one that counts for the setting of that present name.
    pub fn counts(&self, name: &str, at: usize) -> bool {
        self.by_name.get(name).is_some_and(|(_, counting)| *counting == at)
    }

    /// An entry with the references in its value replaced, as Celeborn replaces them, except that Celeborn leaves one
    /// that leads nowhere as it is.
    ///
    /// # Errors
    /// `Invalid` for a reference that leads nowhere, to itself, or to too much.
    pub fn resolved(&self, entry: &Entry) -> Result<Entry> {
        if !entry.value.contains("${") {
            return Ok(entry.clone());
        }
        let mut expansion =
            Expansion { values: self, under_way: Vec::new(), references: 0, text: String::new() };
        expansion.add(&entry.value).map_err(|what| {
            let Entry { key, value, line } = entry;
            let error = Error::new(Kind::Invalid, format!("line {line}: {key} = {value:.80}: {what}"));
            error.with_hint("write the value itself, or refer to it as ${env:NAME} or ${celeborn.…}")
        })?;
        Ok(Entry { value: expansion.text, ..entry.clone() })
    }

    fn look_up(&self, reference: &str) -> Result<Cow<'_, str>, String> {
        match reference.split_once(':') {
            Some(("env", name)) => (self.environment)(name)
                .map(Cow::Owned)
                .ok_or_else(|| format!("the environment has no {name:.80}, or no text for it")),
            Some(("system", _)) => {
                Err(format!("${{{reference:.80}}} is a property of the JVM, and there is none"))
            }
            Some((prefix, _)) => Err(format!("nothing is known under {prefix:.80}:")),
            None => {
                let found = find(reference);
                let name = found.as_ref().map_or(reference, |found| &found.name);
                let given = self.by_name.get(name).map(|(_, at)| self.entries[*at].value.as_str());
                // A default in `<…>` only describes where a value would come from.
                let default = || Some(found.as_ref()?.setting.default).filter(|text| !text.starts_with('<'));
                given
                    .or_else(default)
                    // Other keys are no settings of Celeborn's, whatever the file has.
                    .filter(|_| reference.starts_with("celeborn."))
                    .map(Cow::Borrowed)
                    .ok_or_else(|| format!("the file has no {reference:.80}, nor has that a default"))
            }
        }
    }
}

/// A value while its references are being replaced.
struct Expansion<'v> {
    values: &'v Values<'v>,
    /// The references that are being replaced, each within the one before.
    under_way: Vec<String>,
    references: usize,
    text: String,
}

impl Expansion<'_> {
    fn add(&mut self, value: &str) -> Result<(), String> {
        let mut rest = value;
        while let Some((before, behind)) = rest.split_once("${") {
            self.add_text(before)?;
            let Some((reference, after)) = behind.split_once('}') else {
                return Err("a '${' lacks its '}'".to_owned());
            };
            self.add_reference(reference)?;
            rest = after;
        }
        self.add_text(rest)
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        if self.text.len() + text.len() > VALUE_BYTES_MAX {
            return Err(format!("its references come to more than {VALUE_BYTES_MAX} bytes"));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn add_reference(&mut self, reference: &str) -> Result<(), String> {
        if self.under_way.iter().any(|around| around == reference) {
            return Err(format!("${{{reference:.80}}} leads back to itself"));
        }
        self.references += 1;
        if self.references > REFERENCES_MAX {
            return Err(format!("it comes to more than {REFERENCES_MAX} references"));
        }
        let values = self.values;
        let value = values.look_up(reference)?;
        self.under_way.push(reference.to_owned());
        self.add(&value)?;
        self.under_way.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::file;

    fn environment(name: &str) -> Option<String> {
        let values = [("HOME", "/h/y"), ("DIRS", "/a,${env:HOME}/b"), ("LOOP", "${env:LOOP}"), ("EMPTY", "")];
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    /// The value of the last entry of a file.
    fn last(text: &str) -> Result<String> {
        let entries = file::parse(text);
        let found: Vec<_> = entries.iter().map(|entry| find(&entry.key)).collect();
        let values = Values::new(&entries, &found, &environment);
        values.resolved(entries.last().unwrap()).map(|entry| entry.value)
    }

    #[test]
    fn references_are_replaced_by_what_they_stand_for() {
        for (text, expected) in [
            ("celeborn.x ${env:DIRS}", "/a,/h/y/b"),
            ("celeborn.x a$b{c}${env:EMPTY}$", "a$b{c}$"),
            ("celeborn.own 7\nceleborn.x <${celeborn.own}${celeborn.own}>", "<77>"),
            ("celeborn.x ${celeborn.master.port}", "9097"),
            ("celeborn.ha.enabled true\nceleborn.x ${celeborn.master.ha.enabled}", "true"),
            ("celeborn.own 7\nceleborn.own 8\nceleborn.x ${celeborn.own}", "8"),
        ] {
            assert_eq!(last(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn references_that_lead_nowhere_are_errors_that_name_them() {
        for (text, expected) in [
            ("celeborn.x ${env:NONE}", "line 1: celeborn.x = ${env:NONE}: the environment has no NONE"),
            ("celeborn.x ${system:user.home}", "a property of the JVM"),
            ("celeborn.x ${secret:x}", "nothing is known under secret:"),
            ("celeborn.x ${celeborn.none}", "the file has no celeborn.none"),
            ("own 1\nceleborn.x ${own}", "the file has no own"),
            ("celeborn.x ${celeborn.master.endpoints}", "the file has no celeborn.master.endpoints"),
            ("celeborn.x ${env:HOME", "lacks its '}'"),
            ("celeborn.x ${env:LOOP}", "${env:LOOP} leads back to itself"),
            ("celeborn.y ${celeborn.x}\nceleborn.x ${celeborn.y}", "${celeborn.y} leads back to itself"),
        ] {
            let error = last(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_references_come_to_is_bounded() {
        let chain = |len: usize, each: &str| {
            let links = (0..len).map(|at| {
                format!("celeborn.x{at} {}\n", each.replace('@', &format!("${{celeborn.x{}}}", at + 1)))
            });
            let begin = links.collect::<String>() + &format!("celeborn.x{len} end\n");
            last(&(begin + "celeborn.x ${celeborn.x0}"))
        };
        assert_eq!(chain(REFERENCES_MAX - 1, "@").unwrap(), "end");
        assert!(chain(REFERENCES_MAX, "@").is_err(), "too many, one within the other");
        assert_eq!(chain(6, "@@").unwrap(), "end".repeat(64));
        assert!(chain(10, "@@").is_err(), "too many");
        let long = "y".repeat(VALUE_BYTES_MAX / 2 + 1);
        assert!(last(&format!("celeborn.long {long}\nceleborn.x ${{celeborn.long}}")).is_ok());
        let error = last(&format!("celeborn.long {long}\nceleborn.x ${{celeborn.long}}${{celeborn.long}}"));
        assert!(error.unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn the_present_name_counts_before_deprecated_ones_and_the_last_of_one_name() {
        let text = "celeborn.worker.http.port 1\nceleborn.worker.http.port 2\n\
            celeborn.worker.metrics.prometheus.port 3\nceleborn.metrics.worker.prometheus.port 4\n\
            celeborn.master.metrics.prometheus.port 5\nceleborn.metrics.master.prometheus.port 6\n";
        let entries = file::parse(text);
        let found: Vec<_> = entries.iter().map(|entry| find(&entry.key)).collect();
        let values = Values::new(&entries, &found, &environment);
        let counting = |name| (0..entries.len()).filter(|at| values.counts(name, *at)).collect::<Vec<_>>();
        assert_eq!(counting("celeborn.worker.http.port"), [1]);
        assert_eq!(counting("celeborn.master.http.port"), [5]);
    }
}
