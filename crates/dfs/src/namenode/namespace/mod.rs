//! The tree of directories and files.
//!
//! Inodes stand side by side in the pages of a table; a directory has the numbers of its children in the order of their names,
//! which the inodes have. A directory knows how much is below it. What
//! changes the tree are the methods of [`Tree`] that the application of a journal record calls, and nothing else.

pub mod acl;
mod attached;
mod children;
mod counts;
mod inode;
mod owners;
mod path;
mod permission;
mod quota;
mod tree;
mod xattr;

pub use acl::{AclEntry, AclFault, AclKind, KeptAcl, Scope};
pub use attached::Attached;
pub use children::Children;
pub use counts::Counts;
pub use inode::{Content, Directory, File, Inode, Layout};
pub use owners::{OwnerId, Owners};
pub use path::{COMPONENT_BYTES_MAX, Path};
pub use permission::{Access, Mode, User};
pub use quota::Quota;
pub use tree::{Attributes, Place, Tree};
pub use xattr::{Namespace, XAttr};
