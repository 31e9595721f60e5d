//! The conditions that a scan asks of its rows, in an order that follows from what each costs and keeps.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, MutableBuffer};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::util::bit_util;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, DynamicFilterPhysicalExpr, Literal,
};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;

use super::choice::Way;
use crate::operators::recorded_keys::{IsRecorded, KeySet};

/// Rows after which it is decided whether a filter pays.
const TRIAL_ROWS: u64 = 32_768;

/// The time that a row takes until it reaches the operator that made a filter, and would drop it: to be copied, at least.
const ROW_NANOS: f64 = 10.0;

/// The partitions of a join of which each is asked for a row.
const PARTITIONS_ASKED_MAX: usize = 4;

/// The time to copy a value of a row that is left, to ask those by themselves.
const COPY_NANOS: f64 = 3.0;

/// The part of what was measured that the next measurements replace, as a power of two of rows.
const REMEMBERED_ROWS: u64 = 1 << 20;

/// A condition that rows are asked.
pub(crate) struct Condition {
    /// The condition on the columns of the batches that the scan reads.
    pub(super) on_batch: Arc<dyn PhysicalExpr>,
    /// The condition on the columns of the table, if it may be asked while a file is decoded.
    on_table: Option<Arc<dyn PhysicalExpr>>,
    pub(super) kind: Kind,
    /// Columns of these batches that it is asked of, and the condition on them alone.
    columns: Vec<usize>,
    on_columns: Arc<dyn PhysicalExpr>,
    /// The keys of the join that made a filter, if they are recorded.
    keys: Option<Arc<KeySet>>,
    /// A guess of the nanoseconds that asking a row takes, until it is measured.
    guessed_nanos: f64,
    /// What a filter asks, with the generation of which this is.
    told: Mutex<Option<(u64, Arc<dyn PhysicalExpr>)>>,
    measured: Measured,
}

/// The reason for which a condition is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The query's own: asked of all rows.
    Own,
    /// The query's own, and asking may fail: asked of those rows only that all conditions before it keep.
    Fallible,
    /// A filter of another operator, which drops rows that this operator would drop. It need not be asked.
    Filter,
}

/// The measurements of a condition, by all threads that read the scan.
#[derive(Default)]
struct Measured {
    rows: AtomicU64,
    kept: AtomicU64,
    /// Picoseconds that asking a row takes, or 0.
    picos: AtomicU64,
    /// Generation of a filter that did not pay, or 0.
    dropped_at: AtomicU64,
    drops: AtomicUsize,
    /// True once a filter has failed: it is not asked again.
    is_broken: AtomicBool,
}

impl Measured {
    /// Notes how long it took to ask so many rows, in nanoseconds. Threads that do it at the same time may lose what one of them notes.
    fn add(&self, rows: usize, kept: usize, nanos: u64) {
        if self.rows.load(Relaxed) > REMEMBERED_ROWS {
            self.rows.store(self.rows.load(Relaxed) / 2, Relaxed);
            self.kept.store(self.kept.load(Relaxed) / 2, Relaxed);
        }
        self.rows.fetch_add(rows as u64, Relaxed);
        self.kept.fetch_add(kept as u64, Relaxed);
        let now = nanos as f64 * 1000.0 / rows.max(1) as f64;
        let known = self.picos.load(Relaxed);
        let picos = if known == 0 { now } else { without_interruptions(known as f64, now) };
        self.picos.store(picos.max(1.0) as u64, Relaxed);
    }

    fn forget(&self) {
        for count in [&self.rows, &self.kept, &self.picos] {
            count.store(0, Relaxed);
        }
    }

    /// The share of rows that are kept and the time of a row in nanoseconds, once there are rows.
    fn share_and_nanos(&self) -> Option<(f64, f64)> {
        let rows = self.rows.load(Relaxed);
        let share = self.kept.load(Relaxed) as f64 / rows as f64;
        (rows > 0).then(|| (share.min(1.0), self.picos.load(Relaxed) as f64 / 1000.0))
    }
}

/// A time that is measured again and again: other processes interrupt what is measured, which makes it longer, and never shorter.
pub(super) fn without_interruptions(known: f64, now: f64) -> f64 {
    if now < known { (known + now) / 2.0 } else { known + (now.min(2.0 * known) - known) / 8.0 }
}

