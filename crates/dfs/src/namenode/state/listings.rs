//! Listings of several directories in one answer, and of files that cannot be read.

use prost::Message;

use super::State;
use crate::ids::{BlockId, InodeId};
use crate::namenode::Context;
use crate::namenode::namespace::Path;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::namenode::{
    BatchedListingKey, BatchedListingRequest, BatchedListingResponse, CorruptFiles, CorruptFilesRequest,
    CorruptFilesResponse, ListingRequest, PartialListing, RemoteException,
};

/// Paths of one batch, as in HDFS (`dfs.batched.ls.limit`).
const BATCHED_PATHS_MAX: usize = 100;
/// Entries after which a batch ends (`dfs.ls.limit`); the listing of one directory has as many at most.
const BATCHED_ENTRIES_MAX: usize = 1000;
/// Files of one answer that cannot be read, as in HDFS (`dfs.namenode.max-corrupt-file-blocks-returned`).
const CORRUPT_FILES_MAX: usize = 100;

impl State {
    /// What several paths have: a page of it, which may end within one of them. One that cannot be listed has its exception in the
    /// answer, and the others are listed all the same.
    pub(super) fn batched_listing(
        &mut self,
        context: &mut Context<'_>,
        request: &BatchedListingRequest,
    ) -> Result<BatchedListingResponse, Refusal> {
        let paths = &request.paths;
        if paths.len() > BATCHED_PATHS_MAX {
            let message = format!("Too many source paths ({} > {BATCHED_PATHS_MAX})", paths.len());
            return Err(Refusal::new(Exception::IllegalArgument, message));
        }
        let (first, mut after) = begin(request)?;
        let (mut response, mut entries) = (BatchedListingResponse::default(), 0);
        for (index, path) in paths.iter().enumerate().skip(first) {
            let start_after = std::mem::take(&mut after).into();
            let wanted =
                ListingRequest { src: path.clone(), start_after, need_location: request.need_location };
            let parent = u32::try_from(index).expect("paths are few");
            let listed = self.listing(context, &wanted).and_then(|listed| {
                let missing = || Refusal::new(Exception::FileNotFound, format!("Path {path} does not exist"));
                listed.listing.ok_or_else(missing)
            });
            let (mut last, mut remaining) = (Vec::new(), 0);
            response.listings.push(match listed {
                Ok(listing) => {
                    entries += listing.entries.len();
                    remaining = listing.remaining;
                    last = listing.entries.last().map(|entry| entry.path.to_vec()).unwrap_or_default();
                    PartialListing { entries: listing.entries, parent, exception: None }
                }
                Err(refusal) => PartialListing {
                    entries: Vec::new(),
                    parent,
                    exception: Some(RemoteException {
                        class: refusal.exception.class_name().to_owned(),
                        message: Some(refusal.message),
                    }),
                },
            });
            if entries >= BATCHED_ENTRIES_MAX && (remaining > 0 || index + 1 < paths.len()) {
                let after = if remaining > 0 { last } else { Vec::new() };
                let key = BatchedListingKey { index: parent, path: path.clone(), after: after.into() };
                (response.has_more, response.start_after) = (true, key.encode_to_vec().into());
                break;
            }
        }
        Ok(response)
    }

    /// Files with blocks that cannot be read, a page of them, for the superuser.
    pub(super) fn list_corrupt_files(
        &mut self,
        context: &mut Context<'_>,
        request: &CorruptFilesRequest,
    ) -> Result<CorruptFilesResponse, Refusal> {
        context.user.check_superuser("listCorruptFileBlocks")?;
        if self.safe_mode.is_startup() {
            // Most blocks are only not reported yet.
            let message =
                "Cannot run listCorruptFileBlocks because replication queues have not been initialized.";
            return Err(Refusal::new(Exception::Io, message));
        }
        self.count_lacks();
        let cookie = request.cookie().to_owned();
        let after = match cookie.as_str() {
            "" => None,
            number => Some(number.parse().map(BlockId::from_wire).map_err(|_| {
                let message = format!("the cookie '{number:.40}' is no number of a block");
                Refusal::new(Exception::HadoopIllegalArgument, message)
            })?),
        };
        let above = self.place(&Path::parse(&request.path)?, context.user)?.inode();
        let mut corrupt = CorruptFiles { files: Vec::new(), cookie };
        let Some(above) = above else { return Ok(CorruptFilesResponse { corrupt }) };
        let files = self.blocks.missing_behind(after).map(|id| (id, self.blocks.block(id).file));
        let within = files.filter(|(_, file)| above == InodeId::ROOT || self.tree.is_within(*file, above));
        for (id, file) in within.take(CORRUPT_FILES_MAX) {
            corrupt.files.push(self.tree.path_of(file));
            corrupt.cookie = id.to_wire().to_string();
        }
        Ok(CorruptFilesResponse { corrupt })
    }
}

/// Beginning of a batch: the first path, and the entry of it behind which.
fn begin(request: &BatchedListingRequest) -> Result<(usize, Vec<u8>), Refusal> {
    if request.start_after.is_empty() {
        return Ok((0, Vec::new()));
    }
    let illegal = |why: &str| Refusal::new(Exception::IllegalArgument, format!("the key of a batch {why}"));
    let key = BatchedListingKey::decode(request.start_after.clone()).map_err(|_| illegal("is none"))?;
    let index = usize::try_from(key.index).unwrap_or(usize::MAX);
    if request.paths.get(index) != Some(&key.path) {
        return Err(illegal("is of other paths"));
    }
    // Without an entry all of the path has been listed.
    Ok(if key.after.is_empty() { (index + 1, Vec::new()) } else { (index, key.after.to_vec()) })
}
