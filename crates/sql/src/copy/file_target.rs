use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use yeoul_disk::{RealDisk, place_files};

/// The most symbolic links that are followed one after the other; Linux has the same limit.
const LINKS_MAX: usize = 40;

/// The final place of a file that is written elsewhere first and may replace an existing one.
#[derive(Clone, Debug)]
pub(crate) struct FileTarget(PathBuf);

impl FileTarget {
    /// The target that `path` stands for: a symbolic link stays, and the file that it points to is replaced.
    ///
    /// # Errors
    /// If links form a loop.
    pub(crate) fn behind(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            // Only links can be read as links.
            let Ok(to) = fs::read_link(&path) else { return Ok(Self(path)) };
            path = path.parent().unwrap_or(Path::new("")).join(to);
        }
        Err(Errno::LOOP.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The folder that it is in, or will be.
    pub(crate) fn folder(&self) -> &Path {
        self.0.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Moves the file `from` there once it is on disk: the name never stands for an incomplete file, even after a power
    /// failure. The new file has the owner and permissions of the one that it replaces.
    ///
    /// # Errors
    /// If the last bytes or the name cannot be written.
    pub(crate) fn put(self, from: &Path) -> io::Result<()> {
        self.prepare(from)?;
        place_files(&RealDisk, [(from.to_owned(), self.0)]).map_err(|failure| failure.source)
    }

    /// The first part of [`put`](Self::put), which may take long: everything except the rename.
    ///
    /// # Errors
    /// If the last bytes cannot be written.
    pub(crate) fn prepare(&self, from: &Path) -> io::Result<()> {
        let file = File::open(from)?;
        if let Ok(old) = fs::metadata(&self.0)
            && old.is_file()
        {
            keep_owner(&file, &old);
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    }
}

/// Gives a file the owner and group of the one that it replaces, as far as the system permits.
fn keep_owner(file: &File, old: &Metadata) {
    let is_same = file.metadata().is_ok_and(|new| (new.uid(), new.gid()) == (old.uid(), old.gid()));
    if !is_same && fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        // Only root can change the owner; anyone can change the group to another of their own.
        drop(fchown(file, None, Some(old.gid())));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_stays_and_the_file_behind_it_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/real"), "old").unwrap();
        fs::set_permissions(at("sub/real"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("sub/real", at("near")).unwrap();
        symlink(at("near"), at("far")).unwrap();
        fs::write(at("new"), "new").unwrap();

        let target = FileTarget::behind(&at("far")).unwrap();
        assert_eq!((target.path(), target.folder()), (at("sub/real").as_path(), at("sub").as_path()));
        target.put(&at("new")).unwrap();
        assert_eq!(fs::read_to_string(at("far")).unwrap(), "new");
        assert!(fs::symlink_metadata(at("far")).unwrap().is_symlink() && !at("new").exists());
        assert_eq!(fs::metadata(at("sub/real")).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn the_owner_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), "old").unwrap();
        fs::write(at("new"), "new").unwrap();
        let owner = |name: &str| fs::metadata(at(name)).map(|file| (file.uid(), file.gid())).unwrap();
        let ours = owner("new");
        // Root gives files to anyone, others only to a further group of their own.
        let groups = rustix::process::getgroups().unwrap();
        let others = groups.into_iter().map(|group| (ours.0, group.as_raw()));
        let old = File::open(at("old")).unwrap();
        let mut others = [(65534, 65534)].into_iter().chain(others).filter(|other| *other != ours);
        let Some(theirs) = others.find(|other| fchown(&old, Some(other.0), Some(other.1)).is_ok()) else {
            eprintln!("skipped: this user is not root, and has no second group to give a file to");
            return;
        };
        assert_ne!(theirs, owner("new"));
        FileTarget::behind(&at("old")).unwrap().put(&at("new")).unwrap();
        assert_eq!((owner("old"), fs::read(at("old")).unwrap()), (theirs, b"new".to_vec()));
    }

    #[test]
    fn a_link_to_what_is_not_there_yet_is_followed_and_a_circle_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("later", at("link")).unwrap();
        assert_eq!(FileTarget::behind(&at("link")).unwrap().path(), at("later"));
        symlink("circle", at("circle")).unwrap();
        FileTarget::behind(&at("circle")).unwrap_err();
        assert_eq!(FileTarget::behind(Path::new("plain")).unwrap().folder(), Path::new("."));
    }
}
