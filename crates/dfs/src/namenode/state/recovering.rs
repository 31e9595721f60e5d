//! Files whose writers are gone: the NameNode takes them over, ends their last block, and closes them.
//!
//! Until a record closes a file, nothing of this is in the journal but its new holder and the stamps that were given out: a NameNode
//! that starts again begins anew, and whatever replicas were ended meanwhile begin with all that was promised, too.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use crate::ids::{BlockId, DatanodeHandle, GenerationStamp, InodeId};
use crate::namenode::blocks::Block;
use crate::namenode::namespace::{Access, Path};
use crate::namenode::recovery::{Asked, Attempt, HOLDER, Known, Phase, Said, Verdict, verdict};
use crate::namenode::repair::Place;
use crate::namenode::{Context, Now};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::cluster::{Held, Recovery};
use crate::wire::proto::journal::{
    BeginRecovery, Block as Kept, CloseFile, NewStamp, RemoveBlock, record::Change,
};
use crate::wire::proto::namenode::{BoolResponse, RecoverLeaseRequest};

/// Files that one tick takes from writers that have been silent for too long.
const TAKEN_PER_TICK_MAX: usize = 1_000;
/// Milliseconds between two looks at leases after which the NameNode itself has stood still, and writers could not reach it.
const STALLED_MS: u64 = 10_000;
/// Milliseconds for which silent DataNodes are waited for that may have bytes that were promised, or units of a group.
const PATIENCE_MS: u64 = 600_000;
/// Milliseconds for which they are waited for if nothing was promised.
const PATIENCE_UNPROMISED_MS: u64 = 20_000;

/// What the NameNode does for files whose writers are gone.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    attempts: BTreeMap<BlockId, Attempt>,
    /// Since when each file has waited for its end.
    began_ms: BTreeMap<InodeId, u64>,
    /// When leases were last looked at.
    looked_ms: Option<u64>,
    /// Files that somebody else wants, whose writers have been silent for a while.
    wanted: BTreeSet<InodeId>,
}

impl State {
    /// Takes a file from its writer: true if it is closed now, else the caller asks again.
    pub(super) fn recover_lease(
        &mut self,
        context: &mut Context<'_>,
        request: &RecoverLeaseRequest,
    ) -> Result<BoolResponse, Refusal> {
        let inode = self.existing(&Path::parse(&request.src)?, context.user)?;
        let id = inode.id;
        if inode.is_directory() {
            return Err(Refusal::not_a_file(&request.src));
        }
        if self.tree.holder(id).is_none() {
            return Ok(BoolResponse { result: true });
        }
        context.user.check(inode, &self.tree, Access::Write)?;
        self.take_over(id, context.now);
        Ok(BoolResponse { result: self.tree.holder(id).is_none() })
    }

    /// Refuses a client a file that somebody writes. If the writer has not been heard of for a while, the file is taken from it.
    pub(super) fn refuse_open_file(
        &mut self,
        id: InodeId,
        what: &str,
        (path, client): (&str, &str),
        steady_ms: u64,
    ) -> Refusal {
        let holder = self.tree.holder(id).map_or("", |holder| &**holder).to_owned();
        let is_own = holder == client;
        let is_recovered = holder == HOLDER || (!is_own && self.leases.is_silent(&holder, steady_ms));
        let (exception, why) = match () {
            () if is_recovered => {
                self.recoveries.wanted.insert(id);
                let why = "lease recovery is in progress. Try again later".to_owned();
                (Exception::RecoveryInProgress, why)
            }
            () if is_own => {
                (Exception::AlreadyBeingCreated, format!("{client} is already the current lease holder"))
            }
            () => (Exception::AlreadyBeingCreated, format!("this file lease is currently owned by {holder}")),
        };
        Refusal::new(exception, format!("Failed to {what} {path} for {client} because {why}."))
    }

    /// Looks whose writers are gone, and goes on with the files that have none.
    pub(super) fn look_after_leases(&mut self, now: Now) {
        if self.safe_mode.is_on() {
            self.recoveries = Recoveries::default();
            return;
        }
        let before = self.recoveries.looked_ms.replace(now.steady_ms);
        if before.is_some_and(|before| now.steady_ms.saturating_sub(before) > STALLED_MS) {
            self.leases.renew_all(now.steady_ms);
        }
        let mut files = self.leases.silent_for(now.steady_ms, self.rules.lease_ms_max, TAKEN_PER_TICK_MAX);
        files.extend(std::mem::take(&mut self.recoveries.wanted));
        files.extend(self.leases.files_of(HOLDER));
        for file in files {
            self.take_over(file, now);
        }
        let blocks: Vec<BlockId> = self.recoveries.attempts.keys().copied().collect();
        for block in blocks {
            self.advance(block, now);
        }
        let tree = &self.tree;
        self.recoveries
            .began_ms
            .retain(|file, _| tree.holder(*file).is_some_and(|holder| **holder == *HOLDER));
    }

