//! Errors of statements: for a program their kind, for a person a message, a place and a hint.

mod from_datafusion;
mod other_names;
mod syntax_tree;
mod wording;

use std::error::Error as StdError;
use std::fmt;

use yeoul_base::ErrorKind;

use crate::Span;

/// A failure, for a program ([`kind`](Self::kind)) and for a person (the message, the place and the hint).
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    span: Option<Span>,
    /// Of what there was too little, where it is known.
    shortage: Option<Shortage>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Of what there was too little, for an error of the kind `ResourceExhausted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Memory: operators that spill may do with less.
    Memory,
    /// Room for what operators spill.
    SpillDisk,
    /// Room where the answer is written.
    TargetDisk,
}

/// The hint where the disk of the target is full.
pub const TARGET_FULL: &str = "free space there, or write to another disk";

/// True if an error says that there is no room left where something is written.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Io;
    matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge)
}

/// The hint for an error in writing, if it is that there is no room left.
pub fn full_disk_hint(error: &std::io::Error) -> Option<&'static str> {
    is_full(error).then_some(TARGET_FULL)
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a kind, with a message in lower case and without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, span: None, shortage: None, source: None }
    }

    /// Adds what the person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds where in the SQL text it is, if that is known.
    #[must_use]
    pub fn with_span(mut self, span: impl Into<Option<Span>>) -> Self {
        self.span = span.into();
        self
    }

    /// Adds of what there was too little.
    #[must_use]
    pub fn with_shortage(mut self, shortage: Shortage) -> Self {
        self.shortage = Some(shortage);
        self
    }

    /// Of what there was too little, if it is that: memory, unless it is known to be a disk.
    pub fn shortage(&self) -> Option<Shortage> {
        (self.kind == ErrorKind::ResourceExhausted).then(|| self.shortage.unwrap_or(Shortage::Memory))
    }

    /// The kind, which says what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The hint: what the person can do about it, if anything is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Which part of the SQL text it is about, if it is about one.
    pub fn span(&self) -> Option<Span> {
        self.span
    }
}

/// An error of what is shared keeps its kind, message, hint and causes.
impl From<yeoul_base::Error> for Error {
    fn from(error: yeoul_base::Error) -> Self {
        let own = Self::new(error.kind(), error.to_string());
        let own = match error.hint() {
            Some(hint) => own.with_hint(hint),
            None => own,
        };
        own.with_source(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
