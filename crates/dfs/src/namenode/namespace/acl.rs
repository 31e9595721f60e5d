//! Access control lists: entries for named users and groups beside the mode, and those that new children get.
//!
//! An inode's mode has what its owner and others may do and, with an ACL, the mask in the place of its group. The rest is in a
//! list beside the inode: the group's entry and the named ones, and then the default ones of a directory.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Mode;

/// Entries of one scope, as in HDFS.
pub const ACL_ENTRIES_MAX: usize = 32;

/// What an entry is for, by HDFS's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Access to the inode.
    Access,
    /// What new children of a directory get.
    Default,
}

/// Whom an entry is for, by HDFS's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclKind {
    /// A user, or the owner without a name.
    User,
    /// A group, or that of the inode without a name.
    Group,
    /// The most that groups and named users may do.
    Mask,
    /// All others.
    Other,
}

/// An entry of an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// What it is for.
    pub scope: Scope,
    /// Whom it is for.
    pub kind: AclKind,
    /// The user or the group.
    pub name: Option<Arc<str>>,
    /// Three bits: 4 read, 2 write, 1 execute.
    pub permissions: u8,
}

impl AclEntry {
    /// An entry without a name.
    pub fn unnamed(scope: Scope, kind: AclKind, permissions: u8) -> Self {
        Self { scope, kind, name: None, permissions }
    }

    /// The order of entries, which is that of HDFS; those without a name are before the others.
    fn order(&self, other: &Self) -> Ordering {
        (self.scope, self.kind, &self.name).cmp(&(other.scope, other.kind, &other.name))
    }

    fn is_for(&self, scope: Scope, kind: AclKind) -> bool {
        self.scope == scope && self.kind == kind && self.name.is_none()
    }
}

fn find(entries: &[AclEntry], scope: Scope, kind: AclKind) -> Option<&AclEntry> {
    entries.iter().find(|entry| entry.is_for(scope, kind))
}

fn count(entries: &[AclEntry], scope: Scope) -> usize {
    entries.iter().filter(|entry| entry.scope == scope).count()
}

/// Why an ACL is refused, in HDFS's words.
pub type AclFault = String;

/// The mode and the list that an inode keeps of a whole ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAcl {
    /// With the mask in the place of the group's bits, if there is one.
    pub mode: Mode,
    /// The entries beside the mode; none of them for an ACL that the mode says.
    pub entries: Vec<AclEntry>,
}

/// The whole ACL of an inode, with the entries that its mode says, in order.
pub fn whole(mode: Mode, kept: &[AclEntry]) -> Vec<AclEntry> {
    let [owner, group, other] = mode.classes();
    let unnamed = |kind, permissions| AclEntry::unnamed(Scope::Access, kind, permissions);
    let mut entries = vec![unnamed(AclKind::User, owner), unnamed(AclKind::Other, other)];
    if count(kept, Scope::Access) == 0 {
        entries.push(unnamed(AclKind::Group, group));
    } else {
        entries.push(unnamed(AclKind::Mask, group));
    }
    entries.extend_from_slice(kept);
    entries.sort_by(AclEntry::order);
    entries
}

/// What an inode keeps of a whole ACL.
///
/// # Errors
/// Default entries of a file.
pub fn kept(
    mode: Mode,
    whole: &[AclEntry],
    is_directory: bool,
    path: impl Fn() -> String,
) -> Result<KeptAcl, AclFault> {
    let has_default = count(whole, Scope::Default) > 0;
    if has_default && !is_directory {
        let path = path();
        return Err(format!("Invalid ACL: only directories may have a default ACL. Path: {path}"));
    }
    Ok(split(mode, whole))
}

fn split(mode: Mode, whole: &[AclEntry]) -> KeptAcl {
    let permissions = |kind| find(whole, Scope::Access, kind).map(|entry| entry.permissions);
    let required = |kind| permissions(kind).expect("an ACL has entries for owner, group and others");
    let mask = permissions(AclKind::Mask);
    let group = mask.unwrap_or_else(|| required(AclKind::Group));
    let mode = mode.with_classes([required(AclKind::User), group, required(AclKind::Other)]);
    let is_kept = |entry: &&AclEntry| match (entry.scope, entry.kind, &entry.name) {
        (Scope::Default, ..) | (_, _, Some(_)) => true,
        (Scope::Access, AclKind::Group, None) => mask.is_some(),
        (Scope::Access, ..) => false,
    };
    KeptAcl { mode, entries: whole.iter().filter(is_kept).cloned().collect() }
}

