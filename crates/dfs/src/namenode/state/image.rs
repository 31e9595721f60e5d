use bytes::Bytes;

use super::State;
use crate::ids::{BlockId, InodeId};
use crate::namenode::blocks::Block;
use crate::namenode::namespace::{Inode, Tree};
use crate::namenode::policies::Policies;
use crate::namenode::retry_cache::Answers;
use crate::namenode::table::Table;
use crate::wire::proto::journal::{self, Record, record::Change};

/// The durable part of a state as it was at one moment. Its tables are copies that share what has not changed since, so that
/// taking one costs no more than a call, and it can be written while the state goes on.
#[derive(Debug)]
pub struct Image {
    tree: Tree,
    blocks: Table<Block>,
    answers: Answers,
    policies: Policies,
    counters: journal::Counters,
}

impl State {
    /// The durable part of the state as it is now.
    pub fn image(&self) -> Image {
        let (next_block, next_group, last_stamp) = self.blocks.counters();
        let counters = journal::Counters {
            layout_version: crate::wire::protocol::LAYOUT_VERSION,
            cluster: self.cluster.clone(),
            pool: self.pool.clone(),
            next_inode: self.tree.next_id().0,
            next_block: next_block.0,
            next_group: next_group.0,
            last_stamp: last_stamp.0,
            term: self.term,
        };
        Image {
            tree: self.tree.clone(),
            blocks: self.blocks.frozen(),
            answers: self.retry_cache.answers(),
            policies: self.policies.clone(),
            counters,
        }
    }
}

impl Image {
    /// How many inodes it has.
    pub fn inodes(&self) -> usize {
        self.tree.count()
    }

    /// The image as records, made one by one: applied to a blank state they make the same one, but for what is learned from
    /// DataNodes. Policies come first, parents before their children, and the counters last, as the numbers that were given out count even
    /// where their inodes and blocks are gone.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let mut todo = vec![InodeId::ROOT];
        let inodes = std::iter::from_fn(move || {
            let inode = self.tree.inode(todo.pop()?);
            todo.extend(inode.directory().into_iter().flat_map(|directory| directory.children.iter()));
            Some(Change::Inode(self.saved(inode)))
        });
        let answers = self.answers.iter().map(|(caller, answer)| {
            let client_id = Bytes::copy_from_slice(&caller.client);
            let caller = Some(journal::Caller { client_id, call_id: caller.call });
            let answer = Bytes::copy_from_slice(answer);
            Change::Answered(journal::Answered { time_ms: 0, caller, answer })
        });
        // Blocks need theirs, so policies come first.
        let policies = super::policies::saved(&self.policies);
        let attached = super::xattrs::saved(&self.tree)
            .chain(super::acls::saved(&self.tree))
            .chain(super::quotas::saved(&self.tree));
        let counters = Change::Counters(self.counters.clone());
        let changes = policies.chain(inodes).chain(attached).chain(answers).chain([counters]);
        changes.map(|change| Record { change: Some(change), ..Record::default() })
    }

    fn saved(&self, inode: &Inode) -> journal::Inode {
        let file = inode.file().map(|file| journal::File {
            replication: file.replication.into(),
            block_size: file.block_size,
            blocks: file.layout.blocks().iter().map(|id| self.journal_block(*id)).collect(),
            holder: self.tree.holder(inode.id).map_or(String::new(), |holder| holder.to_string()),
        });
        journal::Inode {
            id: inode.id.0,
            parent: inode.parent.0,
            name: Bytes::copy_from_slice(&inode.name),
            owner: self.tree.owners.name(inode.owner).to_owned(),
            group: self.tree.owners.name(inode.group).to_owned(),
            mode: inode.mode.bits(),
            modified_ms: inode.modified_ms,
            accessed_ms: inode.accessed_ms,
            policy: inode.policy.0.into(),
            storage_policy: inode.storage_policy.into(),
            flags: inode.flags,
            file,
        }
    }

    fn journal_block(&self, id: BlockId) -> journal::Block {
        let block = self.blocks.get(id).expect("files name only blocks that there are");
        let (stamp, length) = (block.stamp.0, block.length);
        journal::Block {
            id: id.0,
            stamp,
            length,
            is_committed: block.is_committed,
            is_flushed: block.is_flushed(),
            is_truncated: block.is_truncated(),
        }
    }
}
