//! The value of each key of a file: which of several entries counts, with `${…}` in its value replaced.

use std::borrow::Cow;
use std::collections::BTreeMap;

use yeoul_base::Result;

use crate::entry::Entry;
use crate::table::{Found, Table};

/// Looks up a variable, if it exists.
pub type Environment<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// The most references that one value may expand to, nested ones included: more are hardly meant.
const REFERENCES_MAX: usize = 256;
/// The most bytes that one value may expand to.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The most references that Hadoop replaces in one value (`Configuration.MAX_SUBST`).
const HADOOP_REFERENCES_MAX: usize = 20;

/// What `${…}` in a value stands for. A reference that leads nowhere, which other systems leave as it is, is an error: a
/// directory called `${x}` is never meant.
pub enum References<'e> {
    /// `${env:NAME}` is a variable of the environment, and `${key}` another key's value or its default, if it begins with
    /// `keys`. `${system:…}`, a property of a JVM, is an error.
    Prefixed {
        /// The variables.
        environment: &'e Environment<'e>,
        /// How the keys begin.
        keys: &'static str,
    },
    /// As Hadoop has it (`Configuration.substituteVars`): `${env.NAME}`, `${env.NAME-default}` and `${env.NAME:-default}` (for
    /// an empty variable, too) are of the environment; any other name is a property such as `user.name`, or else a key of
    /// the files, or its default. The innermost references are replaced first, so that names may be composed.
    Hadoop {
        /// The variables.
        environment: &'e Environment<'e>,
        /// What a JVM would know as system properties.
        properties: &'e Environment<'e>,
    },
}

/// The entries of files by their keys.
pub(crate) struct Values<'a> {
    entries: &'a [Entry],
    table: &'a Table,
    references: &'a References<'a>,
    /// By present name, the rank of the name that was given and where the entry stands.
    by_name: BTreeMap<Cow<'a, str>, (usize, usize)>,
}

impl<'a> Values<'a> {
    /// `found` has the settings of the entries, in their order. Keys that are not documented have values as well.
    pub fn new(
        entries: &'a [Entry],
        found: &[Option<Found<'a, 'a>>],
        table: &'a Table,
        references: &'a References<'a>,
    ) -> Self {
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
        Self { entries, table, references, by_name }
    }

    /// Whether the entry there is the one that counts for the setting of that present name.
    pub fn counts(&self, name: &str, at: usize) -> bool {
        self.by_name.get(name).is_some_and(|(_, counting)| *counting == at)
    }

    /// An entry with the references in its value replaced.
    ///
    /// # Errors
    /// `Invalid` for a reference that leads nowhere, to itself, or to too much.
    pub fn resolved(&self, entry: &Entry) -> Result<Entry> {
        if !entry.value.contains("${") {
            return Ok(entry.clone());
        }
        let expanded = match self.references {
            References::Prefixed { .. } => {
                let mut expansion =
                    Expansion { values: self, under_way: Vec::new(), references: 0, text: String::new() };
                expansion.add(&entry.value).map(|()| expansion.text)
            }
            References::Hadoop { .. } => self.innermost_first(&entry.value),
        };
        let value = expanded.map_err(|what| {
            let hint = match self.references {
                References::Prefixed { keys, .. } => {
                    format!("write the value itself, or refer to it as ${{env:NAME}} or ${{{keys}…}}")
                }
                References::Hadoop { .. } => {
                    "write the value itself, or refer to it as ${env.NAME} or ${KEY}".to_owned()
                }
            };
            entry.refused(&what).with_hint(hint)
        })?;
        Ok(Entry { value, ..entry.clone() })
    }

    /// The value of a key as it was given, or its default.
    fn value_of(&self, key: &str) -> Option<&str> {
        let found = self.table.find(key);
        let name = found.as_ref().map_or(key, |found| &found.name);
        let given = self.by_name.get(name).map(|(_, at)| self.entries[*at].value.as_str());
        // A default in `<…>` only describes where a value would come from.
        given.or_else(|| Some(found.as_ref()?.setting.default).filter(|text| !text.starts_with('<')))
    }

