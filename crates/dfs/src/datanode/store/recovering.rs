//! Replicas whose writers are gone: what they have, and how they end.

use std::io;

use yeoul_disk::Open;

use super::{ReadableReplica, Resumed, Store, StoreError};
use crate::datanode::replicas::Replica;
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::checksum::CHECKSUM_BYTES;
use crate::wire::meta_file;
use crate::wire::proto::cluster::{self, ReplicaState};

/// Bytes that are checked at a time.
const SLICE_BYTES: u64 = 256 << 10;

/// A replica without a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its stamp.
    pub stamp: GenerationStamp,
    /// Bytes that agree with their checksums.
    pub length: u64,
    /// The DataNode has started since it was written: what the machine had not brought to its disk may be lost.
    pub is_from_disk: bool,
}

impl Store {
    /// What there is of a block without a writer, before it is ended with a stamp. From now on no writer goes on with it that has
    /// an older one. None if there is nothing that can be used.
    ///
    /// # Errors
    /// It has a writer or a later stamp, or the disk fails.
    pub fn left(&self, id: BlockId, stamp: GenerationStamp) -> Result<Option<Left>, StoreError> {
        let pool = self.pool();
        let mut replicas = self.replicas();
        replicas.hold(id, stamp);
        let Some(replica) = replicas.get(id).copied().filter(|replica| !replica.is_copy) else {
            return Ok(None);
        };
        if replica.stamp > stamp {
            return Err(StoreError::Newer { id, has: replica.stamp.0, said: stamp.0 });
        }
        if replica.state == ReplicaState::BeingWritten {
            return Err(StoreError::NotUnfinished(id));
        }
        drop(replicas);
        let readable = self.open_replica(&pool, id, replica.stamp)?;
        let (has, agrees) = (replica.visible.length, readable.length_that_agrees(readable.data.len()?)?);
        let Replica { stamp, is_from_disk, .. } = replica;
        if agrees >= has {
            return Ok(Some(Left { stamp, length: has, is_from_disk }));
        }
        // One that was in memory all the time is damaged.
        if !is_from_disk {
            return Ok(None);
        }
        self.cut_off(&pool, id, &replica, agrees)?;
        Ok(Some(Left { stamp, length: agrees, is_from_disk }))
    }

    /// Ends a replica without a writer: it has so many bytes and this stamp from then on. What to tell the NameNodes is the answer.
    ///
    /// # Errors
    /// There is none, it has fewer bytes or a later stamp, or the disk fails.
    pub fn end_left(
        &self,
        id: BlockId,
        stamp: GenerationStamp,
        length: u64,
    ) -> Result<(String, cluster::Replica), StoreError> {
        let pool = self.pool();
        let mut replicas = self.replicas();
        let known = replicas.get(id).copied().filter(|replica| !replica.is_copy);
        let Some(replica) = known else {
            return Err(StoreError::Missing(id.to_string()));
        };
        let is_whole = replica.state == ReplicaState::Finalized;
        if is_whole && (replica.stamp, replica.visible.length) == (stamp, length) {
            // The NameNode has not heard of it.
            return Ok((self.storage(replica.volume).to_owned(), super::as_reported(id, &replica)));
        }
        if replica.stamp >= stamp {
            return Err(StoreError::Newer { id, has: replica.stamp.0, said: stamp.0 });
        }
        if is_whole && replica.visible.length > length {
            self.open_again(&mut replicas, &pool, id, &replica)?;
        }
        drop(replicas);
        let said = Resumed { old: replica.stamp, new: stamp, acknowledged: length, sent: u64::MAX };
        let ended = self.finalize_again(&pool, id, &said)?;
        // What was synced is so under its new name, too.
        self.volumes[replica.volume.0].sync_names(&pool, id)?;
        Ok(ended)
    }

    /// Cuts off the end of an unfinished replica that was found on disk: it does not agree with its checksums.
    fn cut_off(&self, pool: &str, id: BlockId, found: &Replica, length: u64) -> Result<(), StoreError> {
        let mut replicas = self.replicas();
        if replicas.get(id) != Some(found) || found.state == ReplicaState::Finalized {
            return Err(StoreError::Damaged { id, why: "it is shorter than it was".to_owned() });
        }
        let volume = &self.volumes[found.volume.0];
        let (data, _) = volume.files(pool, id, found.stamp, found.folder());
        volume.disk().open(&data, Open::Write)?.set_len(length)?;
        volume.count_gone(found.visible.length - length);
        replicas.cut(id, length);
        Ok(())
    }
}

impl ReadableReplica {
    /// Bytes of the first `length` that agree with their checksums. Of a chunk whose end does not, as many as its checksum is of: a
    /// DataNode that died had more of them in one file than in the other.
    fn length_that_agrees(&self, length: u64) -> io::Result<u64> {
        let chunk = self.chunking.bytes_per_checksum() as u64;
        let slice = (SLICE_BYTES / chunk).max(1) * chunk;
        let stored = self.meta.len()?.saturating_sub(meta_file::HEADER_BYTES as u64);
        let chunks =
            if self.chunking.checksum_bytes(1) == 0 { u64::MAX } else { stored / CHECKSUM_BYTES as u64 };
        let length = length.min(chunks.saturating_mul(chunk));
        let (mut at, mut data, mut checksums) = (0, Vec::new(), Vec::new());
        while at < length {
            let end = (at + slice).min(length);
            let in_memory = |count: u64| usize::try_from(count).expect("a slice fits into memory");
            data.resize(in_memory(end - at), 0);
            checksums.resize(in_memory(self.chunking.checksum_bytes(end - at)), 0);
            self.data.read_exact_at(&mut data, at)?;
            let from = meta_file::HEADER_BYTES as u64 + self.chunking.checksum_bytes(at);
            self.meta.read_exact_at(&mut checksums, from)?;
            if let Some(bad) = self.chunking.first_mismatch(&data, &checksums) {
                let begin = bad * chunk as usize;
                let last = &data[begin..data.len().min(begin + chunk as usize)];
                let checksum = &checksums[bad * CHECKSUM_BYTES..(bad + 1) * CHECKSUM_BYTES];
                let agree = |count: &usize| self.chunking.first_mismatch(&last[..*count], checksum).is_none();
                let kept = (1..last.len()).rev().find(agree).unwrap_or(0);
                return Ok(at + (begin + kept) as u64);
            }
            at = end;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
