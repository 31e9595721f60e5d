//! Calls that make directories and files.

use super::State;
use super::acls::to_wire;
use super::quotas::Growth;
use super::statuses::{flags, permission};
use super::storage_policies::named_storage_policy;
use crate::ids::InodeId;
use crate::namenode::namespace::{Access, AclEntry, KeptAcl, Mode, Path, Place};
use crate::namenode::{Context, recovery};
use crate::policy::{Policy, PolicyId, REPLICATION};
use crate::storage_policy::StoragePolicy;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{AddDirectories, CreateFile, NewDirectory, record::Change};
use crate::wire::proto::namenode::{BoolResponse, CreateRequest, FileInfoResponse, MkdirsRequest};

/// Entries of a directory, as in HDFS (`dfs.namenode.fs-limits.max-directory-items`).
const DIRECTORY_ENTRIES_MAX: usize = 1 << 20;
/// Copies of a block, as in HDFS (`dfs.replication.max`).
const REPLICATION_MAX: u32 = 512;
/// Bytes of the name by which a client holds leases.
const CLIENT_NAME_BYTES_MAX: usize = 1024;

/// Bits of a request to create a file: make it if it is missing, replace it if it is there.
const FLAG_CREATE: u32 = 1;
const FLAG_OVERWRITE: u32 = 2;
/// Whole replicas, whatever the policy of the directory is.
const FLAG_SHOULD_REPLICATE: u32 = 0x80;

/// The modes of directories that are made together.
#[derive(Clone, Copy)]
struct NewModes {
    /// Of those that are made because something below them is.
    implied: Mode,
    /// Of the last one.
    last: Mode,
    /// Before the client's umask, if it says so.
    unmasked: Option<Mode>,
}

impl State {
    pub(super) fn mkdirs(
        &mut self,
        context: &mut Context<'_>,
        request: &MkdirsRequest,
    ) -> Result<BoolResponse, Refusal> {
        let path = Path::parse(&request.src)?;
        let place = self.place_of_new(&path, context.user)?;
        if let Some(id) = place.inode() {
            if self.tree.inode(id).is_directory() {
                return Ok(BoolResponse { result: true });
            }
            let message = format!("Path is not a directory: {}", request.src);
            return Err(Refusal::new(Exception::FileAlreadyExists, message));
        }
        path.check_new()?;
        self.check_new_child(&place, context)?;
        if !request.create_parent && place.missing > 1 {
            let message = format!("Parent directory doesn't exist: {}", parent_text(path.text()));
            return Err(Refusal::new(Exception::FileNotFound, message));
        }
        let growth = Growth { names: place.missing as u64, is_one_by_one: true, ..Growth::default() };
        self.check_quota(place.deepest(), growth)?;
        let mode = Mode::new(request.masked.mode);
        let (add, _) = self.new_directories(
            &path,
            &place,
            place.missing,
            context,
            NewModes {
                implied: mode.of_implied_directory(),
                last: mode,
                unmasked: request.unmasked.map(|mode| Mode::new(mode.mode)),
            },
        );
        self.commit(context, Change::AddDirectories(add));
        Ok(BoolResponse { result: true })
    }

