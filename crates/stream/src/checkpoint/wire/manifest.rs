use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BatchId;
use crate::checkpoint::OutputPosition;
use crate::state::{PartitionSet, VersionKind};

/// First word of a manifest.
const MAGIC: &str = "yeoul-stream-checkpoint";
/// Version of the layout.
const VERSION: u32 = 1;
/// Most bytes of the line before the content.
const HEAD_BYTES_MAX: usize = 100;
/// Most bytes of a manifest: thousands of partitions and files fit.
const MANIFEST_BYTES_MAX: usize = 64 << 20;

/// A checkpoint: all that a query needs to go on from it.
///
/// Its file is a line of text, `yeoul-stream-checkpoint 1 LENGTH CRC32C` with the content's bytes in decimal and its checksum
/// in eight hexadecimal digits, then the content, which is JSON. People can read it, and a cut or changed one is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Id of the query, the same for its whole life.
    pub query_id: String,
    /// Number of the process that wrote it among those that had the query: each next one counts on.
    pub generation: u64,
    /// Random id of that process's claim: two that claim the same epoch at the same time write different manifests, and who lost
    /// the answer knows its own. Older manifests have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The epoch that it ends.
    pub batch: BatchId,
    /// Of the claim of a process: the last epoch whose rows are out, that of the checkpoint from which it goes on. Other manifests,
    /// and claims of older versions, are of their own epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_until: Option<BatchId>,
    /// When, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The watermark of the next epoch, in milliseconds since 1970; 0 before there was a row.
    pub watermark_ms: i64,
    /// The watermark by which rows of the next epoch are late: that of the epoch that ended.
    pub late_watermark_ms: i64,
    /// Greatest times of the rows before it, of each stream with a watermark, that do not move the watermark yet: rows of other
    /// parts of the source that were there before them may come after it.
    #[serde(default, skip_serializing_if = "are_complete")]
    pub incomplete_times_ms: Vec<Option<i64>>,
    /// Where the sources are.
    pub sources: Vec<SourcePosition>,
    /// What the state is of; a query whose state is of something else does not go on from here.
    pub state_identity: Option<String>,
    /// The state's files, in the order in which they are read.
    pub state_files: Vec<StateFile>,
    /// Output that it covers, if that is delivered exactly once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputPosition>,
}

fn are_complete(times_ms: &[Option<i64>]) -> bool {
    times_ms.iter().all(Option::is_none)
}

/// Where a source is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePosition {
    /// What the source is; another one does not go on from this offset.
    pub description: String,
    /// Its offset in the form of Spark's logs.
    pub offset: serde_json::Value,
    /// What the source keeps with the offset to know its rows again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<serde_json::Value>,
}

/// A file of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateFile {
    /// The table that it is of.
    pub table: String,
    /// Its name in the folder of state files.
    pub name: String,
    /// What is in it.
    pub kind: VersionKind,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub crc32c: u32,
    /// Virtual partitions of whose keys it is; without the field it is of all.
    #[serde(default, skip_serializing_if = "PartitionSet::is_all")]
    pub partitions: PartitionSet,
}

