use serde::{Deserialize, Serialize};

use crate::error::{Result, corrupt};

/// First line of an entry.
const VERSION: &str = "v1";

/// A file of a planned epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedFile {
    /// Absolute path.
    pub path: String,
    /// When it was last changed, in milliseconds since 1970.
    pub timestamp: i64,
    /// Number of the entry.
    pub batch_id: u64,
    /// Length when it was planned: what was added since is not read.
    pub bytes: u64,
}

/// The text of an entry: the version and then an object of JSON for each file, a line each, as in the log of Spark's file source.
pub(super) fn encode(files: &[PlannedFile]) -> String {
    let mut text = VERSION.to_owned();
    for file in files {
        text.push('\n');
        text.push_str(&serde_json::to_string(file).expect("texts and numbers"));
    }
    text
}

/// The files of an entry.
///
/// # Errors
/// `Corrupt` if it is none.
pub(super) fn decode(text: &str) -> Result<Vec<PlannedFile>> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Err(corrupt(format!("it does not begin with {VERSION}")));
    }
    lines
        .map(|line| {
            serde_json::from_str(line).map_err(|error| corrupt("a line is no file").with_source(error))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let file = |path: &str, bytes| PlannedFile { path: path.into(), timestamp: 7, batch_id: 3, bytes };
        let files = [file("/in/a \"b\".json", 1), file("/in/줄\n2", 20)];
        let text = encode(&files);
        assert_eq!(decode(&text).unwrap(), files);
        assert!(text.starts_with(
            "v1\n{\"path\":\"/in/a \\\"b\\\".json\",\"timestamp\":7,\"batchId\":3,\"bytes\":1}\n"
        ));
        assert!(decode(&text.replace("v1", "v2")).is_err() && decode(&text[..text.len() - 1]).is_err());
    }
}
