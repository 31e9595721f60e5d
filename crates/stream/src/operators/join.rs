use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatch, RecordBatchOptions, UInt32Array,
    UInt64Array, new_null_array,
};
use arrow::compute::{filter_record_batch, prep_null_mask_filter, take, take_record_batch};
use arrow::datatypes::{DataType, Field, Int8Type};
use datafusion::physical_expr::PhysicalExpr;

use super::OperatorCounts;
use super::event_time::{EndTimes, bucket_at, drop_late, key_columns};
use crate::error::{Result, computing};
use crate::plan::{JoinKind, JoinPlan, StateBound};
use crate::state::{Bucket, FoundRows, KeyHash, Keys, Layout, StateRows, StateTable};

/// Most pairs of rows that are looked at together.
const PAIRS_MAX: usize = 8192;
/// Microseconds of time whose rows lie together.
const SPAN_US: i64 = 1_000_000;
/// Columns that make keys of rows different: the process's number among those that had the query, and the row's in it.
const OWN_KEY_COLUMNS: [(&str, DataType); 2] =
    [("row.life", DataType::UInt64), ("row.number", DataType::UInt64)];

/// Taker of rows that come out.
pub(super) type Out<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<()>;

/// Rows of two streams that match. Each side's rows are in a table until no row of the other can match them; a row looks for
/// its matches among those that came before it, on either side.
pub struct Join {
    plan: JoinPlan,
    layouts: [Arc<Layout>; 2],
    tables: [Box<dyn StateTable>; 2],
    life: u64,
    next: u64,
    counts: OperatorCounts,
}