impl Condition {
    pub(crate) fn new(
        on_batch: Arc<dyn PhysicalExpr>,
        on_table: Option<Arc<dyn PhysicalExpr>>,
        kind: Kind,
        keys: Option<Arc<KeySet>>,
        batch: &Schema,
    ) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&on_batch).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let on_columns = Arc::clone(&on_batch).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let at = columns.iter().position(|at| *at == column.index()).expect("it is among them");
            Ok(Transformed::new(Arc::new(Column::new(column.name(), at)) as _, true, TreeNodeRecursion::Jump))
        });
        let mut guessed_nanos = 0.0;
        on_batch.apply(|expr| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                let is_number = batch.field(column.index()).data_type().is_primitive();
                guessed_nanos += if is_number { 1.0 } else { 8.0 };
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self {
            on_columns: on_columns.data()?,
            on_batch,
            on_table,
            kind,
            columns,
            keys,
            guessed_nanos,
            told: Mutex::default(),
            measured: Measured::default(),
        })
    }

    /// True if it may be asked while a file is decoded.
    pub(super) fn is_decodable(&self) -> bool {
        self.on_table.is_some()
    }

    /// True if it is asked of a column of the batches that the scan reads.
    pub(super) fn reads(&self, column: usize) -> bool {
        self.columns.contains(&column)
    }

    /// The conditions on columns of the table to ask while a file is decoded.
    pub(super) fn while_decoding(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let Some(on_table) = &self.on_table else { return Vec::new() };
        let recorded = self.keys.as_ref().filter(|keys| keys.is_known());
        let filter = on_table.downcast_ref::<DynamicFilterPhysicalExpr>();
        let (Some(keys), Some(filter)) = (recorded, filter) else { return vec![Arc::clone(on_table)] };
        // Comparisons exclude row groups and pages, which keys cannot.
        let told = filter.current().ok();
        let compares = |part: &&Arc<dyn PhysicalExpr>| {
            let operator = part.downcast_ref::<BinaryExpr>().map(|part| *part.op());
            matches!(operator, Some(Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq))
        };
        let parts =
            told.iter().flat_map(|told| split_conjunction(told).into_iter().filter(compares).cloned());
        let key = filter.children().first().map(|key| Arc::clone(*key));
        let keys = key.map(|key| Arc::new(IsRecorded::new(key, Arc::clone(keys))) as Arc<dyn PhysicalExpr>);
        parts.chain(keys).collect()
    }

    /// The share of rows that a filter keeps, by the keys of its join.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.keys.as_ref().and_then(|keys| keys.share())
    }

    /// True of a condition that rows are to be asked now: an own one, or a filter that is known and pays.
    pub(super) fn is_asked(&self) -> bool {
        if self.kind != Kind::Filter {
            return true;
        }
        if self.measured.is_broken.load(Relaxed) || !self.is_filled() {
            return false;
        }
        let dropped_at = self.measured.dropped_at.load(Relaxed);
        if dropped_at == 0 {
            return true;
        }
        // A filter that was told something new may pay; one that changes all the time is tried less and less often.
        let changes = self.on_batch.snapshot_generation().saturating_sub(dropped_at);
        let is_due = changes >= 1 << self.measured.drops.load(Relaxed).saturating_sub(1).min(32);
        if is_due {
            self.measured.forget();
            self.measured.dropped_at.store(0, Relaxed);
        }
        is_due
    }

    /// True once the operator that makes a filter has told something.
    fn is_filled(&self) -> bool {
        let is_known = self.keys.as_ref().map(|keys| keys.is_known());
        let is_told = match self.on_batch.is::<DynamicFilterPhysicalExpr>() {
            true => self.on_batch.snapshot_generation() > 1,
            false => is_known.is_none(),
        };
        is_told || is_known == Some(true)
    }

    /// True if it takes less time to copy the rows that are left of so many, and to ask these.
    fn is_faster_apart(&self, left: usize, rows: usize) -> bool {
        let copied = left * self.columns.len();
        self.nanos() * (rows - left) as f64 > COPY_NANOS * copied as f64
    }

    /// The rows of a batch that are kept, or `None` if all are. The batch has the columns of the condition.
    fn ask(&self, batch: &RecordBatch, way: Way) -> Result<Option<BooleanArray>> {
        let started = Instant::now();
        let answer = match (self.answer(batch), self.kind) {
            (Err(_), Kind::Filter) => {
                // The operator that made it asks again, and fails if the query does.
                self.measured.is_broken.store(true, Relaxed);
                return Ok(None);
            }
            (answer, _) => answer?,
        };
        let kept = answer.as_ref().map_or(batch.num_rows(), BooleanArray::true_count);
        if way == Way::AfterDecoding {
            // What is left after the rows were asked while they were decoded says nothing.
            self.measured.add(batch.num_rows(), kept, started.elapsed().as_nanos() as u64);
        }
        if self.kind == Kind::Filter {
            self.drop_if_useless();
        }
        Ok(answer.filter(|_| kept < batch.num_rows()))
    }

    fn answer(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        Ok(match self.current()?.evaluate(batch)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => None,
            ColumnarValue::Scalar(scalar) if scalar.data_type() == DataType::Boolean || scalar.is_null() => {
                Some(BooleanArray::from(vec![false; batch.num_rows()]))
            }
            answer => {
                let answer = answer.into_array(batch.num_rows())?;
                let answer = as_boolean_array(&answer)?;
                Some(if answer.null_count() == 0 { answer.clone() } else { prep_null_mask_filter(answer) })
            }
        })
    }

    /// What is asked now.
    fn current(&self) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(filter) = self.on_columns.downcast_ref::<DynamicFilterPhysicalExpr>() else {
            return Ok(Arc::clone(&self.on_columns));
        };
        if let (Some(keys), [key]) = (self.keys.as_ref().filter(|keys| keys.is_known()), &*filter.children())
        {
            return Ok(Arc::new(IsRecorded::new(Arc::clone(*key), Arc::clone(keys))));
        }
        let generation = self.on_columns.snapshot_generation();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &*told {
            Some((at, expr)) if *at == generation => Ok(Arc::clone(expr)),
            _ => {
                let expr = without_routing(&filter.current()?);
                *told = Some((generation, Arc::clone(&expr)));
                Ok(expr)
            }
        }
    }

    fn drop_if_useless(&self) {
        let is_tried = self.measured.rows.load(Relaxed) >= TRIAL_ROWS;
        let Some((share, nanos)) = self.measured.share_and_nanos().filter(|_| is_tried) else { return };
        if !pays(share, nanos) {
            self.measured.dropped_at.store(self.on_batch.snapshot_generation().max(1), Relaxed);
            self.measured.drops.fetch_add(1, Relaxed);
        }
    }

    /// The time that is spent for each row that is dropped.
    fn rank(&self) -> f64 {
        let measured = self.measured.share_and_nanos().map(|(share, _)| share);
        let share = measured.or_else(|| self.estimate()).unwrap_or(0.5);
        self.nanos() / (1.0 - share).max(0.001)
    }

    /// The nanoseconds that asking a row takes.
    fn nanos(&self) -> f64 {
        self.measured.share_and_nanos().map_or(self.guessed_nanos, |(_, nanos)| nanos)
    }
}

