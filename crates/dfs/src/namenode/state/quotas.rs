//! Quotas: the most names below a directory, and the most bytes on disk. Usage is counted as files change; what a block that is being written may still take counts,
//! too.

use super::State;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{File, Path, Quota, Tree};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::attributes::SetQuotaRequest;
use crate::wire::proto::journal::{SetQuota, record::Change};
use crate::wire::proto::namenode::Empty;
use yeoul_erasure::StripeGeometry;

/// What a request says to leave a quota as it is, and to take it away.
const LEAVE: u64 = i64::MAX as u64;
const TAKE_AWAY: u64 = u64::MAX;

/// What a change adds below a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Files and directories.
    pub names: u64,
    /// Files that go before, to be replaced: as in HDFS, what takes their place is refused where more is than may be.
    pub replaced: u64,
    /// Bytes on disk.
    pub space: u64,
    /// True for names that are made one by one: the first that is too many is told of, as in HDFS.
    pub is_one_by_one: bool,
}

impl State {
    pub(super) fn set_quota(
        &mut self,
        context: &mut Context<'_>,
        request: &SetQuotaRequest,
    ) -> Result<Empty, Refusal> {
        context.user.check_superuser("setQuota")?;
        if request.storage_type.is_some() {
            return Err(Refusal::unsupported("setQuota for a storage type"));
        }
        for said in [request.names, request.space] {
            if said.cast_signed() < 0 && said != TAKE_AWAY {
                let (names, space) = (request.names.cast_signed(), request.space.cast_signed());
                let message = format!("Illegal value for nsQuota or ssQuota : {names} and {space}");
                return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
            }
        }
        let path = Path::parse(&request.src)?;
        let missing =
            || Refusal::new(Exception::FileNotFound, format!("Directory does not exist: {}", request.src));
        let id = self.place(&path, context.user)?.inode().ok_or_else(missing)?;
        if !self.tree.inode(id).is_directory() {
            let message = format!("`{}': Is not a directory", request.src);
            return Err(Refusal::new(Exception::PathIsNotDirectory, message));
        }
        let old = self.tree.attached.quota(id);
        let new = |said, old| match said {
            LEAVE => old,
            TAKE_AWAY => None,
            said => Some(said),
        };
        let quota = Quota { names: new(request.names, old.names), space: new(request.space, old.space) };
        if quota != old {
            let set = SetQuota { inode: id.0, names: quota.names, space: quota.space };
            self.commit(context, Change::SetQuota(set));
        }
        Ok(Empty {})
    }

    /// Makes the change of a record.
    pub(super) fn apply_quota(&mut self, set: &SetQuota) {
        let quota = Quota { names: set.names, space: set.space };
        self.tree.attached.set_quota(InodeId(set.inode), quota);
    }

    /// The quotas of a directory as clients see them: none is -1, and the root has one on names that nothing reaches.
    pub(super) fn quota_seen(&self, id: InodeId) -> Quota {
        let quota = self.tree.attached.quota(id);
        let of_root = Some(LEAVE).filter(|_| id == InodeId::ROOT);
        Quota { names: quota.names.or(of_root), ..quota }
    }

    /// Checks that what is added below a directory keeps the quotas of it and of those above it.
    ///
    /// # Errors
    /// `NsQuotaExceeded`, `DsQuotaExceeded`: of the nearest directory that has too much, as in HDFS.
    pub(super) fn check_quota(&self, directory: InodeId, growth: Growth) -> Result<(), Refusal> {
        self.check_quota_below(directory, None, growth)
    }

    /// The same up to a directory that has what is added already.
    pub(super) fn check_quota_below(
        &self,
        directory: InodeId,
        end: Option<InodeId>,
        growth: Growth,
    ) -> Result<(), Refusal> {
        if !self.tree.attached.has_quotas() {
            return Ok(());
        }
        let mut at = directory;
        while Some(at) != end {
            self.check_own_quota(at, growth)?;
            if at == InodeId::ROOT {
                break;
            }
            at = self.tree.inode(at).parent;
        }
        Ok(())
    }

    fn check_own_quota(&self, id: InodeId, growth: Growth) -> Result<(), Refusal> {
        let quota = self.tree.attached.quota(id);
        let Some(directory) = self.tree.inode(id).directory() else { return Ok(()) };
        let counts = directory.counts;
        let is_exceeded = |used: u64, more: u64, quota: u64| more > 0 && used.saturating_add(more) > quota;
        let names = (counts.directories + counts.files + 1).saturating_sub(growth.replaced);
        if let Some(quota) = quota.names.filter(|quota| is_exceeded(names, growth.names, *quota)) {
            let count = if growth.is_one_by_one { names.max(quota) + 1 } else { names + growth.names };
            let path = self.tree.path_of(id);
            let message = format!(
                "The NameSpace quota (directories and files) of directory {path} is exceeded: quota={quota} file \
                 count={count}"
            );
            return Err(Refusal::new(Exception::NsQuotaExceeded, message));
        }
        let space = counts.space + counts.reserved;
        if let Some(quota) = quota.space.filter(|quota| is_exceeded(space, growth.space, *quota)) {
            let (path, count) = (self.tree.path_of(id), space.saturating_add(growth.space));
            let message = format!(
                "The DiskSpace quota of {path} is exceeded: quota = {quota} B = {} but diskspace consumed = {count} B = {}",
                with_prefix(quota),
                with_prefix(count)
            );
            return Err(Refusal::new(Exception::DsQuotaExceeded, message));
        }
        Ok(())
    }

    /// Bytes on disk that a block of this file takes once it is full.
    pub(super) fn full_block_space(&self, file: &File, policy: crate::policy::PolicyId) -> u64 {
        full_block_space(file, self.policies.of(policy).map(|policy| policy.geometry))
    }
}

/// Bytes on disk that a block of a file takes once it is full.
pub(super) fn full_block_space(file: &File, geometry: Option<StripeGeometry>) -> u64 {
    match geometry {
        None => file.block_size.saturating_mul(file.replication.into()),
        Some(geometry) => file.block_size.saturating_mul(geometry.schema().units() as u64),
    }
}

/// The records that make the quotas of all directories.
pub(super) fn saved(tree: &Tree) -> impl Iterator<Item = Change> {
    tree.attached
        .all_quotas()
        .map(|(id, quota)| Change::SetQuota(SetQuota { inode: id.0, names: quota.names, space: quota.space }))
}

/// Bytes with a binary prefix and two digits, as Hadoop writes them.
fn with_prefix(bytes: u64) -> String {
    let prefixes = [('E', 60), ('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)];
    let Some(at) = prefixes.iter().position(|(_, shift)| bytes >= 1 << shift) else {
        return format!("{bytes} B");
    };
    let (letter, shift) = prefixes[at];
    if bytes & ((1 << shift) - 1) == 0 {
        return format!("{} {letter}B", bytes >> shift);
    }
    let text = |shift: u32| format!("{:.2}", bytes as f64 / (1u64 << shift) as f64);
    match text(shift) {
        rounded if rounded.starts_with("1024") && at > 0 => {
            let (letter, shift) = prefixes[at - 1];
            format!("{} {letter}B", text(shift))
        }
        rounded => format!("{rounded} {letter}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_prefix;

    #[test]
    fn bytes_read_as_hadoop_writes_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KB"),
            (1536, "1.50 KB"),
            (402_653_184, "384 MB"),
            ((1 << 20) - 1, "1.00 MB"),
            (1 << 60, "1 EB"),
        ] {
            assert_eq!(with_prefix(bytes), text);
        }
    }
}
