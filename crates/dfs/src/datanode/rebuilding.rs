//! Units of a block group, computed anew from those of other DataNodes.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tracing::warn;
use yeoul_erasure::{Coder, StripeGeometry, UnitIndex, UnitSet};

use super::checked_plan::CheckedPlan;
use super::packets::invalid;
use super::patience::Patience;
use super::peer::{BlockName, PeerAddress, PeerReader};
use crate::ids::BlockId;
use crate::wire::checksum::Chunking;

/// Bytes of each unit that are in memory at a time, if they are whole chunks: with RS-10-4 that is 4.5 MiB in all.
const SLICE_BYTES: usize = 256 << 10;

/// A block group, by which its units are known.
#[derive(Clone, Debug)]
pub struct Group {
    /// How it is coded.
    pub geometry: StripeGeometry,
    /// The group; its length is that of its data.
    pub name: BlockName,
}

impl Group {
    /// Bytes of a unit.
    pub fn unit_len(&self, unit: UnitIndex) -> u64 {
        self.geometry.unit_len(self.name.length, unit)
    }

    /// The internal block of a unit.
    pub fn unit(&self, unit: UnitIndex) -> BlockName {
        let id = BlockId(self.name.id.group().0 + i64::from(unit.0));
        BlockName { id, length: self.unit_len(unit), ..self.name.clone() }
    }

    /// Data units that have no byte, and no replica: everybody has them.
    fn empty_units(&self) -> UnitSet {
        let units = (0..self.geometry.schema().data_units() as u8).map(UnitIndex);
        units.filter(|unit| self.unit_len(*unit) == 0).collect()
    }
}

/// A pass over a group, in which all wanted units are computed at once, slice by slice.
///
/// A slice is computed from what was read whole, and was checked, for this very slice; a source that fails is replaced by
/// another one, which begins with the slice.
#[derive(Debug)]
pub struct Rebuilding {
    group: Group,
    coder: Coder,
    wanted: UnitSet,
    plan: CheckedPlan,
    spare: VecDeque<(UnitIndex, PeerAddress)>,
    patience: Patience,
    inputs: Vec<Input>,
    outputs: Vec<Vec<u8>>,
    scratch: Vec<Vec<u8>>,
    chunking: Chunking,
    slice: usize,
    offset: u64,
}

/// The next bytes of each wanted unit.
pub type Slices<'a> = Vec<(UnitIndex, &'a [u8])>;

/// A unit that is read.
#[derive(Debug)]
struct Input {
    unit: UnitIndex,
    /// None for a unit without a byte.
    reader: Option<(PeerAddress, PeerReader)>,
    /// The slice, and zeros where the unit is shorter.
    bytes: Vec<u8>,
    /// The end of the slice that [`Self::bytes`] has whole.
    filled_to: Option<u64>,
}

