//! The call that joins files: one gets the blocks of others, which are gone then.

use std::collections::BTreeSet;

use super::State;
use super::quotas::Growth;
use super::writing::BLOCKS_PER_FILE_MAX;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, File, Inode, Path};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{Concat, record::Change};
use crate::wire::proto::namenode::{ConcatRequest, Empty};

impl State {
    /// Moves the blocks of files behind those of another one in the same directory. Blocks may be of any length.
    pub(super) fn concat(
        &mut self,
        context: &mut Context<'_>,
        request: &ConcatRequest,
    ) -> Result<Vec<u8>, Refusal> {
        if request.sources.is_empty() {
            return Err(Refusal::new(Exception::IllegalArgument, "No sources given"));
        }
        let target = self.file_to_concat(&request.target, context)?;
        context.user.check(target, &self.tree, Access::Write)?;
        let mut blocks = concat_file(target, &request.target)?.layout.blocks().len();
        if self.tree.holder(target.id).is_some() {
            return Err(illegal(format!("concat: target file {} is under construction", request.target)));
        }
        let mut sources = BTreeSet::new();
        let mut ordered = Vec::new();
        for path in &request.sources {
            let source = self.file_to_concat(path, context)?;
            blocks += self.check_concat_source(source, path, target, &request.target, context)?;
            if !sources.insert(source.id) {
                return Err(illegal("concat: at least two of the source files are the same".to_owned()));
            }
            ordered.push(source.id.0);
        }
        if blocks > BLOCKS_PER_FILE_MAX {
            let message = format!(
                "concat: {} would have {blocks} blocks, expected at most {BLOCKS_PER_FILE_MAX}",
                request.target
            );
            return Err(illegal(message));
        }
        let copies = u64::from(self.file_of(target.id).replication);
        let more = ordered.iter().map(|id| {
            let source = self.tree.inode(InodeId(*id));
            let more = copies.saturating_sub(self.file_of(source.id).replication.into());
            self.file_counts(source).bytes.saturating_mul(more)
        });
        let growth = Growth { space: more.sum(), ..Growth::default() };
        self.check_quota(target.parent, growth)?;
        let concat = Concat { target: target.id.0, sources: ordered };
        Ok(self.commit_once(context, Change::Concat(concat), &Empty {}))
    }

    /// The inode at a path, which names no inode by its number: HDFS has no such concat.
    fn file_to_concat(&self, path: &str, context: &Context<'_>) -> Result<&Inode, Refusal> {
        let parsed = Path::parse(path)?;
        if parsed.reserved_inode().is_some() {
            let message = format!("Concat operation doesn't support /.reserved relative path : {path}");
            return Err(Refusal::new(Exception::Io, message));
        }
        self.existing(&parsed, context.user)
    }

    /// Checks that a file may give its blocks to another one; how many it has.
    fn check_concat_source(
        &self,
        source: &Inode,
        path: &str,
        target: &Inode,
        to: &str,
        context: &Context<'_>,
    ) -> Result<usize, Refusal> {
        context.user.check(source, &self.tree, Access::Read)?;
        if source.id != InodeId::ROOT {
            let parent = self.tree.inode(source.parent);
            context.user.check(parent, &self.tree, Access::Write)?;
            context.user.check_sticky(parent, source, path, &self.tree.owners)?;
        }
        let (file, into) = (concat_file(source, path)?, concat_file(target, to)?);
        let count = file.layout.blocks().len();
        let (size, size_max) = (file.block_size, into.block_size);
        Err(illegal(match () {
            () if source.parent != target.parent => {
                format!("Source file {path} is not in the same directory with the target {to}")
            }
            () if source.id == target.id => {
                format!("concat: the src file {path} is the same with the target file {to}")
            }
            () if self.tree.holder(source.id).is_some() || count == 0 => {
                format!("concat: source file {path} is invalid or empty or underConstruction")
            }
            () if size > size_max => format!(
                "concat: source file {path} has preferred block size {size} which is greater than the target file's \
                 preferred block size {size_max}"
            ),
            () if source.policy != target.policy => {
                format!("Source file {path} and target file {to} have different erasure coding policy")
            }
            () => return Ok(count),
        }))
    }
}

fn concat_file<'a>(inode: &'a Inode, path: &str) -> Result<&'a File, Refusal> {
    inode.file().ok_or_else(|| Refusal::not_a_file(path))
}

fn illegal(message: String) -> Refusal {
    Refusal::new(Exception::HadoopIllegalArgument, message)
}
