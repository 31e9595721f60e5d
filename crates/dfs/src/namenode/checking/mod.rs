//! A check of files, as `hdfs fsck` asks for it: what is asked, and what was counted. The walk is in `state/checking`.

mod request;
mod totals;

pub use request::{CheckRequest, Shown, Subject};
pub use totals::{FormTotals, Totals};
