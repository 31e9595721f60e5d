//! A directory of a DataNode, one for each disk.

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use yeoul_disk::{Disk, Health, VolumeOptions, make_folders, replace_file, unusable_folder};

use super::identity::Identity;
use super::layout::{self, Folder};
use crate::error::Result;
use crate::ids::{BlockId, GenerationStamp};

/// How long a DataNode that starts waits for the one that has just ended.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(1);
/// File that is locked, as HDFS calls it.
const LOCK: &str = "in_use.lock";

/// A directory with block files: a [volume](yeoul_disk::Volume) whose whole folder is the DataNode's.
#[derive(Debug)]
pub struct Volume {
    volume: yeoul_disk::Volume,
    /// Its name, which it keeps over restarts.
    pub storage: String,
    reserved_bytes: u64,
}

/// Its space and health.
impl Deref for Volume {
    type Target = yeoul_disk::Volume;

    fn deref(&self) -> &yeoul_disk::Volume {
        &self.volume
    }
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
    pub fn open(dir: &Path, reserved_bytes: u64, disk: Arc<dyn Disk>) -> Result<(Self, Option<Identity>)> {
        let options = VolumeOptions {
            lock: LOCK,
            lock_wait: LOCK_WAIT_MAX,
            reserve_bytes: Some(reserved_bytes),
            disk,
            ..VolumeOptions::new("", "blocks", "DataNode")
        };
        let volume = yeoul_disk::Volume::open(dir, options)?;
        let path = dir.join("current/VERSION");
        let identity = match fs::read_to_string(&path) {
            Ok(text) => Some(Identity::decode(&text, &path)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unusable_folder(dir, "blocks", error)),
        };
        make_folders(&**volume.disk(), &dir.join("current"))?;
        let storage = identity.as_ref().map(|identity| identity.storage.clone()).unwrap_or_default();
        Ok((Self { volume, storage, reserved_bytes }, identity))
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
        for folder in Folder::ALL {
            make_folders(&**self.disk(), &self.root().join(folder.path(&identity.pool)))?;
        }
        self.write_identity(identity)
    }

    fn write_identity(&self, identity: &Identity) -> Result<()> {
        let (beside, path) = (self.root().join("current/VERSION.new"), self.root().join("current/VERSION"));
        replace_file(&**self.disk(), &path, &beside, |file| file.write_all(identity.encode().as_bytes()))?;
        Ok(())
    }

    /// Looks at all replicas, and removes what other DataNodes had begun to make. One of which each folder has a file is unfinished:
    /// the DataNode died while it moved them. A data file without checksums, or the other way round, is none.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn scan(&self, pool: &str) -> io::Result<Vec<Found>> {
        for entry in fs::read_dir(self.root().join(Folder::Temporary.path(pool)))? {
            self.disk().remove_file(&entry?.path())?;
        }
        let mut found = Vec::new();
        for (folder, is_finalized) in [(Folder::Finalized, true), (Folder::BeingWritten, false)] {
            let mut todo = vec![self.root().join(folder.path(pool))];
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
                    let data = folder.join(layout::data_file(id));
                    if !fs::exists(&data)? {
                        self.reunite(pool, id, stamp)?;
                    }
                    if let Ok(data) = fs::metadata(data) {
                        found.push(Found { id, stamp, length: data.len(), is_finalized });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Makes a replica of which each folder has a file an unfinished one.
    fn reunite(&self, pool: &str, id: BlockId, stamp: GenerationStamp) -> io::Result<()> {
        let (whole_data, whole_meta) = self.files(pool, id, stamp, Folder::Finalized);
        let (data, meta) = self.files(pool, id, stamp, Folder::BeingWritten);
        let are = |data: &Path, meta: &Path| Ok::<_, io::Error>((fs::exists(data)?, fs::exists(meta)?));
        match (are(&whole_data, &whole_meta)?, are(&data, &meta)?) {
            ((false, true), (true, false)) => self.disk().rename(&whole_meta, &meta),
            ((true, false), (false, true)) => self.disk().rename(&whole_data, &data),
            _ => Ok(()),
        }
    }

    /// The data file and the checksum file of a replica.
    pub fn files(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
        within: Folder,
    ) -> (PathBuf, PathBuf) {
        let mut folder = self.root().join(within.path(pool));
        if within == Folder::Finalized {
            folder.push(layout::subfolder(id));
        }
        (folder.join(layout::data_file(id)), folder.join(layout::meta_file(id, stamp)))
    }

    /// Moves the files of a replica that is whole to where it stays: the checksums first, so that data without them is never
    /// taken for a whole replica.
    ///
    /// # Errors
    /// The files cannot be moved.
    pub fn finalize(&self, pool: &str, id: BlockId, stamp: GenerationStamp, from: Folder) -> io::Result<()> {
        self.move_files(pool, id, stamp, (from, Folder::Finalized))
    }

    /// Moves the files of a replica from one folder to another, the checksums first.
    ///
    /// # Errors
    /// The files cannot be moved.
    pub fn move_files(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
        (from, to): (Folder, Folder),
    ) -> io::Result<()> {
        let (data, meta) = self.files(pool, id, stamp, from);
        let (new_data, new_meta) = self.files(pool, id, stamp, to);
        let disk = self.disk();
        disk.create_folder_all(new_data.parent().expect("files are in a folder"))?;
        // Nothing waits for the names to be on the disk: a replica that is found among the unfinished ones is not lost, and
        // neither is one of which each folder has a file.
        disk.rename(&meta, &new_meta)?;
        disk.rename(&data, &new_data)
    }

    /// Gives a replica another stamp, which the name of its checksum file says.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn restamp(
        &self,
        pool: &str,
        id: BlockId,
        (old, new): (GenerationStamp, GenerationStamp),
        within: Folder,
    ) -> io::Result<()> {
        let ((_, before), (_, after)) =
            (self.files(pool, id, old, within), self.files(pool, id, new, within));
        self.disk().rename(&before, &after)
    }

    /// Brings the names of the files of a whole replica to the disk.
    ///
    /// # Errors
    /// The folder cannot be synced.
    pub fn sync_names(&self, pool: &str, id: BlockId) -> io::Result<()> {
        let whole = self.root().join(Folder::Finalized.path(pool)).join(layout::subfolder(id));
        self.disk().sync_folder(&whole)
    }

    /// Deletes the files of a replica.
    ///
    /// # Errors
    /// The files cannot be deleted.
    pub fn delete(&self, pool: &str, id: BlockId, stamp: GenerationStamp, within: Folder) -> io::Result<()> {
        let (data, meta) = self.files(pool, id, stamp, within);
        for file in [data, meta] {
            match self.disk().remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Retires the volume: what its disk has is unknown.
    pub fn fail(&self) {
        self.failed(&io::Error::other("what was to be synced may be lost"));
    }

    /// True once the volume's disk has failed.
    pub fn has_failed(&self) -> bool {
        self.health() == Health::Failed
    }

    /// Bytes that are free for replicas, as last measured, less those that were written since; none if the disk has failed.
    pub fn free_for_replicas(&self) -> Option<u64> {
        (!self.has_failed()).then(|| self.usable())
    }

    /// Looks at the file system.
    ///
    /// # Errors
    /// It does not answer.
    pub fn space(&self) -> io::Result<Space> {
        self.measure()?;
        let capacity = self.total().saturating_sub(self.reserved_bytes);
        Ok(Space { capacity, used: self.stored(), remaining: self.usable() })
    }
}