    pub(super) fn create(
        &mut self,
        context: &mut Context<'_>,
        request: &CreateRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let path = Path::parse(&request.src)?;
        self.check_create_request(&path, request)?;
        let place = self.place_of_new(&path, context.user)?;
        self.check_ancestor(&place, context.user)?;
        let replaced = place.inode();
        match replaced {
            Some(id) => self.check_path_of_replaced(id, context, request)?,
            None if !request.create_parent && place.missing > 1 => {
                let message = format!("Parent directory doesn't exist: {}", parent_text(path.text()));
                return Err(Refusal::new(Exception::FileNotFound, message));
            }
            None => self.check_new_child(&place, context)?,
        }
        let above = replaced.map_or(place.deepest(), |replaced| self.tree.inode(replaced).parent);
        let policy = self.policy_of_new(above, request)?;
        if let Some(id) = replaced {
            self.check_replaced(id, context, request)?;
        }
        let [names, freed] = match replaced {
            Some(_) => [1, 1],
            None => [place.missing as u64, 0],
        };
        let growth = Growth { names, replaced: freed, is_one_by_one: true, ..Growth::default() };
        self.check_quota(above, growth)?;
        let storage_policy = self.storage_policy_of_new(above, request)?;
        let id = self.tree.next_id();
        let mut above_acl = self.tree.attached.acl(above).to_vec();
        let (parent, parents, id) = match replaced {
            Some(replaced) => (self.tree.inode(replaced).parent, None, id),
            None if place.missing == 1 => (place.deepest(), None, id),
            None => {
                let inherited = self.tree.inode(place.deepest()).mode.of_implied_directory();
                let modes = NewModes { implied: inherited, last: inherited, unmasked: None };
                let (add, acl) = self.new_directories(&path, &place, place.missing - 1, context, modes);
                above_acl = acl;
                let last = add.directories.last().expect("at least one is missing").id;
                (InodeId(last), Some(add), InodeId(last + 1))
            }
        };
        let in_directory = self.tree.inode(place_for_group(&place, replaced.is_some()));
        let unmasked = request.unmasked.map(|mode| Mode::new(mode.mode));
        let acl = self.new_acl(&above_acl, Mode::new(request.masked.mode), unmasked, false);
        let create = CreateFile {
            parents,
            parent: parent.0,
            name: bytes::Bytes::copy_from_slice(path.name().expect("the root is a directory").as_bytes()),
            id: id.0,
            owner: context.user.name.clone(),
            group: self.tree.owners.name(in_directory.group).to_owned(),
            mode: acl.mode.bits(),
            replication: if policy.is_some() { 1 } else { request.replication },
            block_size: request.block_size,
            policy: policy.as_ref().map_or(PolicyId::NONE, |policy| policy.id).0.into(),
            holder: request.client_name.clone(),
            replaced: replaced.map_or(0, |id| id.0),
            acl: acl.entries.iter().map(to_wire).collect(),
            storage_policy: storage_policy.into(),
        };
        self.leases.renew(&request.client_name, context.now.steady_ms);
        let answer = FileInfoResponse { status: Some(self.new_file_status(&create, above, context)) };
        let answer = self.commit_once(context, Change::CreateFile(create), &answer);
        self.leases.renew(&request.client_name, context.now.steady_ms);
        self.leases.note_host(&request.client_name, context.ip);
        Ok(answer)
    }

    /// The status of a file that is about to be made: its record has it as the answer to repeat.
    fn new_file_status(
        &self,
        create: &CreateFile,
        above: InodeId,
        context: &Context<'_>,
    ) -> crate::wire::proto::shared::FileStatus {
        let policy = self.policies.of(PolicyId(create.policy as u8));
        crate::wire::proto::shared::FileStatus {
            kind: 2,
            permission: permission(Mode::new(create.mode).of_file(), !create.acl.is_empty()),
            owner: create.owner.clone(),
            group: create.group.clone(),
            modified_ms: context.now.wall_ms,
            accessed_ms: context.now.wall_ms,
            replication: Some(create.replication),
            block_size: Some(create.block_size),
            id: Some(create.id),
            children: Some(0),
            storage_policy: Some(match create.storage_policy {
                0 => self.tree.storage_policy_of(above).into(),
                own => own,
            }),
            policy: policy.map(Policy::to_reference),
            flags: Some(flags(!create.acl.is_empty(), policy)),
            ..crate::wire::proto::shared::FileStatus::default()
        }
    }

