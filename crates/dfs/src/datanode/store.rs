//! The replicas of a DataNode and their files.

mod readable;
mod recovering;
mod resuming;
mod store_error;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub use readable::ReadableReplica;
pub use resuming::Resumed;
pub use store_error::StoreError;
use tracing::{error, warn};
use yeoul_disk::{Disk, DiskFile, Open};

use super::identity::{Identity, check_names};
use super::layout::Folder;
use super::replicas::{Replica, Replicas, Visible, VolumeIndex};
use super::volume::Volume;
use super::volume_choice;
use crate::error::{Error, Kind, Result};
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{Memory, TableCharge};
use crate::wire::checksum::{CHECKSUM_BYTES, Chunking};
use crate::wire::meta_file;
use crate::wire::proto::cluster::{self, ReplicaState};

/// Bytes of a replica in the table: the entry, its number, and what a tree leaves free.
const REPLICA_BYTES: u64 = 128;

/// All volumes of a DataNode, and what is on them.
#[derive(Debug)]
pub struct Store {
    volumes: Vec<Volume>,
    /// The DataNode's name, which it keeps over restarts.
    pub datanode: String,
    pool: RwLock<String>,
    replicas: Mutex<Replicas>,
    memory: Memory,
    table: Mutex<TableCharge>,
}

/// What a replica is to be like that is begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The volume that was chosen for it.
    pub storage: &'a str,
    /// Bytes for which there is to be room.
    pub bytes: u64,
    /// How its checksums are made.
    pub chunking: Chunking,
    /// Another DataNode makes it: it is whole, or nothing.
    pub is_copy: bool,
}

impl Store {
    /// Opens the directories, which are made if need be, and looks at what is in them.
    ///
    /// # Errors
    /// A directory cannot be used, or they belong to several DataNodes.
    pub fn open(
        dirs: &[PathBuf],
        reserved_bytes: u64,
        disk: &Arc<dyn Disk>,
        memory: Memory,
        new_name: impl Fn() -> String,
    ) -> Result<Self> {
        if dirs.is_empty() {
            return Err(
                Error::new(Kind::Invalid, "a DataNode needs a directory").with_hint("name one with --dir")
            );
        }
        let mut volumes = Vec::new();
        let mut known: Option<Identity> = None;
        for dir in dirs {
            let (volume, identity) = Volume::open(dir, reserved_bytes, Arc::clone(disk))?;
            if let (Some(known), Some(identity)) = (&known, &identity)
                && (&known.datanode, &known.pool) != (&identity.datanode, &identity.pool)
            {
                let message =
                    format!("'{}' belongs to another DataNode than the directories before it", dir.display());
                return Err(Error::new(Kind::Invalid, message)
                    .with_hint("name the directories of one DataNode with --dir"));
            }
            known = known.or(identity.clone());
            volumes.push((volume, identity.is_some()));
        }
        let mut base = known.unwrap_or_else(|| Identity { datanode: new_name(), ..Identity::default() });
        let mut opened = Vec::new();
        for (mut volume, is_known) in volumes {
            if !is_known {
                base.storage = format!("DS-{}", new_name());
                volume.keep_identity(&base)?;
            }
            opened.push(volume);
        }
        let (datanode, pool) = (base.datanode.clone(), base.pool.clone());
        let (replicas, table) = (Mutex::default(), Mutex::new(memory.tables()));
        let store = Self { volumes: opened, datanode, pool: RwLock::default(), replicas, memory, table };
        if !pool.is_empty() {
            store.join_pool(&pool, &base.cluster)?;
        }
        Ok(store)
    }

