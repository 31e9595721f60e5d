use std::fmt;

/// What a caller can do about a failure. Each crate's public error names exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself is wrong; sending it again changes nothing.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// It exists, and the caller may not use it.
    Denied,
    /// It cannot be reached now; trying again later may help.
    Unavailable,
    /// It exists already, or changed under the caller.
    Conflict,
    /// A stated limit (memory, disk, count) was reached.
    ResourceExhausted,
    /// Bytes were read that cannot be right.
    Corrupt,
    /// Bytes that were promised are gone.
    DataLoss,
    /// A defect of Yeoul.
    Internal,
    /// The caller asked to stop.
    Cancelled,
}

impl ErrorKind {
    /// The word that programs see, in snake case: `not_found`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Conflict => "conflict",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Corrupt => "corrupt",
            Self::DataLoss => "data_loss",
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
