use std::{fmt, io};

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
    /// What a caller can do about a failure of the operating system. What means something else to a caller, as the early
    /// end of a file does, is its own to say.
    pub fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as Io;
        match error.kind() {
            Io::NotFound => Self::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => Self::Denied,
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge | Io::OutOfMemory => {
                Self::ResourceExhausted
            }
            Io::InvalidInput => Self::Invalid,
            Io::InvalidData => Self::Corrupt,
            _ => Self::Unavailable,
        }
    }

    /// The kind of a word as programs see it; `None` for one that is none.
    pub fn named(word: &str) -> Option<Self> {
        const ALL: [ErrorKind; 10] = [
            ErrorKind::Invalid,
            ErrorKind::NotFound,
            ErrorKind::Denied,
            ErrorKind::Unavailable,
            ErrorKind::Conflict,
            ErrorKind::ResourceExhausted,
            ErrorKind::Corrupt,
            ErrorKind::DataLoss,
            ErrorKind::Internal,
            ErrorKind::Cancelled,
        ];
        ALL.into_iter().find(|kind| kind.as_str() == word)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trying_again_does_not_mend_is_not_unavailable() {
        use io::ErrorKind as Io;
        for (said, kind) in [
            (Io::NotFound, ErrorKind::NotFound),
            (Io::ReadOnlyFilesystem, ErrorKind::Denied),
            (Io::StorageFull, ErrorKind::ResourceExhausted),
            (Io::InvalidData, ErrorKind::Corrupt),
            (Io::ConnectionRefused, ErrorKind::Unavailable),
            (Io::UnexpectedEof, ErrorKind::Unavailable),
        ] {
            assert_eq!(ErrorKind::of_io(&said.into()), kind, "{said}");
        }
    }
}
