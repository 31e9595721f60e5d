//! The bytes of a block whose writer is gone.
//!
//! A writer was told that bytes are kept (`hflush`, `hsync`) once each DataNode of its pipeline had them, so that any replica with the
//! stamp of the last pipeline, or a later one, begins with them. One exception: what a machine had not brought to its disk when it
//! failed is gone from it. A DataNode that has started since says so, and counts only where none is left that has not.

use yeoul_erasure::{StripeGeometry, UnitIndex};

use super::super::blocks::Block;
use crate::ids::{BlockIndex, GenerationStamp};

/// The answer of a DataNode about a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has not answered yet.
    Asked,
    /// It is silent, or has taken too long.
    Silent,
    /// It has none, or a useless one.
    Nothing,
    /// It has one, without a writer.
    Has {
        /// Its stamp.
        stamp: GenerationStamp,
        /// Bytes that agree with their checksums.
        length: u64,
        /// The DataNode has started since it was written.
        is_from_disk: bool,
    },
}

/// The answer of one of those that may have a replica or a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The unit; 0 for a replica.
    pub index: BlockIndex,
    /// What it says.
    pub said: Said,
}

/// The decision about the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It cannot be known yet.
    Wait,
    /// It has no bytes that anybody was promised: the file goes without it.
    Drop,
    /// It has so many bytes.
    End {
        /// Bytes of the block, or of the data of the group.
        length: u64,
    },
}

impl Answer {
    /// True for one that has no replica, or one that missed a pipeline.
    fn has_nothing(&self, block: &Block) -> bool {
        match self.said {
            Said::Asked | Said::Silent => false,
            Said::Nothing => true,
            Said::Has { stamp, .. } => stamp < block.stamp,
        }
    }

    /// True for a replica that can be cut to what a block of `length` bytes has of it, and that missed no pipeline.
    pub fn can_keep(&self, block: &Block, length: u64) -> bool {
        let bytes = block.geometry().map_or(length, |geometry| geometry.unit_len(length, self.index.unit()));
        matches!(self.said, Said::Has { stamp, length, .. } if stamp >= block.stamp && length >= bytes)
    }
}

/// Knowledge beside the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// No others than those that are asked can have a replica of the last pipeline.
    pub is_all: bool,
    /// Copies that a block of whole replicas is to have: no pipeline has more.
    pub copies: usize,
    /// It has been waited for a while for those that are silent, or unknown.
    pub is_patience_over: bool,
}

/// Decides by the answers of all that are known to have been written to, or to have a replica.
pub fn verdict(block: &Block, answers: &[Answer], known: Known) -> Verdict {
    if answers.iter().any(|answer| answer.said == Said::Asked) {
        return Verdict::Wait;
    }
    // All that it has is in each replica of its last pipeline. Without one it waits: others may come back.
    if block.is_truncated() {
        let length = block.length;
        let is_there = answers.iter().any(|answer| answer.can_keep(block, length));
        return if is_there { Verdict::End { length } } else { Verdict::Wait };
    }
    let length = match block.geometry() {
        None => replicated(block, answers, known),
        Some(geometry) => whole_stripes(block, answers, geometry),
    };
    match length.filter(|length| *length > 0) {
        Some(length) => Verdict::End { length },
        None if may_drop(block, answers, length, known) => Verdict::Drop,
        None => Verdict::Wait,
    }
}

/// Bytes of a block of whole replicas; none if no replica is left that is known to have what was promised.
fn replicated(block: &Block, answers: &[Answer], known: Known) -> Option<u64> {
    let usable = || answers.iter().filter(|answer| answer.can_keep(block, block.length));
    let length = |wants_disk: bool| {
        move |answer: &Answer| match answer.said {
            Said::Has { length, is_from_disk, .. } if is_from_disk == wants_disk => Some(length),
            _ => None,
        }
    };
    // All of these have what was promised, and the more of them stay the better.
    if let Some(length) = usable().filter_map(length(false)).min() {
        return Some(length);
    }
    // A machine that failed may have lost the end of its own: others may have more.
    let is_silent = answers.iter().any(|answer| answer.said == Said::Silent);
    let is_all = !is_silent && (known.is_all || usable().count() >= known.copies);
    usable().filter_map(length(true)).max().filter(|_| is_all || known.is_patience_over)
}