impl Join {
    /// Layouts of both sides' tables: the keys that have to be equal and what makes each row different; the row's
    /// columns, and where it matters whether it has had a match.
    ///
    /// # Errors
    /// `Invalid` for types that state does not hold.
    pub fn layouts(plan: &JoinPlan, name: &str) -> Result<[Arc<Layout>; 2]> {
        let layout = |side: usize| -> Result<Arc<Layout>> {
            let side_plan = &plan.sides[side];
            let own = OWN_KEY_COLUMNS.map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)));
            let keys = side_plan.key_fields.iter().cloned().chain(own).collect();
            let mut values: Vec<_> = side_plan.schema.fields().iter().cloned().collect();
            if tells_matched(plan.kind, side) {
                values.push(Arc::new(Field::new("matched", DataType::Int8, false)));
            }
            let name = format!("{name}-{}", ["left", "right"][side]);
            let layout = Layout::new(name, keys, values)?.with_prefix(side_plan.keys.len());
            Ok(Arc::new(layout.with_span_us(SPAN_US)))
        };
        Ok([layout(0)?, layout(1)?])
    }

    /// Identity of the state: another plan does not go on with it.
    pub fn identity(plan: &JoinPlan) -> String {
        let side = |side: usize| {
            let plan = &plan.sides[side];
            let keys: Vec<String> = plan.keys.iter().map(ToString::to_string).collect();
            let columns: Vec<&str> = plan.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let kept = match &plan.bound {
                None => "for ever".to_owned(),
                Some(StateBound::Key(_)) => "until the key's time".to_owned(),
                Some(StateBound::Range(bounds)) => {
                    let from = |bound: &crate::plan::RangeBound| bound.offset_us.to_string();
                    format!("until {} us", bounds.iter().map(from).collect::<Vec<_>>().join(" or "))
                }
            };
            format!("({}) by {} {kept}", columns.join(", "), keys.join(", "))
        };
        format!("{} join 1: {} and {}", plan.kind.name(), side(0), side(1))
    }

    /// A join whose rows are in these tables, for the process of a number among those that had the query.
    ///
    /// # Errors
    /// As [`layouts`](Self::layouts).
    pub fn new(plan: JoinPlan, tables: [Box<dyn StateTable>; 2], life: u64) -> Result<Self> {
        let layouts = Self::layouts(&plan, "")?;
        Ok(Self { plan, layouts, tables, life, next: 0, counts: OperatorCounts::default() })
    }

    /// The tables of the left and the right side.
    pub fn tables(&mut self) -> [&mut dyn StateTable; 2] {
        let [left, right] = &mut self.tables;
        [&mut **left, &mut **right]
    }

    /// The plan.
    pub fn plan(&self) -> &JoinPlan {
        &self.plan
    }

    /// True if rows are let go by the watermark.
    pub fn evicts(&self) -> bool {
        self.plan.sides.iter().any(|side| side.bound.is_some())
    }

    /// Counts since this was asked last.
    pub fn take_counts(&mut self) -> OperatorCounts {
        std::mem::take(&mut self.counts)
    }

    /// Takes rows of a side of the open batch, of which those at `late_ms` or before are late.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed; as the tables and `out`.
    pub fn push(&mut self, side: usize, rows: RecordBatch, late_ms: Option<i64>, out: Out<'_>) -> Result<()> {
        let (rows, late) = drop_late(rows, self.plan.sides[side].time, late_ms)?;
        self.counts.late += late;
        let rows = self.with_own_filter(side, rows, out)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let columns = key_columns(&self.plan.sides[side].keys, &rows)?;
        // Null equals nothing.
        let is_null = |row: usize| columns.iter().any(|column| column.is_null(row));
        let is_null: Vec<bool> = (0..rows.num_rows()).map(is_null).collect();
        let has_match = self.matches(side, &rows, &columns, &is_null, out)?;
        self.store(side, &rows, columns, &is_null, &has_match)
    }

    /// Rows that pass the part of the condition that is about their side alone. The others have no match: if such come out,
    /// they do so at once.
    fn with_own_filter(&self, side: usize, rows: RecordBatch, out: Out<'_>) -> Result<RecordBatch> {
        let Some(filter) = self.plan.sides[side].own_filter.as_ref().filter(|_| rows.num_rows() > 0) else {
            return Ok(rows);
        };
        let passes = truths(filter, &rows)?;
        if passes.true_count() == rows.num_rows() {
            return Ok(rows);
        }
        if self.plan.kind.gives_unmatched(side) {
            let fails = arrow::compute::not(&passes).map_err(computing)?;
            let failing = filter_record_batch(&rows, &fails).map_err(computing)?;
            out(self.unmatched(side, failing.columns(), failing.num_rows())?)?;
        }
        filter_record_batch(&rows, &passes).map_err(computing)
    }

    /// Gives what comes out because of rows that came before on the other side; says which rows have a match there.
    fn matches(
        &mut self,
        side: usize,
        rows: &RecordBatch,
        columns: &[ArrayRef],
        is_null: &[bool],
        out: Out<'_>,
    ) -> Result<Vec<bool>> {
        let other = 1 - side;
        let encoded = self.layouts[side].prefix_rows(columns)?;
        let (mut keys, mut key_of_row) = (Keys::default(), Vec::with_capacity(rows.num_rows()));
        for (row, key) in encoded.iter().enumerate() {
            let place =
                (!is_null[row]).then(|| keys.insert(Bucket::FOR_EVER, KeyHash::of(key.data()), key.data()).0);
            key_of_row.push(place);
        }
        let mut has_match = vec![false; rows.num_rows()];
        let mut found = self.tables[other].read_prefixed(&keys)?;
        if found.places.is_empty() {
            return Ok(has_match);
        }
        let flags = if tells_matched(self.plan.kind, other) { found.values.pop() } else { None };
        let mut matched: Option<Vec<bool>> = flags
            .as_ref()
            .map(|flags| flags.as_primitive::<Int8Type>().values().iter().map(|flag| *flag != 0).collect());
        let was_matched = matched.clone();
        let mut pairs = Pairs::default();
        for (row, place) in key_of_row.iter().enumerate() {
            let Some(place) = place else { continue };
            let begin = found.places.partition_point(|other| other < place);
            let end = begin + found.places[begin..].partition_point(|other| other == place);
            for at in begin..end {
                // A left row that came out once does not do so again.
                let is_done = self.plan.kind == JoinKind::LeftSemi
                    && (if side == 0 { has_match[row] } else { matched.as_ref().is_some_and(|m| m[at]) });
                if is_done {
                    continue;
                }
                pairs.push(row, at);
                if pairs.len() == PAIRS_MAX {
                    self.give(side, rows, &found, &mut pairs, &mut has_match, matched.as_deref_mut(), out)?;
                }
            }
        }
        self.give(side, rows, &found, &mut pairs, &mut has_match, matched.as_deref_mut(), out)?;
        if let (Some(before), Some(after)) = (was_matched, matched) {
            self.mark(other, found, &before, &after)?;
        }
        Ok(has_match)
    }

    /// Gives the pairs for which the condition holds, or their left rows.
    #[expect(clippy::too_many_arguments, reason = "they are the state of one loop")]
    fn give(
        &mut self,
        side: usize,
        rows: &RecordBatch,
        found: &FoundRows,
        pairs: &mut Pairs,
        has_match: &mut [bool],
        mut matched: Option<&mut [bool]>,
        out: Out<'_>,
    ) -> Result<()> {
        let Pairs { rows: mine, found: theirs } = std::mem::take(pairs);
        if mine.is_empty() {
            return Ok(());
        }
        let (mine, theirs) = (UInt32Array::from(mine), UInt32Array::from(theirs));
        let taken = |columns: &[ArrayRef], places: &UInt32Array| -> Result<Vec<ArrayRef>> {
            columns.iter().map(|column| take(column, places, None).map_err(computing)).collect()
        };
        let (own, other) = (taken(rows.columns(), &mine)?, taken(&found.values, &theirs)?);
        let columns = if side == 0 { [own, other] } else { [other, own] }.concat();
        let options = RecordBatchOptions::new().with_row_count(Some(mine.len()));
        let all = RecordBatch::try_new_with_options(Arc::clone(&self.plan.pair_schema), columns, &options);
        let all = all.map_err(computing)?;
        let holds = match &self.plan.filter {
            Some(filter) => Some(truths(filter, &all)?),
            None => None,
        };
        let is_semi = self.plan.kind == JoinKind::LeftSemi;
        let mut left_rows = Vec::new();
        for pair in (0..mine.len()).filter(|pair| holds.as_ref().is_none_or(|holds| holds.value(*pair))) {
            let (row, at) = (mine.value(pair) as usize, theirs.value(pair) as usize);
            let is_first = if side == 0 { !has_match[row] } else { matched.as_ref().is_some_and(|m| !m[at]) };
            if is_semi && is_first {
                left_rows.push(pair as u32);
            }
            has_match[row] = true;
            if let Some(matched) = &mut matched {
                matched[at] = true;
            }
        }
        let given = if is_semi {
            let left: Vec<usize> = (0..self.plan.schema.fields().len()).collect();
            let left = all.project(&left).map_err(computing)?;
            take_record_batch(&left, &UInt32Array::from(left_rows)).map_err(computing)?
        } else {
            match holds {
                Some(holds) => filter_record_batch(&all, &holds).map_err(computing)?,
                None => all,
            }
        };
        if given.num_rows() == 0 {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(given.num_rows()));
        let schema = Arc::clone(&self.plan.schema);
        out(RecordBatch::try_new_with_options(schema, given.columns().to_vec(), &options)
            .map_err(computing)?)
    }

    /// Notes that rows of a side have had a match now.
    fn mark(&mut self, side: usize, found: FoundRows, before: &[bool], after: &[bool]) -> Result<()> {
        let new: Vec<u32> =
            (0_u32..).zip(before.iter().zip(after)).filter(|(_, (b, a))| b != a).map(|(at, _)| at).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut keys = Keys::default();
        for at in new.iter().map(|at| *at as usize) {
            let key = found.key(at);
            keys.insert(found.buckets[at], KeyHash::of(key), key);
        }
        let places = UInt32Array::from(new);
        let values: Result<Vec<ArrayRef>, _> =
            found.values.iter().map(|column| take(column, &places, None)).collect();
        let mut values = values.map_err(computing)?;
        values.push(Arc::new(Int8Array::from(vec![1; places.len()])));
        self.tables[side].write(&keys, &values)
    }

    /// Keeps rows that may have matches among those that are yet to come, or that come out if they have none.
    fn store(
        &mut self,
        side: usize,
        rows: &RecordBatch,
        mut columns: Vec<ArrayRef>,
        is_null: &[bool],
        has_match: &[bool],
    ) -> Result<()> {
        let (plan, kind) = (&self.plan.sides[side], self.plan.kind);
        let times = match (&plan.bound, plan.time) {
            (Some(StateBound::Key(key)), _) => Some(EndTimes::of_key(&columns, *key)?),
            (Some(StateBound::Range(_)), Some(time)) => {
                Some(EndTimes::new(rows.column(time.column), time.to_end_ms)?)
            }
            _ => None,
        };
        let count = rows.num_rows();
        let numbers = UInt64Array::from_iter_values(self.next..self.next + count as u64);
        self.next += count as u64;
        columns.push(Arc::new(UInt64Array::from(vec![self.life; count])));
        columns.push(Arc::new(numbers));
        let encoded = self.layouts[side].encode_keys(&columns)?;
        let is_kept = |row: &usize| {
            let has_come_out = kind == JoinKind::LeftSemi && side == 0 && has_match[*row];
            !has_come_out && (!is_null[*row] || kind.gives_unmatched(side))
        };
        let (mut keys, mut kept) = (Keys::default(), Vec::with_capacity(count));
        for row in (0..count).filter(is_kept) {
            let bucket = times.as_ref().map_or(Bucket::FOR_EVER, |times| times.bucket(row));
            let key = encoded.row(row);
            keys.insert(bucket, KeyHash::of(key.data()), key.data());
            kept.push(row as u32);
        }
        if kept.is_empty() {
            return Ok(());
        }
        self.counts.updated += kept.len() as u64;
        let mut values = rows.columns().to_vec();
        if tells_matched(kind, side) {
            values.push(Arc::new(Int8Array::from_iter_values(has_match.iter().map(|had| i8::from(*had)))));
        }
        if kept.len() < count {
            let places = UInt32Array::from(kept);
            let taken: Result<Vec<ArrayRef>, _> =
                values.iter().map(|column| take(column, &places, None)).collect();
            values = taken.map_err(computing)?;
        }
        self.tables[side].write(&keys, &values)
    }

    /// Ends the open batch: rows that no row to come can match by the join's watermark go, and those without a match come out if
    /// such do.
    ///
    /// # Errors
    /// As the tables and `out`.
    pub fn end_batch(&mut self, watermark_ms: Option<i64>, out: Out<'_>) -> Result<()> {
        let Some(watermark_ms) = watermark_ms else { return Ok(()) };
        for side in [0, 1] {
            let Some(until_ms) = self.plan.state_watermark_ms(side, watermark_ms) else { continue };
            for gone in self.tables[side].evict(bucket_at(until_ms))? {
                self.counts.removed += gone.len() as u64;
                if self.plan.kind.gives_unmatched(side) {
                    self.give_unmatched(side, gone, out)?;
                }
            }
        }
        Ok(())
    }

    fn give_unmatched(&self, side: usize, mut gone: StateRows, out: Out<'_>) -> Result<()> {
        let flags = gone.values.pop().expect("rows of this side tell whether they had a match");
        let flags = flags.as_primitive::<Int8Type>();
        let unmatched: Vec<u32> =
            (0_u32..).zip(flags.values()).filter(|(_, flag)| **flag == 0).map(|(row, _)| row).collect();
        if unmatched.is_empty() {
            return Ok(());
        }
        let places = UInt32Array::from(unmatched);
        let columns: Result<Vec<ArrayRef>, _> =
            gone.values.iter().map(|column| take(column, &places, None)).collect();
        out(self.unmatched(side, &columns.map_err(computing)?, places.len())?)
    }

    /// Rows of a side, and nulls for the other.
    fn unmatched(&self, side: usize, columns: &[ArrayRef], count: usize) -> Result<RecordBatch> {
        let fields = self.plan.sides[1 - side].schema.fields();
        let nulls: Vec<_> = fields.iter().map(|field| new_null_array(field.data_type(), count)).collect();
        let own = columns.to_vec();
        let columns = if side == 0 { [own, nulls] } else { [nulls, own] }.concat();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options).map_err(computing)
    }
}

/// Places of rows that belong together.
#[derive(Debug, Default)]
struct Pairs {
    rows: Vec<u32>,
    found: Vec<u32>,
}

impl Pairs {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn push(&mut self, row: usize, found: usize) {
        let place = |at: usize| u32::try_from(at).expect("less than 2^32 rows are looked at together");
        self.rows.push(place(row));
        self.found.push(place(found));
    }
}

/// True if rows of a side are kept with a note whether they have had a match.
fn tells_matched(kind: JoinKind, side: usize) -> bool {
    kind.gives_unmatched(side) || (kind == JoinKind::LeftSemi && side == 0)
}

/// Rows for which a condition is true: null is not.
pub(super) fn truths(condition: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<BooleanArray> {
    let value = condition.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
    let value = value.map_err(computing)?;
    if *value.data_type() == DataType::Null {
        return Ok(BooleanArray::from(vec![false; rows.num_rows()]));
    }
    let value = value.as_boolean();
    Ok(if value.null_count() > 0 { prep_null_mask_filter(value) } else { value.clone() })
}
