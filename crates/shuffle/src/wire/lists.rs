//! Messages as they are received: lists stay in the payload and are read one element at a time.
//!
//! Decoded as a whole, a list takes many times its wire size: an empty worker two bytes there and over a hundred in
//! memory, an attempt one and four. So a [`Received`] message decodes only its singular fields, and callers iterate
//! over its lists. Nothing here takes more memory than these, or one element, take on the wire.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Deref;

use bytes::{Buf, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint};

use super::cursor::{DecodeError, Problem};

/// A message whose singular fields are decoded. `M` is one of [`super::received`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received<M> {
    fields: M,
    payload: Bytes,
}

impl<M> Deref for Received<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.fields
    }
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident<M $(, $element:ident)?>,)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name<M $(, $element)?> {
                number: u32,
                of: PhantomData<fn(M) $(-> $element)?>,
            }

            impl<M $(, $element)?> $name<M $(, $element)?> {
                /// The field of this number.
                pub const fn of(number: u32) -> Self {
                    Self { number, of: PhantomData }
                }
            }

            impl<M $(, $element)?> Copy for $name<M $(, $element)?> {}

            impl<M $(, $element)?> Clone for $name<M $(, $element)?> {
                fn clone(&self) -> Self {
                    *self
                }
            }
        )*
    };
}

places! {
    /// The field of message `M` that is a list of strings.
    Texts<M>,
    /// The field of message `M` that is a list of numbers.
    Numbers<M, T>,
    /// The field of message `M` that is a list of messages.
    Messages<M, T>,
    /// The field of message `M` that is one message with lists of its own.
    Part<M, T>,
}

/// An element of a list of numbers.
pub trait Number {
    /// Converts a varint as protobuf does: bits that do not fit are cut off.
    fn of_varint(varint: u64) -> Self;
}

impl Number for i32 {
    fn of_varint(varint: u64) -> Self {
        varint as Self
    }
}

impl Number for i64 {
    fn of_varint(varint: u64) -> Self {
        varint.cast_signed()
    }
}

impl Number for bool {
    fn of_varint(varint: u64) -> Self {
        varint != 0
    }
}

impl<M: prost::Message + Default> Received<M> {
    /// Decodes the singular fields.
    ///
    /// # Errors
    /// The payload is not an `M`.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let fields = M::decode(payload.clone()).map_err(|error| malformed(0, &error))?;
        Ok(Self { fields, payload })
    }
}

impl<M> Received<M> {
    /// Bytes on the wire.
    pub fn wire_len(&self) -> usize {
        self.payload.len()
    }

    /// The strings of a list.
    pub fn texts(&self, list: Texts<M>) -> impl Iterator<Item = Result<&str, DecodeError>> {
        self.values(list.number).map(|(offset, value)| {
            let text = value?.bytes(offset)?;
            let not_text = |_| DecodeError { field: "text", offset, problem: Problem::Malformed("UTF-8") };
            std::str::from_utf8(text).map_err(not_text)
        })
    }

    /// The numbers of a list, packed or not.
    pub fn numbers<T: Number>(&self, list: Numbers<M, T>) -> impl Iterator<Item = Result<T, DecodeError>> {
        self.values(list.number).flat_map(|(offset, value)| Varints::new(offset, value))
    }

    /// The messages of a list.
    pub fn messages<T: prost::Message + Default>(
        &self,
        list: Messages<M, T>,
    ) -> impl Iterator<Item = Result<Received<T>, DecodeError>> {
        self.values(list.number).map(move |(offset, value)| self.message(offset, value?))
    }

    /// A message within this one.
    ///
    /// # Errors
    /// It is malformed, or comes twice: protobuf would merge the two, and no client means that.
    pub fn part<T: prost::Message + Default>(
        &self,
        part: Part<M, T>,
    ) -> Result<Option<Received<T>>, DecodeError> {
        let mut values = self.values(part.number);
        let Some((offset, value)) = values.next() else { return Ok(None) };
        if let Some((offset, _)) = values.next() {
            return Err(DecodeError { field: "payload", offset, problem: Problem::Malformed("one message") });
        }
        self.message(offset, value?).map(Some)
    }

