use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that appears under its name only when it is whole.
///
/// It grows under a temporary name beside it. [`commit`](Self::commit) gives it its name; dropping it before that removes
/// what was written, and a file that had the name before stays as it was. An existing name that is no regular file (a
/// device, a named pipe) is written directly.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: Target,
}

#[derive(Debug)]
enum Target {
    Hidden(NamedTempFile),
    Direct(fs::File),
}

impl NewFile {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// When its folder is not there or may not be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                Target::Direct(fs::File::options().write(true).open(path)?)
            }
            _ => {
                let folder =
                    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
                let mut prefix = std::ffi::OsString::from(".");
                prefix.push(name);
                // As files are made by anyone else: the user's umask decides who may read it.
                let open =
                    |path: &Path| fs::File::options().read(true).write(true).create_new(true).open(path);
                Target::Hidden(
                    tempfile::Builder::new().prefix(&prefix).suffix(".part").make_in(folder, open)?,
                )
            }
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When the disk refuses the last bytes or the name; the file is removed then.
    pub fn commit(mut self) -> io::Result<()> {
        self.flush()?;
        match self.file {
            Target::Hidden(file) => {
                file.as_file().sync_all()?;
                file.persist(&self.path).map(drop).map_err(|error| error.error)
            }
            Target::Direct(_) => Ok(()),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Target::Hidden(file) => file.write(bytes),
            Target::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            Target::Hidden(file) => file.flush(),
            Target::Direct(file) => file.flush(),
        }
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
