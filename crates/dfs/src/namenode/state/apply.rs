//! The only place that changes what the journal keeps. It reads no clock and no randomness.

use std::sync::Arc;

use super::State;
use crate::ids::{BlockId, CallerId, GenerationStamp, InodeId};
use crate::namenode::blocks::{Block, Promise};
use crate::namenode::datanodes::Deletion;
use crate::namenode::namespace::{Content, Counts, File, Inode, Layout, Mode, Tree};
use crate::policy::PolicyId;
use crate::wire::proto::journal::{self, Record, record::Change};

impl State {
    /// Makes the change of a record, which a decision has just made, or which was read from the journal or the image.
    ///
    /// # Panics
    /// If the record does not fit the state: a record is made for the state that it is applied to.
    pub fn apply(&mut self, record: &Record) {
        self.sequence += 1;
        let time_ms = record.time_ms;
        match record.change.as_ref().expect("a record has a change") {
            Change::Format(format) => self.apply_format(format, time_ms),
            Change::BeginTerm(begin) => self.term = begin.term,
            Change::AddDirectories(add) => self.add_directories(add, time_ms),
            Change::CreateFile(create) => self.create_file(create, time_ms),
            Change::AddBlock(add) => self.append_block(add),
            Change::RemoveBlock(remove) => self.remove_block(InodeId(remove.file), BlockId(remove.block)),
            Change::SetLastLength(set) => self.set_last_length(InodeId(set.file), set.length),
            Change::CloseFile(close) => self.close_file(close, time_ms),
            Change::ReplaceLayout(replace) => self.replace_layout(replace, time_ms),
            Change::Delete(delete) => self.delete_subtree(InodeId(delete.inode), time_ms),
            Change::Rename(rename) => self.move_inode(rename, time_ms),
            Change::SetAttributes(set) => self.change_attributes(set),
            Change::SetPolicyState(set) => self.set_policy_state(set),
            Change::AddPolicies(add) => self.apply_policies(add),
            Change::NewStamp(new) => self.blocks.reserve_stamp(GenerationStamp(new.stamp)),
            Change::UpdateBlock(update) => self.update_block(update),
            Change::BeginRecovery(begin) => self.begin_recovery(begin),
            Change::Concat(concat) => self.concatenate(concat, time_ms),
            Change::Truncate(truncate) => self.truncate_file(truncate, time_ms),
            Change::Append(append) => self.open_again(append),
            Change::SetAcl(set) => self.apply_acl(set),
            Change::SetQuota(set) => self.apply_quota(set),
            Change::SetXattr(set) => self.apply_xattr(set),
            Change::Counters(counters) => self.apply_counters(counters),
            Change::Inode(inode) => self.load_inode(inode),
            Change::Answered(answered) => {
                if let Some(caller) = answered.caller.as_ref().and_then(caller_id) {
                    self.retry_cache.insert(caller, &answered.answer);
                }
            }
        }
        if let Some(caller) = record.caller.as_ref().and_then(caller_id) {
            self.retry_cache.insert(caller, &record.answer);
        }
    }

    fn apply_format(&mut self, format: &journal::Format, time_ms: u64) {
        self.tree = Tree::new(&format.owner, &format.group, Mode::new(format.mode), time_ms);
        (self.cluster, self.pool) = (format.cluster.clone(), format.pool.clone());
    }

    fn apply_counters(&mut self, counters: &journal::Counters) {
        (self.cluster, self.pool) = (counters.cluster.clone(), counters.pool.clone());
        self.term = counters.term;
        self.tree.reserve_ids_below(InodeId(counters.next_inode));
        let (next, group) = (BlockId(counters.next_block), BlockId(counters.next_group));
        self.blocks.reserve(next, group, GenerationStamp(counters.last_stamp));
    }

    fn add_directories(&mut self, add: &journal::AddDirectories, time_ms: u64) {
        let mut parent = InodeId(add.parent);
        for new in &add.directories {
            let inode = Inode {
                id: InodeId(new.id),
                parent,
                name: (&new.name[..]).into(),
                owner: self.tree.owners.intern(&add.owner),
                group: self.tree.owners.intern(&add.group),
                mode: Mode::new(new.mode),
                modified_ms: time_ms,
                accessed_ms: 0,
                policy: PolicyId::NONE,
                storage_policy: 0,
                flags: 0,
                content: Content::Directory(Box::default()),
            };
            self.tree.insert(inode, Counts { directories: 1, ..Counts::default() });
            self.keep_acl(InodeId(new.id), &new.acl);
            self.tree.inode_mut(parent).modified_ms = time_ms;
            parent = InodeId(new.id);
        }
    }

