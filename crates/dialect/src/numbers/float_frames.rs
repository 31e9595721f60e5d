//! Aggregates of floats over the frame of a window, which slides.
//!
//! Floats cannot be taken back: `inf - inf` is no number, and `1e20 + 1 - 1e20` is zero. So each row becomes a [`Part`], and parts are only
//! ever put together: a frame keeps two stacks, of which one grows with the rows that come and the other shrinks with those that leave.
//! Each row is put together twice, however long the frame is.

use std::fmt;
use std::mem::{size_of, size_of_val, swap, take};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

/// The accumulator of a frame, for the function of this name; `None` if it is no aggregate of floats that is known here.
pub(super) fn of(name: &str) -> Option<Box<dyn Accumulator>> {
    use JointStatistic as Of;
    fn boxed<P: Part>(statistic: P::Statistic) -> Option<Box<dyn Accumulator>> {
        Some(Box::new(FloatFrame::<P> { statistic, frame: Frame::default() }))
    }
    match name {
        "sum" => boxed::<Total>(TotalStatistic::Sum),
        "avg" => boxed::<Total>(TotalStatistic::Average),
        "var" => boxed::<Moments>(Spread { of: Deviation::Squared, is_sample: true }),
        "var_pop" => boxed::<Moments>(Spread { of: Deviation::Squared, is_sample: false }),
        "stddev" => boxed::<Moments>(Spread { of: Deviation::Standard, is_sample: true }),
        "stddev_pop" => boxed::<Moments>(Spread { of: Deviation::Standard, is_sample: false }),
        "covar_samp" => boxed::<Joint>(Of::Covariance { is_sample: true }),
        "covar_pop" => boxed::<Joint>(Of::Covariance { is_sample: false }),
        "corr" => boxed::<Joint>(Of::Correlation),
        "regr_slope" => boxed::<Joint>(Of::Slope),
        "regr_intercept" => boxed::<Joint>(Of::Intercept),
        "regr_r2" => boxed::<Joint>(Of::R2),
        "regr_avgx" => boxed::<Joint>(Of::AverageX),
        "regr_avgy" => boxed::<Joint>(Of::AverageY),
        "regr_sxx" => boxed::<Joint>(Of::Sxx),
        "regr_syy" => boxed::<Joint>(Of::Syy),
        "regr_sxy" => boxed::<Joint>(Of::Sxy),
        _ => None,
    }
}

/// The knowledge of some rows. The default is that of none.
trait Part: Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// A question about the rows.
    type Statistic: Copy + fmt::Debug + Send + Sync;

    /// The part of one row; that of none if one of its arguments is null.
    fn of_row(arguments: &[&Float64Array], row: usize) -> Self;

    /// The part of these rows and of those behind them.
    fn and(self, behind: Self) -> Self;

    /// The answer; `None` is null.
    fn answer(self, statistic: Self::Statistic) -> Option<f64>;
}

/// The accumulator of a frame.
#[derive(Debug)]
struct FloatFrame<P: Part> {
    statistic: P::Statistic,
    frame: Frame<P>,
}

impl<P: Part> Accumulator for FloatFrame<P> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let arguments = floats(values);
        for row in 0..values[0].len() {
            self.frame.push(P::of_row(&arguments, row));
        }
        Ok(())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the rows of a frame are in one place")
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() {
            self.frame.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the rows of a frame are in one place")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(with_one_nan(self.frame.part().answer(self.statistic)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.frame.come.capacity() + self.frame.leaving.capacity()) * size_of::<P>()
    }
}

/// The accumulator of `corr` over rows that stay. Its state is that of DataFusion's.
#[derive(Debug, Default)]
pub(super) struct Correlation(Joint);

