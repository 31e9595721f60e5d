use std::fmt;

use super::DecodeError;
use super::exception::Exception;

/// A call that is not carried out: the class by which the client knows why, and a message for people. It changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class that the client constructs.
    pub exception: Exception,
    /// The text that it gets, in HDFS's words where clients or tests look at them.
    pub message: String,
}

impl Refusal {
    /// A refusal with a message.
    pub fn new(exception: Exception, message: impl Into<String>) -> Self {
        Self { exception, message: message.into() }
    }

    /// A thing that a path names and that is not there.
    pub fn missing(path: &str) -> Self {
        Self::new(Exception::FileNotFound, format!("File does not exist: {path}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.exception.class_name(), self.message)
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::new(Exception::HadoopIllegalArgument, error.to_string())
    }
}