/// Bytes of the stripes of a group that are whole; none if fewer units are left than hold data.
///
/// A stripe that k units have may be one that its writer ended early, with parity as if it went on with zeros: it counts if all of its
/// data is there, or something behind it, which is written only once it is whole.
fn whole_stripes(block: &Block, answers: &[Answer], geometry: StripeGeometry) -> Option<u64> {
    let (k, units, cell) = (geometry.schema().data_units(), geometry.schema().units(), geometry.cell_size());
    let has: Vec<Option<u64>> =
        (0..units).map(|unit| unit_length(block, answers, UnitIndex(unit as u8))).collect();
    let mut lengths: Vec<u64> = has.iter().copied().flatten().collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let stripes = lengths.get(k - 1)? / cell;
    let is_data_there = has[..k].iter().all(|length| length.is_some_and(|length| length >= stripes * cell));
    let is_whole = is_data_there || lengths[0] > stripes * cell;
    let stripes = if is_whole { stripes } else { stripes.saturating_sub(1) };
    Some(stripes * cell * k as u64)
}

/// Bytes that a unit of a group has.
fn unit_length(block: &Block, answers: &[Answer], unit: UnitIndex) -> Option<u64> {
    let of_it = answers.iter().filter(|answer| answer.index.unit() == unit && answer.can_keep(block, 0));
    let length = |answer: &Answer| match answer.said {
        Said::Has { length, .. } => Some(length),
        _ => None,
    };
    of_it.filter_map(length).max()
}

