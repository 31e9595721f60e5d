use serde::{Serialize, Serializer};

use super::path::child;
use super::policies::name_of_policy;
use crate::wire::proto::namenode::ContentSummary;
use crate::wire::proto::shared::FileStatus;

/// Kinds of entries, by HDFS's numbers.
const DIRECTORY: i32 = 1;
const SYMLINK: i32 = 3;
/// The bit of a permission, and that of the flags, which say that there is an ACL: servers send one of them or both.
const MODE_ACL: u32 = 1 << 12;
const FLAG_ACL: u32 = 1;

/// Kind of what a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// It has blocks.
    File,
    /// It has entries.
    Directory,
    /// It names another path. Our NameNode has none.
    Symlink,
}

/// Attributes of a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// From the root.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Bytes of a file; 0 for a directory.
    pub length: u64,
    /// Copies of each block; 0 for a directory, 1 for a file with a policy.
    pub replication: u32,
    /// Bytes of a block; 0 for a directory.
    pub block_size: u64,
    /// Owner.
    pub owner: String,
    /// Group.
    pub group: String,
    /// The twelve bits of owner, group, others, and the sticky bit; in JSON as octal digits.
    #[serde(serialize_with = "octal")]
    pub mode: u16,
    /// True if it has an ACL beside its mode.
    pub has_acl: bool,
    /// Time of the last change, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Time of the last read, in milliseconds since 1970.
    pub accessed_ms: u64,
    /// Erasure coding policy, if it has one.
    pub policy: Option<String>,
}

fn octal<S: Serializer>(mode: &u16, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{mode:04o}"))
}

impl Status {
    /// From an answer about `path`, or about an entry of it.
    pub(super) fn from_wire(path: &str, status: FileStatus) -> Self {
        let name = String::from_utf8_lossy(&status.path);
        let kind = match status.kind {
            DIRECTORY => EntryKind::Directory,
            SYMLINK => EntryKind::Symlink,
            _ => EntryKind::File,
        };
        Self {
            path: if name.is_empty() { path.to_owned() } else { child(path, &name) },
            kind,
            length: status.length,
            replication: status.replication.unwrap_or_default(),
            block_size: status.block_size.unwrap_or_default(),
            owner: status.owner,
            group: status.group,
            mode: (status.permission.mode & 0o1777) as u16,
            has_acl: status.permission.mode & MODE_ACL != 0
                || status.flags.unwrap_or_default() & FLAG_ACL != 0,
            modified_ms: status.modified_ms,
            accessed_ms: status.accessed_ms,
            policy: status.policy.as_ref().map(name_of_policy),
        }
    }

    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// The mode as `ls` shows it, such as `rwxr-x--T`.
    pub fn permissions(&self) -> String {
        let mut text: String = (0..9_u16)
            .map(|at| if self.mode & (0o400 >> at) == 0 { '-' } else { ['r', 'w', 'x'][usize::from(at % 3)] })
            .collect();
        if self.mode & 0o1000 != 0 {
            let may_execute = text.pop() == Some('x');
            text.push(if may_execute { 't' } else { 'T' });
        }
        text
    }
}

/// Totals of what is below a path, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Bytes of the files.
    pub length: u64,
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Bytes of all copies, and of parity.
    pub space_consumed: u64,
}

impl From<ContentSummary> for Summary {
    fn from(summary: ContentSummary) -> Self {
        let ContentSummary { length, files, directories, space_consumed, .. } = summary;
        Self { length, files, directories, space_consumed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::proto::shared::Permission;

    #[test]
    fn a_mode_is_shown_as_ls_does() {
        let status = |mode| {
            let status = FileStatus { kind: 1, permission: Permission { mode }, ..FileStatus::default() };
            Status::from_wire("/a", status)
        };
        for (mode, text) in
            [(0o755, "rwxr-xr-x"), (0o1777, "rwxrwxrwt"), (0o1660, "rw-rw---T"), (0o007, "------rwx")]
        {
            assert_eq!(status(mode).permissions(), text);
        }
        let json = serde_json::to_string(&status(0o1750)).unwrap();
        assert!(json.starts_with(r#"{"path":"/a","type":"directory","length":0,"#), "{json}");
        assert!(json.contains(r#""mode":"1750""#), "{json}");
    }

    #[test]
    fn an_acl_is_known_by_the_mode_or_the_flags() {
        let has_acl = |mode, flags| {
            let permission = Permission { mode };
            let status = FileStatus { kind: 1, permission, flags, ..FileStatus::default() };
            Status::from_wire("/a", status).has_acl
        };
        assert_eq!([has_acl(0o1755, None), has_acl(0o755, Some(5))], [false, true]);
        assert_eq!([has_acl(1 << 12 | 0o755, None), has_acl(0o1755, Some(4))], [true, false]);
    }

    #[test]
    fn an_entry_has_the_path_of_its_directory_before_its_name() {
        let entry = |path, name: &'static str| {
            Status::from_wire(path, FileStatus { path: name.into(), ..FileStatus::default() }).path
        };
        assert_eq!(
            (entry("/", "a"), entry("/a", "b"), entry("/a", "")),
            ("/a".into(), "/a/b".into(), "/a".into())
        );
    }
}
