//! The share of rows that a condition keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
    TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use super::numbers::number;
use super::{Estimate, bounded};

/// Guesses where nothing is known about a column: the share of rows that equal a constant, lie on one side of it, or fit a pattern.
const EQUAL: f64 = 0.1;
const BEYOND: f64 = 0.3;
const LIKE: f64 = 0.1;
/// A guess about any other condition.
const OTHER: f64 = 0.4;

/// The share of rows that a condition keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::optimizer) struct Share {
    pub(in crate::optimizer) rows: f64,
    /// True if it does not follow from statistics.
    is_guess: bool,
}

impl Share {
    fn known(rows: f64) -> Self {
        Self { rows: bounded(rows, 0.0, 1.0), is_guess: false }
    }

    fn guess(rows: f64) -> Self {
        Self { rows: bounded(rows, 0.0, 1.0), is_guess: true }
    }

    fn of(self, change: impl Fn(f64) -> f64) -> Self {
        Self { rows: bounded(change(self.rows), 0.0, 1.0), ..self }
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            rows: bounded(join(self.rows, other.rows), 0.0, 1.0),
            is_guess: self.is_guess || other.is_guess,
        }
    }
}

/// The estimate of the rows that a condition keeps.
pub(in crate::optimizer) fn kept(input: &Estimate, condition: &Arc<dyn PhysicalExpr>) -> Estimate {
    let mut ranges: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut of_columns: BTreeMap<usize, f64> = BTreeMap::new();
    let mut shares = Vec::new();
    for part in split_conjunction(condition) {
        if let Some((place, (low, high))) = bounds(part, input) {
            let range = ranges.entry(place).or_insert((f64::NEG_INFINITY, f64::INFINITY));
            *range = (range.0.max(low), range.1.min(high));
            continue;
        }
        let share = selectivity(part, input);
        match only_column(part) {
            Some(place) if !share.is_guess => least(&mut of_columns, place, share.rows),
            _ => shares.push(share),
        }
    }
    for (place, range) in &ranges {
        least(
            &mut of_columns,
            *place,
            share_of_range(input, *place, *range) * (1.0 - input.column(*place).nulls),
        );
    }
    shares.extend(of_columns.values().map(|share| Share::known(*share)));
    let mut output = input.thinned(combined(&shares));
    for (place, share) in of_columns {
        let before = input.column(place);
        // Of the values that are there, and not of the rows.
        let share = bounded(share / (1.0 - before.nulls), 0.0, 1.0);
        let Some(column) = output.columns.get_mut(place) else { continue };
        column.distinct = before.distinct.map(|distinct| (distinct * share).max(1.0));
    }
    for (place, (low, high)) in ranges {
        let column = &mut output.columns[place];
        column.range = input.column(place).range.map(|(min, max)| (min.max(low), max.min(high)));
        column.range = column.range.filter(|(min, max)| min <= max);
        column.nulls = 0.0;
    }
    output
}

/// Lets the share of a column's rows be at most this. Conditions on one column are about the same: one that names values and one that
/// names some of them keep the latter.
fn least(shares: &mut BTreeMap<usize, f64>, place: usize, share: f64) {
    shares.entry(place).and_modify(|least| *least = least.min(share)).or_insert(share);
}

/// The column that a condition reads, if it reads no other.
fn only_column(condition: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let columns = collect_columns(condition);
    columns.iter().next().filter(|_| columns.len() == 1).map(Column::index)
}

/// The product of all shares, in which each further guess counts half: conditions that are guessed are often about the same.
fn combined(shares: &[Share]) -> f64 {
    let mut guesses: Vec<f64> =
        shares.iter().filter(|share| share.is_guess).map(|share| share.rows).collect();
    guesses.sort_by(f64::total_cmp);
    let mut power = 1.0;
    let mut product: f64 = shares.iter().filter(|share| !share.is_guess).map(|share| share.rows).product();
    for guess in guesses {
        product *= guess.powf(power);
        power /= 2.0;
    }
    product
}

