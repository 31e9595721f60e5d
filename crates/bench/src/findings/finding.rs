//! One case of a suite: what was measured against what, and the bar that it has to meet.

use std::borrow::Cow;

use serde::Serialize;
use yeoul_base::quantile;

/// The unit of a finding's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// 2^20 bytes a second.
    MibPerSecond,
    /// 10^9 bytes a second.
    GbPerSecond,
    /// Milliseconds.
    Milliseconds,
    /// 2^20 bytes.
    Mib,
    /// Millions of records a second.
    MillionsPerSecond,
    /// Seconds of CPU time for a million records.
    CpuSecondsPerMillion,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::GbPerSecond => "GB/s",
            Self::Milliseconds => "ms",
            Self::Mib => "MiB",
            Self::MillionsPerSecond => "M records/s",
            Self::CpuSecondsPerMillion => "CPU-s/M",
        }
    }

    /// A number with the digits that matter.
    fn digits(self, value: f64) -> String {
        match self {
            Self::MibPerSecond => format!("{value:.0}"),
            Self::GbPerSecond | Self::Mib | Self::CpuSecondsPerMillion => format!("{value:.1}"),
            Self::MillionsPerSecond => format!("{value:.2}"),
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
    /// The median of ours.
    MedianAtLeast(f64),
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the case.
    pub name: Cow<'static, str>,
    /// The unit of the numbers.
    pub unit: Unit,
    /// Bytes of each measurement, if it is a throughput.
    pub bytes: Option<u64>,
    /// Ours, in the order in which they were measured.
    pub ours: Vec<f64>,
    /// Name of the peer.
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
            Bar::MedianAtLeast(least) => quantile(&self.ours, 0.5) >= least,
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
            Bar::MedianAtLeast(least) => format!("median at least {least} {}", self.unit.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_knows_whether_its_bar_is_met() {
        let finding = |ours: &[f64], peers: &[f64], bar| Finding {
            name: "push".into(),
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
}
