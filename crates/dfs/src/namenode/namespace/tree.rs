use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::children::ChildPlace;
use super::{Access, Attached, Content, Counts, Directory, Inode, Mode, OwnerId, Owners, Path, User};
use crate::ids::InodeId;
use crate::namenode::table::Table;
use crate::policy::PolicyId;
use crate::wire::Refusal;
use crate::wire::exception::Exception;

/// The tree of directories and files. A copy costs nothing and shares what neither of the two changes.
#[derive(Clone, Debug)]
pub struct Tree {
    inodes: Table<Inode>,
    /// The clients that write files.
    holders: OrdMap<InodeId, Arc<str>>,
    /// What few inodes have.
    pub attached: Attached,
    /// The names of users and groups.
    pub owners: Owners,
    next: InodeId,
}

/// What a new inode has beside its place.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The user that it belongs to.
    pub owner: OwnerId,
    /// The group that it belongs to.
    pub group: OwnerId,
    /// Who may do what.
    pub mode: Mode,
    /// When it is made, in milliseconds since 1970.
    pub time_ms: u64,
    /// Its erasure coding policy.
    pub policy: PolicyId,
}

/// Where a path leads: the inodes along it, as far as they are there.
#[derive(Clone, Debug)]
pub struct Place {
    /// From the root on; at least that one.
    pub found: Vec<InodeId>,
    /// Names of the path behind the last inode.
    pub missing: usize,
}

impl Place {
    /// The inode that the path names, if it is there.
    pub fn inode(&self) -> Option<InodeId> {
        (self.missing == 0).then(|| self.deepest())
    }

    /// The last inode that is there.
    pub fn deepest(&self) -> InodeId {
        *self.found.last().expect("the root is always found")
    }

    /// The directory that has, or would have, the last name: none of the root, or if more than the last name is missing.
    pub fn parent(&self) -> Option<InodeId> {
        match self.missing {
            0 => self.found.len().checked_sub(2).map(|at| self.found[at]),
            1 => Some(self.deepest()),
            _ => None,
        }
    }
}

impl Tree {
    /// A tree with a root directory.
    pub fn new(root_owner: &str, root_group: &str, mode: Mode, time_ms: u64) -> Self {
        let mut owners = Owners::default();
        let (owner, group) = (owners.intern(root_owner), owners.intern(root_group));
        let root = Inode {
            id: InodeId::ROOT,
            parent: InodeId::ROOT,
            name: Box::default(),
            owner,
            group,
            mode,
            modified_ms: time_ms,
            accessed_ms: 0,
            policy: PolicyId::NONE,
            storage_policy: 0,
            flags: 0,
            content: Content::Directory(Box::default()),
        };
        let mut inodes = Table::default();
        inodes.insert(root);
        let attached = Attached::default();
        Self { inodes, holders: OrdMap::new(), attached, owners, next: InodeId(InodeId::ROOT.0 + 1) }
    }

    /// The number that the next new inode gets.
    pub fn next_id(&self) -> InodeId {
        self.next
    }

    /// Never gives out a number below `next` again.
    pub fn reserve_ids_below(&mut self, next: InodeId) {
        self.next = self.next.max(next);
    }

    /// How many inodes there are.
    pub fn count(&self) -> usize {
        self.inodes.count()
    }

    /// An inode by its number.
    pub fn get(&self, id: InodeId) -> Option<&Inode> {
        self.inodes.get(id)
    }