impl Rebuilding {
    /// Begins a pass.
    ///
    /// # Errors
    /// - `InvalidInput`: a unit is wanted that the group does not have, or more than its parity allows.
    /// - Else, fewer units can be read than are needed.
    pub fn begin(
        group: Group,
        sources: Vec<(UnitIndex, PeerAddress)>,
        wanted: UnitSet,
        patience: Patience,
    ) -> io::Result<Self> {
        let schema = group.geometry.schema();
        let known = UnitSet::first(schema.units()).without(group.empty_units());
        if wanted.is_empty() || wanted.len() > schema.parity_units() || !wanted.without(known).is_empty() {
            let length = group.name.length;
            let message = format!("units {wanted:?} of {} bytes in {schema} cannot be rebuilt", length);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut spare: Vec<_> = sources
            .into_iter()
            .filter(|(unit, _)| known.contains(*unit) && !wanted.contains(*unit))
            .collect();
        // Data units first: they need no computation.
        spare.sort_by_key(|(unit, _)| *unit);
        let coder = Coder::new(schema);
        let empty = group.empty_units().iter().take(schema.data_units());
        let inputs: Vec<Input> =
            empty.map(|unit| Input { unit, reader: None, bytes: Vec::new(), filled_to: None }).collect();
        let others = known.without(wanted).union(group.empty_units());
        let mut pass = Self {
            plan: CheckedPlan::new(&coder, others, wanted).map_err(io::Error::other)?,
            group,
            coder,
            wanted,
            spare: spare.into(),
            patience,
            inputs,
            outputs: vec![Vec::new(); wanted.len()],
            scratch: vec![Vec::new(); wanted.len()],
            chunking: Chunking::default(),
            slice: SLICE_BYTES,
            offset: 0,
        };
        pass.find_sources(true)?;
        Ok(pass)
    }

    /// How the checksums of the group are made.
    pub fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Bytes that the next slice moves over the network, to this DataNode.
    pub fn next_bytes(&self) -> u64 {
        let read = self.inputs.iter().filter(|input| input.reader.is_some()).count() as u64;
        read * self.next_len() as u64
    }

    fn next_len(&self) -> usize {
        let longest = self.group.unit_len(UnitIndex(self.group.geometry.schema().data_units() as u8));
        usize::try_from(longest - self.offset).unwrap_or(usize::MAX).min(self.slice)
    }

    /// Computes the next slice of each wanted unit, as far as the unit goes; none after the last one.
    ///
    /// # Errors
    /// Too few sources are left, or what was computed does not encode to what was read.
    pub fn next_slice(&mut self) -> io::Result<Option<Slices<'_>>> {
        let length = self.next_len();
        if length == 0 {
            for input in self.inputs.drain(..) {
                if let Some((_, reader)) = input.reader {
                    reader.finish();
                }
            }
            return Ok(None);
        }
        let end = self.offset + length as u64;
        while let Some(at) = self.inputs.iter().position(|input| input.filled_to != Some(end)) {
            let unit_len = self.group.unit_len(self.inputs[at].unit);
            let silent_max = self.silent_max(self.inputs[at].unit);
            if let Err(error) = self.inputs[at].fill(self.offset, length, unit_len, silent_max) {
                // Its buffer goes with it.
                let failed = self.inputs.remove(at);
                let from = failed.reader.map(|(address, _)| address.0).unwrap_or_default();
                warn!(group = %self.group.name.id, unit = failed.unit.0, from, %error, "a source fails");
                self.find_sources(false)?;
            }
        }
        assert_eq!(self.inputs.len(), self.plan.sources().len(), "as many units are read as are needed");
        for output in self.outputs.iter_mut().chain(&mut self.scratch) {
            output.resize(length, 0);
        }
        let ordered = self.plan.sources().iter().map(|unit| {
            let input =
                self.inputs.iter().find(|input| input.unit == *unit).expect("the plan is for the inputs");
            assert_eq!(input.filled_to, Some(end), "a slice is computed from whole ones");
            input.bytes.as_slice()
        });
        let ordered: Vec<&[u8]> = ordered.collect();
        self.plan.run(&ordered, &mut self.outputs, &mut self.scratch).map_err(io::Error::other)?;
        let begin = std::mem::replace(&mut self.offset, end);
        let mut slices = Vec::with_capacity(self.outputs.len());
        for (unit, output) in self.plan.targets().iter().zip(&self.outputs) {
            let own = self.group.unit_len(*unit).saturating_sub(begin).min(length as u64) as usize;
            let (own, beyond) = output.split_at(own);
            if beyond.iter().any(|byte| *byte != 0) {
                return Err(invalid(format!("unit {unit} has bytes beyond its end")));
            }
            slices.push((*unit, own));
        }
        Ok(Some(slices))
    }

    /// Time for which the source of a unit may be silent now.
    fn silent_max(&self, of: UnitIndex) -> Duration {
        let is_read = |unit: UnitIndex| self.inputs.iter().any(|input| input.unit == unit);
        self.patience.for_one(self.spare.iter().any(|(unit, _)| *unit == of || !is_read(*unit)))
    }

    /// Opens sources until there are enough, and plans anew.
    fn find_sources(&mut self, is_first: bool) -> io::Result<()> {
        let mut last_error = None;
        while self.inputs.len() < self.group.geometry.schema().data_units() {
            // A second replica of a unit is of use once the first one has failed.
            let is_read = |unit: UnitIndex| self.inputs.iter().any(|input| input.unit == unit);
            let next = self.spare.iter().position(|(unit, _)| !is_read(*unit));
            let Some((unit, address)) = next.and_then(|at| self.spare.remove(at)) else {
                let (has, needs) = (self.inputs.len(), self.group.geometry.schema().data_units());
                let why = last_error.map(|error: io::Error| format!(": {error}")).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "{has} units can be read, and {needs} are needed{why}"
                )));
            };
            match PeerReader::open(&address, &self.group.unit(unit), self.offset, self.silent_max(unit)) {
                Ok(reader) if is_first || reader.chunking == self.chunking => {
                    if self.inputs.iter().all(|input| input.reader.is_none()) && is_first {
                        self.chunking = reader.chunking;
                        let chunk = reader.chunking.bytes_per_checksum();
                        self.slice = (SLICE_BYTES / chunk).max(1) * chunk;
                    }
                    let reader = Some((address, reader));
                    self.inputs.push(Input { unit, reader, bytes: Vec::new(), filled_to: None });
                }
                Ok(_) => last_error = Some(invalid("checksums of another kind")),
                Err(error) => {
                    warn!(group = %self.group.name.id, unit = unit.0, from = address.0, %error, "a source does not answer");
                    last_error = Some(error);
                }
            }
        }
        let available = self.inputs.iter().map(|input| input.unit).collect();
        self.plan = CheckedPlan::new(&self.coder, available, self.wanted).map_err(io::Error::other)?;
        Ok(())
    }
}