impl Accumulator for Correlation {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let arguments = floats(values);
        self.0 = (0..values[0].len()).fold(self.0, |all, row| all.and(Joint::of_row(&arguments, row)));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>();
        let of = floats(&states[1..]);
        for row in 0..counts.len() {
            let moments = |at: usize| Moments {
                count: counts.value(row),
                mean: of[at].value(row),
                squares: of[at + 1].value(row),
            };
            self.0 = self.0.and(Joint { first: moments(0), second: moments(2), products: of[4].value(row) });
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Joint { first, second, products } = self.0;
        let floats = [first.mean, first.squares, second.mean, second.squares, products];
        let floats = floats.into_iter().map(ScalarValue::from);
        Ok(std::iter::once(ScalarValue::from(first.count)).chain(floats).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(with_one_nan(self.0.answer(JointStatistic::Correlation)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The rows of a frame: those that came last in their order, and before them those of `leaving`, of which the first row is the last.
#[derive(Debug, Default)]
struct Frame<P> {
    come: Vec<P>,
    /// All of `come`.
    all_come: P,
    /// Each row with all of `leaving` that follow it.
    leaving: Vec<P>,
}

impl<P: Part> Frame<P> {
    fn push(&mut self, part: P) {
        self.all_come = self.all_come.and(part);
        self.come.push(part);
    }

    fn pop(&mut self) {
        if self.leaving.is_empty() {
            swap(&mut self.come, &mut self.leaving);
            take(&mut self.all_come);
            self.leaving.reverse();
            let mut behind = P::default();
            for part in &mut self.leaving {
                behind = part.and(behind);
                *part = behind;
            }
        }
        assert!(self.leaving.pop().is_some(), "a row leaves that never came");
    }

    fn part(&self) -> P {
        self.leaving.last().copied().unwrap_or_default().and(self.all_come)
    }
}

/// The sum of rows.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    sum: f64,
}

#[derive(Clone, Copy, Debug)]
enum TotalStatistic {
    Sum,
    Average,
}

impl Part for Total {
    type Statistic = TotalStatistic;

    fn of_row(arguments: &[&Float64Array], row: usize) -> Self {
        match arguments[0].is_valid(row) {
            true => Self { count: 1, sum: arguments[0].value(row) },
            false => Self::default(),
        }
    }

    fn and(self, behind: Self) -> Self {
        Self { count: self.count + behind.count, sum: self.sum + behind.sum }
    }

    fn answer(self, statistic: TotalStatistic) -> Option<f64> {
        (self.count > 0).then(|| match statistic {
            TotalStatistic::Sum => self.sum,
            TotalStatistic::Average => self.sum / self.count as f64,
        })
    }
}

/// The mean of rows, and the sum of the squares of their distances from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

#[derive(Clone, Copy, Debug)]
struct Spread {
    of: Deviation,
    is_sample: bool,
}

#[derive(Clone, Copy, Debug)]
enum Deviation {
    Squared,
    Standard,
}

impl Moments {
    fn of_value(value: f64) -> Self {
        Self { count: 1, mean: value, squares: 0.0 }
    }

    /// The distance of the mean of other rows from this one, and the weight of that in sums of squares.
    fn distance(self, behind: Self) -> (f64, f64) {
        let count = (self.count + behind.count) as f64;
        (behind.mean - self.mean, self.count as f64 * (behind.count as f64 / count))
    }
}

impl Part for Moments {
    type Statistic = Spread;

    fn of_row(arguments: &[&Float64Array], row: usize) -> Self {
        match arguments[0].is_valid(row) {
            true => Self::of_value(arguments[0].value(row)),
            false => Self::default(),
        }
    }

    fn and(self, behind: Self) -> Self {
        if self.count == 0 || behind.count == 0 {
            return if self.count == 0 { behind } else { self };
        }
        let count = self.count + behind.count;
        let (distance, weight) = self.distance(behind);
        // An infinity is infinitely far from itself, too.
        let apart = if distance.is_finite() { distance * distance * weight } else { f64::NAN };
        Self {
            count,
            mean: self.mean + distance * (behind.count as f64 / count as f64),
            squares: self.squares + behind.squares + apart,
        }
    }

    fn answer(self, statistic: Spread) -> Option<f64> {
        let variance = match (self.count, statistic.is_sample) {
            (0, _) | (1, true) => None,
            (1, false) => Some(0.0),
            (count, is_sample) => Some(self.squares / (count - u64::from(is_sample)) as f64),
        };
        variance.map(|variance| match statistic.of {
            Deviation::Squared => variance,
            Deviation::Standard => variance.sqrt(),
        })
    }
}

/// Rows with two arguments, and the sum of the products of their distances from the two means.
#[derive(Clone, Copy, Debug, Default)]
struct Joint {
    first: Moments,
    second: Moments,
    products: f64,
}

/// A question about two arguments. For a regression the first is `y`, the second `x`.
#[derive(Clone, Copy, Debug)]
enum JointStatistic {
    Covariance { is_sample: bool },
    Correlation,
    Slope,
    Intercept,
    R2,
    AverageX,
    AverageY,
    Sxx,
    Syy,
    Sxy,
}

impl Part for Joint {
    type Statistic = JointStatistic;

    fn of_row(arguments: &[&Float64Array], row: usize) -> Self {
        if arguments.iter().any(|argument| argument.is_null(row)) {
            return Self::default();
        }
        let [first, second] = [0, 1].map(|argument| Moments::of_value(arguments[argument].value(row)));
        Self { first, second, products: 0.0 }
    }

    fn and(self, behind: Self) -> Self {
        if self.first.count == 0 || behind.first.count == 0 {
            return if self.first.count == 0 { behind } else { self };
        }
        let (of_first, weight) = self.first.distance(behind.first);
        let (of_second, _) = self.second.distance(behind.second);
        let is_finite = of_first.is_finite() && of_second.is_finite();
        let apart = if is_finite { of_first * of_second * weight } else { f64::NAN };
        Self {
            first: self.first.and(behind.first),
            second: self.second.and(behind.second),
            products: self.products + behind.products + apart,
        }
    }

    fn answer(self, statistic: JointStatistic) -> Option<f64> {
        let Self { first: y, second: x, products } = self;
        let count = y.count;
        let slope = || (count > 1 && x.squares != 0.0).then(|| products / x.squares);
        let of_rows = |value: f64| (count > 0).then_some(value);
        match statistic {
            JointStatistic::Covariance { is_sample } => {
                let divisor = count.saturating_sub(u64::from(is_sample));
                (divisor > 0).then(|| products / divisor as f64)
            }
            JointStatistic::Correlation => {
                let is_flat = x.squares == 0.0 || y.squares == 0.0;
                let both = x.squares * y.squares;
                let root = if both.is_normal() { both.sqrt() } else { x.squares.sqrt() * y.squares.sqrt() };
                let correlation = products / root;
                // Rounding may leave it a little outside, where no correlation is.
                (count > 1 && !is_flat).then(|| correlation.clamp(-1.0, 1.0))
            }
            JointStatistic::Slope => slope(),
            JointStatistic::Intercept => slope().map(|slope| y.mean - slope * x.mean),
            JointStatistic::R2 if count > 1 && x.squares > 0.0 && y.squares == 0.0 => Some(1.0),
            JointStatistic::R2 => slope().map(|slope| slope * (products / y.squares)),
            JointStatistic::AverageX => of_rows(x.mean),
            JointStatistic::AverageY => of_rows(y.mean),
            JointStatistic::Sxx => of_rows(x.squares),
            JointStatistic::Syy => of_rows(y.squares),
            JointStatistic::Sxy => of_rows(products),
        }
    }
}

fn floats(columns: &[ArrayRef]) -> Vec<&Float64Array> {
    columns.iter().map(AsArray::as_primitive::<Float64Type>).collect()
}

/// An answer whose NaN has no sign, as those of processors have.
fn with_one_nan(answer: Option<f64>) -> ScalarValue {
    ScalarValue::Float64(answer.map(|value| if value.is_nan() { f64::NAN } else { value }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
    use datafusion::execution::FunctionRegistry;
    use datafusion::logical_expr::function::AccumulatorArgs;
    use datafusion::prelude::SessionContext;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::{option, sample::select};

    use super::*;
    use crate::numbers::float_aggregates::NAMES;

    /// The answer of DataFusion's function over these rows alone.
    fn of_rows(name: &str, columns: &[ArrayRef]) -> Option<f64> {
        let stock = SessionContext::new().udaf(name).unwrap();
        let field: FieldRef = Arc::new(Field::new("x", DataType::Float64, true));
        let expr_fields = vec![Arc::clone(&field); columns.len()];
        let mut accumulator = stock
            .accumulator(AccumulatorArgs {
                return_field: field,
                schema: &Schema::empty(),
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name,
                is_distinct: false,
                exprs: &[],
                expr_fields: &expr_fields,
            })
            .unwrap();
        accumulator.update_batch(columns).unwrap();
        match accumulator.evaluate().unwrap() {
            ScalarValue::Float64(answer) => answer,
            other => panic!("{name} gave {other}"),
        }
    }

    proptest! {
        #[test]
        fn a_frame_has_the_answer_of_its_rows_alone(
            name in select(NAMES.to_vec()),
            rows in vec([option::weighted(0.8, -9_i8..9), option::weighted(0.8, -9_i8..9)], 1..60),
            mut ends in vec(0_usize..60, 2..40),
        ) {
            let of_two = name.starts_with("co") || name.starts_with("regr");
            let columns: Vec<ArrayRef> = (0..1 + usize::from(of_two))
                .map(|column| {
                    let values = rows.iter().map(|row| row[column].map(f64::from));
                    Arc::new(values.collect::<Float64Array>()) as ArrayRef
                })
                .collect();
            let part = |from: usize, to: usize| -> Vec<ArrayRef> {
                columns.iter().map(|column| column.slice(from, to - from)).collect()
            };
            let mut frame = of(SessionContext::new().udaf(name).unwrap().name()).expect(name);
            let (mut start, mut end) = (0, 0);
            ends.sort_unstable();
            for ends in ends.chunks_exact(2) {
                let [from, to] = [ends[0], ends[1]].map(|row| row.min(rows.len()));
                frame.update_batch(&part(end, to)).unwrap();
                frame.retract_batch(&part(start, from)).unwrap();
                (start, end) = (from, to);
                let ScalarValue::Float64(ours) = frame.evaluate().unwrap() else { panic!("{name}") };
                let right = of_rows(name, &part(start, end));
                let is_close = match (ours, right) {
                    (Some(ours), Some(right)) => (ours - right).abs() < 1e-9,
                    // DataFusion's `regr_r2` of a flat line is null.
                    (ours, right) => ours == right || name == "regr_r2",
                };
                prop_assert!(is_close, "{} of rows {} to {}: {:?}, not {:?}", name, start, end, ours, right);
            }
        }
    }
}
