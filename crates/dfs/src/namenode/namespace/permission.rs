use super::{AclEntry, AclKind, Inode, Owners, Scope, Tree};
use crate::wire::Refusal;
use crate::wire::exception::Exception;

/// Permission bits of an inode: three each for owner, group and others, and the sticky bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u16);

impl Mode {
    /// The bits that HDFS keeps.
    const MASK: u32 = 0o1777;
    /// In a directory: only the owner of a file, or of the directory, may remove it.
    const STICKY: u16 = 0o1000;

    /// From the number that a client sends.
    pub fn new(bits: u32) -> Self {
        Self((bits & Self::MASK) as u16)
    }

    /// The bits as a number.
    pub fn bits(self) -> u32 {
        self.0.into()
    }

    /// The same without the sticky bit, which files do not have.
    #[must_use]
    pub fn of_file(self) -> Self {
        Self(self.0 & !Self::STICKY)
    }

    /// The mode of a directory that is made because something below it is: its owner can write there.
    #[must_use]
    pub fn of_implied_directory(self) -> Self {
        Self(self.0 | 0o300)
    }

    /// True with the sticky bit.
    pub fn is_sticky(self) -> bool {
        self.0 & Self::STICKY != 0
    }

    /// The bits of owner, group and others, three each.
    pub fn classes(self) -> [u8; 3] {
        [6, 3, 0].map(|shift| (self.0 >> shift & 7) as u8)
    }

    /// The same with other bits for owner, group and others.
    #[must_use]
    pub fn with_classes(self, [owner, group, others]: [u8; 3]) -> Self {
        let bits = u16::from(owner) << 6 | u16::from(group) << 3 | u16::from(others);
        Self(self.0 & Self::STICKY | bits)
    }

    fn symbolic(self, is_directory: bool) -> String {
        let kind = if is_directory { 'd' } else { '-' };
        let bits = (0..9).map(|at| if self.0 & (0o400 >> at) == 0 { '-' } else { ['r', 'w', 'x'][at % 3] });
        let mut text: String = std::iter::once(kind).chain(bits).collect();
        if self.is_sticky() {
            let last = if self.0 & 1 == 0 { 'T' } else { 't' };
            text.pop();
            text.push(last);
        }
        text
    }
}

/// What somebody wants to do with an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Go through a directory.
    Execute,
    /// Change it.
    Write,
    /// Look into it.
    Read,
    /// Look into a directory and at what it has.
    ReadExecute,
    /// All of it: what deleting a directory with its content needs.
    All,
}

impl Access {
    fn bits(self) -> u16 {
        match self {
            Self::Execute => 1,
            Self::Write => 2,
            Self::Read => 4,
            Self::ReadExecute => 5,
            Self::All => 7,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Execute => "EXECUTE",
            Self::Write => "WRITE",
            Self::Read => "READ",
            Self::ReadExecute => "READ_EXECUTE",
            Self::All => "ALL",
        }
    }
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that the connection gave.
    pub name: String,
    /// The groups that this host knows for it.
    pub groups: Vec<String>,
    /// May do everything.
    pub is_superuser: bool,
}

impl User {
    /// Checks that this user may do something with an inode.
    ///
    /// # Errors
    /// `AccessControl`, with the text that Hadoop's tests look for.
    pub fn check(&self, inode: &Inode, tree: &Tree, access: Access) -> Result<(), Refusal> {
        if self.is_superuser {
            return Ok(());
        }
        let (owner, group) = (tree.owners.name(inode.owner), tree.owners.name(inode.group));
        let acl = tree.attached.acl(inode.id);
        let [of_owner, of_group, of_others] = inode.mode.classes();
        let named = acl.iter().filter(|entry| entry.scope == Scope::Access);
        let has_bits = |bits: u8| u16::from(bits) & access.bits() == access.bits();
        let is_allowed = match () {
            () if owner == self.name => has_bits(of_owner),
            () if named.clone().next().is_some() => self
                .has_entry_for(named, group, |bits| has_bits(bits & of_group))
                .unwrap_or(has_bits(of_others)),
            () if self.is_member(group) => has_bits(of_group),
            () => has_bits(of_others),
        };
        if is_allowed {
            return Ok(());
        }
        let (user, access, path) = (&self.name, access.name(), tree.path_of(inode.id));
        let mut mode = inode.mode.symbolic(inode.is_directory());
        if !acl.is_empty() {
            mode.push('+');
        }
        let message = format!(
            "Permission denied: user={user}, access={access}, inode=\"{path}\":{owner}:{group}:{mode}"
        );
        Err(Refusal::new(Exception::AccessControl, message))
    }

    fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// What the entries of an ACL say of this user: that for the user itself, or else any one for a group of theirs that allows
    /// it; none if none is for them.
    fn has_entry_for<'a>(
        &self,
        mut entries: impl Iterator<Item = &'a AclEntry> + Clone,
        group: &str,
        is_allowed: impl Fn(u8) -> bool,
    ) -> Option<bool> {
        let is_own = |entry: &&AclEntry| {
            entry.kind == AclKind::User && entry.name.as_deref().is_some_and(|name| name == self.name)
        };
        if let Some(own) = entries.clone().find(is_own) {
            return Some(is_allowed(own.permissions));
        }
        let mut is_in_group = false;
        let is_allowed = entries.any(|entry| {
            let is_members =
                entry.kind == AclKind::Group && self.is_member(entry.name.as_deref().unwrap_or(group));
            is_in_group |= is_members;
            is_members && is_allowed(entry.permissions)
        });
        is_in_group.then_some(is_allowed)
    }

    /// Checks that this user may remove `child` from `parent`, of which the sticky bit may keep all but the owners.
    ///
    /// # Errors
    /// `AccessControl`.
    pub fn check_sticky(
        &self,
        parent: &Inode,
        child: &Inode,
        path: &str,
        owners: &Owners,
    ) -> Result<(), Refusal> {
        let is_owner = |inode: &Inode| owners.name(inode.owner) == self.name;
        if self.is_superuser || !parent.mode.is_sticky() || is_owner(parent) || is_owner(child) {
            return Ok(());
        }
        let named = |inode: &Inode| {
            let mode = inode.mode.symbolic(inode.is_directory());
            format!("{}:{}:{mode}", owners.name(inode.owner), owners.name(inode.group))
        };
        let (user, parent_path) = (&self.name, path.rsplit_once('/').map_or("", |(parent, _)| parent));
        let message = format!(
            "Permission denied by sticky bit: user={user}, path=\"{path}\":{}, parent=\"{parent_path}\":{}",
            named(child),
            named(parent)
        );
        Err(Refusal::new(Exception::AccessControl, message))
    }

    /// Checks that this user owns an inode or may do everything.
    ///
    /// # Errors
    /// `AccessControl`.
    pub fn check_owner(&self, inode: &Inode, path: &str, owners: &Owners) -> Result<(), Refusal> {
        if self.is_superuser || owners.name(inode.owner) == self.name {
            return Ok(());
        }
        let message = format!("Permission denied. user={} is not the owner of inode={path}", self.name);
        Err(Refusal::new(Exception::AccessControl, message))
    }

    /// Checks that this user may do everything.
    ///
    /// # Errors
    /// `AccessControl`.
    pub fn check_superuser(&self, operation: &str) -> Result<(), Refusal> {
        if self.is_superuser {
            return Ok(());
        }
        let message = format!(
            "Access denied for user {}. Superuser privilege is required for operation {operation}",
            self.name
        );
        Err(Refusal::new(Exception::AccessControl, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_reads_as_ls_prints_it() {
        for (bits, is_directory, text) in [
            (0o755, true, "drwxr-xr-x"),
            (0o644, false, "-rw-r--r--"),
            (0o1777, true, "drwxrwxrwt"),
            (0o1770, true, "drwxrwx--T"),
            (0, false, "----------"),
        ] {
            assert_eq!(Mode::new(bits).symbolic(is_directory), text);
        }
        assert_eq!(Mode::new(0o170_644).bits(), 0o644, "what is no permission is not kept");
        assert_eq!(Mode::new(0o555).of_implied_directory().bits(), 0o755);
    }
}
