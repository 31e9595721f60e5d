//! Messages and packets over blocking sockets, each transfer being a thread of its own, as disks are.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::wire::checksum::Chunking;
use crate::wire::packet::{self, Header, Prefix};
use crate::wire::{DecodeError, delimited, limits};

/// A connection whose bytes are read through a buffer.
pub type Reader = BufReader<TcpStream>;

/// Reads a delimited message.
pub fn read_message<M: Message + Default>(from: &mut impl Read, what: &'static str) -> io::Result<M> {
    let mut length = delimited::LengthReader::default();
    let length = loop {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        let pushed = length.push(byte[0], what, limits::TRANSFER_MESSAGE_BYTES_MAX);
        if let Some(length) = pushed.map_err(invalid)? {
            break length;
        }
    };
    let bytes = read_bytes(from, length)?;
    M::decode(bytes).map_err(|source| invalid(DecodeError::Protobuf { what, source }))
}

/// Writes a delimited message.
pub fn write_message(to: &mut impl Write, message: &impl Message) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    delimited::put(message, &mut bytes);
    to.write_all(&bytes)
}

/// A packet as it came, to be passed on, and its parts.
#[derive(Debug)]
pub struct Packet {
    /// What the header says.
    pub header: Header,
    bytes: Bytes,
    payload_at: usize,
}

impl Packet {
    /// Reads the next packet. Before one that is longer than usual, `wait_for_memory` waits for room for so many bytes more,
    /// and gives what holds it.
    pub fn read<C>(
        from: &mut impl Read,
        chunking: Chunking,
        wait_for_memory: impl FnOnce(u64) -> io::Result<C>,
    ) -> io::Result<(Self, Option<C>)> {
        let mut prefix_bytes = [0; packet::PREFIX_BYTES];
        from.read_exact(&mut prefix_bytes)?;
        let prefix = Prefix::decode(prefix_bytes).map_err(invalid)?;
        let header_bytes = read_bytes(from, prefix.header)?;
        // The header is looked at before there is room for what it announces.
        let header = Header::decode(&header_bytes, prefix, chunking).map_err(invalid)?;
        let payload_at = prefix_bytes.len() + header_bytes.len();
        let longer = prefix.payload.saturating_sub(USUAL_PAYLOAD_BYTES);
        let charge = (longer > 0).then(|| wait_for_memory(longer as u64)).transpose()?;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&prefix_bytes);
        bytes.extend_from_slice(&header_bytes);
        // Grows as bytes come: a length that is declared reserves at most a packet of the usual size.
        bytes.reserve(prefix.payload.min(USUAL_PAYLOAD_BYTES));
        let wanted = prefix.payload as u64;
        if from.take(wanted).read_to_end(&mut bytes)? as u64 != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((Self { header, bytes: bytes.into(), payload_at }, charge))
    }

    /// All bytes, as they came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The checksums.
    pub fn checksums(&self) -> &[u8] {
        &self.bytes[self.payload_at..self.bytes.len() - self.header.data]
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.header.data..]
    }
}

/// Checksums and data of the stock client's packets of 64 KiB.
const USUAL_PAYLOAD_BYTES: usize = 68 << 10;

fn read_bytes(from: &mut impl Read, length: usize) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    if from.take(length as u64).read_to_end(&mut bytes)? != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

/// The error that bytes are none of the protocol's.
pub fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::proto::transfer::ReadBlock;

    #[test]
    fn a_packet_is_passed_on_as_it_came_and_its_parts_are_found() {
        let data: Vec<u8> = (0..700u32).map(|at| (at % 251) as u8).collect();
        let mut checksums = Vec::new();
        Chunking::default().compute(&data, &mut checksums);
        let header = Header { offset: 1024, sequence: 3, is_last: false, data: 700, sync: false };
        let mut bytes = BytesMut::new();
        header.encode(checksums.len(), &mut bytes);
        let bytes = [&bytes[..], &checksums, &data].concat();
        let no_memory = |_: u64| -> io::Result<()> { panic!("it is of the usual size") };
        let (read, _) = Packet::read(&mut &bytes[..], Chunking::default(), no_memory).unwrap();
        assert_eq!((read.header, read.as_bytes()), (header, &bytes[..]));
        assert_eq!((read.checksums(), read.data()), (&checksums[..], &data[..]));
        for length in 0..bytes.len() {
            let error = Packet::read(&mut &bytes[..length], Chunking::default(), no_memory).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}");
        }
    }

    #[test]
    fn a_message_longer_than_the_limit_is_refused_before_it_is_read() {
        let declared = [0xff, 0xff, 0xff, 0x7f];
        let error = read_message::<ReadBlock>(&mut &declared[..], "it").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