    fn check_create_request(&self, path: &Path<'_>, request: &CreateRequest) -> Result<(), Refusal> {
        if path.is_root() {
            let message = "/ already exists as a directory";
            return Err(Refusal::new(Exception::FileAlreadyExists, message));
        }
        path.check_new()?;
        let illegal = |message: String| Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        check_client_name(&request.client_name)?;
        if request.flags & (FLAG_CREATE | FLAG_OVERWRITE) == 0 {
            return illegal(format!("neither CREATE nor OVERWRITE is in the flags {:#x}", request.flags));
        }
        if request.block_size < self.rules.block_size_min {
            let (size, min) = (request.block_size, self.rules.block_size_min);
            let message = format!(
                "Specified block size is less than configured minimum value \
                 (dfs.namenode.fs-limits.min-block-size): {size} < {min}"
            );
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(())
    }

    /// The policy of a file that is to be made below a directory; none for whole replicas.
    fn policy_of_new(&self, directory: InodeId, request: &CreateRequest) -> Result<Option<Policy>, Refusal> {
        let should_replicate = request.flags & FLAG_SHOULD_REPLICATE != 0;
        let named = request.policy.as_deref().filter(|name| !name.is_empty());
        let policy = match named {
            Some(_) if should_replicate => {
                let message = "SHOULD_REPLICATE flag and ecPolicyName are exclusive parameters. Set both is not allowed!";
                return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
            }
            Some(REPLICATION) => None,
            Some(name) => Some(self.enabled_policy(name)?),
            None if should_replicate => None,
            None => self.policy_of(directory).cloned(),
        };
        match &policy {
            Some(policy) => check_cells(policy, request.block_size)?,
            None => self.check_replication(request.replication, &request.src)?,
        }
        Ok(policy)
    }

    /// The number of the storage policy of its own that a new file has; 0 for none.
    fn storage_policy_of_new(&self, directory: InodeId, request: &CreateRequest) -> Result<u8, Refusal> {
        if let Some(name) = request.storage_policy.as_deref().filter(|name| !name.is_empty()) {
            return Ok(named_storage_policy(name)?.id);
        }
        let inherited = StoragePolicy::of(self.tree.storage_policy_of(directory));
        Ok(inherited.filter(|policy| policy.is_of_new_files).map_or(0, |policy| policy.id))
    }

    /// Checks how many copies a file is to have.
    pub(super) fn check_replication(&self, replication: u32, path: &str) -> Result<(), Refusal> {
        let bound = match replication {
            0 => "is less than the required minimum of 1",
            number if number > REPLICATION_MAX => "exceeds maximum of 512",
            _ => return Ok(()),
        };
        let message = format!("Requested replication factor of {replication} {bound} for {path}");
        Err(Refusal::new(Exception::Io, message))
    }

    /// Checks that a file is at the path, and that the user may write it if it is to be replaced.
    fn check_path_of_replaced(
        &self,
        id: InodeId,
        context: &Context<'_>,
        request: &CreateRequest,
    ) -> Result<(), Refusal> {
        let inode = self.tree.inode(id);
        if inode.is_directory() {
            let message = format!("{} already exists as a directory", request.src);
            return Err(Refusal::new(Exception::FileAlreadyExists, message));
        }
        if request.flags & FLAG_OVERWRITE == 0 {
            return Ok(());
        }
        context.user.check(inode, &self.tree, Access::Write)
    }

    /// Checks that the file at the path may be replaced.
    fn check_replaced(
        &mut self,
        id: InodeId,
        context: &Context<'_>,
        request: &CreateRequest,
    ) -> Result<(), Refusal> {
        let (path, client) = (&request.src, &request.client_name);
        if request.flags & FLAG_OVERWRITE == 0 {
            if self.tree.holder(id).is_some() {
                let (steady_ms, who) = (context.now.steady_ms, (path.as_str(), client.as_str()));
                return Err(self.refuse_open_file(id, "CREATE_FILE", who, steady_ms));
            }
            let message = format!("{path} for client {} already exists", context.ip.unwrap_or_default());
            return Err(Refusal::new(Exception::FileAlreadyExists, message));
        }
        let inode = self.tree.inode(id);
        let parent = self.tree.inode(inode.parent);
        context.user.check_sticky(parent, inode, path, &self.tree.owners)
    }

    /// Checks that the first missing name of a path may be made where it is missing.
    pub(super) fn check_new_child(&self, place: &Place, context: &Context<'_>) -> Result<(), Refusal> {
        let parent = place.deepest();
        let directory = self.tree.parent_directory(parent)?;
        context.user.check(self.tree.inode(parent), &self.tree, Access::Write)?;
        if directory.children.len() >= DIRECTORY_ENTRIES_MAX {
            let message = format!(
                "The directory item limit of {} is exceeded: limit={DIRECTORY_ENTRIES_MAX} items={}",
                self.tree.path_of(parent),
                directory.children.len()
            );
            return Err(Refusal::new(Exception::MaxDirectoryItemsExceeded, message));
        }
        Ok(())
    }

    /// The first `count` directories of a path that are missing, and what the last one has of an ACL.
    fn new_directories(
        &self,
        path: &Path<'_>,
        place: &Place,
        count: usize,
        context: &Context<'_>,
        modes: NewModes,
    ) -> (AddDirectories, Vec<AclEntry>) {
        let parent = self.tree.inode(place.deepest());
        let missing = &path.components()[path.components().len() - place.missing..];
        let ids = self.tree.next_id().0..;
        let mut acl = self.tree.attached.acl(parent.id).to_vec();
        let directories = missing[..count].iter().zip(ids).enumerate().map(|(at, (name, id))| {
            let mode = if at + 1 == count { modes.last } else { modes.implied };
            let KeptAcl { mode, entries } = self.new_acl(&acl, mode, modes.unmasked, true);
            acl = entries;
            let name = bytes::Bytes::copy_from_slice(name.as_bytes());
            NewDirectory { id, name, mode: mode.bits(), acl: acl.iter().map(to_wire).collect() }
        });
        let directories = directories.collect();
        let add = AddDirectories {
            parent: parent.id.0,
            owner: context.user.name.clone(),
            group: self.tree.owners.name(parent.group).to_owned(),
            directories,
        };
        (add, acl)
    }
}

/// Checks that a client may hold leases by this name.
pub(super) fn check_client_name(client: &str) -> Result<(), Refusal> {
    let illegal = |message: String| Err(Refusal::new(Exception::HadoopIllegalArgument, message));
    if client == recovery::HOLDER {
        return illegal(format!("no client is called {}", recovery::HOLDER));
    }
    if client.is_empty() || client.len() > CLIENT_NAME_BYTES_MAX {
        return illegal(format!("the client's name has {} bytes, expected 1 to 1024", client.len()));
    }
    Ok(())
}

/// The directory whose group something new gets: the deepest that is there, or the one that has what is replaced.
fn place_for_group(place: &Place, is_replaced: bool) -> InodeId {
    if is_replaced { place.parent().expect("a file has a parent") } else { place.deepest() }
}

/// Checks that a unit has a whole number of cells: with the stock client a writer would wait for ever at the end of a group.
fn check_cells(policy: &Policy, block_size: u64) -> Result<(), Refusal> {
    let (cell, name) = (policy.geometry.cell_size(), &policy.name);
    let message = if block_size < cell {
        format!(
            "Specified block size ({block_size}) is less than the cell size ({cell}) of the erasure coding policy ({name})."
        )
    } else if !block_size.is_multiple_of(cell) {
        let (below, above) = (block_size / cell * cell, block_size.div_ceil(cell).saturating_mul(cell));
        format!(
            "Specified block size ({block_size}) is not a multiple of the cell size ({cell}) of the erasure coding policy \
             ({name}): set dfs.blocksize to {below} or {above}."
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new(Exception::Io, message))
}

fn parent_text(path: &str) -> &str {
    let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
    if parent.is_empty() { "/" } else { parent }
}