    /// Takes a file from its writer, if it is open. One whose blocks all have an end is closed at once.
    pub(super) fn take_over(&mut self, file: InodeId, now: Now) {
        let Some(holder) = self.tree.holder(file).cloned() else { return };
        let last = self.file_of(file).layout.blocks().last().copied();
        let Some(block) = last.filter(|id| !self.blocks.block(*id).is_committed) else {
            return self.make(now.wall_ms, None, Change::CloseFile(CloseFile { file: file.0, last: None }));
        };
        let stamp = self.blocks.counters().2.0 + 1;
        if *holder != *HOLDER {
            let begin = BeginRecovery { file: file.0, holder: HOLDER.to_owned(), stamp };
            self.make(now.wall_ms, None, Change::BeginRecovery(begin));
        } else if self.recoveries.attempts.contains_key(&block) {
            return;
        } else {
            self.make(now.wall_ms, None, Change::NewStamp(NewStamp { stamp }));
        }
        let mut attempt = Attempt {
            file,
            block,
            stamp: GenerationStamp(stamp),
            after: self.sequence,
            since_ms: now.steady_ms,
            asked: Vec::new(),
            phase: Phase::Asking,
        };
        self.ask_more(&mut attempt, self.blocks.block(block));
        self.recoveries.attempts.insert(block, attempt);
        self.recoveries.began_ms.entry(file).or_insert(now.steady_ms);
    }

    /// The block that an attempt is for, if it is still to be ended.
    fn unended(&self, attempt: &Attempt) -> Option<&Block> {
        let holder = self.tree.holder(attempt.file).filter(|holder| ***holder == *HOLDER);
        holder.and_then(|_| self.blocks.get(attempt.block)).filter(|block| !block.is_committed)
    }

    /// Goes on with an attempt, as far as it can be.
    fn advance(&mut self, id: BlockId, now: Now) {
        let Some(mut attempt) = self.recoveries.attempts.remove(&id) else { return };
        let Some(block) = self.unended(&attempt) else { return };
        let is_live = |node| self.datanodes.is_live(node, now.steady_ms, self.rules.silent_ms_max);
        match attempt.phase {
            Phase::Asking => {
                self.ask_more(&mut attempt, block);
                let answers = attempt.answers(now.steady_ms, is_live);
                let known = Known {
                    is_all: block.are_targets_all(),
                    copies: self.copies(block),
                    is_patience_over: self.is_patience_over(block, now.steady_ms),
                };
                match verdict(block, &answers, known) {
                    Verdict::Wait => {}
                    Verdict::End { length } => attempt.end(length, now.steady_ms),
                    Verdict::Drop => {
                        let file = attempt.file.0;
                        let remove = RemoveBlock { file, block: id.0 };
                        self.make(now.wall_ms, None, Change::RemoveBlock(remove));
                        return self.make(
                            now.wall_ms,
                            None,
                            Change::CloseFile(CloseFile { file, last: None }),
                        );
                    }
                }
            }
            Phase::Ending { length } if attempt.is_over(block, now.steady_ms, is_live) => {
                let ended = block.committed_as(attempt.stamp, length);
                // If not, the next tick begins anew.
                if ended.is_readable(|replica| is_live(replica.datanode)) {
                    let (id, stamp) = (id.0, attempt.stamp.0);
                    let last = Kept { id, stamp, length, is_committed: true, ..Kept::default() };
                    let close = CloseFile { file: attempt.file.0, last: Some(last) };
                    self.make(now.wall_ms, None, Change::CloseFile(close));
                }
                return;
            }
            Phase::Ending { .. } => {}
        }
        self.recoveries.attempts.insert(id, attempt);
    }

    /// Adds those to an attempt that are known by now to have been written to, or to have a replica.
    fn ask_more(&self, attempt: &mut Attempt, block: &Block) {
        let written = self.written_to(block).into_iter();
        let written =
            written.map(|one| Place { index: one.index, datanode: one.datanode, storage: one.storage });
        let reported = block.replicas().filter(|replica| replica.stamp >= block.stamp && !replica.is_corrupt);
        let reported = reported.map(|replica| Place {
            index: replica.index,
            datanode: replica.datanode,
            storage: replica.storage,
        });
        for place in written.chain(reported) {
            if attempt.asked.iter().all(|asked| asked.place != place) {
                attempt.asked.push(Asked { place, said: None });
            }
        }
    }

    /// True once silent DataNodes have been waited for for long enough.
    fn is_patience_over(&self, block: &Block, steady_ms: u64) -> bool {
        let is_promised = block.is_flushed() || block.length > 0 || block.geometry().is_some();
        let patience_ms = if is_promised { PATIENCE_MS } else { PATIENCE_UNPROMISED_MS };
        let began_ms = self.recoveries.began_ms.get(&block.file).copied().unwrap_or(steady_ms);
        steady_ms.saturating_sub(began_ms) > patience_ms
    }

    /// Takes what a DataNode says of replicas whose writers are gone.
    pub(super) fn take_held(&mut self, node: DatanodeHandle, held: &[Held]) {
        for held in held {
            let Some(attempt) = self.recoveries.attempts.get_mut(&BlockId(held.id).group()) else { continue };
            attempt.hear(node, held);
            // No block, and no unit of a group, has more.
            let length_max =
                self.tree.get(attempt.file).and_then(|inode| inode.file()).map_or(0, |file| file.block_size);
            for asked in &mut attempt.asked {
                if matches!(asked.said, Some(Said::Has { length, .. }) if length > length_max) {
                    asked.said = Some(Said::Nothing);
                }
            }
        }
    }

    /// What a DataNode is to do for files whose writers are gone.
    pub(super) fn recovery_orders(&self, node: DatanodeHandle) -> Vec<Recovery> {
        let known = self.recoveries.attempts.values();
        // Before its stamp is on disk, a NameNode that starts again could give it to another one.
        let known = known.filter(|attempt| attempt.after <= self.synced && !self.safe_mode.is_on());
        known.filter_map(|attempt| Some(attempt.orders(node, self.unended(attempt)?))).flatten().collect()
    }
}
