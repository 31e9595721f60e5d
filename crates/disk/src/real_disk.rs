use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, statvfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::{Disk, DiskFile, Open, Space};

/// The operating system's file systems.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_folder_all(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => &mut options,
            Open::Write => options.write(true),
            Open::WriteOrCreate => options.write(true).create(true).truncate(false),
            Open::CreateNew => options.write(true).create_new(true),
            Open::Replace => options.write(true).create(true).truncate(true),
        };
        Ok(Box::new(options.open(path)?))
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
