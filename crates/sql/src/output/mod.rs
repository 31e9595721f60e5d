//! Writes answers: a query's record batches in the format that a person or a program asked for.
//!
//! [`write_answer`] streams. It holds one batch at a time (for a table its first window of rows, for Parquet one row group),
//! so the size of an answer is limited by the disk or the reader, never by memory.
//!
//! | format | for | nulls | nested values | decimals | timestamps |
//! | --- | --- | --- | --- | --- | --- |
//! | [`Format::Table`] | people | `NULL` | `{a: 1, b: [1, 2]}` | as text, right-aligned | `2024-01-05 10:00:00.5` |
//! | [`Format::Csv`] | spreadsheets, loaders | nothing between the commas | JSON text | exact text | the same |
//! | [`Format::Json`] | scripts, `jq` | `null`, the key is always there | objects and arrays | exact number | the same, a string |
//! | [`Format::Line`] | people, of rows wider than a terminal | `NULL` | as in a table, never cut | as text | the same |
//! | [`Format::Parquet`] | other engines | null | native | native | native |
//! | [`Format::Arrow`] | other processes | null | native | native | native |
//!
//! - **csv** is RFC 4180 with a header line and LF as the line end. Empty text is `""`, unlike null. A null that is a line's
//!   only field is written `""` too, because readers skip empty lines.
//!   `COPY … TO` a CSV file writes the same, unless its options ask for other text.
//! - **json** is one object per line. `NaN` and the infinities, which JSON has no numbers for, are the strings `"NaN"`,
//!   `"Infinity"` and `"-Infinity"`; binary is lower-case hexadecimal; keys of a map become strings.
//!   `COPY … TO` a JSON file writes the same.
//! - **table** shows the plans of `EXPLAIN` as they are, line by line, without a frame and uncut.
//! - Timestamps are written as casts to text write them, those with a zone with its offset: `2024-01-05 10:00:00+01`.
//! - Columns that share a name (`SELECT a.id, b.id`) become `id`, `id_1` in json and parquet.
//!
//! A reader that closes the pipe has what it wanted: that is a success ([`Summary::closed`]), not an error.

mod answer;
mod arrow_ipc;
mod cell;
mod csv;
mod format;
mod json;
mod layout;
mod line;
mod new_file;
mod parquet;
mod plan;
mod progress;
mod sink;
mod table;
mod text_sink;

pub(crate) use answer::duration_text;
pub use answer::{OutputError, OutputOptions, Summary, write_answer};
pub use format::{Format, UnknownFormat};
pub use new_file::NewFile;
pub use progress::{ProgressLine, ProgressSnapshot, ProgressSource};
pub(crate) use text_sink::{Text, TextSink};
pub use yeoul_dialect::error::full_disk_hint;
