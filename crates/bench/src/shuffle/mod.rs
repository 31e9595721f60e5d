//! What `yeoul bench shuffle` measures: one worker and our own client against what the machine does without them; and the
//! shuffle's act of `yeoul demo`.
//!
//! Ours and the peer take turns within one run, several times, so that a ratio between them means something on a busy
//! machine. Every batch that is read is checked: it was written to that partition, comes once, and has the right length
//! and ends. One more read compares all bytes, outside the measured time, which that would distort.

mod baseline;
mod cases;
mod cluster;
pub mod demo;
mod written;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use yeoul_base::{ByteSize, quantile};

use yeoul_shuffle::{Error, Kind, Result};

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
        Err(Error::new(Kind::ResourceExhausted, text)
            .with_hint("measure fewer --bytes, or on another disk with --dir"))
    }
}

/// The unit of a finding's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// 2^20 bytes a second.
    MibPerSecond,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::Milliseconds => "ms",
        }
    }

    /// A number with the digits that matter.
    fn digits(self, value: f64) -> String {
        match self {
            Self::MibPerSecond => format!("{value:.0}"),
            Self::Milliseconds => format!("{value:.3}"),
        }
    }
}

/// The bar that a finding has to meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// The median of ours over the median of the peer's.
    RatioAtLeast(f64),
    /// The 99th percentile of ours.
    P99AtMost(f64),
    /// The median of ours.
    MedianAtMost(f64),
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// The unit of the numbers.
    pub unit: Unit,
    /// Bytes of each measurement, if it is a throughput.
    pub bytes: Option<u64>,
    /// Ours, in the order in which they were measured.
    pub ours: Vec<f64>,
    /// What the peer is.
    pub peer: &'static str,
    /// The peer's, in turn with ours; empty if the bar is absolute.
    pub peers: Vec<f64>,
    /// The bar to meet.
    pub bar: Bar,
}

impl Finding {
    /// Ours over the peer's, by medians.
    pub fn ratio(&self) -> Option<f64> {
        if self.peers.is_empty() {
            None
        } else {
            Some(quantile(&self.ours, 0.5) / quantile(&self.peers, 0.5))
        }
    }

    /// Whether the bar is met.
    pub fn is_met(&self) -> bool {
        match self.bar {
            Bar::RatioAtLeast(least) => self.ratio().is_some_and(|ratio| ratio >= least),
            Bar::P99AtMost(most) => quantile(&self.ours, 0.99) <= most,
            Bar::MedianAtMost(most) => quantile(&self.ours, 0.5) <= most,
        }
    }

    /// Ours as people read it: the median and the range.
    pub fn ours_text(&self) -> String {
        self.text(&self.ours)
    }

    /// The peer's; nothing if there is none.
    pub fn peers_text(&self) -> String {
        self.text(&self.peers)
    }

    fn text(&self, values: &[f64]) -> String {
        if values.is_empty() {
            return String::new();
        }
        let [low, middle, high] = [0.0, 0.5, 1.0].map(|part| self.unit.digits(quantile(values, part)));
        format!("{middle} {} ({low} to {high})", self.unit.name())
    }

    /// The bar, with the percentile that it is about.
    pub fn bar_text(&self) -> String {
        match self.bar {
            Bar::RatioAtLeast(least) => format!("ratio at least {least}"),
            Bar::P99AtMost(most) => {
                let found = self.unit.digits(quantile(&self.ours, 0.99));
                format!("p99 at most {most} {}: {found}", self.unit.name())
            }
            Bar::MedianAtMost(most) => format!("median at most {most} {}", self.unit.name()),
        }
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
    fn a_finding_knows_whether_its_bar_is_met() {
        let finding = |ours: &[f64], peers: &[f64], bar| Finding {
            name: "push",
            unit: Unit::MibPerSecond,
            bytes: Some(1 << 20),
            ours: ours.to_vec(),
            peer: "copy",
            peers: peers.to_vec(),
            bar,
        };
        let ratio = finding(&[600.0, 500.0, 700.0], &[1000.0, 900.0, 1100.0], Bar::RatioAtLeast(0.6));
        assert!(ratio.is_met());
        assert_eq!(ratio.ours_text(), "600 MiB/s (500 to 700)");
        assert_eq!(ratio.peers_text(), "1000 MiB/s (900 to 1100)");
        assert_eq!(ratio.bar_text(), "ratio at least 0.6");
        let slow: Vec<f64> = (0..100).map(|n| if n < 98 { 0.1 } else { 2.0 }).collect();
        assert!(!finding(&slow, &[], Bar::P99AtMost(1.0)).is_met());
        assert!(finding(&slow, &[], Bar::MedianAtMost(1.0)).is_met());
        assert!(!finding(&[1.0], &[], Bar::RatioAtLeast(0.5)).is_met(), "no peer, no ratio");
    }

    #[test]
    fn what_does_not_fit_on_the_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let plan = |bytes| Plan { bytes, disk_bytes_min: 0, ..Plan::new(dir.path(), 1) };
        plan(1 << 20).check_room(dir.path()).unwrap();
        for plan in [plan(1 << 60), Plan { disk_bytes_min: u64::MAX, ..plan(1) }] {
            let error = plan.check_room(dir.path()).unwrap_err();
            assert_eq!(error.kind(), Kind::ResourceExhausted);
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
        let findings = run(&plan, |finding| said.push(finding.name)).await.unwrap();
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