/// What a new child of a directory keeps: its mode, as it was asked for, filters what the directory's default entries say. None
/// if the directory has no default entries.
pub fn inherited(parent: &[AclEntry], mode: Mode, is_directory: bool) -> Option<KeptAcl> {
    let defaults: Vec<&AclEntry> = parent.iter().filter(|entry| entry.scope == Scope::Default).collect();
    if defaults.is_empty() {
        return None;
    }
    let [owner, group, other] = mode.classes();
    let is_minimal = defaults.len() == 3;
    let mut whole: Vec<AclEntry> = defaults.iter().copied().cloned().collect();
    for entry in &mut whole {
        entry.scope = Scope::Access;
        entry.permissions &= match (entry.kind, &entry.name) {
            (AclKind::User, None) => owner,
            (AclKind::Group, _) if is_minimal => group,
            (AclKind::Mask, _) => group,
            (AclKind::Other, _) => other,
            _ => 7,
        };
    }
    if is_directory {
        whole.extend(defaults.into_iter().cloned());
    }
    Some(split(mode, &whole))
}

/// The entries of a request in order.
///
/// # Errors
/// Too many of them.
fn in_order(mut wanted: Vec<AclEntry>) -> Result<Vec<AclEntry>, AclFault> {
    wanted.sort_by(AclEntry::order);
    check_count(&wanted)?;
    Ok(wanted)
}

fn check_count(entries: &[AclEntry]) -> Result<(), AclFault> {
    for (scope, word) in [(Scope::Access, "access"), (Scope::Default, "default")] {
        let count = count(entries, scope);
        if count > ACL_ENTRIES_MAX {
            return Err(format!(
                "Invalid ACL: ACL has {count} {word} entries, which exceeds maximum of {ACL_ENTRIES_MAX}."
            ));
        }
    }
    Ok(())
}

/// A new ACL that is put together, with what decides about its masks.
#[derive(Default)]
struct Draft {
    entries: Vec<AclEntry>,
    masks: Vec<AclEntry>,
    scopes_changed: Vec<Scope>,
    masks_changed: Vec<Scope>,
}

impl Draft {
    /// Takes an entry that stays as it was.
    fn keep(&mut self, entry: &AclEntry) {
        let list = if entry.kind == AclKind::Mask { &mut self.masks } else { &mut self.entries };
        list.push(entry.clone());
    }

    /// Takes an entry that is new.
    fn set(&mut self, entry: &AclEntry) {
        self.note_change(entry);
        self.keep(entry);
    }

    fn note_change(&mut self, entry: &AclEntry) {
        self.scopes_changed.push(entry.scope);
        if entry.kind == AclKind::Mask {
            self.masks_changed.push(entry.scope);
        }
    }

    /// Copies what a default ACL lacks from the access ACL, makes the masks, and checks the whole.
    fn finish(mut self) -> Result<Vec<AclEntry>, AclFault> {
        if count(&self.entries, Scope::Default) > 0 {
            for kind in [AclKind::User, AclKind::Group, AclKind::Other] {
                if find(&self.entries, Scope::Default, kind).is_none()
                    && let Some(access) = find(&self.entries, Scope::Access, kind)
                {
                    self.entries.push(AclEntry::unnamed(Scope::Default, kind, access.permissions));
                }
            }
        }
        for scope in [Scope::Access, Scope::Default] {
            if let Some(mask) = self.mask(scope)? {
                self.entries.push(mask);
            }
        }
        self.entries.sort_by(AclEntry::order);
        check_whole(&self.entries)?;
        Ok(self.entries)
    }

    /// The mask of a scope: as it was said or is, or else all that those may do whom it is for.
    fn mask(&self, scope: Scope) -> Result<Option<AclEntry>, AclFault> {
        let entries = || self.entries.iter().filter(|entry| entry.scope == scope);
        if entries().next().is_none() {
            return Ok(None);
        }
        let said = self.masks.iter().find(|mask| mask.scope == scope);
        let is_needed = entries().any(|entry| entry.name.is_some());
        let is_changed = self.masks_changed.contains(&scope);
        match said {
            None if is_needed && is_changed => {
                Err("Invalid ACL: mask is required and cannot be deleted.".to_owned())
            }
            Some(mask) if is_changed || !self.scopes_changed.contains(&scope) => Ok(Some(mask.clone())),
            None if !is_needed => Ok(None),
            _ => {
                let is_masked = |entry: &&AclEntry| entry.kind == AclKind::Group || entry.name.is_some();
                let all = entries().filter(is_masked).fold(0, |all, entry| all | entry.permissions);
                Ok(Some(AclEntry::unnamed(scope, AclKind::Mask, all)))
            }
        }
    }
}

