use std::collections::{BTreeMap, BTreeSet};

use yeoul_base::without_users;

use super::is_secret;
use crate::error::{Error, Result, invalid};

/// Options of a stream or a sink, of which each is taken once: what nobody takes is refused by name. Names are matched
/// without regard to case, as in Spark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OptionMap {
    owner: String,
    options: BTreeMap<String, (String, String)>,
    /// Names that were asked for: what an owner of this kind knows.
    known: BTreeSet<String>,
}

/// Text in place of a secret value.
const HIDDEN: &str = "(hidden)";

impl OptionMap {
    /// Options of `owner`, which messages name.
    ///
    /// # Errors
    /// `Invalid` if one is given twice.
    pub fn new(owner: impl Into<String>, given: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let owner = owner.into();
        let mut options = BTreeMap::new();
        for (name, value) in given {
            if options.insert(name.to_lowercase(), (name.clone(), value)).is_some() {
                return Err(invalid(format!("{owner}: the option '{name}' is given twice")));
            }
        }
        Ok(Self { owner, options, known: BTreeSet::new() })
    }

    /// The same options of another owner.
    #[must_use]
    pub fn owned_by(self, owner: String) -> Self {
        Self { owner, ..self }
    }

    /// Takes an option, if it is there.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.known.insert(name.to_owned());
        self.options.remove(&name.to_lowercase()).map(|(_, value)| value)
    }

    /// Takes an option that has to be there.
    ///
    /// # Errors
    /// `Invalid` if it is missing.
    pub fn require(&mut self, name: &str) -> Result<String> {
        self.take(name).ok_or_else(|| invalid(format!("{}: the option '{name}' is missing", self.owner)))
    }

    /// Takes a number, or gives the default.
    ///
    /// # Errors
    /// `Invalid` if it is no number from `min` on.
    pub fn take_number(&mut self, name: &str, min: u64, default: u64) -> Result<u64> {
        let Some(value) = self.take(name) else { return Ok(default) };
        match value.trim().parse() {
            Ok(number) if number >= min => Ok(number),
            _ => Err(self.wrong(name, &value, &format!("a whole number from {min} on"))),
        }
    }

    /// Takes `true` or `false`, or gives the default.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take_bool(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name) {
            None => Ok(default),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(self.wrong(name, &value, "true or false")),
        }
    }

    /// Takes every option whose name starts with `prefix`; the names come without it and as they were written.
    pub fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        self.known.insert(format!("{prefix}*"));
        let names: Vec<String> =
            self.options.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        let taken = names.iter().filter_map(|name| self.options.remove(name));
        taken.map(|(name, value)| (name[prefix.len()..].to_owned(), value)).collect()
    }

    /// Error of an option with a wrong value, which is named unless it is secret.
    pub fn wrong(&self, name: &str, value: &str, expected: &str) -> Error {
        let value = if is_secret(name) { HIDDEN } else { value };
        invalid(format!("{}: the option '{name}' is '{value}', expected {expected}", self.owner))
    }

    /// Options that are left, as they were written and in the order of their names; what is secret is hidden.
    pub fn shown(&self) -> Vec<(String, String)> {
        let shown = self.options.iter().map(|(lower, (name, value))| {
            let value = if is_secret(lower) { HIDDEN.into() } else { without_users(value) };
            (name.clone(), value.into_owned())
        });
        shown.collect()
    }

    /// Name of the stream or sink, for messages.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// `Invalid` if an option is left: nothing is ignored.
    pub fn finish(self) -> Result<()> {
        match self.options.into_values().next() {
            None => Ok(()),
            Some((name, _)) => {
                let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
                Err(invalid(format!("{}: the option '{name}' is not honoured here", self.owner)).with_hint(
                    format!(
                        "{} are; docs/reference/stream-options.md tells what each does",
                        known.join(", ")
                    ),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> Result<OptionMap> {
        OptionMap::new("stream s", given.iter().map(|(name, value)| (name.to_string(), value.to_string())))
    }

    #[test]
    fn each_option_is_taken_once_and_none_is_ignored() {
        let mut map = options(&[("Subscribe", "a"), ("kafka.security.protocol", "SSL"), ("n", "7")]).unwrap();
        assert_eq!(map.take("subscribe").as_deref(), Some("a"));
        assert_eq!(map.take("subscribe"), None);
        assert_eq!(map.take_prefixed("kafka."), [("security.protocol".to_owned(), "SSL".to_owned())]);
        let error = map.clone().finish().unwrap_err();
        assert_eq!(error.to_string(), "stream s: the option 'n' is not honoured here");
        assert!(error.hint().unwrap().starts_with("kafka.*, subscribe are; "), "{error:?}");
        assert_eq!(map.take_number("N", 1, 3).unwrap(), 7);
        assert_eq!(map.take_number("N", 1, 3).unwrap(), 3);
        map.finish().unwrap();
    }

    #[test]
    fn options_are_shown_without_what_is_secret() {
        let given = [
            ("kafka.sasl.Password", "p"),
            ("path", "s3://k:p@b/d"),
            ("kafka.sasl.jaas.config", "j"),
            ("kafka.sasl.pasword", "p"),
        ];
        let hidden = |name: &str| (name.to_owned(), "(hidden)".to_owned());
        let expected = [
            hidden("kafka.sasl.jaas.config"),
            hidden("kafka.sasl.Password"),
            hidden("kafka.sasl.pasword"),
            ("path".into(), "s3://b/d".into()),
        ];
        let map = options(&given).unwrap();
        assert_eq!(map.shown(), expected);
        let error = map.wrong("kafka.sasl.pasword", "p4ss", "a number").to_string();
        assert_eq!(error, "stream s: the option 'kafka.sasl.pasword' is '(hidden)', expected a number");
    }

    #[test]
    fn wrong_values_and_repeats_are_named() {
        assert_eq!(
            options(&[("a", "1"), ("A", "2")]).unwrap_err().to_string(),
            "stream s: the option 'A' is given twice"
        );
        let mut map = options(&[("n", "0"), ("b", "yes")]).unwrap();
        let error = map.take_number("n", 1, 3).unwrap_err();
        assert_eq!(error.to_string(), "stream s: the option 'n' is '0', expected a whole number from 1 on");
        assert!(map.take_bool("b", true).unwrap_err().to_string().contains("'yes', expected true or false"));
        assert_eq!(map.require("topic").unwrap_err().to_string(), "stream s: the option 'topic' is missing");
    }
}
