/// Bytes that cannot be what they are said to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A declared length is over the limit.
    #[error("{what} of {declared} bytes is over the limit of {max} bytes")]
    TooLong {
        /// The thing whose length was declared.
        what: &'static str,
        /// The declared length.
        declared: u64,
        /// The limit.
        max: usize,
    },
    /// A field has a value that it cannot have.
    #[error("{what} is {found}, expected {expected}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// What it has.
        found: i64,
        /// What it may have.
        expected: &'static str,
    },
    /// The bytes end before the thing does.
    #[error("{0} is cut off")]
    CutOff(&'static str),
    /// The bytes of a message are none of protobuf's.
    #[error("cannot decode {what}")]
    Protobuf {
        /// The message.
        what: &'static str,
        /// What prost says.
        source: prost::DecodeError,
    },
}