    /// An inode that is known to be there.
    ///
    /// # Panics
    /// If it is not.
    pub fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(id).expect("the tree names only inodes that it has")
    }

    /// An inode that is known to be there, to be changed by the application of a record. Names, parents and children are
    /// changed by the methods for that.
    ///
    /// # Panics
    /// If it is not.
    pub fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes.get_mut(id).expect("the tree names only inodes that it has")
    }

    /// The client that writes a file; none for a closed one.
    pub fn holder(&self, file: InodeId) -> Option<&Arc<str>> {
        self.holders.get(&file)
    }

    /// The files that clients write, behind a number, in the order of their numbers.
    pub fn open_files_behind(&self, id: InodeId) -> impl Iterator<Item = (InodeId, &Arc<str>)> {
        self.holders.range((Bound::Excluded(id), Bound::Unbounded)).map(|(file, holder)| (*file, holder))
    }

    /// Notes who writes a file.
    pub fn set_holder(&mut self, file: InodeId, holder: Arc<str>) {
        self.holders.insert(file, holder);
    }

    /// Takes a file from the client that writes it.
    pub fn take_holder(&mut self, file: InodeId) -> Option<Arc<str>> {
        self.holders.remove(&file)
    }

    /// The path of an inode.
    pub fn path_of(&self, id: InodeId) -> String {
        let mut names = Vec::new();
        let mut at = self.inode(id);
        while at.id != InodeId::ROOT {
            names.push(String::from_utf8_lossy(&at.name).into_owned());
            at = self.inode(at.parent);
        }
        names.reverse();
        format!("/{}", names.join("/"))
    }

    /// Follows a path as far as it leads. Each directory on the way must let the user through.
    ///
    /// # Errors
    /// `AccessControl`; `FileNotFound` for a number that no inode has.
    pub fn resolve(&self, path: &Path<'_>, user: &User) -> Result<Place, Refusal> {
        let (mut found, components) = match (path.reserved_inode(), path.raw()) {
            (None, None) => (vec![InodeId::ROOT], path.components()),
            (None, Some(rest)) => {
                user.check_superuser(path.text())?;
                (vec![InodeId::ROOT], rest)
            }
            (Some((id, rest)), _) => (self.chain_to(id).ok_or_else(|| Refusal::missing(path.text()))?, rest),
        };
        for (at, name) in components.iter().enumerate() {
            let inode = self.inode(*found.last().expect("the root is always found"));
            let missing = components.len() - at;
            let Some(directory) = inode.directory() else { return Ok(Place { found, missing }) };
            user.check(inode, self, Access::Execute)?;
            match self.find_child(directory, name.as_bytes()) {
                Ok((child, _)) => found.push(child),
                Err(_) => return Ok(Place { found, missing }),
            }
        }
        Ok(Place { found, missing: 0 })
    }

    fn find_child(&self, directory: &Directory, name: &[u8]) -> Result<(InodeId, ChildPlace), ChildPlace> {
        directory.children.find(name, |id| &self.inode(id).name)
    }

    /// The children of a directory behind a name, and how many these are.
    pub fn children_after(
        &self,
        directory: &Directory,
        name: &[u8],
    ) -> (impl Iterator<Item = &Inode>, usize) {
        let (ids, count) = directory.children.after(name, |id| &self.inode(id).name);
        (ids.map(|id| self.inode(id)), count)
    }

    fn chain_to(&self, id: &str) -> Option<Vec<InodeId>> {
        let mut at = self.get(InodeId(id.parse().ok()?))?;
        let mut chain = vec![at.id];
        while at.id != InodeId::ROOT {
            at = self.inode(at.parent);
            chain.push(at.id);
        }
        chain.reverse();
        Some(chain)
    }

    /// The number of the policy by which a file is laid out, or by which a new file in a directory is: that of the nearest
    /// directory with one.
    pub fn policy_of(&self, id: InodeId) -> PolicyId {
        let mut at = self.inode(id);
        while at.policy == PolicyId::NONE && at.is_directory() && at.id != InodeId::ROOT {
            at = self.inode(at.parent);
        }
        at.policy
    }

    /// The number of the storage policy by which a file is kept: its own or that of the nearest directory with one; 0 for none.
    pub fn storage_policy_of(&self, id: InodeId) -> u8 {
        let mut at = self.inode(id);
        while at.storage_policy == 0 && at.id != InodeId::ROOT {
            at = self.inode(at.parent);
        }
        at.storage_policy
    }

    /// True if `ancestor` is `id` or a directory above it.
    pub fn is_within(&self, id: InodeId, ancestor: InodeId) -> bool {
        let mut at = id;
        while at != ancestor {
            if at == InodeId::ROOT {
                return false;
            }
            at = self.inode(at).parent;
        }
        true
    }

    /// The directory with an inode's number, for something new in it.
    ///
    /// # Errors
    /// `ParentNotDirectory` if it is a file.
    pub fn parent_directory(&self, id: InodeId) -> Result<&Directory, Refusal> {
        self.inode(id).directory().ok_or_else(|| {
            let message = format!("{} (is not a directory)", self.path_of(id));
            Refusal::new(Exception::ParentNotDirectory, message)
        })
    }

    /// What an inode counts for in the directories above it.
    pub fn counts_of(&self, id: InodeId, own: impl FnOnce(&Inode) -> Counts) -> Counts {
        let inode = self.inode(id);
        match &inode.content {
            Content::Directory(directory) => {
                let mut counts = directory.counts;
                counts.directories += 1;
                counts
            }
            Content::File(_) => own(inode),
        }
    }

    /// Puts an inode into its parent. `counts` is what it counts for there.
    ///
    /// # Panics
    /// If the parent is no directory, or has the name already.
    pub fn insert(&mut self, inode: Inode, counts: Counts) {
        self.reserve_ids_below(InodeId(inode.id.0 + 1));
        let (id, parent, place) = (inode.id, inode.parent, self.place_of_new(inode.parent, &inode.name));
        self.inodes.insert(inode);
        self.link(parent, place, id, counts);
    }

    /// Takes a file or an empty directory out of the tree.
    ///
    /// # Panics
    /// If it is the root, is not there, or has children.
    pub fn remove(&mut self, id: InodeId, counts: Counts) -> Inode {
        self.unlink(id, counts);
        assert!(self.holder(id).is_none(), "nobody writes what goes");
        self.attached.remove(id);
        let inode = self.inodes.remove(id).expect("it was in its parent");
        assert!(
            inode.directory().is_none_or(|directory| directory.children.is_empty()),
            "it has no children"
        );
        inode
    }

    /// Moves an inode to another place or name.
    pub fn rename(&mut self, id: InodeId, parent: InodeId, name: &[u8], counts: Counts) {
        assert!(!self.is_within(parent, id), "a directory is not moved into itself");
        self.unlink(id, counts);
        let place = self.place_of_new(parent, name);
        let inode = self.inode_mut(id);
        (inode.parent, inode.name) = (parent, name.into());
        self.link(parent, place, id, counts);
    }

    /// Changes what a file counts for in the directories above it.
    pub fn recount(&mut self, file: InodeId, before: Counts, after: Counts) {
        let mut at = self.inode(file).parent;
        loop {
            let directory = self.directory_mut(at);
            directory.counts -= before;
            directory.counts += after;
            if at == InodeId::ROOT {
                return;
            }
            at = self.inode(at).parent;
        }
    }

    /// The inodes of a subtree, children before their parents.
    pub fn subtree(&self, id: InodeId) -> Vec<InodeId> {
        let mut all = vec![id];
        let mut at = 0;
        while at < all.len() {
            if let Some(directory) = self.inode(all[at]).directory() {
                all.extend(directory.children.iter());
            }
            at += 1;
        }
        all.reverse();
        all
    }

    fn place_of_new(&self, parent: InodeId, name: &[u8]) -> ChildPlace {
        let directory = self.inode(parent).directory().expect("only directories have children");
        self.find_child(directory, name).expect_err("a name is given once in a directory")
    }

    fn link(&mut self, parent: InodeId, place: ChildPlace, id: InodeId, counts: Counts) {
        self.directory_mut(parent).children.insert(place, id);
        let mut at = parent;
        loop {
            self.directory_mut(at).counts += counts;
            if at == InodeId::ROOT {
                return;
            }
            at = self.inode(at).parent;
        }
    }

    fn unlink(&mut self, id: InodeId, counts: Counts) {
        assert!(id != InodeId::ROOT, "the root is never moved or removed");
        let inode = self.inode(id);
        let parent = inode.parent;
        let directory = self.inode(parent).directory().expect("only directories have children");
        let found = self.find_child(directory, &inode.name);
        let (_, place) = found.expect("an inode is in its parent");
        let removed = self.directory_mut(parent).children.remove(place);
        assert_eq!(removed, id, "a name is given once in a directory");
        let mut at = parent;
        loop {
            self.directory_mut(at).counts -= counts;
            if at == InodeId::ROOT {
                return;
            }
            at = self.inode(at).parent;
        }
    }

    fn directory_mut(&mut self, id: InodeId) -> &mut Directory {
        match &mut self.inode_mut(id).content {
            Content::Directory(directory) => directory,
            Content::File(_) => panic!("inode {} is a directory", id.0),
        }
    }
}
