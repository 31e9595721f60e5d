//! A reader over received bytes whose errors name the field and its offset.

use bytes::{Buf, Bytes};

/// Received bytes that violate the protocol, with the field and the offset where they do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at offset {offset}: {problem}")]
pub struct DecodeError {
    /// What was being read.
    pub field: &'static str,
    /// Bytes from the start of the frame, the payload or the object, whichever was being decoded.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes end before the field does.
    #[error("expected {needed} more bytes, found {found}")]
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// A declared length or count is above the limit for it.
    #[error("length {found} is above the limit of {max}")]
    TooLong {
        /// What the peer declared.
        found: u64,
        /// What is allowed.
        max: u64,
    },
    /// A number that has no meaning here.
    #[error("unexpected value {0}")]
    Unexpected(i64),
    /// Text that is not UTF-8, or not the identifier that it should be.
    #[error("malformed, expected {0}")]
    Malformed(&'static str),
    /// Bytes after the end.
    #[error("{0} bytes left over")]
    LeftOver(usize),
    /// A payload that is not the protobuf message its number announces.
    #[error("not a valid protobuf message: {0}")]
    Protobuf(String),
}

/// Reads fields one after the other. Only numbers are copied; byte strings are slices of the source.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    rest: Bytes,
    offset: usize,
}

impl Cursor {
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes, offset: 0 }
    }

    /// Starts counting offsets at `offset`, for a part of a larger whole.
    pub fn at(bytes: Bytes, offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    pub fn error(&self, field: &'static str, problem: Problem) -> DecodeError {
        DecodeError { field, offset: self.offset, problem }
    }

    pub fn peek_u8(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn need(&self, field: &'static str, needed: usize) -> Result<(), DecodeError> {
        let found = self.rest.len();
        if found < needed { Err(self.error(field, Problem::Truncated { needed, found })) } else { Ok(()) }
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.need(field, 1)?;
        self.offset += 1;
        Ok(self.rest.get_u8())
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.need(field, 2)?;
        self.offset += 2;
        Ok(self.rest.get_u16())
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.need(field, 4)?;
        self.offset += 4;
        Ok(self.rest.get_i32())
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.need(field, 8)?;
        self.offset += 8;
        Ok(self.rest.get_i64())
    }

    pub fn bytes(&mut self, field: &'static str, len: usize) -> Result<Bytes, DecodeError> {
        self.need(field, len)?;
        self.offset += len;
        Ok(self.rest.split_to(len))
    }

    /// A non-negative i32 that counts what follows: bytes, or elements of at least `unit` bytes each. It is checked
    /// against what is there, so that it may size an allocation.
    pub fn count(&mut self, field: &'static str, unit: usize) -> Result<usize, DecodeError> {
        let declared = self.i32(field)?;
        let count =
            usize::try_from(declared).map_err(|_| self.error(field, Problem::Unexpected(declared.into())))?;
        let max = self.rest.len() / unit.max(1);
        if count > max {
            let problem = Problem::TooLong { found: count as u64, max: max as u64 };
            return Err(self.error(field, problem));
        }
        Ok(count)
    }

    /// An i32 length and that many bytes of UTF-8, handed to `parse` in place.
    pub fn text<T>(
        &mut self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<T, DecodeError> {
        let len = self.count(field, 1)?;
        self.text_of(field, len, parse)
    }

    /// `len` bytes of UTF-8, handed to `parse` in place.
    pub fn text_of<T>(
        &mut self,
        field: &'static str,
        len: usize,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<T, DecodeError> {
        self.need(field, len)?;
        let parsed = std::str::from_utf8(&self.rest[..len]).map_err(|_| "UTF-8").and_then(parse);
        let value = parsed.map_err(|expected| self.error(field, Problem::Malformed(expected)))?;
        self.rest.advance(len);
        self.offset += len;
        Ok(value)
    }

    pub fn rest(self) -> Bytes {
        self.rest
    }

    pub fn end(&self, field: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(self.error(field, Problem::LeftOver(left))),
        }
    }
}