    /// The block pool; empty before the first registration.
    pub fn pool(&self) -> String {
        self.pool.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Belongs to a cluster from now on, and looks at the replicas.
    ///
    /// # Errors
    /// A directory cannot be used, or the DataNode belongs to another cluster.
    pub fn join_pool(&self, pool: &str, cluster: &str) -> Result<()> {
        let now = self.pool();
        if now == pool {
            return Ok(());
        }
        if !now.is_empty() {
            return Err(Error::new(
                Kind::Conflict,
                format!("the DataNode belongs to {now}, the NameNode has {pool}"),
            ));
        }
        check_names(pool, cluster)?;
        for (at, volume) in self.volumes.iter().enumerate() {
            let (datanode, storage) = (self.datanode.clone(), volume.storage.clone());
            let (cluster, pool_name) = (cluster.to_owned(), pool.to_owned());
            volume.join_pool(&Identity { datanode, storage, cluster, pool: pool_name })?;
            let found = volume.scan(pool)?;
            let mut replicas = self.replicas();
            for found in found {
                // A writer that was there when the DataNode ended is gone.
                let unfinished = ReplicaState::WaitingForRecovery;
                let state = if found.is_finalized { ReplicaState::Finalized } else { unfinished };
                let visible = Visible { length: found.length, tail: None };
                let (id, stamp) = (found.id, found.stamp);
                let (volume_index, is_copy, is_from_disk) = (VolumeIndex(at), false, true);
                let replica = Replica { volume: volume_index, stamp, state, visible, is_copy, is_from_disk };
                if replicas.insert(id, replica) {
                    volume.count_stored(found.length);
                } else {
                    warn!(%id, storage = volume.storage, "a second replica of a block is left alone");
                }
            }
            self.charge(&replicas);
        }
        pool.clone_into(&mut self.pool.write().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// The volumes as a NameNode gets to know them.
    pub fn storages(&self) -> Vec<cluster::Storage> {
        let storage = |volume: &Volume| {
            let space = volume.space();
            let has_failed = volume.has_failed() || space.is_err();
            let (capacity, used, remaining) =
                space.map_or((0, 0, 0), |space| (space.capacity, space.used, space.remaining));
            let remaining = if has_failed { 0 } else { remaining };
            let uuid = volume.storage.clone();
            cluster::Storage { uuid, kind: 1, capacity, used, remaining, failed: has_failed }
        };
        self.volumes.iter().map(storage).collect()
    }

    /// Some replicas of a volume, as a report names them, in the order of their blocks: at most `count`, those behind the
    /// block `after`.
    pub fn report(&self, storage: &str, after: Option<BlockId>, count: usize) -> Vec<cluster::Replica> {
        let replicas = self.replicas();
        let is_known = |replica: &Replica| !replica.is_copy || replica.state == ReplicaState::Finalized;
        let on_it = replicas.behind(after).filter(|(_, replica)| self.storage(replica.volume) == storage);
        let on_it = on_it.filter(|(_, replica)| is_known(replica));
        on_it.take(count).map(|(id, replica)| as_reported(*id, replica)).collect()
    }

    /// Number of replicas of a volume.
    pub fn count(&self, storage: &str) -> usize {
        let replicas = self.replicas();
        replicas.behind(None).filter(|(_, replica)| self.storage(replica.volume) == storage).count()
    }

    /// The name of a volume.
    pub fn storage(&self, volume: VolumeIndex) -> &str {
        &self.volumes[volume.0].storage
    }

    /// Notes that a whole replica is not what was written; what to tell the NameNodes of it, unless it is gone or known to be so.
    pub fn mark_damaged(&self, id: BlockId, stamp: GenerationStamp) -> Option<(String, cluster::Replica)> {
        let mut replicas = self.replicas();
        let is_new = replicas.mark_damaged(id, stamp);
        let replica = replicas.get(id).filter(|_| is_new)?;
        Some((self.storage(replica.volume).to_owned(), as_reported(id, replica)))
    }

    /// True if a block has a replica here, in whatever state.
    pub fn has(&self, id: BlockId) -> bool {
        self.replicas().get(id).is_some()
    }

    /// The replicas of a volume that are known to be damaged.
    pub fn damaged(&self, storage: &str) -> Vec<cluster::Replica> {
        let replicas = self.replicas();
        let on_it = replicas.damaged().filter(|(_, replica)| self.storage(replica.volume) == storage);
        on_it.map(|(id, replica)| as_reported(id, replica)).collect()
    }

    /// How many replicas are known to be damaged.
    pub fn damaged_count(&self) -> usize {
        self.replicas().damaged().count()
    }

    /// The numbers of the volumes.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeIndex> + use<> {
        (0..self.volumes.len()).map(VolumeIndex)
    }

    /// How many replicas a volume has.
    pub fn volume_len(&self, volume: VolumeIndex) -> usize {
        self.replicas().behind(None).filter(|(_, replica)| replica.volume == volume).count()
    }

    /// The first whole replica of a volume behind a block, or of all, that is to be checked.
    pub fn next_to_check(
        &self,
        volume: VolumeIndex,
        after: Option<BlockId>,
    ) -> Option<(BlockId, GenerationStamp)> {
        self.replicas().next_whole(volume, after)
    }

    /// Begins a replica, on the wanted volume if it has room.
    ///
    /// # Errors
    /// The block has one already, there is no room, or the disk fails.
    pub fn create(
        &self,
        pool: &str,
        (id, stamp): (BlockId, GenerationStamp),
        wanted: &Wanted<'_>,
    ) -> Result<NewReplica<'_>, StoreError> {
        let Wanted { storage, bytes, chunking, is_copy } = *wanted;
        self.check_pool(pool)?;
        if !self.memory.has_room_in_tables(REPLICA_BYTES) {
            return Err(StoreError::NoMemory);
        }
        let free: Vec<_> = self.volumes.iter().map(Volume::free_for_replicas).collect();
        let wanted = self.volumes.iter().position(|volume| volume.storage == storage).map(VolumeIndex);
        let volume = volume_choice::choose(&free, wanted, bytes).ok_or(StoreError::Full(bytes))?;
        let (state, visible) = (ReplicaState::BeingWritten, Visible::default());
        let replica = Replica { volume, stamp, state, visible, is_copy, is_from_disk: false };
        if is_copy {
            self.make_room(id, stamp);
        }
        let mut replicas = self.replicas();
        if replicas.is_held(id, stamp) {
            return Err(StoreError::Taken(id));
        }
        if !replicas.insert(id, replica) {
            return Err(StoreError::Exists(id));
        }
        self.charge(&replicas);
        drop(replicas);
        let files = self.create_files(pool, id, &replica, chunking);
        let (data, meta) = files.inspect_err(|error| {
            self.volumes[volume.0].refused(error);
            let mut replicas = self.replicas();
            replicas.remove(id, stamp);
            self.charge(&replicas);
        })?;
        let folder = replica.folder();
        Ok(NewReplica {
            store: self,
            id,
            stamp,
            volume,
            folder,
            data,
            meta,
            chunking,
            length: 0,
            is_ended: false,
        })
    }

    /// Deletes what is left of an earlier pipeline of a block, which has gone on without this DataNode.
    fn make_room(&self, id: BlockId, stamp: GenerationStamp) {
        let left = self.replicas().get(id).copied();
        let is_left =
            |replica: &Replica| replica.state == ReplicaState::WaitingForRecovery && replica.stamp < stamp;
        if let Some(left) = left.filter(is_left) {
            self.delete(id, left.stamp);
        }
    }

    fn create_files(
        &self,
        pool: &str,
        id: BlockId,
        replica: &Replica,
        chunking: Chunking,
    ) -> io::Result<(Box<dyn DiskFile>, Box<dyn DiskFile>)> {
        let volume = &self.volumes[replica.volume.0];
        let (data, meta) = volume.files(pool, id, replica.stamp, replica.folder());
        let (data, meta) =
            (volume.disk().open(&data, Open::Replace)?, volume.disk().open(&meta, Open::Replace)?);
        volume.gave_file();
        meta.write_all_at(&meta_file::encode(chunking), 0)?;
        Ok((data, meta))
    }

    /// Opens a replica for a reader, as far as it can be read now.
    ///
    /// # Errors
    /// There is none with this stamp or a newer one, or its files cannot be read.
    pub fn open_replica(
        &self,
        pool: &str,
        id: BlockId,
        stamp: GenerationStamp,
    ) -> Result<ReadableReplica, StoreError> {
        self.check_pool(pool)?;
        // Looked up and opened under the lock, so that it is not moved or deleted between.
        let replicas = self.replicas();
        let replica = *self.replica(&replicas, id, stamp)?;
        let volume = &self.volumes[replica.volume.0];
        let (data, meta) = volume.files(pool, id, replica.stamp, replica.folder());
        let (data, meta) = (volume.disk().open(&data, Open::Read)?, volume.disk().open(&meta, Open::Read)?);
        drop(replicas);
        let mut header = [0; meta_file::HEADER_BYTES];
        let damaged = |why: String| StoreError::Damaged { id, why };
        meta.read_exact_at(&mut header, 0).map_err(|error| damaged(error.to_string()))?;
        let chunking = meta_file::decode(header).map_err(|error| damaged(error.to_string()))?;
        let is_whole = replica.state == ReplicaState::Finalized;
        let (stamp, visible) = (replica.stamp, replica.visible);
        Ok(ReadableReplica { data, meta, chunking, stamp, is_whole, visible })
    }

    /// Bytes of a replica that can be read.
    ///
    /// # Errors
    /// There is none with this stamp or a newer one.
    pub fn visible_length(&self, pool: &str, id: BlockId, stamp: GenerationStamp) -> Result<u64, StoreError> {
        self.check_pool(pool)?;
        Ok(self.replica(&self.replicas(), id, stamp)?.visible.length)
    }

    /// Deletes a replica that is no newer than `stamp`; what it was, if it is gone.
    pub fn delete(&self, id: BlockId, stamp: GenerationStamp) -> Option<(VolumeIndex, cluster::Replica)> {
        let pool = self.pool();
        let mut replicas = self.replicas();
        let replica = replicas.remove(id, stamp)?;
        let volume = &self.volumes[replica.volume.0];
        if let Err(error) = volume.delete(&pool, id, replica.stamp, replica.folder()) {
            error!(%id, %error, storage = volume.storage, "cannot delete a replica");
            replicas.insert(id, replica);
            return None;
        }
        self.charge(&replicas);
        // One that is being written counts until its writer knows that it is gone.
        if replica.state != ReplicaState::BeingWritten {
            volume.count_gone(replica.visible.length);
        }
        Some((replica.volume, as_reported(id, &replica)))
    }

    /// Lets writers go on with a block again.
    pub fn release(&self, id: BlockId) {
        self.replicas().release(id);
    }

    fn replica<'a>(
        &self,
        replicas: &'a Replicas,
        id: BlockId,
        stamp: GenerationStamp,
    ) -> Result<&'a Replica, StoreError> {
        let missing = || StoreError::Missing(format!("{id} with stamp {}", stamp.0));
        replicas.get(id).filter(|replica| replica.stamp >= stamp).ok_or_else(missing)
    }

    fn check_pool(&self, pool: &str) -> Result<(), StoreError> {
        let expected = self.pool();
        if pool == expected {
            return Ok(());
        }
        Err(StoreError::OtherPool { found: pool.to_owned(), expected })
    }

    /// Charges the table as it is now.
    fn charge(&self, replicas: &Replicas) {
        let bytes = replicas.count() as u64 * REPLICA_BYTES;
        self.table.lock().unwrap_or_else(PoisonError::into_inner).set(bytes);
    }

    fn replicas(&self) -> MutexGuard<'_, Replicas> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn as_reported(id: BlockId, replica: &Replica) -> cluster::Replica {
    let (stamp, length) = (replica.stamp.0, replica.visible.length);
    cluster::Replica { id: id.0, stamp, length, state: replica.state.into() }
}

