use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::copy::file_target::FileTarget;
use crate::copy::staging_folder::StagingFolder;

/// A file that appears under its name only when it is complete.
///
/// It is written in a hidden folder next to its target. [`commit`](Self::commit) moves it to its name; dropping it before
/// that removes what was written, and an older file of that name stays as it was. What a killed process leaves is removed
/// when the next file is created there. An existing name that is no regular file (a device, a named pipe) is written
/// directly.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    staged: Option<Staged>,
}

#[derive(Debug)]
struct Staged {
    target: FileTarget,
    path: PathBuf,
    _folder: StagingFolder,
}

impl NewFile {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// If its folder does not exist or cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                return Ok(Self { file: File::options().write(true).open(path)?, staged: None });
            }
            _ => {}
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let target = FileTarget::behind(path)?;
        let folder = StagingFolder::create(target.folder())?;
        let path = folder.data().join(name);
        // Created with default permissions: the user's umask decides who may read it.
        let file = File::create_new(&path)?;
        Ok(Self { file, staged: Some(Staged { target, path, _folder: folder }) })
    }

    /// Moves the file to its name.
    ///
    /// # Errors
    /// If the last bytes or the name cannot be written; the file is then removed.
    pub fn commit(mut self) -> io::Result<()> {
        self.flush()?;
        self.staged.map_or(Ok(()), |staged| staged.target.put(&staged.path))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_name_appears_with_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"a\n1\n").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\n1\n");
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn a_file_that_is_given_up_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        fs::write(&path, "old").unwrap();
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn the_file_behind_a_link_is_replaced_and_what_a_killed_process_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.csv"), folder.path().join("link.csv"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real.csv", &link).unwrap();
        let left = folder.path().join(".yeoul-copy-left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("lock"), "").unwrap();
        let mut file = NewFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(NewFile::create(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let missing = NewFile::create(&folder.path().join("no/out.csv")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let mut device = NewFile::create(Path::new("/dev/null")).unwrap();
        device.write_all(b"gone").unwrap();
        device.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
