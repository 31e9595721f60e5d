//! What is accepted from a peer, in bytes.

/// Frame of a call. The longest that clients send name some thousand paths; a message of many empty parts takes about a
/// hundred times as much memory when it is decoded, which is why this is not Hadoop's 128 MiB.
pub const CALL_BYTES_MAX: usize = 1 << 20;

/// Frame of an answer that a client of ours takes.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Message of the data transfer protocol: a request with a pipeline of hundreds of nodes is some 100 KiB.
pub const TRANSFER_MESSAGE_BYTES_MAX: usize = 256 << 10;

/// Header of a packet: the stock client sends 25 or 27 bytes.
pub const PACKET_HEADER_BYTES_MAX: usize = 256;

/// Checksums and data of a packet, as in HDFS.
pub const PACKET_BYTES_MAX: usize = 16 << 20;

/// Bytes of data under one checksum. The stock client's default is 512.
pub const BYTES_PER_CHECKSUM_MAX: usize = 1 << 20;

/// Stripes of a block whose checksums go into one answer, four bytes each: a unit of 32 GiB has as many cells of 1 MiB.
pub const DIGEST_STRIPES_MAX: u64 = 32 << 10;