/// True of a filter that saves more time than it takes, by the share of rows that it keeps and its time for a row. The operator that
/// made it would have asked the same of each row that it drops.
fn pays(share: f64, nanos: f64) -> bool {
    (1.0 - share) * (ROW_NANOS + nanos) > nanos
}

/// A filter that keeps all rows which `filter` keeps, and takes less time. A join of several partitions tells to hash the keys of a
/// row, and then to ask the partition that has this hash; to ask each of few partitions is faster, and no other one has the keys.
fn without_routing(filter: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    let either = |left, right| Arc::new(BinaryExpr::new(left, Operator::Or, right)) as Arc<dyn PhysicalExpr>;
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
        && matches!(binary.op(), Operator::And | Operator::Or)
    {
        let (left, right) = (without_routing(binary.left()), without_routing(binary.right()));
        return Arc::new(BinaryExpr::new(left, *binary.op(), right));
    }
    let Some(case) = filter.downcast_ref::<CaseExpr>() else { return Arc::clone(filter) };
    if case.expr().is_none() || case.when_then_expr().len() > PARTITIONS_ASKED_MAX {
        return Arc::clone(filter);
    }
    let parts = case.when_then_expr().iter().map(|(_, part)| part).chain(case.else_expr());
    let is_never = |part: &Arc<dyn PhysicalExpr>| {
        let literal = part.downcast_ref::<Literal>();
        literal.is_some_and(|literal| literal.value() == &ScalarValue::Boolean(Some(false)))
    };
    parts.filter(|part| !is_never(part)).cloned().reduce(either).unwrap_or_else(|| Arc::clone(filter))
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.on_batch.is::<DynamicFilterPhysicalExpr>(), self.estimate()) {
            (true, Some(_)) => f.write_str("RecordedKeys")?,
            (true, None) => f.write_str("DynamicFilter")?,
            (false, _) => self.on_batch.fmt_sql(f)?,
        }
        if let Some((share, nanos)) = self.measured.share_and_nanos() {
            write!(f, ": kept {:.1} %, {nanos:.1} ns", share * 100.0)?;
        }
        let is_dropped = self.measured.dropped_at.load(Relaxed) > 0;
        if is_dropped || self.measured.is_broken.load(Relaxed) {
            f.write_str(", dropped")?;
        }
        Ok(())
    }
}

