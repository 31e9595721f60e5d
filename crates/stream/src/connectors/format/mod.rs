//! Values of records as columns, and back.

mod csv;
mod decoder;
mod json;

pub use csv::CsvDialect;
pub use decoder::{Decoded, Decoder, FailingRows, Malformed, Tombstones};
pub use json::{JsonReader, TimestampUnit, write_json_lines};
