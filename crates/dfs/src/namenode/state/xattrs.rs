//! Calls that look at extended attributes and set them, with the permissions of HDFS (`XAttrPermissionFilter`).

use bytes::Bytes;

use super::State;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Namespace, Path, Tree, User, XAttr};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::attributes::{
    self, GetXAttrsRequest, RemoveXAttrRequest, SetXAttrRequest, XAttrsResponse,
};
use crate::wire::proto::journal::{SetXAttr, record::Change};
use crate::wire::proto::namenode::{Empty, PathRequest};

/// Flags of a request to set an attribute: it may be new, it may be there already.
const FLAG_CREATE: u32 = 1;
const FLAG_REPLACE: u32 = 2;
/// The one attribute of its namespace that users may set, on files, without a value, and not take away again.
const UNREADABLE_BY_SUPERUSER: &str = "hdfs.unreadable.by.superuser";

impl State {
    pub(super) fn set_xattr(
        &mut self,
        context: &mut Context<'_>,
        request: &SetXAttrRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let path = Path::parse(&request.src)?;
        let xattr = self.wanted_xattr(request.xattr.as_ref())?;
        let (bytes, bytes_max) = (xattr.bytes(), self.rules.xattr_bytes_max);
        if bytes > bytes_max {
            return Err(illegal(format!(
                "The XAttr is too big. The maximum combined size of the name and value is {bytes_max}, but the total size is \
                 {bytes}"
            )));
        }
        check_namespace(&xattr, context.user, &path)?;
        let inode = self.existing(&path, context.user)?;
        self.check_xattr_change(&xattr, inode, context.user, &path)?;
        let existing = self.tree.attached.xattrs(inode.id);
        let is_there = existing.iter().any(|old| old.is_named_as(&xattr));
        check_flags(&xattr.name, is_there, request.flags())?;
        let count = existing.len() + usize::from(!is_there);
        if count > self.rules.xattrs_max {
            let limit = self.rules.xattrs_max;
            return Err(io(format!("Cannot add additional XAttr to inode, would exceed limit of {limit}")));
        }
        if is_unreadable(&xattr) && inode.is_directory() {
            return Err(io(format!("Can only set '{}' on a file.", xattr.full_name())));
        }
        Ok(self.commit_xattr(context, inode.id, &xattr, false))
    }

    pub(super) fn remove_xattr(
        &mut self,
        context: &mut Context<'_>,
        request: &RemoveXAttrRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let path = Path::parse(&request.src)?;
        let xattr = XAttr { value: None, ..self.wanted_xattr(request.xattr.as_ref())? };
        check_namespace(&xattr, context.user, &path)?;
        let inode = self.existing(&path, context.user)?;
        self.check_xattr_change(&xattr, inode, context.user, &path)?;
        if !self.tree.attached.xattrs(inode.id).iter().any(|old| old.is_named_as(&xattr)) {
            return Err(io("No matching attributes found for remove operation".to_owned()));
        }
        if is_unreadable(&xattr) {
            let message = format!("The xattr '{}' can not be deleted.", xattr.full_name());
            return Err(Refusal::new(Exception::AccessControl, message));
        }
        Ok(self.commit_xattr(context, inode.id, &xattr, true))
    }

    /// The attributes that a request names, or all that the caller may see.
    pub(super) fn get_xattrs(
        &mut self,
        context: &mut Context<'_>,
        request: &GetXAttrsRequest,
    ) -> Result<XAttrsResponse, Refusal> {
        let path = Path::parse(&request.src)?;
        let wanted = request.xattrs.iter().map(|xattr| self.wanted_xattr(Some(xattr)));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        for xattr in &wanted {
            check_namespace(&XAttr { value: None, ..xattr.clone() }, context.user, &path)?;
        }
        let seen = self.visible_xattrs(&path, context.user)?;
        if wanted.is_empty() {
            return Ok(XAttrsResponse { xattrs: seen.into_iter().map(to_wire).collect() });
        }
        let found = wanted.iter().map(|named| {
            let found = seen.iter().find(|xattr| xattr.is_named_as(named)).copied().map(to_wire);
            let message = "At least one of the attributes provided was not found.";
            found.ok_or_else(|| Refusal::new(Exception::XAttrNotFound, message))
        });
        Ok(XAttrsResponse { xattrs: found.collect::<Result<_, _>>()? })
    }

