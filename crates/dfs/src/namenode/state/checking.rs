//! The walk of a check (`hdfs fsck`): step by step, so that nobody else waits for more than one of them.

mod blocks;

use std::fmt::Write;
use std::ops::Range;

use chrono::DateTime;

use self::blocks::{Looked, storage_type};
use super::State;
use crate::ids::InodeId;
use crate::namenode::Now;
use crate::namenode::blocks::{Block, Replica};
use crate::namenode::checking::{CheckRequest, Subject, Totals};
use crate::namenode::namespace::{Access, Inode, Path, User};
use crate::wire::Refusal;

/// Files, directories and blocks that one step looks at, at a microsecond or two each.
const LOOKED_AT_MAX: usize = 2_000;
/// Bytes of text after which a step ends.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// A check that goes on with each step.
#[derive(Debug)]
pub struct Check {
    request: CheckRequest,
    user: User,
    began_ms: u64,
    totals: Totals,
    /// The directories from the first one down to where the walk is, each with the name that was looked at last.
    levels: Vec<(InodeId, Box<[u8]>)>,
    file: Option<FileCheck>,
    /// Files that cannot be read, which are to be copied or removed before the next step.
    lost: Vec<LostFile>,
    /// One of them could not be copied or removed.
    has_failed: bool,
    stage: Stage,
}

/// A file that cannot be read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFile {
    /// Its path.
    pub path: String,
    /// The bytes of each of its blocks that can be read, in their order.
    pub readable: Vec<Range<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Beginning,
    Walking,
    Ended,
}

/// A file that is looked at: its blocks, and then, if they are to be shown, once more.
#[derive(Debug)]
struct FileCheck {
    id: InodeId,
    path: String,
    next: usize,
    is_listing: bool,
    missing: (u64, u64),
    corrupt: (u64, u64),
    under: u64,
    misplaced: u64,
}

impl Check {
    /// A check that has yet to begin, with the permissions of a user.
    pub fn new(request: CheckRequest, user: User) -> Self {
        let (levels, totals, lost) = (Vec::new(), Totals::default(), Vec::new());
        let (began_ms, file, has_failed, stage) = (0, None, false, Stage::Beginning);
        Self { request, user, began_ms, totals, levels, file, lost, has_failed, stage }
    }

    /// The user whose check it is.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The files that cannot be read and are to be copied or removed now, before the next step.
    pub fn take_lost(&mut self) -> Vec<LostFile> {
        std::mem::take(&mut self.lost)
    }

    /// True if what can be read of them is to be copied.
    pub fn moves(&self) -> bool {
        self.request.moves
    }

    /// True if they are to be removed.
    pub fn removes(&self) -> bool {
        self.request.removes
    }

    /// Notes that one of them could not be copied or removed: the check fails in the end, as with HDFS.
    pub fn note_failure(&mut self) {
        self.has_failed = true;
    }
}

/// The report of a check that is refused before it begins.
pub fn refused_check(user: &str, path: &str, refusal: &Refusal, now: Now) -> String {
    let began = began(user, Some(path), now);
    format!("{began}{}", failed(path, &refusal.message, now, now.steady_ms))
}

fn began(user: &str, path: Option<&str>, now: Now) -> String {
    let path = path.map(|path| format!(" for path {path}")).unwrap_or_default();
    format!("FSCK started by {user} (auth:SIMPLE){path} at {}\n", date(now))
}

fn ended(now: Now, began_ms: u64) -> String {
    format!("FSCK ended at {} in {} milliseconds\n", date(now), now.steady_ms.saturating_sub(began_ms))
}

fn failed(path: &str, why: &str, now: Now, began_ms: u64) -> String {
    format!("{}{why}\n\n\nFsck on path '{path}' FAILED", ended(now, began_ms))
}

/// A time as Java prints it.
fn date(now: Now) -> String {
    let time = i64::try_from(now.wall_ms).ok().and_then(DateTime::from_timestamp_millis).unwrap_or_default();
    time.format("%a %b %d %H:%M:%S UTC %Y").to_string()
}