    fn create_file(&mut self, create: &journal::CreateFile, time_ms: u64) {
        if create.replaced != 0 {
            self.delete_subtree(InodeId(create.replaced), time_ms);
        }
        if let Some(parents) = &create.parents {
            self.add_directories(parents, time_ms);
        }
        let holder: Arc<str> = create.holder.as_str().into();
        let (id, parent) = (InodeId(create.id), InodeId(create.parent));
        let inode = Inode {
            id,
            parent,
            name: (&create.name[..]).into(),
            owner: self.tree.owners.intern(&create.owner),
            group: self.tree.owners.intern(&create.group),
            mode: Mode::new(create.mode).of_file(),
            modified_ms: time_ms,
            accessed_ms: time_ms,
            policy: policy_id(create.policy),
            storage_policy: create.storage_policy as u8,
            flags: 0,
            content: Content::File(File {
                layout: Layout::default(),
                replication: u16::try_from(create.replication).expect("it was checked"),
                block_size: create.block_size,
            }),
        };
        self.tree.insert(inode, Counts { files: 1, ..Counts::default() });
        self.keep_acl(id, &create.acl);
        self.tree.inode_mut(parent).modified_ms = time_ms;
        self.leases.add(&holder, id);
        self.tree.set_holder(id, holder);
    }

    fn append_block(&mut self, add: &journal::AddBlock) {
        let file = InodeId(add.file);
        let before = self.counts_of(file);
        if let Some(previous) = &add.previous {
            self.blocks.commit(BlockId(previous.id), GenerationStamp(previous.stamp), previous.length);
        }
        let new = add.block.as_ref().expect("it adds a block");
        self.insert_block(file, self.tree.inode(file).policy, new);
        self.file_mut(file).layout.push(BlockId(new.id));
        self.tree.recount(file, before, self.counts_of(file));
    }

    fn insert_block(&mut self, file: InodeId, policy: PolicyId, new: &journal::Block) {
        let geometry = self.policies.of(policy).map(|policy| policy.geometry);
        let mut block = Block::new(BlockId(new.id), file, geometry, GenerationStamp(new.stamp));
        (block.length, block.is_committed) = (new.length, new.is_committed);
        block.promise = match (new.is_flushed, new.is_truncated) {
            (_, true) => Promise::Exactly,
            (true, false) => Promise::Beginning,
            (false, false) => Promise::None,
        };
        self.blocks.insert(block);
    }

    fn remove_block(&mut self, file: InodeId, block: BlockId) {
        let before = self.counts_of(file);
        let layout = &mut self.file_mut(file).layout;
        *layout = layout.blocks().iter().copied().filter(|id| *id != block).collect();
        let removed = self.blocks.remove(block);
        self.delete_replicas(&removed);
        self.tree.recount(file, before, self.counts_of(file));
    }

    fn set_last_length(&mut self, file: InodeId, length: u64) {
        let before = self.counts_of(file);
        let last = *self.file_mut(file).layout.blocks().last().expect("it has a block");
        self.blocks.set_flushed(last, length);
        self.tree.recount(file, before, self.counts_of(file));
    }

    fn update_block(&mut self, update: &journal::UpdateBlock) {
        let file = InodeId(update.file);
        let before = self.counts_of(file);
        let block = update.block.as_ref().expect("it updates a block");
        self.blocks.restamp(BlockId(block.id), GenerationStamp(block.stamp), block.length);
        self.tree.recount(file, before, self.counts_of(file));
    }

    fn begin_recovery(&mut self, begin: &journal::BeginRecovery) {
        let file = InodeId(begin.file);
        self.blocks.reserve_stamp(GenerationStamp(begin.stamp));
        let former = self.tree.take_holder(file).expect("an open file has a holder");
        self.leases.remove(&former, file);
        self.hold(file, &begin.holder);
    }

    /// Opens a file for a writer.
    fn hold(&mut self, file: InodeId, holder: &str) {
        let holder: Arc<str> = holder.into();
        self.leases.add(&holder, file);
        self.tree.set_holder(file, holder);
    }

