//! The set of the keys of a join's build side, as a bit for each number of a range.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// The numbers of a range at most: a bit each is 8 MiB.
const NUMBERS_MAX: u64 = 1 << 26;

/// Keys of a join's build side that lie in a range, once all its partitions are read, and only of its first run.
///
/// Partitions record their keys while they are read. Whoever asks before all have ended, or after one was read for a second time, learns
/// nothing.
#[derive(Debug)]
pub(crate) struct KeySet {
    first: i64,
    numbers: u64,
    bits: OnceLock<Bits>,
    started: Box<[AtomicBool]>,
    /// Partitions that have not ended.
    left: AtomicUsize,
    is_void: AtomicBool,
    known: OnceLock<u64>,
}

#[derive(Debug)]
struct Bits {
    words: Box<[AtomicU64]>,
    _memory: MemoryReservation,
}

/// True of a type whose values are recorded.
pub(crate) fn is_recorded(data_type: &DataType) -> bool {
    use DataType::{Date32, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32)
}

/// Does something with the numbers of a column.
macro_rules! with_numbers {
    ($column:expr, $numbers:ident => $work:expr) => {
        match $column.data_type() {
            DataType::Int8 => with_numbers!(@ Int8Type, $column, $numbers, $work),
            DataType::Int16 => with_numbers!(@ Int16Type, $column, $numbers, $work),
            DataType::Int32 => with_numbers!(@ Int32Type, $column, $numbers, $work),
            DataType::Int64 => with_numbers!(@ Int64Type, $column, $numbers, $work),
            DataType::UInt8 => with_numbers!(@ UInt8Type, $column, $numbers, $work),
            DataType::UInt16 => with_numbers!(@ UInt16Type, $column, $numbers, $work),
            DataType::UInt32 => with_numbers!(@ UInt32Type, $column, $numbers, $work),
            DataType::Date32 => with_numbers!(@ Date32Type, $column, $numbers, $work),
            other => internal_err!("keys of type {other} are not recorded"),
        }
    };
    (@ $kind:ty, $column:expr, $numbers:ident, $work:expr) => {{
        let $numbers = $column.as_primitive::<$kind>();
        Ok($work)
    }};
}

impl KeySet {
    /// The empty set of the keys of so many partitions that are among the numbers from `first` to `last`. `None` if these are too many.
    pub(crate) fn new(first: i64, last: i64, partitions: usize) -> Option<Self> {
        let numbers = u64::try_from(i128::from(last) - i128::from(first) + 1).ok()?;
        (numbers > 0 && numbers <= NUMBERS_MAX && partitions > 0).then(|| Self {
            first,
            numbers,
            bits: OnceLock::new(),
            started: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(partitions),
            is_void: AtomicBool::new(false),
            known: OnceLock::new(),
        })
    }

    /// True once, for a partition that is about to be read. A second run has other keys, and makes the set void.
    pub(super) fn start(&self, partition: usize, pool: &Arc<dyn MemoryPool>) -> bool {
        let is_first =
            self.started.get(partition).is_some_and(|started| !started.swap(true, Ordering::Relaxed));
        if !is_first || !self.has_bits(pool) {
            self.give_up();
            return false;
        }
        !self.is_void.load(Ordering::Acquire)
    }

    /// True if there is memory for the bits.
    fn has_bits(&self, pool: &Arc<dyn MemoryPool>) -> bool {
        if self.bits.get().is_some() {
            return true;
        }
        let words = self.numbers.div_ceil(64) as usize;
        let memory = MemoryConsumer::new("RecordedKeys").register(pool);
        if memory.try_grow(words * 8).is_err() {
            return false;
        }
        self.bits
            .get_or_init(|| Bits { words: (0..words).map(|_| AtomicU64::new(0)).collect(), _memory: memory });
        true
    }

