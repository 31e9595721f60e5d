//! What the person who starts a server is told about its settings, once.

use std::fmt;

use crate::entry::Origin;

/// What the person who starts a server is told, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A key that is not in the table, with a similar one that is.
    Unknown {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// A documented key that is nearly the same.
        similar: Option<&'static str>,
    },
    /// A key that changes nothing here.
    Ineffective {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// Why.
        note: &'static str,
    },
    /// A value that an earlier file does not let others replace.
    Final {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// Where the value stands that counts.
        by: Origin,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, origin, similar: None } => write!(f, "{origin}: unknown key {key}"),
            Self::Unknown { key, origin, similar: Some(similar) } => {
                write!(f, "{origin}: unknown key {key}; did you mean {similar}?")
            }
            Self::Ineffective { key, origin, note } => {
                write!(f, "{origin}: {key} changes nothing here: {note}")
            }
            Self::Final { key, origin, by } => {
                write!(f, "{origin}: {key} is ignored: the value at {by} is final")
            }
        }
    }
}
