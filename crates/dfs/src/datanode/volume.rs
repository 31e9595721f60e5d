//! A directory of a DataNode, one for each disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use yeoul_disk::{FolderLock, LockOptions, RealDisk, replace_file, unusable_folder};

use super::identity::Identity;
use super::layout;
use crate::error::Result;
use crate::ids::{BlockId, GenerationStamp};

/// How long a DataNode that starts waits for the one that has just ended.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);

/// A directory with block files.
#[derive(Debug)]
pub struct Volume {
    dir: PathBuf,
    /// Nobody else uses the directory.
    _lock: FolderLock,
    /// Its name, which it keeps over restarts.
    pub storage: String,
    reserved_bytes: u64,
    used: AtomicU64,
    has_failed: AtomicBool,
}

/// A replica as its files show it at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block.
    pub id: BlockId,
    /// The stamp in the name of its checksum file.
    pub stamp: GenerationStamp,
    /// Bytes of its data file.
    pub length: u64,
    /// It was among those that are whole.
    pub is_finalized: bool,
}

/// Bytes of a volume, by a look at its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the file system has, less the reserved ones.
    pub capacity: u64,
    /// Bytes of replicas.
    pub used: u64,
    /// Bytes that are free for replicas.
    pub remaining: u64,
}

impl Volume {
    /// Opens a directory, which is made if need be, and says whose it is.
    ///
    /// # Errors
    /// It cannot be used, or its `VERSION` cannot be read.
    pub fn open(dir: &Path, reserved_bytes: u64) -> Result<(Self, Option<Identity>)> {
        let unusable = |error| unusable_folder(dir, "blocks", error);
        fs::create_dir_all(dir.join("current")).map_err(unusable)?;
        let lock = LockOptions { name: "in_use.lock", owner: "DataNode", wait: LOCK_WAIT_MAX };
        let lock = FolderLock::acquire(dir, lock)?;
        let path = dir.join("current/VERSION");
        let identity = match fs::read_to_string(&path) {
            Ok(text) => Some(Identity::decode(&text, &path)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable(error)),
        };
        let storage = identity.as_ref().map(|identity| identity.storage.clone()).unwrap_or_default();
        let (used, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let dir = dir.to_owned();
        Ok((Self { dir, _lock: lock, storage, reserved_bytes, used, has_failed }, identity))
    }

    /// Writes whose the volume is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_identity(&mut self, identity: &Identity) -> Result<()> {
        self.storage.clone_from(&identity.storage);
        self.write_identity(identity)
    }

    /// Writes which cluster the volume belongs to, and makes its folders.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn join_pool(&self, identity: &Identity) -> Result<()> {
        fs::create_dir_all(self.dir.join(layout::being_written(&identity.pool)))?;
        fs::create_dir_all(self.dir.join(layout::finalized(&identity.pool)))?;
        self.write_identity(identity)
    }

    fn write_identity(&self, identity: &Identity) -> Result<()> {
        let (beside, path) = (self.dir.join("current/VERSION.new"), self.dir.join("current/VERSION"));
        replace_file(&RealDisk, &path, &beside, |file| file.write_all(identity.encode().as_bytes()))?;
        Ok(())
    }

    /// Looks at all replicas. A data file without checksums, or the other way round, is none.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn scan(&self, pool: &str) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for (folder, is_finalized) in [(layout::finalized(pool), true), (layout::being_written(pool), false)]
        {
            let mut todo = vec![self.dir.join(folder)];
            while let Some(folder) = todo.pop() {
                for entry in fs::read_dir(&folder)? {
                    let entry = entry?;
                    if entry.file_type()?.is_dir() {
                        todo.push(entry.path());
                        continue;
                    }
                    let Some((id, stamp)) = entry.file_name().to_str().and_then(layout::parse_meta_file)
                    else {
                        continue;
                    };
                    let data = fs::metadata(folder.join(layout::data_file(id)));
                    if let Ok(data) = data {
                        found.push(Found { id, stamp, length: data.len(), is_finalized });
                    }
                }
            }
        }
        self.used.store(found.iter().map(|found| found.length).sum(), Ordering::Relaxed);
        Ok(found)
    }

    /// The data file and the checksum file of a replica.
    pub fn files(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
        is_finalized: bool,
    ) -> (PathBuf, PathBuf) {
        let folder = if is_finalized {
            self.dir.join(layout::finalized(pool)).join(layout::subfolder(id))
        } else {
            self.dir.join(layout::being_written(pool))
        };
        (folder.join(layout::data_file(id)), folder.join(layout::meta_file(id, stamp)))
    }

    /// Moves the files of a replica that is whole to where it stays: the checksums first, so that data without them is never
    /// taken for a whole replica.
    ///
    /// # Errors
    /// The files cannot be moved.
    pub fn finalize(&self, pool: &str, id: BlockId, stamp: GenerationStamp) -> io::Result<()> {
        let (data, meta) = self.files(pool, id, stamp, false);
        let (whole_data, whole_meta) = self.files(pool, id, stamp, true);
        fs::create_dir_all(whole_data.parent().expect("files are in a folder"))?;
        fs::rename(meta, whole_meta)?;
        fs::rename(data, whole_data)
    }

    /// Deletes the files of a replica.
    ///
    /// # Errors
    /// The files cannot be deleted.
    pub fn delete(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
        is_finalized: bool,
    ) -> io::Result<()> {
        let (data, meta) = self.files(pool, id, stamp, is_finalized);
        for file in [data, meta] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Counts bytes of replicas that have come.
    pub fn add_used(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of replicas that have gone.
    pub fn subtract_used(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Retires the volume: its disk has failed.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// True once the volume's disk has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Looks at the file system.
    ///
    /// # Errors
    /// It does not answer.
    pub fn space(&self) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        let used = self.used.load(Ordering::Relaxed);
        Ok(Space {
            capacity: (stat.f_blocks * stat.f_frsize).saturating_sub(self.reserved_bytes),
            used,
            remaining: (stat.f_bavail * stat.f_frsize).saturating_sub(self.reserved_bytes),
        })
    }
}
