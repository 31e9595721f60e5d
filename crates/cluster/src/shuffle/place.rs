//! Place of a map's output, in the number that Ballista's locations have for a file.

use datafusion::common::Result;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_shuffle::ids::{AttemptId, MapId};

/// Bits of the number for the attempt, and for the map behind it.
const ATTEMPT_BITS: u32 = 11;
const MAP_BITS: u32 = 20;

/// Output of a map: which attempt of it counts, and how many partitions its shuffle has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub partitions: usize,
    pub map: MapId,
    pub attempt: AttemptId,
}

/// The map that the number of a file has, in a shuffle or on the disk of an executor.
pub(crate) fn map_of(number: u64) -> u64 {
    number & ((1 << MAP_BITS) - 1)
}

/// The number of a map's file on the disk of an executor, other ones for other tasks.
///
/// # Errors
/// `ResourceExhausted` for a stage that is too large: 2^20 maps, or 2^43 tasks.
pub(crate) fn local_number(task: usize, map: u64) -> Result<u64> {
    let task = u64::try_from(task).ok().filter(|task| task >> (u64::BITS - 1 - MAP_BITS) == 0);
    match task {
        Some(task) if map >> MAP_BITS == 0 => Ok(task << MAP_BITS | map),
        _ => {
            let text = format!("map {map} is more than a stage can have");
            Err(Error::new(ErrorKind::ResourceExhausted, text).with_hint("take fewer --threads").into())
        }
    }
}

impl Place {
    /// The number.
    ///
    /// # Errors
    /// `ResourceExhausted` for a shuffle that is too large for one: 2^32 partitions, 2^20 maps or 2^11 attempts of one.
    pub fn number(self) -> Result<u64> {
        let within = |number: i32, bits: u32| u64::try_from(number).ok().filter(|number| number >> bits == 0);
        let number = || {
            let partitions = u64::from(u32::try_from(self.partitions).ok()?);
            let attempt = within(self.attempt.0, ATTEMPT_BITS)?;
            let map = within(self.map.0, MAP_BITS)?;
            Some(partitions << (ATTEMPT_BITS + MAP_BITS) | attempt << MAP_BITS | map)
        };
        number().ok_or_else(|| {
            let Self { partitions, map, attempt } = self;
            let text = format!(
                "attempt {attempt} of map {map} into {partitions} partitions is more than a stage can have"
            );
            Error::new(ErrorKind::ResourceExhausted, text).with_hint("take fewer --threads").into()
        })
    }

    /// The place of a number.
    pub fn of_number(number: u64) -> Self {
        let part = |bits: u32, below: u32| {
            i32::try_from(number >> below & ((1 << bits) - 1)).expect("no more than 20 bits")
        };
        Self {
            partitions: usize::try_from(number >> (ATTEMPT_BITS + MAP_BITS)).expect("no more than 33 bits"),
            attempt: AttemptId(part(ATTEMPT_BITS, MAP_BITS)),
            map: MapId(part(MAP_BITS, 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_number_or_has_none() {
        for (partitions, map, attempt) in [(1, 0, 0), (200, 1, 2), (u32::MAX as usize, (1 << 20) - 1, 2047)] {
            let place = Place { partitions, map: MapId(map), attempt: AttemptId(attempt) };
            assert_eq!(Place::of_number(place.number().unwrap()), place);
        }
        assert_eq!(
            map_of(Place { partitions: 9, map: MapId(7), attempt: AttemptId(3) }.number().unwrap()),
            7
        );
        assert_eq!(map_of(local_number(5, 7).unwrap()), 7);
        assert!(local_number(0, 1 << 20).is_err() && local_number(1 << 43, 0).is_err());
        for (partitions, map, attempt) in
            [(1 << 32, 0, 0), (1, 1 << 20, 0), (1, -1, 0), (1, 0, 1 << 11), (1, 0, -1)]
        {
            let place = Place { partitions, map: MapId(map), attempt: AttemptId(attempt) };
            assert!(place.number().is_err(), "{place:?}");
        }
    }
}
