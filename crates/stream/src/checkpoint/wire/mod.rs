//! Files of a checkpoint as bytes.

mod manifest;
mod spark_log;

pub use manifest::{Manifest, ManifestError, SourcePosition, StateFile, StateFileKind};
pub use spark_log::{SparkMetadata, commit_entry, offset_entry};
