//! `yeoul bench codec`: the erasure codes of this processor against ISA-L and against the memory, on one thread.
//!
//! Ours and the peer take turns. What they compute is compared byte by byte in every case, outside the measured time.

mod buffers;

use std::time::Instant;

use yeoul_base::{Error, ErrorKind, Result};
use yeoul_erasure::measure::{Isal, read_and_write};
use yeoul_erasure::{Code, Coder, Kernel, Schema, UnitSet};

use self::buffers::Buffers;
use crate::findings::{Bar, Finding, Unit};

/// Data and parity units of the schemas that are measured: Hadoop's Reed-Solomon policies.
const SCHEMAS: [(usize, usize); 3] = [(6, 3), (3, 2), (10, 4)];

/// Bytes of a unit in cache: the units of the largest schema fill less than half of a second-level cache of 1 MiB.
const IN_CACHE_BYTES: usize = 32 << 10;

/// Bytes of a unit in memory: the units of the smallest schema are several times as large as a last-level cache.
const IN_MEMORY_BYTES: usize = 32 << 20;

/// Bytes of data that one measurement goes over, in as many passes as that takes.
const MEASURED_BYTES: usize = 256 << 20;

/// The part of the memory's own speed that a code reaches at least.
const MEMORY_PART_MIN: f64 = 0.75;

/// What to measure with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How often each measurement is repeated.
    pub rounds: usize,
    /// Whether ISA-L is a peer.
    pub against_isal: bool,
}

/// What is computed in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Parity units from data units.
    Encode,
    /// As many lost data units as there are parity units, or all of them, from what is left.
    Decode,
}

/// Name of the kernel that is measured, the fastest of this processor.
pub fn kernel() -> &'static str {
    Kernel::fastest().name()
}

/// Measures every case; `say` gets each finding as soon as it is there.
///
/// # Errors
/// `NotFound` if ISA-L is not installed; `DataLoss` if it computes other bytes than ours.
pub fn run(plan: &Plan, mut say: impl FnMut(&Finding)) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (data, parity) in SCHEMAS {
        let schema = Schema::new(Code::Rs, data, parity).expect("Hadoop's policies are possible");
        for work in [Work::Encode, Work::Decode] {
            for len in [IN_CACHE_BYTES, IN_MEMORY_BYTES] {
                let found = measure(plan, schema, work, len)?;
                found.iter().for_each(&mut say);
                findings.extend(found);
            }
        }
    }
    Ok(findings)
}

/// One case against each of its peers.
fn measure(plan: &Plan, schema: Schema, work: Work, len: usize) -> Result<Vec<Finding>> {
    let all = UnitSet::first(schema.units());
    let lost = match work {
        Work::Encode => all.without(UnitSet::first(schema.data_units())),
        Work::Decode => UnitSet::first(schema.parity_units().min(schema.data_units())),
    };
    let left = all.without(lost);
    let code =
        Coder::new(schema).reconstruction(left, lost).expect("no more is lost than the schema survives");
    let mut buffers = Buffers::new(schema.data_units(), lost.len(), len);
    let is_in_cache = len == IN_CACHE_BYTES;
    let finding = |peer, bar, pairs: Vec<(f64, f64)>| {
        let (ours, peers) = pairs.into_iter().unzip();
        let (work, place) = (
            if work == Work::Encode { "encode" } else { "decode" },
            if is_in_cache { "in cache" } else { "from memory" },
        );
        let bytes = Some((len * schema.data_units()) as u64);
        let name = format!("{schema} {work}, {place}").into();
        Finding { name, unit: Unit::GbPerSecond, bytes, ours, peer, peers, bar }
    };
    let mut findings = Vec::new();
    if plan.against_isal {
        let isal = Isal::reconstruction(schema, left, lost).map_err(|error| {
            Error::new(ErrorKind::NotFound, "ISA-L is the peer, and it is not installed")
                .with_hint("apt-get install libisal2, or measure without --against isal")
                .with_source(error)
        })?;
        let ours = buffers.filled_by(|inputs, outputs| code.run(inputs, outputs));
        let theirs = buffers.filled_by(|inputs, outputs| isal.run(inputs, outputs));
        if ours != theirs {
            let text = format!("{schema}: ours and ISA-L compute different bytes for {lost:?} from {left:?}");
            return Err(Error::new(ErrorKind::DataLoss, text));
        }
        let pairs = in_turn(plan.rounds, || {
            (
                rate(&mut buffers, |inputs, outputs| code.run(inputs, outputs)),
                rate(&mut buffers, |inputs, outputs| isal.run(inputs, outputs)),
            )
        });
        findings.push(finding("ISA-L", Bar::RatioAtLeast(1.0), pairs));
    }
    if !is_in_cache {
        let pairs = in_turn(plan.rounds, || {
            (
                rate(&mut buffers, |inputs, outputs| code.run(inputs, outputs)),
                rate(&mut buffers, read_and_write),
            )
        });
        findings.push(finding("reads and writes alone", Bar::RatioAtLeast(MEMORY_PART_MIN), pairs));
    }
    Ok(findings)
}

fn in_turn(rounds: usize, pair: impl FnMut() -> (f64, f64)) -> Vec<(f64, f64)> {
    std::iter::repeat_with(pair).take(rounds).collect()
}

/// 10^9 bytes of inputs a second.
fn rate(buffers: &mut Buffers, work: impl Fn(&[&[u8]], &mut [&mut [u8]])) -> f64 {
    let bytes = buffers.input_bytes();
    let passes = MEASURED_BYTES.div_ceil(bytes);
    let mut seconds = 0.0;
    buffers.with(|inputs, outputs| {
        // The first pass brings the pages and the caches to where they stay.
        work(inputs, outputs);
        let started = Instant::now();
        for _ in 0..passes {
            work(inputs, outputs);
        }
        seconds = started.elapsed().as_secs_f64();
    });
    (bytes * passes) as f64 / seconds / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_peers_and_a_rate() {
        let plan = Plan { rounds: 1, against_isal: false };
        let schema = Schema::new(Code::Rs, 3, 2).unwrap();
        let found = measure(&plan, schema, Work::Decode, IN_MEMORY_BYTES).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "RS-3-2 decode, from memory");
        assert!(found[0].ratio().is_some_and(|ratio| ratio > 0.0), "{found:?}");
        assert_eq!(
            measure(&plan, schema, Work::Encode, IN_CACHE_BYTES).unwrap(),
            [],
            "ISA-L alone is its peer"
        );
    }
}
