use std::collections::BTreeMap;

use crate::error::{Error, Result, invalid};

/// Value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// `DESCRIPTOR(column)`: a column of the rows, by its name.
    Column(String),
    /// `INTERVAL '…' UNIT`: milliseconds.
    Interval(i64),
    /// A number, as it is written.
    Number(String),
    /// A text in quotes.
    Text(String),
}

/// Named arguments of a call, of which each is taken once: what nobody takes is refused by name. Names are matched without regard to
/// case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments {
    owner: String,
    given: BTreeMap<String, Argument>,
}

impl Arguments {
    /// Arguments of a call of `owner`.
    ///
    /// # Errors
    /// `Invalid` if one is given twice.
    pub fn new(
        owner: impl Into<String>,
        given: impl IntoIterator<Item = (String, Argument)>,
    ) -> Result<Self> {
        let mut arguments = Self { owner: owner.into(), given: BTreeMap::new() };
        for (name, value) in given {
            if arguments.given.insert(name.to_lowercase(), value).is_some() {
                return Err(invalid(format!("{}: the argument '{name}' is given twice", arguments.owner)));
            }
        }
        Ok(arguments)
    }

    /// Takes a column, if it is given.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take_column(&mut self, name: &str) -> Result<Option<String>> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Argument::Column(column)) => Ok(Some(column)),
            Some(other) => Err(self.wrong(name, &other, "DESCRIPTOR(column)")),
        }
    }

    /// Takes an interval that is not empty, in milliseconds, if it is given.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take_interval_ms(&mut self, name: &str) -> Result<Option<i64>> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Argument::Interval(ms)) if ms > 0 => Ok(Some(ms)),
            Some(other) => Err(self.wrong(name, &other, "an interval, such as INTERVAL '30' SECOND")),
        }
    }

    /// Takes a text, if it is given.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take_text(&mut self, name: &str) -> Result<Option<String>> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Argument::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, &other, "a text in quotes")),
        }
    }

    /// Takes a whole number, if it is given.
    ///
    /// # Errors
    /// `Invalid` for another value.
    pub fn take_number(&mut self, name: &str) -> Result<Option<i64>> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Argument::Number(text)) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.wrong(name, &Argument::Number(text), "a whole number")),
            },
            Some(other) => Err(self.wrong(name, &other, "a whole number")),
        }
    }

    /// Error of an argument with a wrong value.
    pub fn wrong(&self, name: &str, value: &Argument, expected: &str) -> Error {
        let value = match value {
            Argument::Column(column) => format!("DESCRIPTOR({column})"),
            Argument::Interval(ms) => format!("an interval of {ms} ms"),
            Argument::Number(text) => text.clone(),
            Argument::Text(text) => format!("'{text}'"),
        };
        invalid(format!("{}: the argument '{name}' is {value}, expected {expected}", self.owner))
    }

    /// Error of an argument that has to be there.
    pub fn missing(&self, name: &str) -> Error {
        invalid(format!("{}: the argument '{name}' is missing", self.owner))
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// `Invalid` if an argument is left: nothing is ignored.
    pub fn finish(&self) -> Result<()> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => Err(invalid(format!("{}: there is no argument '{name}'", self.owner))),
        }
    }
}
