//! Empties the trash of users, as HDFS's NameNode does: what clients moved to `.Trash/Current` of a user becomes a checkpoint, named
//! after the time, and goes when that is as long ago as the trash keeps it.

use chrono::{DateTime, NaiveDateTime};
use prost::Message;

use super::State;
use crate::ids::InodeId;
use crate::namenode::namespace::{Inode, User};
use crate::namenode::{Context, Now};
use crate::wire::proto::namenode::{DeleteRequest, RenameRequest};

/// Directory of the homes of users.
const HOMES: &str = "/user";
/// The trash of a user, in their home.
const TRASH: &str = ".Trash";
/// Directory to which clients move files.
const CURRENT: &str = "Current";
/// Names of checkpoints: times in UTC.
const CHECKPOINT: &str = "%y%m%d%H%M%S";
/// Digits of a time without seconds, with which clients before Hadoop 3 call checkpoints.
const SHORT_DIGITS: usize = 10;
/// Users whose trash one tick looks at.
const USERS_PER_TICK_MAX: usize = 20;
/// Checkpoints of a user that one look removes; others go with the next one.
const REMOVED_PER_USER_MAX: usize = 100;
const MINUTE_MS: u64 = 60_000;

/// What is being emptied.
#[derive(Debug, Default)]
pub(super) struct Emptying {
    /// When it begins, in milliseconds since 1970; none before the first tick.
    due_ms: Option<u64>,
    /// The user that was looked at last, while it goes on.
    after: Option<Box<[u8]>>,
}

impl State {
    /// Goes on to empty the trash, if it is time: a few users at a time.
    pub(super) fn look_after_trash(&mut self, now: Now, random: &mut fastrand::Rng) {
        let interval_ms = self.rules.trash_minutes.saturating_mul(MINUTE_MS);
        if interval_ms == 0 {
            return;
        }
        let every_ms = match self.rules.trash_checkpoint_minutes.saturating_mul(MINUTE_MS) {
            // As in HDFS, where it is to be no longer than the other one.
            checkpoint_ms if checkpoint_ms == 0 || checkpoint_ms > interval_ms => interval_ms,
            checkpoint_ms => checkpoint_ms,
        };
        let next_ms = (now.wall_ms / every_ms + 1).saturating_mul(every_ms);
        let due_ms = *self.emptying.due_ms.get_or_insert(next_ms);
        if due_ms.saturating_sub(now.wall_ms) > every_ms {
            self.emptying.due_ms = Some(next_ms); // the clock was set back
            return;
        }
        if now.wall_ms < due_ms || self.safe_mode.is_on() {
            return;
        }
        let users = self.users_behind(self.emptying.after.as_deref().unwrap_or_default());
        let Some((last, _)) = users.last() else {
            self.emptying = Emptying { due_ms: Some(next_ms), after: None };
            return;
        };
        self.emptying.after = Some(last.as_bytes().into());
        let user = User { name: self.rules.superuser.clone(), groups: Vec::new(), is_superuser: true };
        let mut context = Context { now, user: &user, caller: None, ip: None, random };
        for (_, trash) in users {
            self.remove_old(trash, interval_ms, &mut context);
            self.keep_current(trash, &mut context);
        }
    }

    /// The next users, and the directories of their trash; one without any has none of it, and is passed over.
    fn users_behind(&self, after: &[u8]) -> Vec<(String, InodeId)> {
        let superuser = User { name: String::new(), groups: Vec::new(), is_superuser: true };
        let homes = crate::namenode::namespace::Path::parse(HOMES).ok();
        let place = homes.and_then(|homes| self.place(&homes, &superuser).ok());
        let homes = place.and_then(|place| place.inode()).and_then(|id| self.tree.inode(id).directory());
        let Some(homes) = homes else { return Vec::new() };
        let (children, _) = self.tree.children_after(homes, after);
        let with_trash = children.filter_map(|home| {
            let trash = self.child(home, TRASH).filter(|trash| trash.is_directory())?;
            Some((String::from_utf8(home.name.to_vec()).ok()?, trash.id))
        });
        with_trash.take(USERS_PER_TICK_MAX).collect()
    }

    fn child(&self, of: &Inode, name: &str) -> Option<&Inode> {
        let found = of.directory()?.children.find(name.as_bytes(), |id| &self.tree.inode(id).name);
        found.ok().map(|(id, _)| self.tree.inode(id))
    }

    /// Removes the checkpoints that are old enough.
    fn remove_old(&mut self, trash: InodeId, interval_ms: u64, context: &mut Context<'_>) {
        let directory = self.tree.inode(trash).directory().expect("the trash is a directory");
        let (children, _) = self.tree.children_after(directory, b"");
        let is_old = |inode: &&Inode| {
            let made_ms = std::str::from_utf8(&inode.name).ok().and_then(time_of);
            made_ms.is_some_and(|made_ms| made_ms.saturating_add(interval_ms) < context.now.wall_ms)
        };
        let old: Vec<String> = children
            .filter(is_old)
            .take(REMOVED_PER_USER_MAX)
            .map(|inode| self.tree.path_of(inode.id))
            .collect();
        for src in old {
            self.do_unless_refused("delete", &DeleteRequest { src, recursive: true }, context);
        }
    }

    /// Makes what is in the trash now a checkpoint.
    fn keep_current(&mut self, trash: InodeId, context: &mut Context<'_>) {
        if self.child(self.tree.inode(trash), CURRENT).is_none() {
            return;
        }
        let Some(name) = name_of(context.now.wall_ms) else { return };
        let path = self.tree.path_of(trash);
        let (src, dst) = (format!("{path}/{CURRENT}"), format!("{path}/{name}"));
        let request = RenameRequest { src, dst, overwrite: Some(false), move_to_trash: None };
        self.do_unless_refused("rename2", &request, context);
    }

    /// Makes a change as the superuser. What is refused, as by a quota, is tried again the next time.
    fn do_unless_refused(&mut self, method: &str, request: &impl Message, context: &mut Context<'_>) {
        let _ = self.call(context, method, request.encode_to_vec().into());
    }
}

/// The name of a checkpoint that is made at a time.
fn name_of(wall_ms: u64) -> Option<String> {
    let time = DateTime::from_timestamp_millis(i64::try_from(wall_ms).ok()?)?;
    Some(time.format(CHECKPOINT).to_string())
}

/// When a checkpoint of this name was made, in milliseconds since 1970; none for anything else. Clients number those of one second.
fn time_of(name: &str) -> Option<u64> {
    let digits = name.split_once('-').map_or(name, |(digits, _)| digits);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let full = if digits.len() == SHORT_DIGITS { format!("{digits}00") } else { digits.to_owned() };
    let time = NaiveDateTime::parse_from_str(&full, CHECKPOINT).ok()?;
    u64::try_from(time.and_utc().timestamp_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_known_by_its_name() {
        let at_ms = 1_790_000_123_456;
        let name = name_of(at_ms).unwrap();
        assert_eq!(name, "260921141523");
        assert_eq!(time_of(&name), Some(1_790_000_123_000));
        assert_eq!(time_of("2609211415"), Some(1_790_000_100_000), "of an old client");
        assert_eq!(time_of("260921141523-1"), Some(1_790_000_123_000));
        for other in ["Current", "26092114", "269921141523", "", "2609211415231", "２609211415"] {
            assert_eq!(time_of(other), None, "{other}");
        }
    }
}