impl State {
    /// Takes the next step of a check: what it adds to the report, which may be nothing; none after its end.
    pub fn check_on(&self, check: &mut Check, now: Now) -> Option<String> {
        let mut text = String::new();
        match check.stage {
            Stage::Ended => return None,
            Stage::Beginning => {
                check.began_ms = now.steady_ms;
                let is_of_files = !matches!(check.request.subject, Subject::Blocks(_));
                let path = is_of_files.then_some(check.request.path.as_str());
                text += &began(&check.user.name, path, now);
                check.stage = Stage::Walking;
                let ended = match self.begin_check(check, now, &mut text) {
                    Ok(is_over) => is_over,
                    Err(refusal) => {
                        text += &failed(&check.request.path, &refusal.message, now, check.began_ms);
                        true
                    }
                };
                if ended {
                    check.stage = Stage::Ended;
                    return Some(text);
                }
            }
            Stage::Walking => {}
        }
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX && text.len() < TEXT_BYTES_MAX && check.lost.is_empty() {
            match self.look_further(check, now, &mut text, LOOKED_AT_MAX - looked_at) {
                Ok(0) => {
                    text += &self.end_of_check(check, now);
                    check.stage = Stage::Ended;
                    break;
                }
                Ok(count) => looked_at += count,
                Err(refusal) => {
                    text += &failed(&check.request.path, &refusal.message, now, check.began_ms);
                    check.stage = Stage::Ended;
                    break;
                }
            }
        }
        Some(text)
    }

    /// Begins a check: true if it is over already.
    fn begin_check(&self, check: &mut Check, now: Now, text: &mut String) -> Result<bool, Refusal> {
        if let Subject::Blocks(names) = &check.request.subject {
            for name in names {
                self.check_block(name, check, now, text);
            }
            return Ok(true);
        }
        if check.request.moves {
            check.user.check_superuser("fsck -move")?;
        }
        if check.request.subject == Subject::UnreadableBlocks {
            check.user.check_superuser("listCorruptFileBlocks")?;
        }
        let path = check.request.path.clone();
        let Some(id) = self.place(&Path::parse(&path)?, &check.user)?.inode() else {
            let _ = write!(text, "\n\nPath '{path}' does not exist");
            return Ok(true);
        };
        self.enter(self.tree.inode(id), check, text)?;
        Ok(false)
    }

    /// Looks at up to `count` more inodes and blocks: how many there were; 0 at the end.
    fn look_further(
        &self,
        check: &mut Check,
        now: Now,
        text: &mut String,
        count: usize,
    ) -> Result<usize, Refusal> {
        if let Some(mut file) = check.file.take() {
            let (is_over, looked_at) = self.look_at_file(&mut file, check, now, text, count);
            let is_lost = file.missing.0 + file.corrupt.0 > 0;
            if !is_over {
                check.file = Some(file);
            } else if is_lost
                && (check.request.removes || check.request.moves)
                && self.tree.holder(file.id).is_none()
            {
                let readable = self.readable_blocks(file.id, now);
                check.lost.push(LostFile { path: file.path, readable });
            }
            return Ok(looked_at.max(1));
        }
        let Some((id, last)) = check.levels.last_mut() else { return Ok(0) };
        let directory = self.tree.get(*id).and_then(Inode::directory);
        let next = directory.and_then(|directory| self.tree.children_after(directory, last).0.next());
        match next {
            // It is over, or the directory was removed meanwhile.
            None => {
                check.levels.pop();
            }
            Some(child) => {
                last.clone_from(&child.name);
                self.enter(child, check, text)?;
            }
        }
        Ok(1)
    }

    /// The bytes of each block of a file that can be read.
    fn readable_blocks(&self, file: InodeId, now: Now) -> Vec<Range<u64>> {
        let blocks = self.tree.get(file).and_then(Inode::file).map_or(&[][..], |file| file.layout.blocks());
        let mut end = 0;
        let bytes = blocks.iter().map(|block| {
            let block = self.blocks.block(*block);
            let start = end;
            end += block.length;
            (block, start..end)
        });
        let readable = bytes.filter(|(block, bytes)| {
            block.is_committed && !bytes.is_empty() && self.look_at_block(block, now).is_readable()
        });
        readable.map(|(_, bytes)| bytes).collect()
    }

