//! Files of a checkpoint as bytes.

mod manifest;
mod spark_log;
mod state_file;

pub use manifest::{Manifest, ManifestError, SourcePosition, StateFile};
pub use spark_log::{SparkMetadata, commit_entry, offset_entry};
pub use state_file::{read_state_file, read_state_layout, write_state_file};