    /// Makes the set void: nobody learns anything of it from now on.
    pub(super) fn give_up(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    /// Adds the keys of a column. Keys outside of the range are left out, and nulls.
    pub(super) fn add(&self, keys: &ArrayRef) -> Result<()> {
        let Some(bits) = self.bits.get() else { return internal_err!("keys come before their partition") };
        with_numbers!(keys, keys => self.add_numbers(&bits.words, keys))
    }

    fn add_numbers<T: ArrowPrimitiveType>(&self, words: &[AtomicU64], keys: &PrimitiveArray<T>)
    where
        T::Native: Into<i64>,
    {
        for (at, key) in keys.values().iter().enumerate() {
            let number = self.number((*key).into());
            if number < self.numbers && keys.is_valid(at) {
                let (word, bit) = (&words[(number / 64) as usize], 1 << (number % 64));
                if word.load(Ordering::Relaxed) & bit == 0 {
                    word.fetch_or(bit, Ordering::Relaxed);
                }
            }
        }
    }

    /// The end of a partition.
    pub(super) fn end(&self) {
        let before = self.left.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a partition ended twice");
    }

    /// True once all keys are in the set.
    pub(crate) fn is_known(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 && !self.is_void.load(Ordering::Acquire)
    }

    /// The part of the numbers of the range that are keys, once they are known.
    pub(crate) fn share(&self) -> Option<f64> {
        let bits = self.bits.get().filter(|_| self.is_known())?;
        let count = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        let keys = *self.known.get_or_init(|| bits.words.iter().map(count).sum());
        Some(keys as f64 / self.numbers as f64)
    }

    /// The values of a column that may be keys: those of the set, those that it says nothing of, and nulls, for which it depends on the join.
    ///
    /// # Errors
    /// Another type than that of the keys.
    pub(super) fn may_have(&self, column: &ArrayRef) -> Result<BooleanArray> {
        let Some(bits) = self.bits.get().filter(|_| self.is_known()) else {
            return Ok(BooleanArray::from(vec![true; column.len()]));
        };
        with_numbers!(column, numbers => self.may_have_numbers(&bits.words, numbers))
    }

    fn may_have_numbers<T: ArrowPrimitiveType>(
        &self,
        words: &[AtomicU64],
        numbers: &PrimitiveArray<T>,
    ) -> BooleanArray
    where
        T::Native: Into<i64>,
    {
        let values = numbers.values();
        let found = BooleanBuffer::collect_bool(values.len(), |at| {
            let number = self.number(values[at].into());
            number >= self.numbers
                || words[(number / 64) as usize].load(Ordering::Relaxed) >> (number % 64) & 1 == 1
        });
        let found = match numbers.nulls() {
            Some(nulls) => &found | &!nulls.inner(),
            None => found,
        };
        BooleanArray::new(found, None)
    }

    /// The place of a number in the range, or one behind its end.
    fn number(&self, key: i64) -> u64 {
        key.wrapping_sub(self.first) as u64
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(UnboundedMemoryPool::default())
    }

    fn column(keys: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(keys.to_vec()))
    }

    fn kept(set: &KeySet, keys: &[Option<i64>]) -> Vec<bool> {
        set.may_have(&column(keys)).unwrap().iter().map(Option::unwrap).collect()
    }

    #[test]
    fn keys_nulls_and_numbers_outside_of_the_range_are_kept() {
        let set = KeySet::new(-3, 100, 1).unwrap();
        assert!(set.start(0, &pool()));
        set.add(&column(&[Some(-3), None, Some(64), Some(1000), Some(i64::MIN)])).unwrap();
        set.end();
        let asked =
            [Some(-3), Some(-2), Some(64), Some(100), Some(101), Some(i64::MAX), Some(i64::MIN), None];
        assert_eq!(kept(&set, &asked), [true, false, true, false, true, true, true, true]);
        assert_eq!(set.share(), Some(2.0 / 104.0));
        let other: ArrayRef = Arc::new(Int32Array::from(vec![64, 65]));
        assert_eq!(set.may_have(&other).unwrap().values().iter().collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn nothing_is_known_before_all_partitions_have_ended() {
        let set = KeySet::new(0, 9, 2).unwrap();
        assert!(set.start(0, &pool()) && set.start(1, &pool()));
        set.end();
        assert!(!set.is_known());
        assert_eq!((kept(&set, &[Some(5)]), set.share()), (vec![true], None));
        set.end();
        assert_eq!((kept(&set, &[Some(5)]), set.share()), (vec![false], Some(0.0)));
    }

    #[test]
    fn a_second_run_makes_the_set_void() {
        let set = KeySet::new(0, 9, 1).unwrap();
        assert!(set.start(0, &pool()));
        set.end();
        assert!(set.is_known());
        assert!(!set.start(0, &pool()) && !set.is_known());
        assert_eq!(kept(&set, &[Some(5)]), [true]);
    }

    #[test]
    fn without_memory_nothing_is_recorded() {
        let set = KeySet::new(0, 1 << 20, 1).unwrap();
        let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        assert!(!set.start(0, &small) && !set.is_known());
        assert_eq!(small.reserved(), 0);
    }

    #[test]
    fn ranges_are_bounded() {
        assert!(KeySet::new(i64::MIN, i64::MAX, 1).is_none() && KeySet::new(5, 4, 1).is_none());
        assert!(KeySet::new(0, NUMBERS_MAX as i64, 1).is_none());
        assert!(KeySet::new(1, NUMBERS_MAX as i64, 1).is_some());
    }
}