    fn close_file(&mut self, close: &journal::CloseFile, time_ms: u64) {
        let file = InodeId(close.file);
        let before = self.counts_of(file);
        if let Some(last) = &close.last {
            self.blocks.commit(BlockId(last.id), GenerationStamp(last.stamp), last.length);
        }
        self.tree.recount(file, before, self.counts_of(file));
        self.tree.inode_mut(file).modified_ms = time_ms;
        self.file_mut(file).layout.shrink_to_fit();
        let holder = self.tree.take_holder(file).expect("an open file has a holder");
        self.leases.remove(&holder, file);
    }

    fn replace_layout(&mut self, replace: &journal::ReplaceLayout, time_ms: u64) {
        let id = InodeId(replace.file);
        let before = self.counts_of(id);
        let old = std::mem::take(&mut self.file_mut(id).layout);
        for block in
            old.blocks().iter().filter(|old| replace.blocks.iter().all(|new| BlockId(new.id) != **old))
        {
            let removed = self.blocks.remove(*block);
            self.delete_replicas(&removed);
        }
        for new in &replace.blocks {
            if self.blocks.get(BlockId(new.id)).is_none() {
                self.insert_block(id, policy_id(replace.policy), new);
            }
        }
        let file = self.file_mut(id);
        file.layout = replace.blocks.iter().map(|block| BlockId(block.id)).collect();
        file.replication = u16::try_from(replace.replication).expect("it was checked");
        let inode = self.tree.inode_mut(id);
        (inode.policy, inode.modified_ms) = (policy_id(replace.policy), time_ms);
        self.tree.recount(id, before, self.counts_of(id));
    }

    fn concatenate(&mut self, concat: &journal::Concat, time_ms: u64) {
        let target = InodeId(concat.target);
        let before = self.counts_of(target);
        for source in concat.sources.iter().map(|id| InodeId(*id)) {
            let inode = self.tree.remove(source, self.counts_of(source));
            for block in inode.file().expect("it was checked").layout.blocks().iter().copied() {
                self.blocks.give(block, target);
                self.file_mut(target).layout.push(block);
            }
        }
        self.file_mut(target).layout.shrink_to_fit();
        self.tree.recount(target, before, self.counts_of(target));
        let parent = self.tree.inode(target).parent;
        for changed in [target, parent] {
            self.tree.inode_mut(changed).modified_ms = time_ms;
        }
    }

    fn truncate_file(&mut self, truncate: &journal::Truncate, time_ms: u64) {
        let file = InodeId(truncate.file);
        let before = self.counts_of(file);
        let blocks = self.file_mut(file).layout.blocks().to_vec();
        let (kept, gone) = blocks.split_at(usize::try_from(truncate.blocks).expect("it has so many"));
        self.file_mut(file).layout = kept.iter().copied().collect();
        for block in gone {
            let removed = self.blocks.remove(*block);
            self.delete_replicas(&removed);
        }
        if let Some(length) = truncate.last_length {
            self.blocks.truncate(*kept.last().expect("a block is cut"), length);
            self.hold(file, &truncate.holder);
        }
        self.tree.recount(file, before, self.counts_of(file));
        self.tree.inode_mut(file).modified_ms = time_ms;
    }

    fn open_again(&mut self, append: &journal::Append) {
        let file = InodeId(append.file);
        let before = self.counts_of(file);
        if append.within_last {
            let last = *self.file_mut(file).layout.blocks().last().expect("it has a block");
            self.blocks.reopen(last);
        }
        self.hold(file, &append.holder);
        self.tree.recount(file, before, self.counts_of(file));
    }

    fn delete_subtree(&mut self, id: InodeId, time_ms: u64) {
        let parent = self.tree.inode(id).parent;
        for child in self.tree.subtree(id) {
            let counts = self.counts_of(child);
            if let Some(holder) = self.tree.take_holder(child) {
                self.leases.remove(&holder, child);
            }
            let inode = self.tree.remove(child, counts);
            let Content::File(file) = &inode.content else { continue };
            for block in file.layout.blocks().iter().copied() {
                let removed = self.blocks.remove(block);
                self.delete_replicas(&removed);
            }
        }
        self.tree.inode_mut(parent).modified_ms = time_ms;
    }