/// Why bytes are no manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestError {
    /// The file ends before its content does: its writer died, and never said that the checkpoint is complete.
    Unfinished,
    /// The content is not what was written.
    Damaged,
    /// It is of a version that this one does not know.
    OtherVersion,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unfinished => "it was not written to its end",
            Self::Damaged => "its content is not what was written",
            Self::OtherVersion => "it is of another version of Yeoul",
        })
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The last epoch whose rows are out.
    pub fn rows_until(&self) -> BatchId {
        self.rows_until.unwrap_or(self.batch)
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let content = serde_json::to_vec(self).expect("its maps have texts as keys");
        let mut bytes =
            format!("{MAGIC} {VERSION} {} {:08x}\n", content.len(), crc32c::crc32c(&content)).into_bytes();
        bytes.extend_from_slice(&content);
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::Damaged);
        }
        let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let Some(end) = head.iter().position(|byte| *byte == b'\n') else {
            let is_begin = head.len() < HEAD_BYTES_MAX;
            return Err(if is_begin { ManifestError::Unfinished } else { ManifestError::Damaged });
        };
        let head = std::str::from_utf8(&head[..end]).map_err(|_| ManifestError::Damaged)?;
        let fields: Vec<&str> = head.split(' ').collect();
        let [magic, version, len, checksum] = fields.as_slice() else { return Err(ManifestError::Damaged) };
        if *magic != MAGIC {
            return Err(ManifestError::Damaged);
        }
        if version.parse() != Ok(VERSION) {
            return Err(ManifestError::OtherVersion);
        }
        let len: usize = len.parse().map_err(|_| ManifestError::Damaged)?;
        let checksum = u32::from_str_radix(checksum, 16).map_err(|_| ManifestError::Damaged)?;
        let content = &bytes[end + 1..];
        if content.len() < len {
            return Err(ManifestError::Unfinished);
        }
        if content.len() > len || crc32c::crc32c(content) != checksum {
            return Err(ManifestError::Damaged);
        }
        serde_json::from_slice(content).map_err(|_| ManifestError::Damaged)
    }
}

#[cfg(test)]
impl Manifest {
    /// A checkpoint of nothing.
    pub fn blank() -> Self {
        Self {
            query_id: String::new(),
            generation: 1,
            run_id: None,
            batch: BatchId(0),
            rows_until: None,
            timestamp_ms: 0,
            watermark_ms: 0,
            late_watermark_ms: 0,
            incomplete_times_ms: Vec::new(),
            sources: Vec::new(),
            state_identity: None,
            state_files: Vec::new(),
            output: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            query_id: "0191-a".into(),
            generation: 3,
            run_id: None,
            batch: BatchId(12),
            rows_until: None,
            timestamp_ms: 1_700_000_000_123,
            watermark_ms: 17,
            late_watermark_ms: 16,
            incomplete_times_ms: vec![None, Some(21)],
            sources: vec![SourcePosition {
                description: "kafka".into(),
                offset: serde_json::json!({"orders": {"0": 5, "1": 7}}),
                marks: Some(serde_json::json!({"orders": {"0": [4, 17, 99]}})),
            }],
            state_identity: Some("count".into()),
            state_files: vec![StateFile {
                table: "aggregate".into(),
                name: "12-3.snapshot".into(),
                kind: VersionKind::Snapshot,
                bytes: 9,
                crc32c: 77,
                partitions: PartitionSet::of_shards(3)[1],
            }],
            output: None,
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let bytes = manifest().encode();
        assert!(bytes.starts_with(b"yeoul-stream-checkpoint 1 "));
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
    }

    #[test]
    fn a_file_of_state_says_of_which_partitions_it_is_unless_of_all() {
        let mut manifest = manifest();
        let text = |manifest: &Manifest| serde_json::to_string(manifest).unwrap();
        assert!(text(&manifest).contains(r#""crc32c":77,"partitions":[[43,85]]"#), "{}", text(&manifest));
        manifest.state_files[0].partitions = PartitionSet::ALL;
        assert!(!text(&manifest).contains("partitions"));
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn each_strict_prefix_is_unfinished_and_more_is_damaged() {
        let bytes = manifest().encode();
        for len in 0..bytes.len() {
            assert_eq!(Manifest::decode(&bytes[..len]), Err(ManifestError::Unfinished), "{len}");
        }
        let more = [bytes.as_slice(), b" "].concat();
        assert_eq!(Manifest::decode(&more), Err(ManifestError::Damaged));
    }

    #[test]
    fn each_changed_byte_of_the_content_is_found() {
        let bytes = manifest().encode();
        let start = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for at in start..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert_eq!(Manifest::decode(&changed), Err(ManifestError::Damaged), "{at}");
        }
        let other = String::from_utf8(bytes).unwrap().replacen(" 1 ", " 2 ", 1);
        assert_eq!(Manifest::decode(other.as_bytes()), Err(ManifestError::OtherVersion));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Manifest::decode(&bytes);
            let _ = Manifest::decode(&[b"yeoul-stream-checkpoint 1 ".as_slice(), &bytes].concat());
        }
    }
}
