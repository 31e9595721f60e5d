use super::{Replica, ReplicaState};
use crate::ids::{BlockId, GenerationStamp, InodeId, StorageHandle};

/// A block of a file, or a block group of a striped one.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its number.
    pub id: BlockId,
    /// The file that it belongs to.
    pub file: InodeId,
    /// The stamp that its replicas must have.
    pub stamp: GenerationStamp,
    /// Its bytes: final once it is committed; before that, those that the writer has made visible.
    pub length: u64,
    /// The writer has said what its last stamp and length are.
    pub is_committed: bool,
    /// Where it is, as reported. Never in the journal.
    pub replicas: Vec<Replica>,
    /// The storages that were chosen for the writer. Never in the journal.
    pub targets: Vec<StorageHandle>,
}

/// What a replica is worth to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It can be read.
    Good,
    /// It is of an earlier stamp: it missed something.
    Stale,
    /// It has the right stamp and is not what was written.
    Corrupt,
    /// It is still being written, or its writer was lost.
    Unfinished,
}

impl Block {
    /// What a replica is worth.
    pub fn fit(&self, replica: &Replica) -> Fit {
        match () {
            () if replica.stamp < self.stamp => Fit::Stale,
            () if replica.is_corrupt => Fit::Corrupt,
            () if replica.state != ReplicaState::Finalized => Fit::Unfinished,
            () if !self.is_committed => Fit::Good,
            // A replicated block is as long as each of its replicas; a group is longer.
            () if !self.id.is_striped() && replica.length != self.length => Fit::Corrupt,
            () => Fit::Good,
        }
    }

    /// The replicas that can be read.
    pub fn good(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| self.fit(replica) == Fit::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlockIndex, DatanodeHandle};

    #[test]
    fn a_replica_is_good_with_the_stamp_the_length_and_the_end_that_were_committed() {
        let replica = Replica {
            index: BlockIndex(0),
            datanode: DatanodeHandle(0),
            storage: StorageHandle(0),
            stamp: GenerationStamp(1002),
            length: 700,
            state: ReplicaState::Finalized,
            is_corrupt: false,
        };
        let block = |stamp, length, is_committed| Block {
            id: BlockId::FIRST,
            file: InodeId(20_000),
            stamp: GenerationStamp(stamp),
            length,
            is_committed,
            replicas: Vec::new(),
            targets: Vec::new(),
        };
        assert_eq!(block(1002, 700, true).fit(&replica), Fit::Good);
        assert_eq!(block(1002, 701, true).fit(&replica), Fit::Corrupt);
        assert_eq!(
            block(1002, 0, false).fit(&replica),
            Fit::Good,
            "the writer has yet to say how long it is"
        );
        assert_eq!(block(1003, 700, true).fit(&replica), Fit::Stale);
        let unfinished = Replica { state: ReplicaState::WaitingForRecovery, ..replica };
        assert_eq!(block(1002, 700, true).fit(&unfinished), Fit::Unfinished);
        assert_eq!(block(1002, 700, true).fit(&Replica { is_corrupt: true, ..replica }), Fit::Corrupt);
    }
}