/// True if a block without bytes may go: nothing was promised of it, or it is known that nothing is left.
fn may_drop(block: &Block, answers: &[Answer], length: Option<u64>, known: Known) -> bool {
    let is_promised = block.geometry().is_none() && (block.is_flushed() || block.length > 0);
    if is_promised && length.is_none() {
        return known.is_all && answers.iter().all(|answer| answer.has_nothing(block));
    }
    let is_known = known.is_all && answers.iter().all(|answer| answer.said != Said::Silent);
    is_known || known.is_patience_over
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlockId, InodeId};
    use crate::namenode::blocks::Promise;
    use crate::policy::geometry_of;

    const CELL: u64 = 1 << 20;

    fn block(length: u64, is_flushed: bool) -> Block {
        let mut block = Block::new(BlockId::FIRST, InodeId(20_000), None, GenerationStamp(1005));
        block.length = length;
        block.promise = if is_flushed { Promise::Beginning } else { Promise::None };
        block
    }

    fn group() -> Block {
        Block::new(BlockId::FIRST_GROUP, InodeId(20_000), geometry_of("RS-3-2-1024k"), GenerationStamp(1005))
    }

    fn has(index: u8, stamp: u64, length: u64, is_from_disk: bool) -> Answer {
        let said = Said::Has { stamp: GenerationStamp(stamp), length, is_from_disk };
        Answer { index: BlockIndex(index), said }
    }

    fn of(said: Said) -> Answer {
        Answer { index: BlockIndex(0), said }
    }

    fn known(is_all: bool, is_patience_over: bool) -> Known {
        Known { is_all, copies: 3, is_patience_over }
    }

    fn end(length: u64) -> Verdict {
        Verdict::End { length }
    }

    #[test]
    fn a_block_has_what_all_have_that_missed_no_pipeline() {
        let decide = |answers: &[Answer]| verdict(&block(0, true), answers, known(true, false));
        assert_eq!(decide(&[has(0, 1005, 700, false), has(0, 1005, 600, false)]), end(600));
        // One of an attempt that came to nothing has all, too; one of an older pipeline has not.
        assert_eq!(decide(&[has(0, 1006, 700, false), has(0, 1004, 100, false)]), end(700));
        assert_eq!(decide(&[has(0, 1004, 100, false), of(Said::Silent)]), Verdict::Wait);
        assert_eq!(decide(&[has(0, 1005, 700, false), of(Said::Asked)]), Verdict::Wait);
        assert_eq!(decide(&[has(0, 1005, 700, false), of(Said::Silent)]), end(700));
    }

    #[test]
    fn a_block_that_is_truncated_has_its_length_whatever_replicas_have_and_is_never_dropped() {
        let mut block = block(500, false);
        block.promise = Promise::Exactly;
        let decide = |answers: &[Answer]| verdict(&block, answers, known(true, true));
        assert_eq!(decide(&[has(0, 1005, 700, false), has(0, 1005, 600, true)]), end(500));
        // One that has been cut already, and one that is silent.
        assert_eq!(decide(&[has(0, 1006, 500, true), of(Said::Silent)]), end(500));
        assert_eq!(decide(&[has(0, 1005, 700, false), of(Said::Asked)]), Verdict::Wait);
        for useless in [has(0, 1004, 700, false), has(0, 1005, 499, false), of(Said::Nothing)] {
            assert_eq!(decide(&[useless]), Verdict::Wait, "{useless:?}");
        }
    }

    #[test]
    fn one_that_may_have_lost_its_end_counts_for_want_of_others_only() {
        let decide = |answers: &[Answer], over| verdict(&block(0, true), answers, known(true, over));
        assert_eq!(decide(&[has(0, 1005, 700, false), has(0, 1005, 100, true)], false), end(700));
        assert_eq!(decide(&[has(0, 1005, 700, true), has(0, 1005, 100, true)], false), end(700));
        assert_eq!(decide(&[has(0, 1005, 100, true), of(Said::Silent)], false), Verdict::Wait);
        assert_eq!(decide(&[has(0, 1005, 100, true), of(Said::Silent)], true), end(100));
        // The NameNode knows that there were more.
        let more = |answers: &[Answer]| verdict(&block(500, true), answers, known(true, true));
        assert_eq!(more(&[has(0, 1005, 499, true)]), Verdict::Wait);
        assert_eq!(more(&[has(0, 1005, 499, true), has(0, 1005, 500, true)]), end(500));
        // The NameNode has started again, and others may have yet to say that they have one.
        let found = [has(0, 1005, 700, true), has(0, 1005, 100, true), has(0, 1005, 100, true)];
        let after = |answers: &[Answer]| verdict(&block(0, true), answers, known(false, false));
        assert_eq!((after(&found[1..]), after(&found)), (Verdict::Wait, end(700)));
    }

    #[test]
    fn a_block_goes_if_nothing_was_promised_of_it_or_nothing_is_left() {
        let nothing = [of(Said::Nothing); 2];
        let one_silent = [of(Said::Nothing), of(Said::Silent)];
        for (is_flushed, answers, is_all, is_over, expected) in [
            (false, &nothing, true, false, Verdict::Drop),
            (false, &nothing, false, false, Verdict::Wait),
            (false, &nothing, false, true, Verdict::Drop),
            (false, &one_silent, true, false, Verdict::Wait),
            (false, &one_silent, true, true, Verdict::Drop),
            (true, &nothing, true, false, Verdict::Drop),
            (true, &nothing, false, true, Verdict::Wait),
            (true, &one_silent, true, true, Verdict::Wait),
        ] {
            let found = verdict(&block(0, is_flushed), answers, known(is_all, is_over));
            assert_eq!(found, expected, "{is_flushed} {answers:?} {is_all} {is_over}");
        }
        assert_eq!(verdict(&block(0, true), &[has(0, 1005, 0, false)], known(true, false)), Verdict::Drop);
    }

    #[test]
    fn a_group_has_the_whole_stripes_that_as_many_units_have_as_hold_data() {
        let decide = |answers: &[Answer], over| verdict(&group(), answers, known(true, over));
        let units = [(0, 3 * CELL), (1, 2 * CELL + 7), (3, 2 * CELL), (4, CELL), (2, 0)];
        let answers: Vec<Answer> = units.iter().map(|(at, length)| has(*at, 1005, *length, false)).collect();
        assert_eq!(decide(&answers, false), end(3 * 2 * CELL));
        assert_eq!(decide(&answers[2..], false), Verdict::Drop, "no stripe is on three");
        let two = [answers[0], answers[1], of(Said::Silent)];
        assert_eq!((decide(&two, false), decide(&two, true)), (Verdict::Wait, Verdict::Drop));
        // Unit 2 ends within the second stripe, which may be all that was written.
        let answers = |last| {
            [(0, 2 * CELL), (1, 2 * CELL), (2, last), (3, 2 * CELL)]
                .map(|(at, length)| has(at, 1005, length, false))
        };
        assert_eq!(
            (decide(&answers(CELL + 5), false), decide(&answers(2 * CELL), false)),
            (end(3 * CELL), end(6 * CELL))
        );
        // The same unit twice is one.
        let twins = [two[0], two[0], two[1], of(Said::Silent)];
        assert_eq!(decide(&twins, false), Verdict::Wait);
    }
}
