//! Values of records as columns, and back.

mod decoder;
mod json;

pub use decoder::{Decoded, Decoder, Malformed};
pub use json::write_json_lines;