/// Rows of a batch that all conditions keep.
pub(super) enum Kept {
    All(RecordBatch),
    None,
    Some(RecordBatch, BooleanArray),
}

/// The order in which conditions are asked. Those that cannot fail come first, and those that take the least time for what they drop
/// first among them; then those that may, as the query has them. Filters come behind these if there are any: whether a query fails
/// must not depend on what was measured.
pub(super) fn order(conditions: &[Condition]) -> Vec<usize> {
    let may_fail = conditions.iter().any(|condition| condition.kind == Kind::Fallible);
    let place = |condition: &Condition| match condition.kind {
        Kind::Own => (0, condition.rank()),
        Kind::Filter => (if may_fail { 2 } else { 0 }, condition.rank()),
        Kind::Fallible => (1, 0.0),
    };
    let places: Vec<(u8, f64)> = conditions.iter().map(place).collect();
    let mut order: Vec<usize> = (0..conditions.len()).collect();
    order.sort_by(|left, right| {
        let ((left, left_rank), (right, right_rank)) = (places[*left], places[*right]);
        left.cmp(&right).then(left_rank.total_cmp(&right_rank))
    });
    order
}

/// The rows of a batch that the conditions keep, asked in an order. What none of them asks for stays as it is.
///
/// # Errors
/// Those of the query's own conditions.
pub(super) fn kept<'c>(
    batch: RecordBatch,
    conditions: impl Iterator<Item = &'c Condition>,
    way: Way,
) -> Result<Kept> {
    let mut mask: Option<BooleanArray> = None;
    for condition in conditions {
        let asked = batch.project(&condition.columns)?;
        let Some(known) = &mask else {
            mask = condition.ask(&asked, way)?;
            continue;
        };
        let left = known.true_count();
        if left == 0 {
            return Ok(Kept::None);
        }
        let is_apart = condition.kind == Kind::Fallible || condition.is_faster_apart(left, batch.num_rows());
        if is_apart {
            if let Some(answer) = condition.ask(&filter_record_batch(&asked, known)?, way)? {
                mask = Some(among(known, &answer));
            }
        } else if let Some(answer) = condition.ask(&asked, way)? {
            mask = Some(BooleanArray::new(known.values() & answer.values(), None));
        }
    }
    Ok(match mask {
        None => Kept::All(batch),
        Some(mask) if mask.true_count() == 0 => Kept::None,
        Some(mask) => Kept::Some(batch, mask),
    })
}