/// The range that a comparison with a constant leaves of a column whose range is known, and the column.
fn bounds(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Option<(usize, (f64, f64))> {
    let (place, operator, value) = comparison(expr)?;
    let column = input.column(place);
    column.range?;
    // Half a step, so that values of the same step compare rightly.
    let half = column.step.unwrap_or(0.0) / 2.0;
    let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
    let range = match operator {
        Operator::Eq | Operator::IsNotDistinctFrom => (value - half, value + half),
        Operator::Lt => (least, value - half),
        Operator::LtEq => (least, value + half),
        Operator::Gt => (value + half, most),
        Operator::GtEq => (value - half, most),
        _ => return None,
    };
    Some((place, range))
}

/// The share of a column's values that lie in a range.
fn share_of_range(input: &Estimate, place: usize, (low, high): (f64, f64)) -> f64 {
    let column = input.column(place);
    let Some((min, max)) = column.range else { return BEYOND };
    let step = column.step.unwrap_or(0.0);
    let (min, max) = (min - step / 2.0, max + step / 2.0);
    let overlap = max.min(high) - min.max(low);
    if overlap < 0.0 {
        return 0.0;
    }
    let is_one_value = high - low <= step;
    if is_one_value {
        return 1.0 / input.distinct(place);
    }
    if max > min { overlap / (max - min) } else { 1.0 }
}

/// A comparison of a column with a number, the column on the left.
fn comparison(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Operator, f64)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let constant = |side: &Arc<dyn PhysicalExpr>| number(side.downcast_ref::<Literal>()?.value());
    if let (Some(place), Some(value)) = (column_of(binary.left()), constant(binary.right())) {
        return Some((place, *binary.op(), value));
    }
    let (value, place) = (constant(binary.left())?, column_of(binary.right())?);
    Some((place, binary.op().swap()?, value))
}

/// The column that an expression is, but for casts.
pub(super) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return column_of(cast.expr());
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        return column_of(cast.expr());
    }
    Some(expr.downcast_ref::<Column>()?.index())
}

/// The share of the rows of `input` for which a condition is true.
pub(in crate::optimizer) fn selectivity(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Share {
    if let Some((place, range)) = bounds(expr, input) {
        return Share::known(share_of_range(input, place, range) * (1.0 - input.column(place).nulls));
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return of_binary(binary, input);
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return selectivity(not.arg(), input).of(|share| 1.0 - share);
    }
    if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
        return nulls(null.arg(), input);
    }
    if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
        return nulls(null.arg(), input).of(|share| 1.0 - share);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let share = equal_to_constant(list.expr(), input).of(|share| share * list.list().len() as f64);
        return if list.negated() { share.of(|share| 1.0 - share) } else { share };
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return Share::guess(if like.negated() { 1.0 - LIKE } else { LIKE });
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Share::known(f64::from(u8::from(literal.value() == &true.into())));
    }
    Share::guess(OTHER)
}

fn of_binary(binary: &BinaryExpr, input: &Estimate) -> Share {
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::And => selectivity(left, input).with(selectivity(right, input), |one, other| one * other),
        Operator::Or => {
            selectivity(left, input).with(selectivity(right, input), |one, other| one + other - one * other)
        }
        Operator::Eq | Operator::IsNotDistinctFrom => equal(left, right, input),
        Operator::NotEq | Operator::IsDistinctFrom => equal(left, right, input).of(|share| 1.0 - share),
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => Share::guess(BEYOND),
        Operator::LikeMatch | Operator::ILikeMatch | Operator::RegexMatch | Operator::RegexIMatch => {
            Share::guess(LIKE)
        }
        _ => Share::guess(OTHER),
    }
}

