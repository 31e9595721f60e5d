//! Replicas whose writer goes on, with a new stamp: a DataNode of its pipeline has failed, or it appends to a file.

use std::io;

use yeoul_disk::Open;

use super::{NewReplica, Store, StoreError, as_reported};
use crate::datanode::layout::Folder;
use crate::datanode::replicas::{Replica, Replicas, Visible};
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::checksum::CHECKSUM_BYTES;
use crate::wire::meta_file;
use crate::wire::proto::cluster::{self, ReplicaState};

/// Bytes that are checked at a time.
const SLICE_BYTES: u64 = 256 << 10;

/// What a writer says of a replica with which it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The stamp of the block when the pipeline broke. A replica may have a later one, of an attempt that failed.
    pub old: GenerationStamp,
    /// The stamp of the pipeline with which it goes on.
    pub new: GenerationStamp,
    /// Bytes that the whole pipeline has acknowledged: it goes on behind them.
    pub acknowledged: u64,
    /// Bytes that it has sent.
    pub sent: u64,
}

impl Store {
    /// Gives an unfinished replica to its writer again: what was never acknowledged is cut off, the rest is read and compared with
    /// its checksums, and it has the new stamp from then on.
    ///
    /// # Errors
    /// There is none, it has a writer or is whole, it is not as the writer says, or the disk fails.
    pub fn resume(&self, pool: &str, id: BlockId, said: &Resumed) -> Result<NewReplica<'_>, StoreError> {
        self.give_to_writer(pool, id, said, 0)
    }

    /// Gives a whole replica to a writer that appends to it: its last chunk is compared with its checksum, and it has the new stamp
    /// from then on. One to which that writer has begun to append is resumed.
    ///
    /// # Errors
    /// There is none, it has a writer, it is not as the writer says, its last chunk is damaged, or the disk fails.
    pub fn append(&self, pool: &str, id: BlockId, said: &Resumed) -> Result<NewReplica<'_>, StoreError> {
        // What is damaged stays as it is.
        let readable = self.open_replica(pool, id, said.old)?;
        let length = readable.visible.length;
        let last = length - length % readable.chunking.bytes_per_checksum() as u64;
        let mut tail = vec![0; usize::try_from(length - last).expect("a chunk fits into memory")];
        readable.read_checked(last, &mut tail, &mut Vec::new())?;
        let mut replicas = self.replicas();
        let replica = self.resumable(&replicas, id, said)?;
        if replica.state != ReplicaState::Finalized {
            drop(replicas);
            return self.resume(pool, id, said);
        }
        if replicas.is_damaged(id) {
            return Err(StoreError::Damaged {
                id,
                why: "it was found to differ from what was written".to_owned(),
            });
        }
        if length != said.acknowledged || length != replica.visible.length {
            return Err(wrong_length(id, replica.visible.length, said));
        }
        self.open_again(&mut replicas, pool, id, &replica)?;
        drop(replicas);
        self.give_to_writer(pool, id, said, last)
    }

    /// Makes a whole replica an unfinished one.
    pub(super) fn open_again(
        &self,
        replicas: &mut Replicas,
        pool: &str,
        id: BlockId,
        whole: &Replica,
    ) -> io::Result<()> {
        let volume = &self.volumes[whole.volume.0];
        volume.move_files(pool, id, whole.stamp, (Folder::Finalized, Folder::BeingWritten))?;
        replicas.reopen(id);
        Ok(())
    }

    /// Gives an unfinished replica to a writer. What is before the chunk at `checked` is known to agree with its checksums.
    fn give_to_writer(
        &self,
        pool: &str,
        id: BlockId,
        said: &Resumed,
        checked: u64,
    ) -> Result<NewReplica<'_>, StoreError> {
        self.check_pool(pool)?;
        let mut replicas = self.replicas();
        let replica = self.resumable(&replicas, id, said)?;
        if replica.state != ReplicaState::WaitingForRecovery || replica.is_copy {
            return Err(StoreError::NotUnfinished(id));
        }
        let volume = &self.volumes[replica.volume.0];
        let (data, meta) = volume.files(pool, id, replica.stamp, replica.folder());
        let (data, meta) = (volume.disk().open(&data, Open::Write)?, volume.disk().open(&meta, Open::Write)?);
        let mut header = [0; meta_file::HEADER_BYTES];
        let damaged = |why: String| StoreError::Damaged { id, why };
        meta.read_exact_at(&mut header, 0).map_err(|error| damaged(error.to_string()))?;
        let chunking = meta_file::decode(header).map_err(|error| damaged(error.to_string()))?;
        replicas.resume(id);
        drop(replicas);
        let mut resumed = NewReplica {
            store: self,
            id,
            stamp: replica.stamp,
            volume: replica.volume,
            folder: replica.folder(),
            data,
            meta,
            chunking,
            length: replica.visible.length,
            is_ended: false,
        };
        // Dropped by an error, it waits for its writer as before.
        resumed.go_on(said, checked)?;
        Ok(resumed)
    }

    /// Ends a replica of which its writer has sent all, and whose pipeline broke before it knew that. One that is whole already
    /// gets the new stamp. What to tell the NameNodes is the answer.
    ///
    /// # Errors
    /// There is none, it is not as the writer says, or the disk fails.
    pub fn finalize_again(
        &self,
        pool: &str,
        id: BlockId,
        said: &Resumed,
    ) -> Result<(String, cluster::Replica), StoreError> {
        self.check_pool(pool)?;
        let mut replicas = self.replicas();
        let replica = self.resumable(&replicas, id, said)?;
        if replica.state != ReplicaState::Finalized {
            drop(replicas);
            return self.resume(pool, id, said)?.finalize();
        }
        if replica.visible.length != said.acknowledged {
            return Err(wrong_length(id, replica.visible.length, said));
        }
        let volume = &self.volumes[replica.volume.0];
        volume.restamp(pool, id, (replica.stamp, said.new), replica.folder())?;
        replicas.restamp(id, said.new, replica.visible);
        let replica = replicas.get(id).expect("it was looked at under the same lock");
        Ok((volume.storage.clone(), as_reported(id, replica)))
    }

    /// Checks that there is a replica with which this writer may go on, by its stamps.
    ///
    /// # Errors
    /// There is none, or its stamp is too late.
    pub fn check_resumable(&self, pool: &str, id: BlockId, said: &Resumed) -> Result<(), StoreError> {
        self.check_pool(pool)?;
        self.resumable(&self.replicas(), id, said).map(|_| ())
    }

    /// The replica that a writer goes on with, by its stamps.
    fn resumable(&self, replicas: &Replicas, id: BlockId, said: &Resumed) -> Result<Replica, StoreError> {
        let replica = *self.replica(replicas, id, said.old)?;
        if replicas.is_held(id, said.new) {
            return Err(StoreError::Taken(id));
        }
        if replica.stamp >= said.new {
            return Err(StoreError::Newer { id, has: replica.stamp.0, said: said.new.0 });
        }
        Ok(replica)
    }
}

