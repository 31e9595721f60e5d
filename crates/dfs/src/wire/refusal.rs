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

    /// A call of HDFS that is known and not there.
    pub fn unsupported(method: &str) -> Self {
        Self::new(Exception::UnsupportedOperation, format!("{method} is not supported by yeoul dfs"))
    }

    /// A call of a protocol that is not there at all: refused by its name, or, if nobody knows it, as clients expect it that look
    /// for what a server has.
    pub fn of_protocol(protocol: &str, method: &str) -> Self {
        if super::protocol::UNSUPPORTED.contains(&protocol) {
            return Self::unsupported(method);
        }
        Self::new(Exception::NoSuchProtocol, format!("Unknown protocol: {protocol}"))
    }

    /// A directory where a file is expected.
    pub fn not_a_file(path: &str) -> Self {
        Self::new(Exception::FileNotFound, format!("Path is not a file: {path}"))
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