    fn message<T: prost::Message + Default>(
        &self,
        offset: usize,
        value: Value<'_>,
    ) -> Result<Received<T>, DecodeError> {
        Received::decode(self.payload.slice_ref(value.bytes(offset)?))
    }

    /// Every value of a field, with its offset.
    fn values(&self, number: u32) -> impl Iterator<Item = (usize, Result<Value<'_>, DecodeError>)> {
        let fields = Fields { whole: &self.payload, rest: &self.payload };
        fields.filter_map(move |(offset, field)| match field {
            Ok((found, value)) => (found == number).then_some((offset, Ok(value))),
            Err(error) => Some((offset, Err(error))),
        })
    }
}

/// Collects `count` items, without the spare capacity of a vector that grows.
///
/// # Errors
/// The first error among the items.
pub fn exactly<T, E>(count: usize, items: impl Iterator<Item = Result<T, E>>) -> Result<Vec<T>, E> {
    let mut collected = Vec::with_capacity(count);
    for item in items {
        collected.push(item?);
    }
    Ok(collected)
}

/// A field's value on the wire.
enum Value<'a> {
    Varint(u64),
    Fixed,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn bytes(self, offset: usize) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Fixed => Err(unexpected_kind(offset)),
        }
    }
}

/// The fields of a payload in order, each with its offset. It ends after an error.
struct Fields<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn field(&mut self, offset: usize) -> Result<(u32, Value<'a>), DecodeError> {
        let rest = &mut self.rest;
        let (number, kind) = decode_key(rest).map_err(|error| malformed(offset, &error))?;
        let len = match kind {
            WireType::Varint => {
                let varint = decode_varint(rest).map_err(|error| malformed(offset, &error))?;
                return Ok((number, Value::Varint(varint)));
            }
            WireType::LengthDelimited => decode_varint(rest).map_err(|error| malformed(offset, &error))?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            // Groups were deprecated before Celeborn was written.
            WireType::StartGroup | WireType::EndGroup => return Err(unexpected_kind(offset)),
        };
        let found = rest.len();
        let len = usize::try_from(len).ok().filter(|len| *len <= found).ok_or_else(|| {
            let problem = Problem::TooLong { found: len, max: found as u64 };
            DecodeError { field: "payload", offset, problem }
        })?;
        let (value, behind) = rest.split_at(len);
        *rest = behind;
        Ok((number, if kind == WireType::LengthDelimited { Value::Bytes(value) } else { Value::Fixed }))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (usize, Result<(u32, Value<'a>), DecodeError>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.whole.len() - self.rest.len();
        let field = self.field(offset);
        if field.is_err() {
            self.rest = &[];
        }
        Some((offset, field))
    }
}

impl FusedIterator for Fields<'_> {}

/// The numbers in one value of a field: one, or all that are packed in it. It ends after an error.
struct Varints<'a, T> {
    offset: usize,
    single: Option<Result<u64, DecodeError>>,
    packed: &'a [u8],
    of: PhantomData<T>,
}

impl<'a, T> Varints<'a, T> {
    fn new(offset: usize, value: Result<Value<'a>, DecodeError>) -> Self {
        let (single, packed) = match value {
            Ok(Value::Varint(varint)) => (Some(Ok(varint)), &[][..]),
            Ok(Value::Bytes(packed)) => (None, packed),
            Ok(Value::Fixed) => (Some(Err(unexpected_kind(offset))), &[][..]),
            Err(error) => (Some(Err(error)), &[][..]),
        };
        Self { offset, single, packed, of: PhantomData }
    }
}

impl<T: Number> Iterator for Varints<'_, T> {
    type Item = Result<T, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(single) = self.single.take() {
            return Some(single.map(T::of_varint));
        }
        if !self.packed.has_remaining() {
            return None;
        }
        let varint = decode_varint(&mut self.packed).map_err(|error| malformed(self.offset, &error));
        if varint.is_err() {
            self.packed = &[];
        }
        Some(varint.map(T::of_varint))
    }
}

fn malformed(offset: usize, error: &prost::DecodeError) -> DecodeError {
    DecodeError { field: "payload", offset, problem: Problem::Protobuf(error.to_string()) }
}

fn unexpected_kind(offset: usize) -> DecodeError {
    DecodeError { field: "payload", offset, problem: Problem::Malformed("the wire type of its field") }
}