    /// The names of the attributes that the caller may see.
    pub(super) fn list_xattrs(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<XAttrsResponse, Refusal> {
        self.check_xattrs_enabled()?;
        let seen = self.visible_xattrs(&Path::parse(&request.src)?, context.user)?;
        let named = seen.into_iter().map(|xattr| attributes::XAttr { value: None, ..to_wire(xattr) });
        Ok(XAttrsResponse { xattrs: named.collect() })
    }

    fn visible_xattrs(&self, path: &Path<'_>, user: &User) -> Result<Vec<&XAttr>, Refusal> {
        self.check_xattrs_enabled()?;
        let inode = self.existing(path, user)?;
        user.check(inode, &self.tree, Access::Read)?;
        let is_visible = |xattr: &&XAttr| match xattr.namespace {
            Namespace::User => true,
            Namespace::Trusted => user.is_superuser,
            Namespace::Raw => path.raw().is_some(),
            Namespace::Security => is_unreadable(xattr),
            Namespace::System => false,
        };
        Ok(self.tree.attached.xattrs(inode.id).iter().filter(is_visible).collect())
    }

    /// Checks that a file is not one that the superuser is kept from reading.
    pub(super) fn check_readable_by_superuser(&self, file: InodeId, user: &User) -> Result<(), Refusal> {
        if !user.is_superuser || !self.tree.attached.xattrs(file).iter().any(is_unreadable) {
            return Ok(());
        }
        let name = &user.name;
        let message = format!(
            "Access is denied for {name} since the superuser is not allowed to perform this operation."
        );
        Err(Refusal::new(Exception::AccessControl, message))
    }

    fn check_xattrs_enabled(&self) -> Result<(), Refusal> {
        if self.rules.xattrs_enabled {
            return Ok(());
        }
        let message = "The XAttr operation has been rejected.  Support for XAttrs has been disabled by setting \
                       dfs.namenode.xattrs.enabled to false.";
        Err(io(message.to_owned()))
    }

    fn wanted_xattr(&self, wanted: Option<&attributes::XAttr>) -> Result<XAttr, Refusal> {
        self.check_xattrs_enabled()?;
        let wanted = wanted.ok_or_else(|| illegal("the request names no XAttr".to_owned()))?;
        let namespace = Namespace::from_wire(wanted.namespace).ok_or_else(|| {
            illegal(format!("{} is no namespace of an XAttr, expected 0 to 4", wanted.namespace))
        })?;
        if wanted.name.is_empty() {
            return Err(illegal("XAttr name cannot be empty.".to_owned()));
        }
        let value = wanted.value.as_ref().map(|value| value.to_vec().into_boxed_slice());
        Ok(XAttr { namespace, name: wanted.name.as_str().into(), value })
    }

    fn check_xattr_change(
        &self,
        xattr: &XAttr,
        inode: &Inode,
        user: &User,
        path: &Path<'_>,
    ) -> Result<(), Refusal> {
        if xattr.namespace != Namespace::User {
            return Ok(());
        }
        if inode.is_directory() && inode.mode.is_sticky() {
            return user.check_owner(inode, path.text(), &self.tree.owners);
        }
        user.check(inode, &self.tree, Access::Write)
    }

    fn commit_xattr(
        &mut self,
        context: &Context<'_>,
        inode: InodeId,
        xattr: &XAttr,
        is_removed: bool,
    ) -> Vec<u8> {
        let set = SetXAttr { inode: inode.0, xattr: Some(to_wire(xattr)), is_removed };
        self.commit_once(context, Change::SetXattr(set), &Empty {})
    }

    /// Makes the change of a record.
    pub(super) fn apply_xattr(&mut self, set: &SetXAttr) {
        let id = InodeId(set.inode);
        assert!(self.tree.get(id).is_some(), "an attribute is of an inode");
        let said = set.xattr.as_ref().expect("it sets an attribute");
        let xattr = XAttr {
            namespace: Namespace::from_wire(said.namespace).expect("it was checked"),
            name: said.name.as_str().into(),
            value: said.value.as_ref().map(|value| value.to_vec().into_boxed_slice()),
        };
        if set.is_removed {
            self.tree.attached.remove_xattr(id, &xattr);
        } else {
            self.tree.attached.set_xattr(id, xattr);
        }
    }
}

/// The records that make the attributes of all inodes.
pub(super) fn saved(tree: &Tree) -> impl Iterator<Item = Change> {
    tree.attached.all_xattrs().flat_map(|(id, xattrs)| {
        let set = move |xattr| SetXAttr { inode: id.0, xattr: Some(to_wire(xattr)), is_removed: false };
        xattrs.iter().map(set).map(Change::SetXattr)
    })
}

fn to_wire(xattr: &XAttr) -> attributes::XAttr {
    attributes::XAttr {
        namespace: xattr.namespace.to_wire(),
        name: xattr.name.to_string(),
        value: xattr.value.as_ref().map(|value| Bytes::copy_from_slice(value)),
    }
}

fn is_unreadable(xattr: &XAttr) -> bool {
    xattr.namespace == Namespace::Security && *xattr.name == *UNREADABLE_BY_SUPERUSER
}

/// Checks that a user may name an attribute of this namespace at all.
fn check_namespace(xattr: &XAttr, user: &User, path: &Path<'_>) -> Result<(), Refusal> {
    let is_allowed = match xattr.namespace {
        Namespace::User => true,
        Namespace::Trusted => user.is_superuser,
        Namespace::Raw => path.raw().is_some(),
        Namespace::Security => is_unreadable(xattr),
        Namespace::System => false,
    };
    let name = xattr.full_name();
    let message = match () {
        () if !is_allowed => format!("User doesn't have permission for xattr: {name}"),
        () if is_unreadable(xattr) && xattr.value.is_some() => {
            format!("Attempt to set a value for '{name}'. Values are not allowed for this xattr.")
        }
        () => return Ok(()),
    };
    Err(Refusal::new(Exception::AccessControl, message))
}

fn check_flags(name: &str, is_there: bool, flags: u32) -> Result<(), Refusal> {
    let (flag, state, word) = if is_there {
        (FLAG_REPLACE, "already exists", "REPLACE")
    } else {
        (FLAG_CREATE, "does not exist", "CREATE")
    };
    match flags {
        0 => Err(illegal("A flag must be specified.".to_owned())),
        flags if flags & flag == 0 => {
            Err(io(format!("XAttr: {name} {state}. The {word} flag must be specified.")))
        }
        _ => Ok(()),
    }
}

fn illegal(message: String) -> Refusal {
    Refusal::new(Exception::HadoopIllegalArgument, message)
}

fn io(message: String) -> Refusal {
    Refusal::new(Exception::Io, message)
}