fn check_whole(entries: &[AclEntry]) -> Result<(), AclFault> {
    if entries.windows(2).any(|pair| pair[0].order(&pair[1]).is_eq()) {
        return Err("Invalid ACL: multiple entries with same scope, type and name.".to_owned());
    }
    let is_wrong =
        |entry: &&AclEntry| entry.name.is_some() && matches!(entry.kind, AclKind::Mask | AclKind::Other);
    if let Some(entry) = entries.iter().find(is_wrong) {
        let entry = entry.to_text();
        return Err(format!("Invalid ACL: this entry type must not have a name: {entry}."));
    }
    check_count(entries)?;
    for kind in [AclKind::User, AclKind::Group, AclKind::Other] {
        if find(entries, Scope::Access, kind).is_none() {
            return Err("Invalid ACL: the user, group and other entries are required.".to_owned());
        }
        if count(entries, Scope::Default) > 0 && find(entries, Scope::Default, kind).is_none() {
            return Err("Invalid default ACL: the user, group and other entries are required.".to_owned());
        }
    }
    Ok(())
}

impl AclEntry {
    fn to_text(&self) -> String {
        let scope = if self.scope == Scope::Default { "default:" } else { "" };
        let kind = ["user", "group", "mask", "other"][self.kind as usize];
        let bit = |at: u8, letter| if self.permissions & at == 0 { '-' } else { letter };
        let name = self.name.as_deref().unwrap_or_default();
        format!("{scope}{kind}:{name}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))
    }
}

/// An ACL with these entries added or in the place of those for the same.
///
/// # Errors
/// An ACL that would not be one.
pub fn merged(existing: &[AclEntry], wanted: Vec<AclEntry>) -> Result<Vec<AclEntry>, AclFault> {
    let wanted = in_order(wanted)?;
    let is_same = |one: &AclEntry, other: &AclEntry| one.order(other).is_eq();
    let mut draft = Draft::default();
    for entry in existing {
        if !wanted.iter().any(|new| is_same(new, entry)) {
            draft.keep(entry);
        }
    }
    let is_replaced = |new: &AclEntry| existing.iter().any(|entry| is_same(entry, new));
    for (at, new) in wanted.iter().enumerate() {
        // Of several for one that is there, one counts, as in HDFS.
        if is_replaced(new) && at > 0 && is_same(&wanted[at - 1], new) {
            continue;
        }
        draft.set(new);
    }
    draft.finish()
}

/// An ACL without the entries for the same as these.
///
/// # Errors
/// An ACL that would not be one.
pub fn without(existing: &[AclEntry], wanted: Vec<AclEntry>) -> Result<Vec<AclEntry>, AclFault> {
    let wanted = in_order(wanted)?;
    let mut draft = Draft::default();
    for entry in existing {
        if wanted.iter().any(|gone| gone.order(entry).is_eq()) {
            draft.note_change(entry);
        } else {
            draft.keep(entry);
        }
    }
    draft.finish()
}

/// An ACL without its default entries.
pub fn without_default(existing: &[AclEntry]) -> Vec<AclEntry> {
    existing.iter().filter(|entry| entry.scope == Scope::Access).cloned().collect()
}

/// An ACL of these entries; of a scope that they say nothing of, what there is.
///
/// # Errors
/// An ACL that would not be one.
pub fn replaced(existing: &[AclEntry], wanted: Vec<AclEntry>) -> Result<Vec<AclEntry>, AclFault> {
    let mut draft = Draft::default();
    in_order(wanted)?.iter().for_each(|entry| draft.set(entry));
    for entry in existing {
        if !draft.scopes_changed.contains(&entry.scope) {
            draft.keep(entry);
        }
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries from Hadoop's text, in order.
    fn acl(text: &str) -> Vec<AclEntry> {
        let entry = |text: &str| {
            let (scope, text) = match text.strip_prefix("default:") {
                Some(rest) => (Scope::Default, rest),
                None => (Scope::Access, text),
            };
            let parts: Vec<&str> = text.split(':').collect();
            let kind = match parts[0] {
                "user" => AclKind::User,
                "group" => AclKind::Group,
                "mask" => AclKind::Mask,
                _ => AclKind::Other,
            };
            let name = Some(parts[1]).filter(|name| !name.is_empty()).map(Arc::from);
            let bits =
                parts[2].chars().zip([4, 2, 1]).map(|(letter, bit)| if letter == '-' { 0 } else { bit });
            AclEntry { scope, kind, name, permissions: bits.sum() }
        };
        text.split(',').filter(|text| !text.is_empty()).map(entry).collect()
    }

    fn text(entries: &[AclEntry]) -> String {
        entries.iter().map(AclEntry::to_text).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_mask_is_made_of_what_it_is_for_unless_it_is_said() {
        let plain = acl("user::rw-,group::r--,other::r--");
        let named = merged(&plain, acl("user:bob:rwx")).unwrap();
        assert_eq!(text(&named), "user::rw-,user:bob:rwx,group::r--,mask::rwx,other::r--");
        let said = merged(&named, acl("mask::r--,group:dev:-wx")).unwrap();
        assert_eq!(text(&said), "user::rw-,user:bob:rwx,group::r--,group:dev:-wx,mask::r--,other::r--");
        let again = merged(&said, acl("user:bob:r--")).unwrap();
        assert_eq!(text(&again), "user::rw-,user:bob:r--,group::r--,group:dev:-wx,mask::rwx,other::r--");
        let gone = without(&again, acl("user:bob:---,group:dev:---")).unwrap();
        assert_eq!(text(&gone), "user::rw-,group::r--,mask::r--,other::r--");
        assert_eq!(text(&without(&gone, acl("mask::---")).unwrap()), text(&plain));
        let refused = without(&named, acl("mask::---")).unwrap_err();
        assert_eq!(refused, "Invalid ACL: mask is required and cannot be deleted.");
        let default = merged(&plain, acl("default:user:bob:r-x")).unwrap();
        let expected = "user::rw-,group::r--,other::r--,default:user::rw-,default:user:bob:r-x,default:group::r--,\
                        default:mask::r-x,default:other::r--";
        assert_eq!(text(&default), expected);
        assert_eq!(text(&without_default(&default)), text(&plain));
        let replaced = replaced(&default, acl("user::rwx,group::---,other::---")).unwrap();
        assert!(text(&replaced).starts_with("user::rwx,group::---,other::---,default:user::rw-"));
    }

    #[test]
    fn what_is_no_acl_is_refused_in_hdfs_s_words() {
        let plain = acl("user::rw-,group::r--,other::r--");
        let many: Vec<String> = (0..33).map(|number| format!("user:u{number}:r--")).collect();
        assert_eq!(
            merged(&plain, acl(&many.join(","))).unwrap_err(),
            "Invalid ACL: ACL has 33 access entries, which exceeds maximum of 32."
        );
        let most = merged(&plain, acl(&many[..28].join(","))).unwrap();
        assert_eq!(most.len(), 32);
        assert!(merged(&most, acl("group:g:r--")).unwrap_err().contains("33 access entries"));
        assert!(replaced(&plain, acl("user::rw-,user:bob:r--")).unwrap_err().contains("are required"));
        assert!(
            merged(&plain, acl("other:bob:r--")).unwrap_err().contains("must not have a name: other:bob:r--")
        );
        assert!(merged(&plain, acl("user:b:r--,user:b:rw-")).unwrap_err().contains("multiple entries"));
        let default =
            acl("user::rw-,group::r--,other::r--,default:user::rw-,default:group::r--,default:other::r--");
        assert!(
            kept(Mode::new(0o644), &default, false, || "/f".to_owned())
                .unwrap_err()
                .contains("only directories")
        );
    }

    #[test]
    fn the_mode_and_the_list_make_the_whole_again() {
        for said in [
            "user::rwx,group::r-x,other::--x",
            "user::rwx,user:bob:rw-,group::r-x,mask::rwx,other::--x",
            "user::rwx,group::r-x,other::--x,default:user::rwx,default:group::r-x,default:other::---",
            "user::rwx,group::r-x,group:dev:r--,mask::r--,other::--x,default:user::rwx,default:user:bob:r--,default:group::r-x,\
             default:mask::r-x,default:other::---",
        ] {
            let acl = acl(said);
            let kept = kept(Mode::new(0o1000), &acl, true, String::new).unwrap();
            assert_eq!(text(&whole(kept.mode, &kept.entries)), text(&acl));
            assert_eq!(kept.entries.is_empty(), acl.len() == 3);
            assert!(kept.mode.is_sticky());
        }
    }

    #[test]
    fn a_child_gets_the_default_entries_filtered_by_its_mode() {
        let parent = acl(
            "default:user::rwx,default:user:bob:rwx,default:group::r-x,default:mask::rwx,default:other::r--",
        );
        let file = inherited(&parent, Mode::new(0o640), false).unwrap();
        assert_eq!((file.mode.bits(), text(&file.entries).as_str()), (0o640, "user:bob:rwx,group::r-x"));
        let directory = inherited(&parent, Mode::new(0o775), true).unwrap();
        assert_eq!(directory.mode.bits(), 0o774);
        assert_eq!(directory.entries.len(), 2 + parent.len());
        let minimal = acl("default:user::rwx,default:group::rwx,default:other::r-x");
        let file = inherited(&minimal, Mode::new(0o666), false).unwrap();
        assert_eq!((file.mode.bits(), file.entries.len()), (0o664, 0));
        assert!(inherited(&acl("user:bob:rwx,group::r--"), Mode::new(0o666), false).is_none());
    }
}
