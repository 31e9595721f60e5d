//! How units are rebuilt so that nothing wrong is ever kept.

use yeoul_erasure::{CodeError, Coder, Reconstruction, UnitIndex, UnitSet};

/// A reconstruction, and the one back by which its outcome is checked: from the rebuilt units and all but as many of the sources,
/// the sources that were left out must come again. Between the two the code is one to one, so that any wrong byte of a rebuilt
/// unit shows.
#[derive(Clone, Debug)]
pub struct CheckedPlan {
    there: Reconstruction,
    back: Reconstruction,
}

/// What was computed does not give the sources again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rebuilt unit {0} and those beside it do not encode to what was read")]
pub struct Disagrees(pub UnitIndex);

impl CheckedPlan {
    /// Plans how to compute the units `wanted` from those that are `available`.
    ///
    /// # Errors
    /// As [`Coder::reconstruction`].
    pub fn new(coder: &Coder, available: UnitSet, wanted: UnitSet) -> Result<Self, CodeError> {
        let there = coder.reconstruction(available, wanted)?;
        let left_out: UnitSet = there.sources().iter().copied().take(wanted.len()).collect();
        let sources: UnitSet = there.sources().iter().copied().collect();
        let back = coder.reconstruction(sources.without(left_out).union(wanted), left_out)?;
        Ok(Self { there, back })
    }

    /// The units to read, in the order in which [`Self::run`] takes them.
    pub fn sources(&self) -> &[UnitIndex] {
        self.there.sources()
    }

    /// The units that are computed, in the order in which [`Self::run`] gives them.
    pub fn targets(&self) -> &[UnitIndex] {
        self.there.targets()
    }

    /// Computes a slice of each target from the same slice of each source, and checks it. `scratch` has room for as many
    /// slices as there are targets.
    ///
    /// # Errors
    /// The check fails: the targets are not to be used.
    pub fn run(
        &self,
        sources: &[&[u8]],
        targets: &mut [Vec<u8>],
        scratch: &mut [Vec<u8>],
    ) -> Result<(), Disagrees> {
        self.there.run(sources, targets);
        self.check(sources, targets, scratch)
    }

    fn check(
        &self,
        sources: &[&[u8]],
        targets: &[Vec<u8>],
        scratch: &mut [Vec<u8>],
    ) -> Result<(), Disagrees> {
        let slice_of = |unit: &UnitIndex| {
            let target = self.targets().iter().position(|target| target == unit);
            let source = || self.sources().iter().position(|source| source == unit).map(|at| sources[at]);
            let found = target.map(|at| targets[at].as_slice()).or_else(source);
            found.expect("the way back uses the sources and the targets")
        };
        let inputs: Vec<&[u8]> = self.back.sources().iter().map(slice_of).collect();
        self.back.run(&inputs, scratch);
        let mut again = self.back.targets().iter().zip(&*scratch);
        if again.all(|(unit, again)| slice_of(unit) == again.as_slice()) {
            return Ok(());
        }
        Err(Disagrees(self.targets()[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn each_flipped_bit_of_a_rebuilt_unit_is_seen_whatever_is_lost() {
        let mut random = fastrand::Rng::with_seed(3);
        for policy in Policy::built_in() {
            let coder = Coder::new(policy.geometry.schema());
            let data: Vec<Vec<u8>> = (0..policy.data_units())
                .map(|_| std::iter::repeat_with(|| random.u8(..)).take(100).collect())
                .collect();
            let mut parity = vec![vec![0; 100]; policy.parity_units()];
            coder.encode(&data, &mut parity);
            let all: Vec<Vec<u8>> = data.into_iter().chain(parity).collect();
            let lost_sets =
                (1u32..1 << policy.units()).filter(|set| set.count_ones() as usize <= policy.parity_units());
            for set in lost_sets {
                let units = (0..policy.units() as u8).map(UnitIndex);
                let lost: UnitSet = units.filter(|unit| set >> unit.0 & 1 == 1).collect();
                let there = UnitSet::first(policy.units()).without(lost);
                let plan = CheckedPlan::new(&coder, there, lost).unwrap();
                let sources: Vec<&[u8]> =
                    plan.sources().iter().map(|unit| all[usize::from(unit.0)].as_slice()).collect();
                let mut targets = vec![vec![0; 100]; lost.len()];
                let mut scratch = targets.clone();
                plan.run(&sources, &mut targets, &mut scratch).unwrap();
                for (unit, target) in plan.targets().iter().zip(&targets) {
                    assert_eq!(*target, all[usize::from(unit.0)], "{} {unit} of {lost:?}", policy.name);
                }
                let (target, byte) = (random.usize(..targets.len()), random.usize(..100));
                targets[target][byte] ^= 1 << random.u32(..8);
                assert!(plan.check(&sources, &targets, &mut scratch).is_err(), "{} {lost:?}", policy.name);
            }
        }
    }
}
