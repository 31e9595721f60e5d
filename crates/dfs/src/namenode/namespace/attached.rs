//! What few inodes have: it is in tables beside theirs, so that the others pay nothing for it.

use std::sync::Arc;

use imbl::OrdMap;

use super::{AclEntry, Quota, XAttr};
use crate::ids::InodeId;

/// Bytes of an entry of a table here, and of one thing in it, beside names and values.
const ENTRY_BYTES: u64 = 64;

/// The tables of what few inodes have. A copy costs nothing and shares what neither of the two changes.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    xattrs: OrdMap<InodeId, Arc<Vec<XAttr>>>,
    acls: OrdMap<InodeId, Arc<[AclEntry]>>,
    quotas: OrdMap<InodeId, Quota>,
    bytes: u64,
}

impl Attached {
    /// Bytes that the tables take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets all that an inode has.
    pub(super) fn remove(&mut self, id: InodeId) {
        if let Some(xattrs) = self.xattrs.remove(&id) {
            self.bytes -= bytes_of_xattrs(&xattrs);
        }
        self.set_acl(id, Vec::new());
        self.set_quota(id, Quota::default());
    }

    /// True if any directory has a quota.
    pub fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// The quotas of a directory.
    pub fn quota(&self, id: InodeId) -> Quota {
        self.quotas.get(&id).copied().unwrap_or_default()
    }

    /// All directories with quotas.
    pub fn all_quotas(&self) -> impl Iterator<Item = (InodeId, Quota)> {
        self.quotas.iter().map(|(id, quota)| (*id, *quota))
    }

    /// Gives a directory quotas in the place of those that it has.
    pub fn set_quota(&mut self, id: InodeId, quota: Quota) {
        if self.quotas.remove(&id).is_some() {
            self.bytes -= ENTRY_BYTES;
        }
        if quota != Quota::default() {
            self.quotas.insert(id, quota);
            self.bytes += ENTRY_BYTES;
        }
    }

    /// The entries of an inode's ACL beside its mode.
    pub fn acl(&self, id: InodeId) -> &[AclEntry] {
        self.acls.get(&id).map_or(&[], |entries| entries)
    }

    /// All inodes with entries of an ACL.
    pub fn all_acls(&self) -> impl Iterator<Item = (InodeId, &[AclEntry])> {
        self.acls.iter().map(|(id, entries)| (*id, &entries[..]))
    }

    /// Gives an inode entries beside its mode in the place of others, or none.
    pub fn set_acl(&mut self, id: InodeId, entries: Vec<AclEntry>) {
        if let Some(old) = self.acls.remove(&id) {
            self.bytes -= bytes_of_acl(&old);
        }
        if !entries.is_empty() {
            self.bytes += bytes_of_acl(&entries);
            self.acls.insert(id, entries.into());
        }
    }

    /// The extended attributes of an inode.
    pub fn xattrs(&self, id: InodeId) -> &[XAttr] {
        self.xattrs.get(&id).map_or(&[], |xattrs| xattrs.as_slice())
    }

    /// All inodes with extended attributes.
    pub fn all_xattrs(&self) -> impl Iterator<Item = (InodeId, &[XAttr])> {
        self.xattrs.iter().map(|(id, xattrs)| (*id, xattrs.as_slice()))
    }

    /// Gives an inode an extended attribute, in the place of one of this name.
    pub fn set_xattr(&mut self, id: InodeId, xattr: XAttr) {
        self.change_xattrs(id, |xattrs| match xattrs.iter_mut().find(|old| old.is_named_as(&xattr)) {
            Some(old) => *old = xattr,
            None => xattrs.push(xattr),
        });
    }

    /// Takes the extended attribute of a name from an inode.
    pub fn remove_xattr(&mut self, id: InodeId, named: &XAttr) {
        self.change_xattrs(id, |xattrs| xattrs.retain(|xattr| !xattr.is_named_as(named)));
    }

    fn change_xattrs(&mut self, id: InodeId, change: impl FnOnce(&mut Vec<XAttr>)) {
        let mut xattrs = self.xattrs.remove(&id).unwrap_or_default();
        if !xattrs.is_empty() {
            self.bytes -= bytes_of_xattrs(&xattrs);
        }
        let list = Arc::make_mut(&mut xattrs);
        change(list);
        list.shrink_to_fit();
        if !xattrs.is_empty() {
            self.bytes += bytes_of_xattrs(&xattrs);
            self.xattrs.insert(id, xattrs);
        }
    }
}

/// Names are kept elsewhere, each once.
fn bytes_of_acl(entries: &[AclEntry]) -> u64 {
    ENTRY_BYTES + size_of_val(entries) as u64
}

fn bytes_of_xattrs(xattrs: &[XAttr]) -> u64 {
    ENTRY_BYTES + xattrs.iter().map(|xattr| ENTRY_BYTES + xattr.bytes() as u64).sum::<u64>()
}
