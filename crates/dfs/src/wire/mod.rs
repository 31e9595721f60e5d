//! Bytes to values and back: Hadoop RPC, the data transfer protocol, and the headers of block files. No I/O.
//!
//! - [`rpc_frame`]: the beginning of a connection, frames, headers of calls and answers.
//! - [`transfer_op`]: requests to a DataNode; [`packet`]: what blocks travel in.
//! - [`delimited`]: messages behind their length; [`limits`]: what is accepted.
//! - [`block_digest`]: the checksum of a block's checksums. [`checksum`]: CRC-32C of chunks; [`meta_file`]: the file beside each block file.
//! - [`exception`]: the Java classes by which clients know what went wrong; [`Refusal`]: a call that is not carried out.
//! - [`proto`]: the messages of `proto/`.

pub mod block_digest;
pub mod checksum;
mod decode_error;
pub mod delimited;
pub mod exception;
pub mod limits;
pub mod meta_file;
pub mod packet;
pub mod proto;
pub mod protocol;
mod refusal;
pub mod rpc_frame;
pub mod transfer_op;

pub use decode_error::DecodeError;
pub use refusal::Refusal;
