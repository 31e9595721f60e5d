//! Units of a stripe and sets of them.

use std::fmt;

use crate::schema::UNITS_MAX;

/// The index of a unit in its stripe: data units from 0, then parity units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitIndex(pub u8);

impl fmt::Display for UnitIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of units, in the order of their indices.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UnitSet(u16);

impl UnitSet {
    /// No unit.
    pub const EMPTY: Self = Self(0);

    /// The first `count` units.
    ///
    /// # Panics
    /// `count` is above [`UNITS_MAX`].
    pub fn first(count: usize) -> Self {
        assert!(count <= UNITS_MAX, "a stripe has at most {UNITS_MAX} units, not {count}");
        Self(((1u32 << count) - 1) as u16)
    }

    /// Adds a unit; says if it was not in the set.
    ///
    /// # Panics
    /// The index is not below [`UNITS_MAX`].
    pub fn insert(&mut self, unit: UnitIndex) -> bool {
        assert!(usize::from(unit.0) < UNITS_MAX, "a stripe has at most {UNITS_MAX} units, not a unit {unit}");
        let before = self.0;
        self.0 |= 1 << unit.0;
        self.0 != before
    }

    /// Removes a unit; says if it was in the set.
    pub fn remove(&mut self, unit: UnitIndex) -> bool {
        let was_in = self.contains(unit);
        if was_in {
            self.0 &= !(1 << unit.0);
        }
        was_in
    }

    /// Whether the unit is in the set.
    pub fn contains(self, unit: UnitIndex) -> bool {
        usize::from(unit.0) < UNITS_MAX && self.0 & (1 << unit.0) != 0
    }

    /// The number of units.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no unit is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The units of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The units of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The units that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The units, by index.
    pub fn iter(self) -> impl Iterator<Item = UnitIndex> {
        (0..UNITS_MAX as u8).map(UnitIndex).filter(move |unit| self.contains(*unit))
    }
}

impl FromIterator<UnitIndex> for UnitSet {
    fn from_iter<I: IntoIterator<Item = UnitIndex>>(units: I) -> Self {
        let mut set = Self::EMPTY;
        for unit in units {
            set.insert(unit);
        }
        set
    }
}

impl fmt::Debug for UnitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|unit| unit.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(units: &[u8]) -> UnitSet {
        units.iter().copied().map(UnitIndex).collect()
    }

    #[test]
    fn a_set_holds_each_unit_once_in_order() {
        let mut units = set(&[15, 3, 0, 3]);
        assert_eq!(units.iter().map(|unit| unit.0).collect::<Vec<_>>(), [0, 3, 15]);
        assert_eq!(units.len(), 3);
        assert!(!units.insert(UnitIndex(3)) && units.insert(UnitIndex(7)));
        assert!(units.remove(UnitIndex(0)) && !units.remove(UnitIndex(0)) && !units.remove(UnitIndex(200)));
        assert_eq!(units, set(&[3, 7, 15]));
        assert!(!units.contains(UnitIndex(16)));
    }

    #[test]
    fn sets_are_joined_and_cut() {
        let (a, b) = (set(&[0, 1, 2]), set(&[2, 9]));
        assert_eq!(a.union(b), set(&[0, 1, 2, 9]));
        assert_eq!(a.intersection(b), set(&[2]));
        assert_eq!(a.without(b), set(&[0, 1]));
        assert_eq!(UnitSet::first(3), a);
        assert_eq!(UnitSet::first(UNITS_MAX).len(), UNITS_MAX);
        assert!(UnitSet::first(0).is_empty());
    }
}
