//! Byte streams: what every protocol on a connection is read and written with.
//!
//! A [`StreamReader`] gives a head and then the body behind it, whole, in pieces, or not at all; heads and bodies that make
//! no progress end in time, and a length that the peer declares allocates nothing by itself. A [`StreamWriter`] sends
//! parts with few system calls. Together they carry protocols that are not request and response:
//!
//! ```
//! # use std::io; use std::time::Duration; use bytes::{Buf, Bytes, BytesMut};
//! # use yeoul_net::{Connection, ReaderOptions, StreamReader, StreamWriter};
//! /// Sends back each packet's length: a packet is four bytes of length, and a body.
//! async fn serve(connection: Connection) -> io::Result<()> {
//!     let (read, write) = connection.stream.into_split();
//!     let options = ReaderOptions::default();
//!     let mut writer = StreamWriter::new(write, options.idle_max);
//!     let mut reader = StreamReader::new(read, &options);
//!     while let Some(len) = reader.head(packet_len).await? {
//!         let mut body = reader.body(len);
//!         while let Some(piece) = body.piece(64 << 10).await? {
//!             // … store it
//!             # drop(piece);
//!         }
//!         writer.gather(Bytes::copy_from_slice(&(len as u32).to_be_bytes()));
//!         writer.write().await?;
//!     }
//!     Ok(())
//! }
//!
//! fn packet_len(bytes: &mut BytesMut) -> Result<Option<usize>, String> {
//!     if bytes.len() < 4 {
//!         return Ok(None);
//!     }
//!     match bytes.get_u32() as usize {
//!         len if len <= 1 << 30 => Ok(Some(len)),
//!         len => Err(format!("a packet must have at most 1 GiB, and this one has {len} bytes")),
//!     }
//! }
//! ```

mod arrivals;
mod body;
mod reader;
mod writer;

pub use body::Body;
pub use reader::{ReaderOptions, StreamReader};
pub use writer::StreamWriter;

#[cfg(test)]
mod tests;