    fn look_up(&self, reference: &str) -> Result<Cow<'_, str>, String> {
        match self.references {
            References::Prefixed { environment, keys } => match reference.split_once(':') {
                Some(("env", name)) => environment(name)
                    .map(Cow::Owned)
                    .ok_or_else(|| format!("the environment has no {name:.80}, or no text for it")),
                Some(("system", _)) => {
                    Err(format!("${{{reference:.80}}} is a property of the JVM, and there is none"))
                }
                Some((prefix, _)) => Err(format!("nothing is known under {prefix:.80}:")),
                // Other keys are no settings, whatever the file has.
                None => self
                    .value_of(reference)
                    .filter(|_| reference.starts_with(keys))
                    .map(Cow::Borrowed)
                    .ok_or_else(|| format!("the file has no {reference:.80}, nor has that a default")),
            },
            References::Hadoop { environment, properties } => {
                let variable = reference.strip_prefix("env.").filter(|variable| !variable.is_empty());
                let value = match variable {
                    Some(variable) => variable_or_default(variable, environment).map(Cow::Owned),
                    None => properties(reference).map(Cow::Owned),
                };
                value.or_else(|| self.value_of(reference).map(Cow::Borrowed)).ok_or_else(|| {
                    format!("${{{reference:.80}}} is no variable, no property and no key with a value")
                })
            }
        }
    }

    /// The value with the innermost of its references replaced, again and again.
    fn innermost_first(&self, value: &str) -> Result<String, String> {
        let (mut text, mut seen) = (value.to_owned(), Vec::new());
        while let Some((begin, end)) = innermost(&text) {
            if seen.contains(&text) {
                return Err(format!("{text:.80} leads back to itself"));
            }
            if seen.len() == HADOOP_REFERENCES_MAX {
                return Err(format!("it comes to more than {HADOOP_REFERENCES_MAX} references"));
            }
            let stands = self.look_up(&text[begin + 2..end])?;
            if text.len() + stands.len() > VALUE_BYTES_MAX {
                return Err(format!("its references come to more than {VALUE_BYTES_MAX} bytes"));
            }
            let replaced = [&text[..begin], &*stands, &text[end + 1..]].concat();
            seen.push(std::mem::replace(&mut text, replaced));
        }
        Ok(text)
    }
}

/// The first `${NAME}` whose name has no `$`, `}` or blank in it: where it begins, and where its brace is.
fn innermost(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(begin) = text[from..].find("${").map(|at| from + at) {
        let name = &text[begin + 2..];
        let len = name.find(['$', '}', ' ']).unwrap_or(name.len());
        if len > 0 && name[len..].starts_with('}') {
            return Some((begin, begin + 2 + len));
        }
        from = begin + 2;
    }
    None
}

