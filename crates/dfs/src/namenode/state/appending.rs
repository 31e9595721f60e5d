//! The call that opens a closed file again: its writer goes on within the last block, or behind it if that is full.

use super::State;
use super::creating::check_client_name;
use super::quotas::Growth;
use super::statuses::Location;
use crate::ids::BlockId;
use crate::namenode::Context;
use crate::namenode::blocks::{Replica, Target};
use crate::namenode::namespace::{Access, Path};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{Append, record::Change};
use crate::wire::proto::namenode::{AppendRequest, AppendResponse};

/// Bit of a request to append: what is new goes to a block of its own.
const FLAG_NEW_BLOCK: u32 = 0x20;

impl State {
    /// Opens a closed file for a writer. The answer has the last block, if the writer goes on within it, and where that is.
    pub(super) fn append(
        &mut self,
        context: &mut Context<'_>,
        request: &AppendRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let (src, client) = (&request.src, &request.client_name);
        let path = Path::parse(src)?;
        let Some(id) = self.place(&path, context.user)?.inode() else {
            let host = context.ip.unwrap_or_default();
            let message = format!("Failed to append to non-existent file {src} for client {host}");
            return Err(Refusal::new(Exception::FileNotFound, message));
        };
        let inode = self.tree.inode(id);
        if inode.is_directory() {
            let message = format!("Cannot append to directory {src}; already exists as a directory.");
            return Err(Refusal::new(Exception::FileAlreadyExists, message));
        }
        check_client_name(client)?;
        context.user.check(inode, &self.tree, Access::Write)?;
        let is_striped = self.policy_of(id).is_some();
        let to_new_block = request.flags() & FLAG_NEW_BLOCK != 0;
        if is_striped && !to_new_block {
            let message = "Append on EC file without new block is not supported. Use NEW_BLOCK create flag while appending \
                           file.";
            return Err(Refusal::new(Exception::UnsupportedOperation, message));
        }
        if self.tree.holder(id).is_some() {
            let steady_ms = context.now.steady_ms;
            return Err(self.refuse_open_file(id, "APPEND_FILE", (src, client), steady_ms));
        }
        let file = self.file_of(id);
        let last = file.layout.blocks().last().map(|last| self.blocks.block(*last));
        let within = last.filter(|last| !to_new_block && last.length < file.block_size).map(|last| last.id);
        let offset = self.file_counts(inode).bytes - last.map_or(0, |last| last.length);
        if let Some(within) = within {
            let full = self.full_block_space(file, inode.policy);
            let taken = self.blocks.block(within).length.saturating_mul(file.replication.into());
            let growth = Growth { space: full.saturating_sub(taken), ..Growth::default() };
            self.check_quota(inode.parent, growth)?;
        }
        let (block, targets) = match (within, last) {
            (Some(within), _) => {
                let places = self.places_to_append(within, src, context)?;
                let targets =
                    places.iter().map(|place| Target { index: place.index, storage: place.storage });
                let block = self.located(self.blocks.block(within), offset, &places, context);
                (Some(block), targets.collect())
            }
            // A client that asks for a new one names the one before it.
            (None, Some(last)) if to_new_block => {
                (Some(self.located(last, offset, &[], context)), Vec::new())
            }
            (None, _) => (None, Vec::new()),
        };
        let status = Some(self.status(self.tree.inode(id), b""));
        self.leases.renew(client, context.now.steady_ms);
        let append = Append { file: id.0, holder: client.clone(), within_last: within.is_some() };
        let answer = self.commit_once(context, Change::Append(append), &AppendResponse { block, status });
        if let Some(within) = within {
            // Nobody else has more than this before the writer has told its pipeline.
            self.blocks.set_targets(within, targets, true);
        }
        self.leases.renew(client, context.now.steady_ms);
        self.leases.note_host(client, context.ip);
        Ok(answer)
    }

    /// Where a writer goes on within a block: on all DataNodes that are there and have it. Those that are to leave are passed over, if
    /// there are others: nobody would wait for what is flushed to them once they may go.
    fn places_to_append(
        &self,
        id: BlockId,
        path: &str,
        context: &mut Context<'_>,
    ) -> Result<Vec<Location>, Refusal> {
        let there = self.blocks.block(id).good().filter(|replica| self.is_live(replica.datanode, context));
        let place = |Replica { index, datanode, storage, .. }| Location { index, datanode, storage };
        let there: Vec<Location> = there.map(place).collect();
        let stays = |place: &Location| self.datanodes.node(place.datanode).admin.is_in_service();
        let staying: Vec<Location> = there.iter().filter(|place| stays(place)).copied().collect();
        let mut places = if staying.is_empty() { there } else { staying };
        if places.is_empty() {
            let message = format!("append: lastBlock={id} of src={path} is not sufficiently replicated yet.");
            return Err(Refusal::new(Exception::Io, message));
        }
        self.sort_by_distance(&mut places, context);
        Ok(places)
    }
}
