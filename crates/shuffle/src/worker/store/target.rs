//! The file that a shuffle's runs and seals are written to: an existing one, or a new one.

use std::io;
use std::sync::Arc;

use super::directory::Directory;
use super::segment::Segment;
use crate::ids::ShuffleKey;

/// A file of a shuffle in one directory.
#[derive(Debug)]
pub enum Target {
    /// An existing file with room for more runs.
    Open(Arc<Segment>),
    /// A new file, with this number if free.
    New(u32),
}

/// Why nothing was written, and what was left behind.
#[derive(Debug)]
pub struct Unwritten {
    /// The file system's error.
    pub error: io::Error,
    /// A new file that could not be deleted again.
    pub left: Option<Arc<Segment>>,
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self { error, left: None }
    }
}

impl Target {
    /// Writes to the file, and returns it. If the write to a new file fails the file is deleted, since nothing would refer
    /// to it. Blocks.
    ///
    /// # Errors
    /// As for [`Segment::create`] and `write`.
    pub fn write<T>(
        self,
        directory: &Arc<Directory>,
        key: &ShuffleKey,
        write: impl FnOnce(&Segment) -> io::Result<T>,
    ) -> Result<(Arc<Segment>, T), Unwritten> {
        let (segment, is_new) = match self {
            Self::Open(segment) => (segment, false),
            Self::New(number) => (Arc::new(Segment::create(directory, key, number)?), true),
        };
        match write(&segment) {
            Ok(written) => Ok((segment, written)),
            Err(error) => {
                let is_left = is_new && segment.delete().is_err();
                Err(Unwritten { error, left: is_left.then_some(segment) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::quick;
    use super::*;

    #[test]
    fn a_new_file_to_which_nothing_could_be_written_goes() {
        let place = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(place.path(), &quick()).unwrap());
        let key = ShuffleKey::new("app", 3);
        let sealed =
            Target::New(0).write(&directory, &key, |segment| segment.seal(Some((1, &[], None)), &[]));
        let (open, ()) = sealed.unwrap();
        let mut tried = Vec::new();
        for target in [Target::New(1), Target::Open(Arc::clone(&open))] {
            let unwritten = target.write(&directory, &key, |segment| {
                assert!(segment.path().exists());
                tried.push(segment.path().to_owned());
                io::Result::<()>::Err(io::ErrorKind::StorageFull.into())
            });
            assert!(unwritten.unwrap_err().left.is_none());
        }
        assert_eq!(tried.iter().map(|path| path.exists()).collect::<Vec<_>>(), [false, true]);
        assert_eq!(tried[1], open.path(), "what others were written to stays");
        // A file that cannot be deleted is handed on.
        let unwritten = Target::New(2).write(&directory, &key, |segment| {
            std::fs::remove_file(segment.path())?;
            std::fs::create_dir_all(segment.path().join("in the way"))?;
            io::Result::<()>::Err(io::ErrorKind::StorageFull.into())
        });
        let Unwritten { error, left } = unwritten.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(left.is_some_and(|left| left.path().exists() && !left.is_writable()));
    }
}
