use yeoul_bench::dfs::PlainBytes;

use super::Failure;

/// The file, as the table names it.
pub(super) const WHAT: &str = "a file";
/// Reading it, as the table names that.
pub(super) const READ: &str = "read it";

pub(super) fn contents() -> Result<PlainBytes, Failure> {
    Ok(PlainBytes { pieces: 64 })
}