impl Input {
    /// Reads the slice that begins at `offset`.
    fn fill(&mut self, offset: u64, length: usize, unit_len: u64, silent_max: Duration) -> io::Result<()> {
        self.filled_to = None;
        self.bytes.resize(length, 0);
        let own = unit_len.saturating_sub(offset).min(length as u64) as usize;
        let (own, beyond) = self.bytes.split_at_mut(own);
        if let Some((_, reader)) = &mut self.reader {
            reader.wait_for(silent_max)?;
            reader.read_exact(own)?;
        }
        beyond.fill(0);
        self.filled_to = Some(offset + length as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::test_peer::{SlowPeer, TestPeer, content, name};
    use super::*;
    use crate::policy::geometry_of;

    const GROUP: i64 = i64::MIN + 16;

    fn rebuilt(group: &Group, sources: &[(u8, &TestPeer)], wanted: u8) -> io::Result<Vec<u8>> {
        let sources = sources.iter().map(|(unit, peer)| (UnitIndex(*unit), peer.address.clone())).collect();
        rebuilt_from(group, sources, wanted, Patience::default())
    }

    fn rebuilt_from(
        group: &Group,
        sources: Vec<(UnitIndex, PeerAddress)>,
        wanted: u8,
        patience: Patience,
    ) -> io::Result<Vec<u8>> {
        let wanted = [UnitIndex(wanted)].into_iter().collect();
        let (mut pass, mut all) = (Rebuilding::begin(group.clone(), sources, wanted, patience)?, Vec::new());
        while let Some(slices) = pass.next_slice()? {
            assert_eq!(slices.len(), 1);
            all.extend_from_slice(slices[0].1);
        }
        Ok(all)
    }

    #[test]
    fn a_source_that_fails_in_the_middle_is_replaced_by_another_unit_or_another_replica_of_it() {
        let geometry = geometry_of("XOR-2-1-1024k").unwrap();
        let cell = geometry.cell_size() as usize;
        let data = content(2, cell + 2 * SLICE_BYTES + 3);
        let (first, second) = data.split_at(cell);
        let mut parity = first.to_vec();
        parity.iter_mut().zip(second).for_each(|(parity, byte)| *parity ^= byte);
        let group = Group { geometry, name: name(GROUP, data.len()) };
        let [bad, good] = [first, first].map(|bytes| TestPeer::with(GROUP, bytes));
        let (other, last) = (TestPeer::with(GROUP + 1, second), TestPeer::with(GROUP + 2, &parity));
        bad.flip(GROUP, SLICE_BYTES + 1);
        let sources: &[(u8, &TestPeer)] = &[(0, &bad), (0, &good), (1, &other)];
        assert!(rebuilt(&group, sources, 2).unwrap() == parity);
        assert_eq!((bad.damaged(), good.damaged()), (1, 0));
        // A unit that is computed is as long as it was.
        assert!(rebuilt(&group, &[(0, &good), (2, &last)], 1).unwrap() == second);
        let error = rebuilt(&group, &[(0, &bad), (1, &other)], 2).unwrap_err();
        assert!(error.to_string().starts_with("1 units can be read, and 2 are needed"), "{error}");
        assert!(rebuilt(&group, &[(0, &good), (0, &good)], 2).is_err(), "one unit twice");
    }

    #[test]
    fn a_source_that_hangs_in_the_middle_is_left_for_another_one() {
        let geometry = geometry_of("XOR-2-1-1024k").unwrap();
        let data = content(3, 2 * geometry.cell_size() as usize);
        let (first, second) = data.split_at(geometry.cell_size() as usize);
        let group = Group { geometry, name: name(GROUP, data.len()) };
        let parity: Vec<u8> = first.iter().zip(second).map(|(one, other)| one ^ other).collect();
        let (good, other) = (TestPeer::with(GROUP, first), TestPeer::with(GROUP + 1, second));
        let patience = Patience {
            with_spare: Duration::from_millis(150),
            alone: Duration::from_secs(20),
            ..Patience::default()
        };
        for after in [0, SLICE_BYTES as u64 + 1000] {
            let hanging = SlowPeer::before(&good, after, Duration::from_secs(600));
            let addresses = [(0, &hanging.address), (0, &good.address), (1, &other.address)];
            let sources = addresses.map(|(unit, address)| (UnitIndex(unit), address.clone())).to_vec();
            let began = Instant::now();
            assert!(rebuilt_from(&group, sources, 2, patience).unwrap() == parity);
            assert!(hanging.was_asked() && began.elapsed() < Duration::from_secs(10));
        }
    }
}