impl NewReplica<'_> {
    fn go_on(&mut self, said: &Resumed, checked: u64) -> Result<(), StoreError> {
        if !(said.acknowledged..=said.sent).contains(&self.length) {
            return Err(wrong_length(self.id, self.length, said));
        }
        let visible = self.cut(said.acknowledged, checked)?;
        let mut replicas = self.store.replicas();
        if replicas.get(self.id).is_none_or(|replica| replica.stamp != self.stamp) {
            return Err(StoreError::Missing(format!("{}, deleted meanwhile,", self.id)));
        }
        let volume = &self.store.volumes[self.volume.0];
        volume.restamp(&self.store.pool(), self.id, (self.stamp, said.new), self.folder)?;
        replicas.restamp(self.id, said.new, visible);
        self.stamp = said.new;
        Ok(())
    }

    /// Cuts off what is behind `length`, and compares the rest from `checked` on with its checksums: the DataNode may have died with
    /// the replica, and what it holds goes on to whoever joins the pipeline.
    fn cut(&mut self, length: u64, checked: u64) -> Result<Visible, StoreError> {
        let chunk = self.chunking.bytes_per_checksum() as u64;
        let (whole, rest) = (length / chunk * chunk, length % chunk);
        let slice = (SLICE_BYTES / chunk).max(1) * chunk;
        let mut at = checked;
        while at < whole {
            let end = (at + slice).min(whole);
            let (data, checksums) = self.read(at, end)?;
            if self.chunking.first_mismatch(&data, &checksums).is_some() {
                return Err(self.differs(at));
            }
            at = end;
        }
        let mut tail = Vec::new();
        if rest > 0 {
            // The checksum of the last chunk may be that of more bytes, or still that of fewer.
            let (data, stored) = self.read(whole, self.length.min(whole + chunk))?;
            self.chunking.compute(&data[..rest as usize], &mut tail);
            if stored != tail && self.chunking.first_mismatch(&data, &stored).is_some() {
                return Err(self.differs(whole));
            }
        }
        let kept = meta_file::HEADER_BYTES as u64 + self.chunking.checksum_bytes(whole);
        // The checksum first: if the DataNode dies in between, it is that of a beginning of the data, and all of that is found again.
        if !tail.is_empty() {
            self.meta.write_all_at(&tail, kept)?;
        }
        self.meta.set_len(kept + tail.len() as u64)?;
        self.data.set_len(length)?;
        self.store.volumes[self.volume.0].count_gone(self.length - length);
        self.length = length;
        Ok(Visible { length, tail: tail.last_chunk::<CHECKSUM_BYTES>().copied() })
    }

    /// Data that begins a chunk, and its checksums.
    pub(super) fn read(&self, from: u64, to: u64) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let bytes = |count: u64| vec![0; usize::try_from(count).expect("a slice fits into memory")];
        let (mut data, mut checksums) = (bytes(to - from), bytes(self.chunking.checksum_bytes(to - from)));
        self.data.read_exact_at(&mut data, from)?;
        let at = meta_file::HEADER_BYTES as u64 + self.chunking.checksum_bytes(from);
        self.meta.read_exact_at(&mut checksums, at)?;
        Ok((data, checksums))
    }

    pub(super) fn differs(&self, at: u64) -> StoreError {
        let why = format!("what it says of the bytes from {at} on is not what they are");
        StoreError::Damaged { id: self.id, why }
    }

    /// Leaves a copy of an unfinished replica to the writer that goes on with it; what to tell the NameNodes is the answer.
    ///
    /// # Errors
    /// The disk fails, or the replica has been deleted meanwhile.
    pub fn leave_to_writer(mut self) -> Result<(String, cluster::Replica), StoreError> {
        let mut replicas = self.store.replicas();
        let volume = &self.store.volumes[self.volume.0];
        if replicas.get(self.id).is_none_or(|replica| replica.stamp != self.stamp) {
            return Err(StoreError::Missing(format!("{}, deleted meanwhile,", self.id)));
        }
        volume.move_files(&self.store.pool(), self.id, self.stamp, (self.folder, Folder::BeingWritten))?;
        replicas.leave_to_writer(self.id, self.length);
        self.is_ended = true;
        let replica = replicas.get(self.id).expect("it was looked at under the same lock");
        Ok((volume.storage.clone(), as_reported(self.id, replica)))
    }
}

fn wrong_length(id: BlockId, has: u64, said: &Resumed) -> StoreError {
    StoreError::OtherLength { id, has, acknowledged: said.acknowledged, sent: said.sent }
}

#[cfg(test)]
mod tests;
