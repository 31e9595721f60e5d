use std::path::{Path, PathBuf};

use yeoul_base::{ErrorKind, is_in_memory};
use yeoul_disk::OwnedFolder;

use crate::Error;

/// What the names of spill directories begin with.
const PREFIX: &str = "yeoul-spill-";

/// A directory for this process's spilled data, removed on drop; after a crash, at the next start.
#[derive(Debug)]
pub(crate) struct SpillDir(OwnedFolder);

impl SpillDir {
    /// Makes one under `parent`, and removes those there whose processes are gone.
    pub(crate) fn create(parent: &Path) -> Result<Self, Error> {
        OwnedFolder::create(parent, PREFIX).map(Self).map_err(|source| {
            let text =
                format!("cannot make a directory in the spill directory {}: {source}", parent.display());
            Error::new(ErrorKind::of_io(&source), text)
                .with_hint("name another with --spill-dir")
                .with_source(source)
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// The directory in which it was made, if what is written there stays in memory.
    pub(crate) fn parent_in_memory(&self) -> Option<&Path> {
        self.0.path().parent().filter(|parent| is_in_memory(parent).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_that_is_not_there_is_named() {
        let error = SpillDir::create(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