/// A replica that is being written. Dropped before it is finalized, it waits for its writer's recovery; a copy is deleted.
#[derive(Debug)]
pub struct NewReplica<'a> {
    store: &'a Store,
    /// The block.
    pub id: BlockId,
    /// Its stamp.
    pub stamp: GenerationStamp,
    volume: VolumeIndex,
    folder: Folder,
    data: Box<dyn DiskFile>,
    meta: Box<dyn DiskFile>,
    chunking: Chunking,
    length: u64,
    is_ended: bool,
}

impl NewReplica<'_> {
    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How its checksums are made.
    pub fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Writes data that begins a chunk, and its checksums; it may begin before the end, as writers repeat a chunk that was not
    /// full. Data that does not begin a chunk, as it comes from a writer that appends, belongs to that one alone. What of it can be
    /// read once it is acknowledged is the answer.
    ///
    /// # Errors
    /// The disk fails, what it has of the chunk is damaged, or there is a gap.
    pub fn write(&mut self, offset: u64, data: &[u8], checksums: &[u8]) -> io::Result<Visible> {
        let chunk = self.chunking.bytes_per_checksum() as u64;
        let into = offset % chunk;
        if offset > self.length || (into > 0 && data.len() as u64 > chunk - into) {
            let message = format!(
                "{} bytes of data at {offset} of {}, which has {} bytes",
                data.len(),
                self.id,
                self.length
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let joined = if into > 0 { self.checksum_of_joined(offset, data)? } else { Vec::new() };
        let checksums = if into > 0 { &joined } else { checksums };
        let volume = &self.store.volumes[self.volume.0];
        let at = meta_file::HEADER_BYTES as u64 + self.chunking.checksum_bytes(offset - into);
        let written =
            self.data.write_all_at(data, offset).and_then(|()| self.meta.write_all_at(checksums, at));
        written.inspect_err(|error| volume.refused(error))?;
        let end = offset + data.len() as u64;
        let grown = end.saturating_sub(self.length);
        volume.count_stored(grown);
        volume.count_written(grown);
        self.length = self.length.max(end);
        let tail = checksums.last_chunk::<CHECKSUM_BYTES>().copied();
        Ok(Visible { length: end, tail: tail.filter(|_| !end.is_multiple_of(chunk)) })
    }

    /// The checksum of a chunk to which data is appended: the writer knows only that of the data.
    fn checksum_of_joined(&self, offset: u64, data: &[u8]) -> io::Result<Vec<u8>> {
        let chunk = self.chunking.bytes_per_checksum() as u64;
        let begin = offset - offset % chunk;
        let (mut joined, stored) = self.read(begin, self.length.min(begin + chunk))?;
        if self.chunking.first_mismatch(&joined, &stored).is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, self.differs(begin).to_string()));
        }
        joined.truncate(usize::try_from(offset - begin).expect("a chunk fits into memory"));
        joined.extend_from_slice(data);
        let mut checksum = Vec::new();
        self.chunking.compute(&joined, &mut checksum);
        Ok(checksum)
    }

    /// Makes bytes readable that the whole pipeline has.
    pub fn show(store: &Store, id: BlockId, stamp: GenerationStamp, visible: Visible) {
        store.replicas().show(id, stamp, visible);
    }

    /// Brings all bytes so far to the disk. A failure retires the volume: what the disk has is unknown then.
    ///
    /// # Errors
    /// The disk fails.
    pub fn sync(&self) -> io::Result<()> {
        let synced = self.data.sync_data().and_then(|()| self.meta.sync_data());
        synced.inspect_err(|error| {
            let volume = &self.store.volumes[self.volume.0];
            error!(%error, storage = volume.storage, "a sync failed: the volume is retired");
            volume.fail();
        })
    }

    /// Ends the replica: it is whole.
    ///
    /// # Errors
    /// The disk fails, or the replica has been deleted meanwhile.
    pub fn finalize(mut self) -> Result<(String, cluster::Replica), StoreError> {
        let mut replicas = self.store.replicas();
        let volume = &self.store.volumes[self.volume.0];
        if replicas.get(self.id).is_none_or(|replica| replica.stamp != self.stamp) {
            return Err(StoreError::Missing(format!("{}, deleted meanwhile,", self.id)));
        }
        volume.finalize(&self.store.pool(), self.id, self.stamp, self.folder)?;
        replicas.end(self.id, self.stamp, ReplicaState::Finalized, self.length);
        self.is_ended = true;
        let replica = replicas.get(self.id).expect("it was looked at under the same lock");
        Ok((volume.storage.clone(), as_reported(self.id, replica)))
    }

    /// What there is of the replica once its writer is gone; nothing of a copy.
    pub fn abandoned(mut self) -> Option<(String, cluster::Replica)> {
        self.end_unfinished();
        let replicas = self.store.replicas();
        let replica = replicas.get(self.id).filter(|replica| replica.stamp == self.stamp)?;
        Some((self.store.volumes[self.volume.0].storage.clone(), as_reported(self.id, replica)))
    }

    fn end_unfinished(&mut self) {
        if !std::mem::replace(&mut self.is_ended, true) {
            let state = ReplicaState::WaitingForRecovery;
            if !self.store.replicas().end(self.id, self.stamp, state, self.length) {
                // It was deleted meanwhile.
                self.store.volumes[self.volume.0].count_gone(self.length);
            } else if self.folder == Folder::Temporary {
                self.store.delete(self.id, self.stamp);
            }
        }
    }
}

impl Drop for NewReplica<'_> {
    fn drop(&mut self) {
        self.end_unfinished();
    }
}

#[cfg(test)]
mod one_replica;
#[cfg(test)]
mod tests;
