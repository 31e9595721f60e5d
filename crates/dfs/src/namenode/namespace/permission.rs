use super::{Inode, Owners};
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
    pub fn check(&self, inode: &Inode, path: &str, owners: &Owners, access: Access) -> Result<(), Refusal> {
        let (owner, group) = (owners.name(inode.owner), owners.name(inode.group));
        let shift = match () {
            () if self.is_superuser => return Ok(()),
            () if owner == self.name => 6,
            () if self.groups.iter().any(|own| own == group) => 3,
            () => 0,
        };
        if (inode.mode.0 >> shift) & access.bits() == access.bits() {
            return Ok(());
        }
        let (user, access) = (&self.name, access.name());
        let mode = inode.mode.symbolic(inode.is_directory());
        let message = format!(
            "Permission denied: user={user}, access={access}, inode=\"{path}\":{owner}:{group}:{mode}"
        );
        Err(Refusal::new(Exception::AccessControl, message))
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
