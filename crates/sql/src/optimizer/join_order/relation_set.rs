//! Sets of relations.

use std::fmt;

/// A set of the relations of a graph, which are numbered from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RelationSet(u128);

impl RelationSet {
    /// The most relations.
    pub(super) const RELATIONS_MAX: usize = u128::BITS as usize;
    pub(super) const EMPTY: Self = Self(0);

    /// The set of one relation.
    pub(super) fn of(relation: usize) -> Self {
        assert!(relation < Self::RELATIONS_MAX, "a set has no room for relation {relation}");
        Self(1 << relation)
    }

    /// The set whose relations are the bits of `bits`.
    pub(super) fn of_bits(bits: u32) -> Self {
        Self(u128::from(bits))
    }

    pub(super) fn contains(self, relation: usize) -> bool {
        self.overlaps(Self::of(relation))
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The relation with the lowest number.
    pub(super) fn first(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as usize)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The relations, in the order of their numbers.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let first = rest.first()?;
            rest = rest.without(Self::of(first));
            Some(first)
        })
    }
}

impl std::ops::BitOr for RelationSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for RelationSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl std::ops::BitAnd for RelationSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<usize> for RelationSet {
    fn from_iter<I: IntoIterator<Item = usize>>(relations: I) -> Self {
        relations.into_iter().fold(Self::EMPTY, |set, relation| set | Self::of(relation))
    }
}

impl fmt::Debug for RelationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_arithmetic() {
        let set: RelationSet = [127, 3, 0].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 127]);
        assert_eq!((set.len(), set.first()), (3, Some(0)));
        assert_eq!([0, 1].into_iter().collect::<RelationSet>(), RelationSet::of_bits(0b11));
        assert!(RelationSet::of(3).is_within(set) && !set.is_within(RelationSet::of(3)));
        assert_eq!(set.without(RelationSet::of(0)) & RelationSet::of_bits(0b1111), RelationSet::of(3));
        assert_eq!(RelationSet::EMPTY.first(), None);
    }
}
