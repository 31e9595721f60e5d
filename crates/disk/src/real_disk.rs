//! The operating system's file systems, and the modes of what is made on them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, statvfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::{Disk, DiskFile, Open, Space};

/// Modes of what a server keeps: its owner's, and nobody else's. Blocks, journals and checkpoints have what users have
/// written, and who may read that the server decides.
const OWN: Modes = Modes { folder: 0o700, file: 0o600 };

/// Modes of folders and files that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Modes {
    folder: u32,
    file: u32,
}

impl Modes {
    /// Makes a folder and its missing parents. The umask takes nothing from the mode that was asked for.
    fn create_folder_all(self, folder: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(self.folder).create(folder) {
            Ok(()) if self != FREE => fs::set_permissions(folder, Permissions::from_mode(self.folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(parent) = folder.parent() else { return Err(error) };
                self.create_folder_all(parent)?;
                self.create_folder_all(folder)
            }
            Err(_) if folder.is_dir() => Ok(()),
            made => made,
        }
    }

    fn open(self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(self.file);
        match how {
            Open::Read => &mut options,
            Open::Write => options.write(true),
            Open::WriteOrCreate => options.write(true).create(true).truncate(false),
            Open::CreateNew => options.write(true).create_new(true),
            Open::Replace => options.write(true).create(true).truncate(true),
        };
        Ok(Box::new(options.open(path)?))
    }
}

/// What the umask leaves of all: for files that a user asked for.
const FREE: Modes = Modes { folder: 0o777, file: 0o666 };

/// The operating system's file systems. Folders that it makes have mode 700 and files 600, whatever the umask; what is there
/// already keeps its mode.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// The operating system's file systems, with other modes for what is made.
#[derive(Debug, Clone, Copy)]
pub struct ModedDisk(Modes);

impl ModedDisk {
    /// Folders of this mode, and files of what of it is for reading and writing.
    pub fn with_folder_mode(mode: u32) -> Self {
        Self(Modes { folder: mode & 0o777, file: mode & 0o666 })
    }

    /// The umask alone decides: for what a user asked for.
    pub fn of_umask() -> Self {
        Self(FREE)
    }
}

impl Disk for ModedDisk {
    fn create_folder_all(&self, folder: &Path) -> io::Result<()> {
        self.0.create_folder_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(path, how)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.remove_folder(folder)
    }

    fn remove_folder_all(&self, folder: &Path) -> io::Result<()> {
        RealDisk.remove_folder_all(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        RealDisk.space(folder)
    }
}

impl Disk for RealDisk {
    fn create_folder_all(&self, folder: &Path) -> io::Result<()> {
        OWN.create_folder_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        OWN.open(path, how)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Of two that give the same name at the same time one fails. File systems that cannot rename so can link.
        fs::hard_link(from, to)?;
        fs::remove_file(from)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }

    fn remove_folder_all(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir_all(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match File::open(folder)?.sync_all() {
            // Some network file systems have no such thing, and say so in this way: fsync(2).
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            synced => synced,
        }
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        let space = statvfs(folder)?;
        Ok(Space {
            total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, at)
    }

    fn read_cached_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(preadv2(self, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT)?)
    }

    fn will_need(&self, at: u64, len: u64) {
        // Only a hint: without it the bytes come later.
        let _ = fadvise(self, at, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::{Sequential, read_file};

    #[test]
    fn each_way_to_open_a_file_keeps_or_replaces_what_is_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let open = |how| RealDisk.open(&path, how);
        for how in [Open::Read, Open::Write] {
            assert_eq!(open(how).unwrap_err().kind(), io::ErrorKind::NotFound, "{how:?}");
        }
        open(Open::CreateNew).unwrap().write_all_at(b"abcdef", 0).unwrap();
        assert_eq!(open(Open::CreateNew).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        open(Open::WriteOrCreate).unwrap().write_all_at(b"XY", 1).unwrap();
        assert_eq!(read_file(&RealDisk, &path).unwrap(), b"aXYdef");
        open(Open::Read).unwrap().write_all_at(b"Z", 0).unwrap_err();
        assert_eq!(open(Open::Replace).unwrap().len().unwrap(), 0);
        open(Open::Read).unwrap().read_exact_at(&mut [0], 0).unwrap_err();
        assert_eq!(RealDisk.list(place.path()).unwrap(), [path]);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_its_owners_alone_unless_another_mode_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let disks: [(&dyn Disk, u32, u32); 2] =
            [(&RealDisk, 0o700, 0o600), (&ModedDisk::with_folder_mode(0o750), 0o750, 0o640)];
        for (number, (disk, folder_mode, file_mode)) in disks.into_iter().enumerate() {
            let folder = place.path().join(format!("{number}/below/it"));
            disk.create_folder_all(&folder).unwrap();
            disk.create_folder_all(&folder).expect("it is there already");
            for made in [folder.as_path(), folder.parent().unwrap(), &place.path().join(number.to_string())] {
                assert_eq!(mode(made), folder_mode, "{}", made.display());
            }
            for (name, how) in [("a", Open::CreateNew), ("b", Open::WriteOrCreate), ("c", Open::Replace)] {
                drop(disk.open(&folder.join(name), how).unwrap());
                assert_eq!(mode(&folder.join(name)), file_mode, "{name}");
            }
            assert!(disk.create_folder_all(&folder.join("a/b")).is_err(), "a file is no folder");
        }
        assert_eq!(mode(place.path()), 0o755, "what was there keeps its mode");
    }

    #[test]
    fn a_file_is_written_and_read_from_its_start_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let mut file = Sequential::new(RealDisk.open(&path, Open::CreateNew).unwrap());
        for part in [&b"one "[..], b"two ", b"three"] {
            file.write_all(part).unwrap();
        }
        assert_eq!(file.position(), 13);
        let mut text = String::new();
        Sequential::new(file.into_inner()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two three");
    }

    #[test]
    fn a_file_system_has_at_least_as_much_as_is_free() {
        let space = RealDisk.space(&std::env::temp_dir()).unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.total_bytes > 0);
    }
}