    /// Goes into a directory, or begins with a file.
    fn enter(&self, inode: &Inode, check: &mut Check, text: &mut String) -> Result<(), Refusal> {
        let (path, shown) = (self.tree.path_of(inode.id), check.request.shown);
        let is_of_files = check.request.subject == Subject::Files;
        let Some(file) = inode.file() else {
            check.user.check(inode, &self.tree, Access::ReadExecute)?;
            if shown.files && is_of_files {
                let _ = writeln!(text, "{path} <dir>");
            }
            check.totals.directories += 1;
            check.levels.push((inode.id, Box::default()));
            return Ok(());
        };
        check.user.check(inode, &self.tree, Access::Read)?;
        let policy = self.policy_of(inode.id);
        let is_open = self.tree.holder(inode.id).is_some();
        let (bytes, count) = (self.file_counts(inode).bytes, file.layout.blocks().len());
        let totals = check.totals.of_form(policy.is_some());
        if is_open && !shown.open_files {
            totals.open_files += 1;
            totals.open_bytes += bytes;
            totals.open_blocks += count as u64;
            return Ok(());
        }
        totals.files += 1;
        totals.bytes += bytes;
        if is_of_files && (shown.files || (shown.open_files && is_open)) {
            let form = policy.map_or_else(
                || format!("replicated: replication={}", file.replication),
                |policy| format!("erasure-coded: policy={}", policy.name),
            );
            let open = if shown.open_files && is_open { ", OPENFORWRITE" } else { "" };
            let _ = write!(text, "{path} {bytes} bytes, {form}, {count} block(s){open}: ");
        } else if is_of_files && shown.progress {
            text.push('.');
            if (check.totals.replicated.files + check.totals.striped.files).is_multiple_of(100) {
                text.push('\n');
            }
        }
        check.file = Some(FileCheck {
            id: inode.id,
            path,
            next: 0,
            is_listing: false,
            missing: (0, 0),
            corrupt: (0, 0),
            under: 0,
            misplaced: 0,
        });
        Ok(())
    }

    /// Looks at up to `count` blocks of a file: whether that was all, and how many there were.
    fn look_at_file(
        &self,
        file: &mut FileCheck,
        check: &mut Check,
        now: Now,
        text: &mut String,
        count: usize,
    ) -> (bool, usize) {
        // A file that was removed meanwhile has no blocks.
        let found = self.tree.get(file.id).and_then(Inode::file);
        let blocks = found.map_or(&[][..], |found| found.layout.blocks());
        let before = file.next;
        while file.next < blocks.len() && file.next - before < count && text.len() < TEXT_BYTES_MAX {
            let block = self.blocks.block(blocks[file.next]);
            if check.request.subject == Subject::UnreadableBlocks {
                let is_lost = block.is_committed && !self.look_at_block(block, now).is_readable();
                if is_lost {
                    check.totals.of_form(block.id.is_striped()).missing += 1;
                    let _ = writeln!(text, "{}\t{}", block.id, file.path);
                }
            } else if file.is_listing {
                self.list_block(block, file.next, check, now, text);
            } else if block.is_committed {
                self.count_block(block, file, check, now, text);
            }
            file.next += 1;
        }
        let looked_at = file.next - before;
        if file.next < blocks.len() {
            return (false, looked_at);
        }
        if check.request.subject == Subject::UnreadableBlocks {
            return (true, looked_at);
        }
        let shown = check.request.shown;
        if !file.is_listing {
            self.end_counting(file, check, text);
            if shown.files && shown.blocks {
                (file.is_listing, file.next) = (true, 0);
                return (false, looked_at);
            }
        } else {
            text.push('\n');
        }
        (true, looked_at)
    }

