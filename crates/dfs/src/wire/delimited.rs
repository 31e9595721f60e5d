//! Messages behind their length, a base-128 varint, as Java's `writeDelimitedTo` writes them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::DecodeError;

/// Bytes that a length takes at most: five groups of seven bits.
const VARINT_BYTES_MAX: usize = 5;

/// A length that arrives byte by byte.
#[derive(Debug, Default)]
pub struct LengthReader {
    value: u64,
    bytes: usize,
}

impl LengthReader {
    /// Takes the next byte; the length, once it is complete.
    ///
    /// # Errors
    /// A length over `max`, or of more than five bytes.
    pub fn push(&mut self, byte: u8, what: &'static str, max: usize) -> Result<Option<usize>, DecodeError> {
        self.value |= u64::from(byte & 0x7f) << (7 * self.bytes);
        self.bytes += 1;
        if byte & 0x80 == 0 {
            let length = usize::try_from(self.value).unwrap_or(usize::MAX);
            return if length <= max {
                Ok(Some(length))
            } else {
                Err(DecodeError::TooLong { what, declared: self.value, max })
            };
        }
        if self.bytes == VARINT_BYTES_MAX {
            return Err(DecodeError::TooLong { what, declared: self.value, max });
        }
        Ok(None)
    }
}

/// Takes the bytes of a delimited message off the front of `from`, which holds all of it.
///
/// # Errors
/// A message that is cut off, or longer than `from` can be.
pub fn take(from: &mut Bytes, what: &'static str) -> Result<Bytes, DecodeError> {
    let mut length = LengthReader::default();
    loop {
        if !from.has_remaining() {
            return Err(DecodeError::CutOff(what));
        }
        if let Some(length) = length.push(from.get_u8(), what, usize::MAX)? {
            if length > from.len() {
                return Err(DecodeError::CutOff(what));
            }
            return Ok(from.split_to(length));
        }
    }
}

/// Takes a delimited message off the front of `from` and decodes it.
///
/// # Errors
/// As [`take`], and bytes that are none of protobuf's.
pub fn take_message<M: Message + Default>(from: &mut Bytes, what: &'static str) -> Result<M, DecodeError> {
    let bytes = take(from, what)?;
    M::decode(bytes).map_err(|source| DecodeError::Protobuf { what, source })
}

/// Appends a message behind its length.
pub fn put(message: &impl Message, to: &mut BytesMut) {
    let length = message.encoded_len();
    to.reserve(length + VARINT_BYTES_MAX);
    prost::encoding::encode_varint(length as u64, to);
    message.encode_raw(to);
}

/// Appends bytes behind their length.
pub fn put_bytes(bytes: &[u8], to: &mut BytesMut) {
    to.reserve(bytes.len() + VARINT_BYTES_MAX);
    prost::encoding::encode_varint(bytes.len() as u64, to);
    to.put_slice(bytes);
}

/// Bytes that a message takes behind its length.
pub fn encoded_len(message: &impl Message) -> usize {
    prost::encoding::encoded_len_varint(message.encoded_len() as u64) + message.encoded_len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::proto::namenode::RenameRequest;
    use super::*;

    proptest! {
        #[test]
        fn a_message_comes_back_and_each_prefix_is_cut_off(src in ".{0,200}", dst in ".{0,3}") {
            let message = RenameRequest { src, dst, overwrite: Some(true), move_to_trash: None };
            let mut bytes = BytesMut::new();
            put(&message, &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_len(&message));
            let bytes = bytes.freeze();
            for length in 0..bytes.len() {
                let is_cut = matches!(take(&mut bytes.slice(..length), "it"), Err(DecodeError::CutOff("it")));
                prop_assert!(is_cut);
            }
            let mut whole = bytes;
            prop_assert_eq!(take_message::<RenameRequest>(&mut whole, "it").unwrap(), message);
            prop_assert!(whole.is_empty());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = take_message::<RenameRequest>(&mut Bytes::from(bytes), "it");
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_once_it_is_read() {
        let mut reader = LengthReader::default();
        assert!(matches!(reader.push(0xac, "it", 299), Ok(None)));
        let refused = reader.push(0x02, "it", 299);
        assert!(matches!(refused, Err(DecodeError::TooLong { declared: 300, max: 299, .. })), "{refused:?}");
        // A length that never ends.
        let mut reader = LengthReader::default();
        let ended = (0..9).map(|_| reader.push(0xff, "it", usize::MAX)).position(|pushed| pushed.is_err());
        assert_eq!(ended, Some(4));
    }
}