fn equal(left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Share {
    match (column_of(left), column_of(right)) {
        (Some(one), Some(other)) => Share::known(1.0 / input.distinct(one).max(input.distinct(other))),
        (Some(_), None) => equal_to_constant(left, input),
        (None, Some(_)) => equal_to_constant(right, input),
        (None, None) => Share::guess(EQUAL),
    }
}

/// The share of rows in which an expression equals a constant that is one of its values.
fn equal_to_constant(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Share {
    let Some(place) = column_of(expr) else { return Share::guess(EQUAL) };
    let column = input.column(place);
    match column.distinct {
        Some(_) => Share::known((1.0 - column.nulls) / input.distinct(place)),
        None => Share::guess(EQUAL),
    }
}

fn nulls(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> Share {
    match column_of(expr) {
        Some(place) => Share::known(input.column(place).nulls),
        None => Share::guess(EQUAL),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, in_list, lit};

    use super::super::ColumnEstimate;
    use super::*;

    fn input() -> (Schema, Estimate) {
        let fields = ["year", "text"].map(|name| Field::new(name, DataType::Int64, true));
        let year = ColumnEstimate {
            distinct: Some(200.0),
            range: Some((1900.0, 2099.0)),
            step: Some(1.0),
            nulls: 0.0,
        };
        let columns = vec![year, ColumnEstimate::default()];
        (Schema::new(fields.to_vec()), Estimate { rows: 73_000.0, columns })
    }

    fn compared(name: &str, operator: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        let (schema, _) = input();
        binary(col(name, &schema).unwrap(), operator, lit(value), &schema).unwrap()
    }

    fn both(one: Arc<dyn PhysicalExpr>, other: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        binary(one, Operator::And, other, &input().0).unwrap()
    }

    #[test]
    fn a_value_is_one_of_the_distinct_ones() {
        let (_, estimate) = input();
        let kept = kept(&estimate, &compared("year", Operator::Eq, 2000));
        assert_eq!(kept.rows, 365.0);
        assert_eq!(kept.columns[0].distinct, Some(1.0));
    }

    #[test]
    fn the_two_ends_of_a_range_are_one_condition() {
        let (_, estimate) = input();
        let between = both(compared("year", Operator::GtEq, 2000), compared("year", Operator::Lt, 2002));
        let kept = kept(&estimate, &between);
        assert!((kept.rows - 730.0).abs() < 1e-6, "{kept:?}");
        assert!((kept.columns[0].distinct.unwrap() - 2.0).abs() < 1e-6, "{kept:?}");
    }

    #[test]
    fn a_value_of_a_list_of_values_is_as_rare_as_the_value() {
        let (schema, estimate) = input();
        let one = compared("year", Operator::Eq, 2000);
        let either =
            binary(Arc::clone(&one), Operator::Or, compared("year", Operator::Eq, 2001), &schema).unwrap();
        let kept = kept(&estimate, &both(Arc::clone(&either), one));
        assert_eq!((kept.rows, kept.columns[0].distinct), (365.0, Some(1.0)));
        let several = super::kept(&estimate, &either);
        assert!((several.rows - 730.0).abs() < 4.0, "{several:?}");
        assert!((several.columns[0].distinct.unwrap() - 2.0).abs() < 0.1, "{several:?}");
    }

    #[test]
    fn what_no_value_can_be_keeps_nothing() {
        let (_, estimate) = input();
        for never in [
            compared("year", Operator::Eq, 1800),
            compared("year", Operator::Gt, 2099),
            both(compared("year", Operator::Gt, 2010), compared("year", Operator::Lt, 2005)),
        ] {
            assert_eq!(kept(&estimate, &never).rows, 0.0, "{never}");
        }
    }

    #[test]
    fn lists_add_up_and_guesses_count_less_each() {
        let (schema, estimate) = input();
        let list = in_list(col("year", &schema).unwrap(), vec![lit(1i64), lit(2i64)], &false, &schema);
        assert_eq!(kept(&estimate, &list.unwrap()).rows, 730.0);
        let text = compared("text", Operator::Eq, 1);
        let one = kept(&estimate, &text).rows;
        let two = kept(&estimate, &both(Arc::clone(&text), text)).rows;
        assert_eq!(one, 7300.0);
        assert!(two > one * EQUAL && two < one, "{two}");
    }
}
