//! The call that makes a file shorter: at once at the end of a block; within one, its replicas are cut as those of a writer that is gone.

use super::State;
use super::quotas::Growth;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Path};
use crate::namenode::recovery::HOLDER;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{Truncate, record::Change};
use crate::wire::proto::namenode::{BoolResponse, TruncateRequest};

impl State {
    /// Makes a file shorter: true if that is done, false if its last block is still to be cut. The file is open until then, and
    /// readers find the new length already.
    pub(super) fn truncate(
        &mut self,
        context: &mut Context<'_>,
        request: &TruncateRequest,
    ) -> Result<BoolResponse, Refusal> {
        let (path, length) = (&request.src, request.length);
        let inode = self.existing(&Path::parse(path)?, context.user)?;
        let id = inode.id;
        context.user.check(inode, &self.tree, Access::Write)?;
        let file = inode.file().ok_or_else(|| Refusal::not_a_file(path))?;
        if self.policy_of(id).is_some() {
            let message = format!("Cannot truncate file with striped block {path}");
            return Err(Refusal::new(Exception::UnsupportedOperation, message));
        }
        let (current, blocks) = (self.file_counts(inode).bytes, file.layout.blocks().to_vec());
        if self.tree.holder(id).is_some() {
            let is_truncated = blocks.last().is_some_and(|last| self.blocks.block(*last).is_truncated());
            return match () {
                () if is_truncated && length == current => Ok(BoolResponse { result: false }),
                () if is_truncated => {
                    let message = format!(
                        "Failed to TRUNCATE_FILE {path} for {} because {path} is being truncated.",
                        request.client_name
                    );
                    Err(Refusal::new(Exception::AlreadyBeingCreated, message))
                }
                () => {
                    let client = (path.as_str(), request.client_name.as_str());
                    Err(self.refuse_open_file(id, "TRUNCATE_FILE", client, context.now.steady_ms))
                }
            };
        }
        if length > current {
            let message = format!(
                "Cannot truncate to a larger file size. Current size: {current}, truncate size: {length}."
            );
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        if length == current {
            return Ok(BoolResponse { result: true });
        }
        let (mut kept, mut end) = (0, 0);
        while end < length {
            end += self.blocks.block(blocks[kept]).length;
            kept += 1;
        }
        let last_length = (end > length).then(|| self.blocks.block(blocks[kept - 1]).length - (end - length));
        if last_length.is_some() {
            // The block that is cut counts as one that is written.
            let file = self.file_of(id);
            let full = self.full_block_space(file, self.tree.inode(id).policy);
            let behind = current - (end - self.blocks.block(blocks[kept - 1]).length);
            let growth = Growth {
                space: full.saturating_sub(behind * u64::from(file.replication)),
                ..Growth::default()
            };
            self.check_quota(self.tree.inode(id).parent, growth)?;
        }
        let holder = if last_length.is_some() { HOLDER.to_owned() } else { String::new() };
        let truncate = Truncate { file: id.0, blocks: kept as u64, last_length, holder };
        self.commit(context, Change::Truncate(truncate));
        if last_length.is_some() {
            self.take_over(id, context.now);
        }
        Ok(BoolResponse { result: last_length.is_none() })
    }
}
