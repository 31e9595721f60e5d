//! Measurements for `yeoul bench shuffle`: one worker and our own client against what the machine does without them.
//!
//! Ours and the peer take turns within one run, several times, so that a ratio between them means something on a busy
//! machine. Every batch that is read is checked: it was written to that partition, comes once, and has the right length
//! and ends. One more read compares all bytes, outside the measured time, which that would distort.

pub mod act;
mod baseline;
mod cases;
mod cluster;
mod written;

use std::io;
use std::path::{Path, PathBuf};

use yeoul_base::{ByteSize, Error, ErrorKind, Result};

use crate::findings::Finding;

/// What to measure with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For the worker's directories and the file that the disk is measured with.
    pub dir: PathBuf,
    /// Bytes of each throughput measurement; fewer in memory if the machine has less than four times that.
    pub bytes: u64,
    /// The least bytes of those on the disk: fewer would not measure it.
    pub disk_bytes_min: u64,
    /// How often each measurement is repeated.
    pub rounds: usize,
    /// The command that `master` and `worker` are verbs of, such as `["yeoul", "shuffle"]`: workers are then processes of
    /// their own, with memory limits of their own. Without it they are in this process.
    pub command: Option<Vec<String>>,
}

impl Plan {
    /// The defaults for a directory and a number of rounds.
    pub fn new(dir: impl Into<PathBuf>, rounds: usize) -> Self {
        let disk_bytes_min = cases::disk_bytes_min(rounds);
        Self { dir: dir.into(), bytes: 256 << 20, disk_bytes_min, rounds, command: None }
    }

    /// Bytes of each throughput measurement on the disk.
    fn disk_bytes(&self) -> u64 {
        self.bytes.max(self.disk_bytes_min)
    }

    /// Refuses what does not fit on the disk of a directory: the plain file and the worker's copy are there one after the
    /// other.
    ///
    /// # Errors
    /// `ResourceExhausted` if there is too little room; another kind if the directory cannot be examined.
    pub fn check_room(&self, dir: &Path) -> Result<()> {
        /// The part that the worker writes besides: the headers of its batches and the places of its chunks.
        const AROUND_PART: u64 = 16;
        let bytes = self.disk_bytes();
        let needed = bytes.saturating_add(bytes / AROUND_PART);
        let space = rustix::fs::statvfs(dir).map_err(io::Error::from)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if needed <= free {
            return Ok(());
        }
        let [bytes, needed, free] = [bytes, needed, free].map(ByteSize::from_bytes);
        let dir = dir.display();
        let text =
            format!("{bytes} for each measurement on the disk need {needed} in {dir}, which has {free} free");
        Err(Error::new(ErrorKind::ResourceExhausted, text)
            .with_hint("measure fewer --bytes, or on another disk with --dir"))
    }
}

/// Measures everything; `say` gets each finding as soon as it is there.
///
/// # Errors
/// `DataLoss` if what was read is not what was written; whatever the service says if it fails.
pub async fn run(plan: &Plan, mut say: impl FnMut(&Finding)) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut keep = |found: Vec<Finding>| {
        found.iter().for_each(&mut say);
        findings.extend(found);
    };
    keep(cases::memory(plan).await?);
    keep(cases::disk(plan).await?);
    keep(vec![cases::range_opens(plan).await?]);
    keep(vec![cases::small_shuffle(plan).await?]);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_on_the_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let plan = |bytes| Plan { bytes, disk_bytes_min: 0, ..Plan::new(dir.path(), 1) };
        plan(1 << 20).check_room(dir.path()).unwrap();
        for plan in [plan(1 << 60), Plan { disk_bytes_min: u64::MAX, ..plan(1) }] {
            let error = plan.check_room(dir.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
            assert!(error.to_string().contains(" free") && error.hint().is_some(), "{error}");
        }
    }

    /// So small that most of it stays in memory, and the numbers mean nothing: every case runs to its end and finds what it
    /// wrote.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_case_runs() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { bytes: 8 << 20, disk_bytes_min: 0, ..Plan::new(dir.path(), 1) };
        let mut said = Vec::new();
        let findings = run(&plan, |finding| said.push(finding.name.clone())).await.unwrap();
        assert_eq!(said.len(), 6);
        // Of the pushes to disk only what has left the worker's memory counts, and here nothing has to.
        let measured = findings.iter().filter(|finding| finding.peer != "file written with fsync");
        for finding in measured {
            assert!(finding.ours.iter().all(|value| *value > 0.0), "{finding:?}");
        }
        assert!(
            findings.iter().all(|finding| finding.bytes.is_none_or(|bytes| bytes <= 8 << 20)),
            "{findings:?}"
        );
    }
}