    fn count_block(
        &self,
        block: &Block,
        file: &mut FileCheck,
        check: &mut Check,
        now: Now,
        text: &mut String,
    ) {
        let (looked, shown) = (self.look_at_block(block, now), check.request.shown);
        let (path, name) = (&file.path, self.name_of(block));
        if shown.storage_types {
            for replica in block.good() {
                let name = storage_type(self.datanodes.storage(replica.storage).kind);
                *check.totals.storage_types.entry(name).or_default() += 1;
            }
        }
        let totals = check.totals.of_form(block.id.is_striped());
        let Looked { live, there, decommissioned, decommissioning, wanted, .. } = looked;
        totals.blocks += 1;
        totals.replicas += there as u64;
        totals.decommissioned += decommissioned as u64;
        totals.decommissioning += decommissioning as u64;
        totals.wanted += wanted as u64;
        totals.over += u64::from(self.has_surplus(block, live, wanted));
        totals.readable += u64::from(looked.is_readable());
        totals.queued += u64::from(self.queue.has(block.id) || self.orders.has(block.id));
        if looked.is_corrupt {
            (file.corrupt.0, file.corrupt.1) = (file.corrupt.0 + 1, file.corrupt.1 + block.length);
            let _ = writeln!(text, "\n{path}: CORRUPT blockpool {} block {}", self.pool, block.id);
        }
        if looked.is_missing() {
            (file.missing.0, file.missing.1) = (file.missing.0 + 1, file.missing.1 + block.length);
        }
        if there < wanted && looked.is_readable() {
            totals.missing_replicas += (wanted - there) as u64;
            totals.under += 1;
            file.under += 1;
            if !shown.files {
                let _ = write!(text, "\n{path}: ");
            }
            let _ = writeln!(
                text,
                " Under replicated {name}. Target Replicas is {wanted} but found {live} live replica(s), \
                 {decommissioned} decommissioned replica(s), {decommissioning} decommissioning replica(s)."
            );
        }
        if let Some(why) = looked.misplaced {
            totals.misplaced += 1;
            file.misplaced += 1;
            if !shown.files {
                let line = if file.under == 0 { "\n" } else { "" };
                let _ = write!(text, "{line}{path}: ");
            }
            let _ = writeln!(text, " Replica placement policy is violated for {name}. {why}");
        }
    }

    fn has_surplus(&self, block: &Block, live: usize, wanted: usize) -> bool {
        let is_there = |replica: &Replica| {
            !self.datanodes.storage(replica.storage).is_missed
                && !self.datanodes.node(replica.datanode).admin.is_leaving()
        };
        if block.geometry().is_some() {
            block.good().filter(is_there).count() > wanted
        } else {
            live > wanted
        }
    }

    fn end_counting(&self, file: &FileCheck, check: &mut Check, text: &mut String) {
        let shown = check.request.shown;
        let lost = [("MISSING", file.missing), ("CORRUPT", file.corrupt)];
        let is_damaged = lost.iter().any(|(_, (count, _))| *count > 0);
        for (what, (count, bytes)) in lost.into_iter().filter(|(_, (count, _))| *count > 0) {
            let _ = match shown.files {
                true => writeln!(text, " {what} {count} blocks of total size {bytes} B"),
                false => write!(text, "\n{}: {what} {count} blocks of total size {bytes} B.", file.path),
            };
        }
        let is_striped = self.tree.get(file.id).is_some_and(|_| self.policy_of(file.id).is_some());
        let totals = check.totals.of_form(is_striped);
        totals.corrupt_files += u64::from(is_damaged);
        totals.missing += file.missing.0;
        totals.missing_bytes += file.missing.1;
        totals.corrupt += file.corrupt.0;
        totals.corrupt_bytes += file.corrupt.1;
        if shown.files && !is_damaged && file.under == 0 && file.misplaced == 0 {
            *text += " OK\n";
        }
    }

    fn end_of_check(&self, check: &Check, now: Now) -> String {
        let path = &check.request.path;
        if check.request.subject == Subject::UnreadableBlocks {
            let lost = check.totals.replicated.missing + check.totals.striped.missing;
            // The client goes on asking until it is told so.
            let none = if lost == 0 { "no" } else { "no more" };
            return format!("\n\nThe filesystem under path '{path}' has {none} CORRUPT files\n\n");
        }
        if check.has_failed {
            return failed(path, "fsck encountered internal errors!", now, check.began_ms);
        }
        let live = |node: &crate::namenode::datanodes::Datanode| {
            self.datanodes.is_live(node.handle, now.steady_ms, self.rules.silent_ms_max)
        };
        let datanodes = self.datanodes.iter().filter(|node| live(node)).count();
        let mut text = check.totals.text(datanodes, self.racks_there(), self.rules.replication);
        if check.request.shown.storage_types {
            text += &check.totals.storage_types_text();
        }
        text += &ended(now, check.began_ms);
        let status = if check.totals.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        let _ = write!(text, "\n\nThe filesystem under path '{path}' is {status}");
        text
    }

    /// How many racks DataNodes stand on.
    pub(super) fn racks_there(&self) -> usize {
        let racks: std::collections::BTreeSet<&str> =
            self.datanodes.iter().map(|node| node.rack.as_str()).collect();
        racks.len()
    }
}
