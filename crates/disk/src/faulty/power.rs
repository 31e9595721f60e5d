use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use yeoul_base::SplitMix;

use crate::{Disk, Open, folder_of, read_file};

/// Bytes that a disk writes as one.
const SECTOR: u64 = 512;

/// What a power failure may take. A sync of a file brings its bytes to the disk and not its name; changes of the names in a
/// folder reach it in their order. Of bytes that are written over others that were synced, nothing is lost here.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// The files that were opened to be written, each with how many of its bytes are on the disk.
    files: BTreeMap<PathBuf, u64>,
    /// The changes of names since the last sync of their folder.
    names: BTreeMap<PathBuf, Vec<Change>>,
}

#[derive(Debug)]
enum Change {
    Made(PathBuf),
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<Vec<u8>> },
    Removed { path: PathBuf, content: Vec<u8> },
}

impl Unsynced {
    /// A file was opened to be written.
    pub fn opened(&mut self, path: &Path, len: u64, is_new: bool) {
        self.files.entry(path.to_owned()).or_insert(len);
        if is_new {
            self.files.insert(path.to_owned(), 0);
            self.changed(path, Change::Made(path.to_owned()));
        }
    }

    /// A file was cut to a length.
    pub fn cut(&mut self, path: &Path, len: u64) {
        if let Some(synced) = self.files.get_mut(path) {
            *synced = len.min(*synced);
        }
    }

    /// So many bytes of a file are on the disk.
    pub fn synced(&mut self, path: &Path, len: u64) {
        if let Some(synced) = self.files.get_mut(path) {
            *synced = len.max(*synced);
        }
    }

    /// A file has another name.
    pub fn renamed(&mut self, from: &Path, to: &Path, replaced: Option<Vec<u8>>) {
        if let Some(synced) = self.files.remove(from) {
            self.files.insert(to.to_owned(), synced);
        }
        let (from, name) = (from.to_owned(), to.to_owned());
        self.changed(to, Change::Renamed { from, to: name, replaced });
    }

    /// A file was removed.
    pub fn removed(&mut self, path: &Path, content: Vec<u8>) {
        self.files.remove(path);
        self.changed(path, Change::Removed { path: path.to_owned(), content });
    }

    /// The names of a folder are on the disk.
    pub fn synced_folder(&mut self, folder: &Path) {
        self.names.remove(folder);
    }

    fn changed(&mut self, path: &Path, change: Change) {
        self.names.entry(folder_of(path).to_owned()).or_default().push(change);
    }

    /// Takes a random part of what was not synced.
    pub fn lose(&mut self, disk: &dyn Disk, seed: u64) -> io::Result<()> {
        let mut random = SplitMix::new(seed);
        let mut below = |end: u64| random.next_u64() % end.max(1);
        for (path, synced) in std::mem::take(&mut self.files) {
            let Ok(file) = disk.open(&path, Open::Write) else { continue };
            let len = file.len()?;
            if len <= synced {
                continue;
            }
            let kept = synced + below(len - synced + 1);
            file.set_len(kept)?;
            if kept > synced && below(2) == 0 {
                // Sectors reach the disk in any order, so a hole may have whole ones behind it.
                let begin = ((synced + below(kept - synced)) / SECTOR * SECTOR).max(synced);
                let end = (begin + SECTOR * (1 + below(3))).min(kept);
                file.write_all_at(&vec![0; usize::try_from(end - begin).map_err(io::Error::other)?], begin)?;
            }
        }
        for (_, changes) in std::mem::take(&mut self.names) {
            let kept = below(changes.len() as u64 + 1) as usize;
            changes.into_iter().skip(kept).rev().try_for_each(|change| change.undo(disk))?;
        }
        Ok(())
    }
}

impl Change {
    fn undo(self, disk: &dyn Disk) -> io::Result<()> {
        let write = |path: &Path, bytes: &[u8]| disk.open(path, Open::Replace)?.write_all_at(bytes, 0);
        match self {
            Self::Made(path) => disk.remove_file(&path),
            Self::Renamed { from, to, replaced } => {
                disk.rename(&to, &from)?;
                replaced.map_or(Ok(()), |bytes| write(&to, &bytes))
            }
            Self::Removed { path, content } => write(&path, &content),
        }
    }
}

/// The content of a file that goes, if it is one.
pub(super) fn content(disk: &dyn Disk, path: &Path) -> Option<Vec<u8>> {
    read_file(disk, path).ok()
}