/// The rows that are kept of those that were left, by an answer for each of these.
fn among(left: &BooleanArray, answer: &BooleanArray) -> BooleanArray {
    assert_eq!(left.true_count(), answer.len(), "a row that is left has no answer");
    let mut bits = MutableBuffer::new_null(left.len());
    let rows = left.values().set_indices().zip(answer.values());
    rows.filter(|(_, is_kept)| *is_kept).for_each(|(at, _)| bit_util::set_bit(&mut bits, at));
    BooleanArray::new(BooleanBuffer::new(bits.into(), 0, left.len()), None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::common::exec_err;
    use datafusion::physical_expr::expressions::{Column, binary, col, lit};

    use super::*;

    /// Rows with n from 0 on, null in each tenth, and the text of n.
    fn rows(count: i64) -> RecordBatch {
        let n = (0..count).map(|n| (n % 10 != 9).then_some(n));
        let text = (0..count).map(|n| n.to_string());
        RecordBatch::try_from_iter([
            ("n", Arc::new(n.collect::<Int64Array>()) as ArrayRef),
            ("text", Arc::new(text.map(Some).collect::<StringArray>()) as ArrayRef),
        ])
        .unwrap()
    }

    fn below(end: i64) -> Arc<dyn PhysicalExpr> {
        let schema = rows(0).schema();
        binary(col("n", &schema).unwrap(), Operator::Lt, lit(end), &schema).unwrap()
    }

    fn text_is(text: &str) -> Arc<dyn PhysicalExpr> {
        let schema = rows(0).schema();
        binary(col("text", &schema).unwrap(), Operator::Eq, lit(text), &schema).unwrap()
    }

    fn condition(expr: Arc<dyn PhysicalExpr>, kind: Kind) -> Condition {
        Condition::new(expr, None, kind, None, &rows(0).schema()).unwrap()
    }

    /// A filter that keeps rows below a number, and a handle to tell it another.
    fn filter(end: i64) -> (Condition, Arc<DynamicFilterPhysicalExpr>) {
        let column = Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column], lit(true)));
        filter.update(below(end)).unwrap();
        (condition(Arc::clone(&filter) as Arc<dyn PhysicalExpr>, Kind::Filter), filter)
    }

    /// The values of n that the conditions keep, in their own order.
    fn asked(conditions: &[Condition], count: i64) -> Result<Vec<i64>> {
        let order = order(conditions);
        let asked = order.iter().map(|at| &conditions[*at]).filter(|condition| condition.is_asked());
        let batch = match kept(rows(count), asked, Way::AfterDecoding)? {
            Kept::All(batch) => batch,
            Kept::None => return Ok(Vec::new()),
            Kept::Some(batch, mask) => filter_record_batch(&batch, &mask)?,
        };
        let n = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        Ok(n.iter().map(|n| n.unwrap_or(-1)).collect())
    }

    #[test]
    fn rows_are_kept_of_which_all_conditions_are_true() {
        let many = [condition(below(95), Kind::Own), condition(text_is("50"), Kind::Own)];
        assert_eq!(asked(&many, 100).unwrap(), [50]);
        // The one keeps few rows, of which the others are asked by themselves; nulls are not kept.
        let few = [condition(below(12), Kind::Own), condition(below(95), Kind::Own)];
        assert_eq!(asked(&few, 100).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
        assert_eq!(asked(&[condition(lit(true), Kind::Own)], 10).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, -1]);
        for never in [lit(false), lit(ScalarValue::Boolean(None)), lit(ScalarValue::Null)] {
            assert!(asked(&[condition(never, Kind::Own)], 10).unwrap().is_empty());
        }
        assert!(asked(&[], 3).unwrap() == [0, 1, 2]);
    }

    #[test]
    fn conditions_on_text_come_behind_those_on_numbers_until_they_are_measured() {
        let conditions = [condition(text_is("7"), Kind::Own), condition(below(90), Kind::Own)];
        assert_eq!(order(&conditions), [1, 0]);
        conditions[0].measured.add(1000, 10, 2_000);
        conditions[1].measured.add(1000, 900, 2_000);
        assert_eq!(order(&conditions), [0, 1]);
    }

    #[test]
    fn conditions_that_may_fail_are_asked_of_rows_that_all_before_them_keep() {
        let schema = rows(0).schema();
        let n = || col("n", &schema).unwrap();
        let inverse = binary(lit(10i64), Operator::Divide, n(), &schema).unwrap();
        let inverse = || binary(Arc::clone(&inverse), Operator::Gt, lit(1i64), &schema).unwrap();
        let positive = binary(n(), Operator::Gt, lit(0i64), &schema).unwrap();
        assert!(asked(&[condition(inverse(), Kind::Fallible)], 100).is_err());
        let guarded = [condition(inverse(), Kind::Fallible), condition(positive, Kind::Own)];
        assert_eq!(asked(&guarded, 100).unwrap(), [1, 2, 3, 4, 5]);
        // A filter hides no error: it may be dropped at any time.
        let (none, _) = filter(-5);
        assert!(asked(&[condition(inverse(), Kind::Fallible), none], 100).is_err());
    }

    #[test]
    fn filters_are_asked_once_they_are_filled() {
        let column = Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column], lit(true)));
        let conditions = [condition(Arc::clone(&filter) as Arc<dyn PhysicalExpr>, Kind::Filter)];
        assert!(!conditions[0].is_asked());
        filter.update(below(2)).unwrap();
        assert_eq!(asked(&conditions, 20).unwrap(), [0, 1]);
    }

    #[test]
    fn filters_that_do_not_pay_are_dropped_until_they_change() {
        let (useless, told) = filter(i64::MAX);
        let useless = [useless];
        let batches = TRIAL_ROWS as i64 / 1000 + 1;
        (0..batches).for_each(|_| drop(asked(&useless, 1000).unwrap()));
        // Nulls are dropped, which is a tenth: whether that pays depends on its time.
        useless[0].measured.add(20 * TRIAL_ROWS as usize, 20 * TRIAL_ROWS as usize, TRIAL_ROWS * 20_000);
        useless[0].measured.picos.store(1_000_000, Relaxed);
        asked(&useless, 1000).unwrap();
        assert!(!useless[0].is_asked());
        assert_eq!(asked(&useless, 1000).unwrap().len(), 1000);
        told.update(below(5)).unwrap();
        assert_eq!(asked(&useless, 1000).unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn filters_of_partitions_keep_what_any_partition_keeps() {
        let routed = CaseExpr::try_new(
            Some(col("n", &rows(0).schema()).unwrap()),
            vec![(lit(0i64), below(3)), (lit(1i64), text_is("7"))],
            Some(lit(false)),
        );
        let all: Vec<_> = ["n", "text"].map(|name| col(name, &rows(0).schema()).unwrap()).into();
        let told = Arc::new(DynamicFilterPhysicalExpr::new(all, lit(true)));
        let conditions = [condition(Arc::clone(&told) as Arc<dyn PhysicalExpr>, Kind::Filter)];
        told.update(Arc::new(routed.unwrap())).unwrap();
        assert_eq!(asked(&conditions, 20).unwrap(), [0, 1, 2, 7]);
        let nothing = |part| vec![(lit(0i64), part), (lit(1i64), lit(false))];
        let n = || Some(col("n", &rows(0).schema()).unwrap());
        for otherwise in [lit(true), lit(false)] {
            told.update(Arc::new(CaseExpr::try_new(n(), nothing(lit(false)), Some(otherwise)).unwrap()))
                .unwrap();
            let kept = asked(&conditions, 20).unwrap().len();
            assert!(kept == 0 || kept == 20, "{kept}");
        }
    }

    #[test]
    fn interruptions_count_little() {
        let measured = Measured::default();
        let nanos = [100_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 500_000, 1_000];
        nanos.into_iter().for_each(|nanos| measured.add(1000, 500, nanos));
        let (share, nanos) = measured.share_and_nanos().unwrap();
        assert!(share == 0.5 && (1.0..1.5).contains(&nanos), "{nanos}");
    }

    #[test]
    fn filters_that_save_more_than_they_take_stay() {
        assert!(pays(0.05, 100.0) && pays(0.5, 8.0));
        assert!(!pays(1.0, 0.5) && !pays(0.9, 4.0) && !pays(0.5, 20.0));
    }

    #[test]
    fn a_filter_that_fails_is_not_asked_again_and_an_own_condition_fails() {
        let failing = || {
            let schema = rows(0).schema();
            let inverse = binary(lit(1i64), Operator::Divide, col("n", &schema).unwrap(), &schema).unwrap();
            binary(inverse, Operator::Gt, lit(1i64), &schema).unwrap()
        };
        let (broken, told) = filter(5);
        told.update(failing()).unwrap();
        let broken = [broken];
        assert_eq!(asked(&broken, 10).unwrap().len(), 10);
        assert!(!broken[0].is_asked());
        let own: Result<()> = asked(&[condition(failing(), Kind::Own)], 10).map(drop);
        assert!(own.or_else(|_| exec_err!("failed")).is_err());
    }
}
