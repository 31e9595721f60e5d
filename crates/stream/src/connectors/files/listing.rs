use std::collections::HashSet;
use std::io::ErrorKind::NotFound;
use std::time::UNIX_EPOCH;

use super::{FileSourceOptions, PlannedFile};
use crate::error::{Error, ErrorKind, Result, invalid};

/// Most files that a query reads in its life: their paths are kept, some hundred bytes each.
const FILES_MAX: usize = 1 << 22;

/// Files of a directory that a query has not planned yet, in the order in which Spark takes them: by the time of their last change in
/// milliseconds, then by name. As there, names that begin with `_` or `.` and those of copies that go on are passed over, and
/// so are folders.
///
/// # Errors
/// `Invalid` if the directory cannot be listed; `ResourceExhausted` if there are too many files.
pub(super) fn unseen_files(options: &FileSourceOptions, seen: &HashSet<String>) -> Result<Vec<PlannedFile>> {
    let unusable = |error: std::io::Error| {
        invalid(format!("cannot list the directory '{}'", options.path.display())).with_source(error)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&options.path).map_err(unusable)? {
        let entry = entry.map_err(unusable)?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            let text = format!("the name of the file {:?} is no UTF-8", entry.path());
            return Err(invalid(text));
        };
        if name.starts_with(['_', '.']) || name.ends_with("._COPYING_") {
            continue;
        }
        let path = entry.path().to_string_lossy().into_owned();
        if seen.contains(&path) {
            continue;
        }
        let metadata = match std::fs::metadata(&path) {
            // It went since the directory was listed.
            Err(error) if error.kind() == NotFound => continue,
            metadata => metadata.map_err(unusable)?,
        };
        if !metadata.is_file() {
            continue;
        }
        if seen.len() + found.len() >= FILES_MAX {
            let text = format!("'{}' has more than {FILES_MAX} files", options.path.display());
            return Err(Error::new(ErrorKind::ResourceExhausted, text));
        }
        let changed = metadata.modified().map_err(unusable)?;
        let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let timestamp = i64::try_from(since).unwrap_or(i64::MAX);
        found.push(PlannedFile { path, timestamp, batch_id: 0, bytes: metadata.len() });
    }
    let newest = |file: &PlannedFile| if options.is_latest_first { -file.timestamp } else { file.timestamp };
    found.sort_by(|a, b| newest(a).cmp(&newest(b)).then_with(|| a.path.cmp(&b.path)));
    Ok(found)
}
