use serde::{Deserialize, Serialize};
use serde_json::json;

/// The file `metadata` of a checkpoint, as Spark writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparkMetadata {
    /// Id of the query.
    pub id: String,
}

/// The text of `offsets/N` in version 1 of Spark's offset log: the version, the epoch's watermark and time, and the offset of
/// each source at the epoch's end, a line each.
pub fn offset_entry(watermark_ms: i64, timestamp_ms: i64, offsets: &[&serde_json::Value]) -> String {
    // Spark reads settings that are pinned from `conf`: there are none that its semantics would need.
    let head = json!({"batchWatermarkMs": watermark_ms, "batchTimestampMs": timestamp_ms, "conf": {}});
    let mut text = format!("v1\n{head}");
    for offset in offsets {
        text.push('\n');
        text.push_str(&offset.to_string());
    }
    text
}

/// The text of `commits/N` in version 1 of Spark's commit log.
pub fn commit_entry(next_watermark_ms: i64) -> String {
    format!("v1\n{}", json!({"nextBatchWatermarkMs": next_watermark_ms}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_are_texts_that_spark_reads() {
        let offset = json!({"orders": {"0": 5}});
        assert_eq!(
            offset_entry(1000, 1_700_000_000_000, &[&offset, &json!(7)]),
            "v1\n{\"batchTimestampMs\":1700000000000,\"batchWatermarkMs\":1000,\"conf\":{}}\n{\"orders\":{\"0\":5}}\n7"
        );
        assert_eq!(commit_entry(1000), "v1\n{\"nextBatchWatermarkMs\":1000}");
    }
}
