//! The end of the last block of a file whose writer is gone: who is asked what they have, how many bytes stay, and where.

mod attempt;
mod verdict;

pub use attempt::{Asked, Attempt, Phase};
pub use verdict::{Answer, Known, Said, Verdict, verdict};

/// The holder of files whose writer was given up: nobody else goes on with them, and the NameNode closes them.
pub const HOLDER: &str = "HDFS_NameNode";
