//! Calls that move and remove.

use super::State;
use super::quotas::Growth;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Counts, Inode, Path, Place};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{Delete, Rename, record::Change};
use crate::wire::proto::namenode::{BoolResponse, DeleteRequest, Empty, RenameRequest};

use prost::Message;

impl State {
    pub(super) fn delete(
        &mut self,
        context: &mut Context<'_>,
        request: &DeleteRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let path = Path::parse(&request.src)?;
        let place = self.place(&path, context.user)?;
        let refused = Ok(BoolResponse { result: false }.encode_to_vec());
        self.check_removal(&place, context, path.text())?;
        let Some(id) = place.inode() else { return refused };
        let inode = self.tree.inode(id);
        if id == InodeId::ROOT && request.recursive {
            return refused;
        }
        let is_full =
            |inode: &Inode| inode.directory().is_some_and(|directory| !directory.children.is_empty());
        if is_full(inode) {
            self.check_subtree(id, context, Access::All, is_full)?;
            if !request.recursive {
                let message = format!("`{} is non empty': Directory is not empty", request.src);
                return Err(Refusal::new(Exception::PathIsNotEmptyDirectory, message));
            }
        }
        if id == InodeId::ROOT {
            return refused;
        }
        let delete = Change::Delete(Delete { inode: id.0 });
        Ok(self.commit_once(context, delete, &BoolResponse { result: true }))
    }

    /// The older rename: it moves into a directory that is there, replaces nothing, and answers false where it cannot.
    pub(super) fn rename(
        &mut self,
        context: &mut Context<'_>,
        request: &RenameRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let refused = Ok(BoolResponse { result: false }.encode_to_vec());
        let (from, to) = (Path::parse(&request.src)?, Path::parse(&request.dst)?);
        to.check_new()?;
        let found = self.place(&from, context.user)?;
        let mut place = self.place_of_new(&to, context.user)?;
        // Into a directory that is there, under the old name.
        let into = place.inode().filter(|id| self.tree.inode(*id).is_directory());
        let text;
        let to = match (into, from.name()) {
            (Some(_), Some(name)) => {
                text = format!("{}/{name}", request.dst.trim_end_matches('/'));
                let into = Path::parse(&text)?;
                place = self.place_of_new(&into, context.user)?;
                into
            }
            _ => to,
        };
        self.check_removal(&found, context, from.text())?;
        self.check_ancestor(&place, context.user)?;
        let Some(source) = found.inode().filter(|source| *source != InodeId::ROOT) else { return refused };
        if place.inode() == Some(source) {
            return Ok(BoolResponse { result: true }.encode_to_vec());
        }
        let is_possible = place.missing == 1
            && self.tree.inode(place.deepest()).is_directory()
            && !self.tree.is_within(place.deepest(), source);
        if !is_possible {
            return refused;
        }
        self.check_new_child(&place, context)?;
        self.check_rename_quota(source, place.deepest(), None)?;
        let change = rename_record(source, place.deepest(), &to, None);
        Ok(self.commit_once(context, change, &BoolResponse { result: true }))
    }