/// `NAME`, `NAME-default` or `NAME:-default`.
fn variable_or_default(text: &str, environment: &Environment<'_>) -> Option<String> {
    let at = text.char_indices().find(|(at, c)| *c == '-' || *c == ':' && text[at + 1..].starts_with('-'));
    let Some((at, sign)) = at else { return environment(text) };
    let given = environment(&text[..at]);
    if sign == ':' {
        return Some(given.filter(|given| !given.is_empty()).unwrap_or_else(|| text[at + 2..].to_owned()));
    }
    Some(given.unwrap_or_else(|| text[at + 1..].to_owned()))
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
    use std::sync::LazyLock;

    use yeoul_base::ErrorKind;

    use super::*;
    use crate::properties;

    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        Table::parse(
            "@s\nlamp.port\t9097\thonoured\t\tlamp.old.port,lamp.oldest.port\n\
             lamp.lit\tfalse\thonoured\t\tlamp.on\nlamp.host\t<localhost>\thonoured\t\n",
            &["lamp."],
        )
    });

    fn environment(name: &str) -> Option<String> {
        let values = [("HOME", "/h/y"), ("DIRS", "/a,${env:HOME}/b"), ("LOOP", "${env:LOOP}"), ("EMPTY", "")];
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    const PREFIXED: References<'static> = References::Prefixed { environment: &environment, keys: "lamp." };

    /// The value of the last entry of a file.
    fn last_by(references: &References<'_>, text: &str) -> Result<String> {
        let entries = properties::parse(text);
        let found: Vec<_> = entries.iter().map(|entry| TABLE.find(&entry.key)).collect();
        let values = Values::new(&entries, &found, &TABLE, references);
        values.resolved(entries.last().unwrap()).map(|entry| entry.value)
    }

    fn last(text: &str) -> Result<String> {
        last_by(&PREFIXED, text)
    }

    #[test]
    fn references_are_replaced_by_what_they_stand_for() {
        for (text, expected) in [
            ("lamp.x ${env:DIRS}", "/a,/h/y/b"),
            ("lamp.x a$b{c}${env:EMPTY}$", "a$b{c}$"),
            ("lamp.own 7\nlamp.x <${lamp.own}${lamp.own}>", "<77>"),
            ("lamp.x ${lamp.port}", "9097"),
            ("lamp.on true\nlamp.x ${lamp.lit}", "true"),
            ("lamp.own 7\nlamp.own 8\nlamp.x ${lamp.own}", "8"),
        ] {
            assert_eq!(last(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn references_that_lead_nowhere_are_errors_that_name_them() {
        for (text, expected) in [
            ("lamp.x ${env:NONE}", "line 1: lamp.x = ${env:NONE}: the environment has no NONE"),
            ("lamp.x ${system:user.home}", "a property of the JVM"),
            ("lamp.x ${secret:x}", "nothing is known under secret:"),
            ("lamp.x ${lamp.none}", "the file has no lamp.none"),
            ("own 1\nlamp.x ${own}", "the file has no own"),
            ("lamp.x ${lamp.host}", "the file has no lamp.host"),
            ("lamp.x ${env:HOME", "lacks its '}'"),
            ("lamp.x ${env:LOOP}", "${env:LOOP} leads back to itself"),
            ("lamp.y ${lamp.x}\nlamp.x ${lamp.y}", "${lamp.y} leads back to itself"),
        ] {
            let error = last(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        let hint = last("lamp.x ${env:NONE}").unwrap_err().hint().map(str::to_owned).unwrap();
        assert!(hint.ends_with("refer to it as ${env:NAME} or ${lamp.…}"), "{hint}");
    }

    #[test]
    fn what_references_come_to_is_bounded() {
        let chain = |len: usize, each: &str| {
            let links = (0..len)
                .map(|at| format!("lamp.x{at} {}\n", each.replace('@', &format!("${{lamp.x{}}}", at + 1))));
            let begin = links.collect::<String>() + &format!("lamp.x{len} end\n");
            last(&(begin + "lamp.x ${lamp.x0}"))
        };
        assert_eq!(chain(REFERENCES_MAX - 1, "@").unwrap(), "end");
        assert!(chain(REFERENCES_MAX, "@").is_err(), "too many, one within the other");
        assert_eq!(chain(6, "@@").unwrap(), "end".repeat(64));
        assert!(chain(10, "@@").is_err(), "too many");
        let long = "y".repeat(VALUE_BYTES_MAX / 2 + 1);
        assert!(last(&format!("lamp.long {long}\nlamp.x ${{lamp.long}}")).is_ok());
        let error = last(&format!("lamp.long {long}\nlamp.x ${{lamp.long}}${{lamp.long}}"));
        assert!(error.unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn the_present_name_counts_before_deprecated_ones_and_the_last_of_one_name() {
        let text = "lamp.port 1\nlamp.port 2\nlamp.old.port 3\nlamp.oldest.port 4\n";
        let entries = properties::parse(text);
        let counting = |entries: &[Entry]| {
            let found: Vec<_> = entries.iter().map(|entry| TABLE.find(&entry.key)).collect();
            let values = Values::new(entries, &found, &TABLE, &PREFIXED);
            (0..entries.len()).filter(|at| values.counts("lamp.port", *at)).collect::<Vec<_>>()
        };
        assert_eq!(counting(&entries), [1]);
        assert_eq!(counting(&entries[2..]), [0]);
    }

    #[test]
    fn references_as_hadoop_has_them() {
        let environment = |name: &str| environment(name);
        let properties = |name: &str| (name == "user.name").then(|| "ada".to_owned());
        let hadoop = References::Hadoop { environment: &environment, properties: &properties };
        let last = |text: &str| last_by(&hadoop, text);
        for (text, expected) in [
            ("x /tmp/hadoop-${user.name}", "/tmp/hadoop-ada"),
            ("dir /d\nx ${dir}/name,${dir}/edits", "/d/name,/d/edits"),
            ("user.name eve\nx ${user.name}", "ada"),
            ("which port\nx ${lamp.${which}}", "9097"),
            ("x ${env.HOME}/${env.NONE-/n}${env.EMPTY-e}", "/h/y//n"),
            ("x ${env.EMPTY:-e}${env.NONE:-n}${env.HOME:-h}", "en/h/y"),
            ("x $a ${} ${a b} $$ }", "$a ${} ${a b} $$ }"),
        ] {
            assert_eq!(last(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("x ${nothing}", "x = ${nothing}: ${nothing} is no variable, no property and no key"),
            ("x ${env.NONE}", "${env.NONE} is no variable"),
            ("y ${x}\nx ${y}", "x = ${y}: ${y} leads back to itself"),
            ("x a${x}", "more than 20 references"),
        ] {
            let error = last(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        let chain = |len: usize| {
            let links: String = (0..len).map(|at| format!("x{at} ${{x{}}}\n", at + 1)).collect();
            last(&format!("{links}x{len} end\nx ${{x0}}"))
        };
        assert_eq!(chain(19).unwrap(), "end");
        assert!(chain(20).unwrap_err().to_string().contains("more than 20 references"));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_values_never_panic(value in "[${}a:.é -]{0,40}") {
            let none = |_: &str| None;
            for references in [PREFIXED, References::Hadoop { environment: &none, properties: &none }] {
                let _ = last_by(&references, &format!("a ${{a}}\nlamp.x {value}"));
            }
        }
    }
}
