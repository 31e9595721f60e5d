//! What the folders and files of a volume are called: as HDFS calls them, so that its tools can check them.
//!
//! ```text
//! current/VERSION                                           which cluster and DataNode the volume belongs to
//! current/<pool>/current/finalized/subdirA/subdirB/blk_N    a whole replica; A = bits 16-20 of N, B = bits 8-12
//! …/blk_N_S.meta                                            its checksums, with its stamp S
//! current/<pool>/current/rbw/blk_N, blk_N_S.meta            a replica that a client writes
//! current/<pool>/current/tmp/blk_N, blk_N_S.meta            one that another DataNode makes: emptied at the start
//! ```

use std::path::PathBuf;

use crate::ids::{BlockId, GenerationStamp};

/// The folders of a volume with replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Whole replicas.
    Finalized,
    /// Replicas that clients write.
    BeingWritten,
    /// Replicas that other DataNodes make: whole, or nothing.
    Temporary,
}

impl Folder {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Finalized, Self::BeingWritten, Self::Temporary];

    /// The folder, below the volume.
    pub fn path(self, pool: &str) -> PathBuf {
        let name = match self {
            Self::Finalized => "finalized",
            Self::BeingWritten => "rbw",
            Self::Temporary => "tmp",
        };
        ["current", pool, "current", name].iter().collect()
    }
}

/// The folder of a whole replica, below [`Folder::Finalized`].
pub fn subfolder(id: BlockId) -> PathBuf {
    let bits = |shift: u32| (id.0 >> shift) & 0x1f;
    [format!("subdir{}", bits(16)), format!("subdir{}", bits(8))].iter().collect()
}

/// Name of the file with a replica's bytes.
pub fn data_file(id: BlockId) -> String {
    id.to_string()
}

/// Name of the file with a replica's checksums.
pub fn meta_file(id: BlockId, stamp: GenerationStamp) -> String {
    format!("{id}_{}.meta", stamp.0)
}

/// The block and the stamp that the name of a checksum file says; none for another file.
pub fn parse_meta_file(name: &str) -> Option<(BlockId, GenerationStamp)> {
    let (id, stamp) = name.strip_prefix("blk_")?.strip_suffix(".meta")?.split_once('_')?;
    Some((BlockId(id.parse().ok()?), GenerationStamp(stamp.parse().ok()?)))
}

/// The longest name of a block pool, in bytes.
const POOL_BYTES_MAX: usize = 255;

/// Whether a block pool may be called so: a NameNode chooses the name, and it becomes a folder's here.
pub fn is_pool_name(pool: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%');
    !pool.is_empty() && pool.len() <= POOL_BYTES_MAX && pool.chars().all(is_plain) && !pool.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_as_in_hdfs() {
        let id = BlockId((1 << 30) + (3 << 16) + (7 << 8) + 5);
        assert_eq!(subfolder(id), PathBuf::from("subdir3/subdir7"));
        assert_eq!(subfolder(BlockId(i64::MIN + 16)), PathBuf::from("subdir0/subdir0"));
        // All bits of a negative number count as they do in Java.
        assert_eq!(subfolder(BlockId(-1)), PathBuf::from("subdir31/subdir31"));
        for id in [BlockId(1_073_741_825), BlockId(i64::MIN + 17)] {
            let name = meta_file(id, GenerationStamp(1001));
            assert_eq!(parse_meta_file(&name), Some((id, GenerationStamp(1001))), "{name}");
            assert_eq!(parse_meta_file(&data_file(id)), None);
        }
        assert_eq!(meta_file(BlockId(7), GenerationStamp(1001)), "blk_7_1001.meta");
        assert_eq!(parse_meta_file("blk_x_1001.meta"), None);
    }

    #[test]
    fn a_pool_is_one_folder_below_its_own() {
        for name in [
            "BP-1-127.0.0.1-5",
            "BP-123-::1-1700000000000",
            "BP-9-node-1.example.com-7",
            "BP-1-fe80::1%eth0-2",
        ] {
            assert!(is_pool_name(name), "{name}");
        }
        let long = "B".repeat(POOL_BYTES_MAX + 1);
        for name in ["", ".", "..", "../../etc", "/etc", "a/b", "a\\b", "a\nb", "a\0b", "BP-\u{1b}[2J", &long]
        {
            assert!(!is_pool_name(name), "{name:?}");
        }
    }
}