    /// The newer rename: it says why it cannot, and may replace a file or an empty directory.
    pub(super) fn rename_or_replace(
        &mut self,
        context: &mut Context<'_>,
        request: &RenameRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let (from, to) = (Path::parse(&request.src)?, Path::parse(&request.dst)?);
        to.check_new()?;
        let (src, dst) = (&request.src, &request.dst);
        let refused = |exception, message: String| Err(Refusal::new(exception, message));
        let found = self.place(&from, context.user)?;
        let place = self.place_of_new(&to, context.user)?;
        self.check_removal(&found, context, from.text())?;
        self.check_ancestor(&place, context.user)?;
        let Some(source) = found.inode() else {
            return refused(Exception::FileNotFound, format!("rename source {src} is not found."));
        };
        if source == InodeId::ROOT || to.is_root() {
            let which = if source == InodeId::ROOT { "source" } else { "destination" };
            return refused(Exception::Io, format!("rename {which} cannot be the root"));
        }
        if place.inode() == Some(source) {
            let message = format!("The source {src} and destination {dst} are the same");
            return refused(Exception::FileAlreadyExists, message);
        }
        if self.tree.is_within(place.deepest(), source) && self.tree.inode(source).is_directory() {
            let message = format!("Rename destination {dst} is a directory or file under source {src}");
            return refused(Exception::Io, message);
        }
        let replaced = match place.inode() {
            Some(_) => Some(self.check_rename_replaces(source, &place, context, request)?),
            None => None,
        };
        let Some(parent) = place.parent() else {
            let message = format!("rename destination parent {dst} not found.");
            return refused(Exception::FileNotFound, message);
        };
        if !self.tree.inode(parent).is_directory() {
            let message = format!("rename destination parent {dst} is a file.");
            return refused(Exception::ParentNotDirectory, message);
        }
        if replaced.is_none() {
            self.check_new_child(&Place { found: vec![parent], missing: 1 }, context)?;
        }
        self.check_rename_quota(source, parent, replaced)?;
        let change = rename_record(source, parent, &to, replaced);
        Ok(self.commit_once(context, change, &Empty {}))
    }

    /// Checks that the directories that do not have an inode yet have room for it.
    fn check_rename_quota(
        &self,
        source: InodeId,
        parent: InodeId,
        replaced: Option<InodeId>,
    ) -> Result<(), Refusal> {
        let more = self.counts_of(source);
        let less = replaced.map_or_else(Counts::default, |replaced| self.counts_of(replaced));
        let names = |counts: Counts| counts.directories + counts.files;
        let space = |counts: Counts| counts.space + counts.reserved;
        let growth = Growth {
            names: names(more).saturating_sub(names(less)),
            space: space(more).saturating_sub(space(less)),
            ..Growth::default()
        };
        let mut common = parent;
        while !self.tree.is_within(source, common) {
            common = self.tree.inode(common).parent;
        }
        self.check_quota_below(parent, Some(common), growth)
    }

    fn check_rename_replaces(
        &self,
        source: InodeId,
        place: &Place,
        context: &Context<'_>,
        request: &RenameRequest,
    ) -> Result<InodeId, Refusal> {
        let replaced = place.deepest();
        let (from, over) = (self.tree.inode(source), self.tree.inode(replaced));
        let (src, dst) = (&request.src, &request.dst);
        let refused = |exception, message: String| Err(Refusal::new(exception, message));
        if from.is_directory() != over.is_directory() {
            let message = format!("Source {src} and destination {dst} must both be directories or files");
            return refused(Exception::Io, message);
        }
        if !request.overwrite() {
            let message = format!("rename destination {dst} already exists");
            return refused(Exception::FileAlreadyExists, message);
        }
        if over.directory().is_some_and(|directory| !directory.children.is_empty()) {
            return refused(Exception::Io, format!("rename destination directory is not empty: {dst}"));
        }
        self.check_removal(place, context, dst)?;
        Ok(replaced)
    }

    /// Checks that what a path names may be taken out of its directory, as far as that is there: whether something is in it is not looked at.
    pub(super) fn check_removal(
        &self,
        place: &Place,
        context: &Context<'_>,
        path: &str,
    ) -> Result<(), Refusal> {
        let Some(parent) = place.parent().map(|parent| self.tree.inode(parent)) else { return Ok(()) };
        context.user.check(parent, &self.tree, Access::Write)?;
        match place.inode() {
            Some(id) => context.user.check_sticky(parent, self.tree.inode(id), path, &self.tree.owners),
            None => Ok(()),
        }
    }
}

fn rename_record(source: InodeId, parent: InodeId, to: &Path<'_>, replaced: Option<InodeId>) -> Change {
    Change::Rename(Rename {
        inode: source.0,
        parent: parent.0,
        name: bytes::Bytes::copy_from_slice(to.name().expect("nothing is moved to the root").as_bytes()),
        replaced: replaced.map_or(0, |id| id.0),
    })
}
