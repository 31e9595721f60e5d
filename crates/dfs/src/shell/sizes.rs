use serde::Serialize;

use super::Output;
use crate::client::{FileSystem, Status};
use crate::display::{columns, size};
use crate::error::Result;

/// Flags of `-du`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizeOptions {
    /// `-s`: one line for each path, not for the entries of a directory.
    pub summary: bool,
    /// `-h`: sizes for people.
    pub human: bool,
    /// `-v`: names of the columns above them.
    pub with_titles: bool,
}

/// Sizes of what is below a path.
#[derive(Debug, Serialize)]
struct Sizes {
    path: String,
    length: u64,
    space_consumed: u64,
}

/// Shows how many bytes there are below paths, and how many they take with all copies and parity.
///
/// # Errors
/// The output takes no more.
pub async fn show_sizes(
    files: &FileSystem,
    paths: &[String],
    how: SizeOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut found = Vec::new();
    for path in paths {
        let sizes = sizes_of(files, path, how).await;
        output.go_on(sizes.map(|sizes| found.extend(sizes)))?;
    }
    if output.is_json() {
        return found.iter().try_for_each(|sizes| output.object(sizes));
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    if how.with_titles {
        let titles = ["SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME"];
        rows.push(titles.map(str::to_owned).into());
    }
    rows.extend(found.into_iter().map(|Sizes { path, length, space_consumed }| {
        vec![size(length, how.human), size(space_consumed, how.human), path]
    }));
    columns(&rows).iter().try_for_each(|line| output.line(line))
}

async fn sizes_of(files: &FileSystem, path: &str, how: SizeOptions) -> Result<Vec<Sizes>> {
    let mut counted: Vec<Status> = Vec::new();
    for status in files.expand(&files.path(path)?).await? {
        if status.is_directory() && !how.summary {
            counted.extend(files.list(&status.path).await?);
        } else {
            counted.push(status);
        }
    }
    let mut found = Vec::new();
    for Status { path, .. } in counted {
        let summary = files.summary(&path).await?;
        found.push(Sizes { path, length: summary.length, space_consumed: summary.space_consumed });
    }
    Ok(found)
}
