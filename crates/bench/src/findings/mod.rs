//! What suites that compare rates and times find, as a table for people and as JSON for programs.

mod finding;
mod report;

pub use finding::{Bar, Finding, Unit};
pub use report::{to_json, to_table};