    fn move_inode(&mut self, rename: &journal::Rename, time_ms: u64) {
        if rename.replaced != 0 {
            self.delete_subtree(InodeId(rename.replaced), time_ms);
        }
        let (id, parent) = (InodeId(rename.inode), InodeId(rename.parent));
        let before = self.tree.inode(id).parent;
        let counts = self.counts_of(id);
        self.tree.rename(id, parent, &rename.name, counts);
        for changed in [before, parent] {
            self.tree.inode_mut(changed).modified_ms = time_ms;
        }
    }

    fn change_attributes(&mut self, set: &journal::SetAttributes) {
        let id = InodeId(set.inode);
        let owner = set.owner.as_ref().map(|name| self.tree.owners.intern(name));
        let group = set.group.as_ref().map(|name| self.tree.owners.intern(name));
        let inode = self.tree.inode_mut(id);
        inode.mode = set.mode.map_or(inode.mode, Mode::new);
        (inode.owner, inode.group) = (owner.unwrap_or(inode.owner), group.unwrap_or(inode.group));
        inode.modified_ms = set.modified_ms.unwrap_or(inode.modified_ms);
        inode.accessed_ms = set.accessed_ms.unwrap_or(inode.accessed_ms);
        inode.policy = set.policy.map_or(inode.policy, policy_id);
        inode.storage_policy = set.storage_policy.map_or(inode.storage_policy, |policy| policy as u8);
        if let Some(replication) = set.replication {
            let before = self.counts_of(id);
            self.file_mut(id).replication = u16::try_from(replication).expect("it was checked");
            for block in self.file_mut(id).layout.clone().blocks().iter().copied() {
                self.blocks.mark_changed(block);
            }
            self.tree.recount(id, before, self.counts_of(id));
        }
    }

    /// Tells DataNodes to delete the replicas of a block that is no more, once the journal has it.
    fn delete_replicas(&mut self, block: &Block) {
        for replica in block.replicas() {
            let deletion = Deletion {
                after: self.sequence,
                storage: replica.storage,
                block: block.id.internal(replica.index),
                stamp: replica.stamp,
            };
            self.datanodes.delete(replica.datanode, deletion);
        }
    }

    fn load_inode(&mut self, saved: &journal::Inode) {
        let (id, parent) = (InodeId(saved.id), InodeId(saved.parent));
        let (owner, group) = (self.tree.owners.intern(&saved.owner), self.tree.owners.intern(&saved.group));
        if id == InodeId::ROOT {
            self.tree = Tree::new(&saved.owner, &saved.group, Mode::new(saved.mode), saved.modified_ms);
            let root = self.tree.inode_mut(id);
            root.policy = policy_id(saved.policy);
            root.storage_policy = saved.storage_policy as u8;
            return;
        }
        let content = match &saved.file {
            None => Content::Directory(Box::default()),
            Some(file) => Content::File(File {
                layout: file.blocks.iter().map(|block| BlockId(block.id)).collect(),
                replication: u16::try_from(file.replication).expect("it was checked"),
                block_size: file.block_size,
            }),
        };
        let inode = Inode {
            id,
            parent,
            name: (&saved.name[..]).into(),
            owner,
            group,
            mode: Mode::new(saved.mode),
            modified_ms: saved.modified_ms,
            accessed_ms: saved.accessed_ms,
            policy: policy_id(saved.policy),
            storage_policy: saved.storage_policy as u8,
            flags: saved.flags,
            content,
        };
        let mut counts = Counts { directories: 1, ..Counts::default() };
        if let Some(file) = &saved.file {
            for block in &file.blocks {
                self.insert_block(id, inode.policy, block);
            }
            counts = self.file_counts(&inode);
            if !file.holder.is_empty() {
                let holder: Arc<str> = file.holder.as_str().into();
                self.leases.add(&holder, id);
                self.tree.set_holder(id, holder);
            }
        }
        self.tree.insert(inode, counts);
    }

    fn file_mut(&mut self, id: InodeId) -> &mut File {
        match &mut self.tree.inode_mut(id).content {
            Content::File(file) => file,
            Content::Directory(_) => panic!("inode {} is a file", id.0),
        }
    }
}

pub(super) fn policy_id(number: u32) -> PolicyId {
    PolicyId(u8::try_from(number).expect("policies have small numbers"))
}

/// The caller in a record; none if its client has no proper id.
fn caller_id(caller: &journal::Caller) -> Option<CallerId> {
    let client = <[u8; 16]>::try_from(&caller.client_id[..]).ok()?;
    Some(CallerId { client, call: caller.call_id })
}
