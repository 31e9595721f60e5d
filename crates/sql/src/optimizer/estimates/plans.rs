//! The rows of an operator, by its inputs.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;

use super::filters::{column_of, kept};
use super::joins::{Match, joined_rows, tested_share};
use super::numbers::number;
use super::{ColumnEstimate, Estimate};
use crate::operators::filtered_parquet::FilteredParquet;
use crate::operators::grouping_levels::GroupingLevelsExec;
use crate::operators::shared_subplan::SharedSubplanExec;

/// Bytes of a row in a file that does not say how many rows it has.
const ROW_BYTES: f64 = 64.0;
/// The share of pairs that a condition other than equal keys keeps.
const PAIRS: f64 = 0.1;

/// The estimate of a plan; `None` if nothing is known about the rows that it reads.
pub(in crate::optimizer) fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Option<Estimate> {
    let estimate = of_operator(plan)?;
    let fetch = plan.fetch().map_or(f64::INFINITY, |fetch| fetch as f64);
    Some(if estimate.rows > fetch { estimate.thinned(fetch / estimate.rows) } else { estimate })
}

fn of_operator(plan: &Arc<dyn ExecutionPlan>) -> Option<Estimate> {
    let width = plan.schema().fields().len();
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return of_scan(plan, scan);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let rows = kept(&of_plan(filter.input())?, filter.predicate());
        return Some(projected(rows, filter.projection().as_deref()));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = of_plan(projection.input())?;
        let columns = projection.expr().iter().map(|column| computed(&column.expr, &input)).collect();
        return Some(Estimate { rows: input.rows, columns });
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return of_aggregate(aggregate, width);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_hash_join(join);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let (left, right) = (of_plan(join.left())?, of_plan(join.right())?);
        let pairs = left.rows * right.rows * if join.filter().is_some() { PAIRS } else { 1.0 };
        return Some(projected(
            of_pairs(*join.join_type(), &left, &right, pairs, PAIRS),
            join.projection().as_deref(),
        ));
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        let (left, right) = (of_plan(join.left())?, of_plan(join.right())?);
        return Some(of_pairs(JoinType::Inner, &left, &right, left.rows * right.rows, 1.0));
    }
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let inputs = union.inputs().iter().map(of_plan).collect::<Option<Vec<_>>>()?;
        return Some(of_union(&inputs, width));
    }
    if let Some(reader) = plan.downcast_ref::<SharedSubplanExec>() {
        return of_plan(reader.subplan().input());
    }
    if let Some(sets) = plan.downcast_ref::<GroupingLevelsExec>() {
        let groups = of_any(plan, width)?;
        return Some(Estimate { rows: groups.rows * sets.count() as f64, ..groups });
    }
    if plan.is::<EmptyExec>() {
        return Some(Estimate::of_rows(0.0, width));
    }
    if plan.is::<PlaceholderRowExec>() {
        return Some(Estimate::of_rows(1.0, width));
    }
    of_any(plan, width)
}

/// The estimate of an operator of another kind. Those of one input keep its rows and its first columns: sorts, windows, exchanges.
fn of_any(plan: &Arc<dyn ExecutionPlan>, width: usize) -> Option<Estimate> {
    if let [input] = plan.children()[..] {
        let mut estimate = of_plan(input)?;
        estimate.columns.resize(width, ColumnEstimate::default());
        return Some(estimate);
    }
    let told = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    Some(Estimate::of_rows(*told.num_rows.get_value()? as f64, width))
}

/// The rows that a scan reads; of those, it gives the ones that its conditions keep. `None` if that is not known.
pub(super) fn rows_read(scan: &DataSourceExec) -> Option<f64> {
    let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
    config.statistics().num_rows.get_value().map(|rows| *rows as f64)
}

/// The rows of a scan that asks conditions of them, by the footers of its files; `None` of any other scan.
fn of_asking_scan(scan: &DataSourceExec) -> Option<Estimate> {
    let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let (rows, told) = (rows_read(scan)?, config.statistics());
    let columns = told.column_statistics.iter().map(|column| ColumnEstimate::told(column, rows)).collect();
    let table = Estimate { rows, columns };
    let source = config.file_source();
    if let Some(scan) = source.downcast_ref::<FilteredParquet>() {
        let read = projected_by(&table, scan.columns_read());
        return Some(projected(kept(&read, &conjunction(scan.own_conditions())), Some(scan.output())));
    }
    let source = source.downcast_ref::<ParquetSource>()?;
    let filter = source.filter().filter(|_| source.table_parquet_options().global.pushdown_filters)?;
    let parts = split_conjunction(&filter).into_iter();
    let own = parts.filter(|part| !part.is::<DynamicFilterPhysicalExpr>()).cloned();
    Some(projected_by(&kept(&table, &conjunction(own)), source.projection()?))
}

/// The estimate of a scan, by the footers of its files; by their size if there are none.
fn of_scan(plan: &Arc<dyn ExecutionPlan>, scan: &DataSourceExec) -> Option<Estimate> {
    if let Some(estimate) = of_asking_scan(scan) {
        return Some(estimate);
    }
    let told = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    let width = plan.schema().fields().len();
    let Some(rows) = told.num_rows.get_value().map(|rows| *rows as f64) else {
        let files = scan.data_source().downcast_ref::<FileScanConfig>()?.file_groups.iter();
        let bytes = files.flat_map(|group| group.files()).map(|file| file.object_meta.size as f64);
        return Some(Estimate::of_rows(bytes.sum::<f64>() / ROW_BYTES, width));
    };
    let columns = told.column_statistics.iter().map(|column| ColumnEstimate::told(column, rows));
    let mut columns: Vec<_> = columns.collect();
    columns.resize(width, ColumnEstimate::default());
    Some(Estimate { rows, columns })
}

fn projected(estimate: Estimate, projection: Option<&[usize]>) -> Estimate {
    let Some(places) = projection else { return estimate };
    let columns = places.iter().map(|place| estimate.column(*place)).collect();
    Estimate { rows: estimate.rows, columns }
}

fn projected_by(estimate: &Estimate, columns: &ProjectionExprs) -> Estimate {
    let columns = columns.iter().map(|column| computed(&column.expr, estimate)).collect();
    Estimate { rows: estimate.rows, columns }
}

/// The values of an expression.
fn computed(expr: &Arc<dyn PhysicalExpr>, input: &Estimate) -> ColumnEstimate {
    if let Some(place) = column_of(expr) {
        return input.column(place);
    }
    match expr.downcast_ref::<Literal>() {
        Some(literal) => ColumnEstimate::constant(number(literal.value())),
        None => ColumnEstimate::default(),
    }
}

/// As many groups as the keys have distinct values together, which are at most as many as there are rows.
fn of_aggregate(aggregate: &AggregateExec, width: usize) -> Option<Estimate> {
    let input = of_plan(aggregate.input())?;
    let keys = aggregate.group_expr();
    if keys.is_empty() {
        return Some(Estimate::of_rows(1.0, width));
    }
    let mut columns: Vec<_> = keys.expr().iter().map(|(key, _)| computed(key, &input)).collect();
    let values = columns.iter().map(|column| column.distinct.unwrap_or(input.rows).max(1.0));
    let groups = values.product::<f64>().min(input.rows);
    let sets = keys.groups().len().max(1) as f64;
    for column in &mut columns {
        column.distinct = Some(column.distinct.unwrap_or(groups).min(groups));
    }
    columns.resize(width, ColumnEstimate::default());
    Some(Estimate { rows: (groups * sets).min(input.rows.max(1.0) * sets), columns })
}

fn of_hash_join(join: &HashJoinExec) -> Option<Estimate> {
    let (left, right) = (of_plan(join.left())?, of_plan(join.right())?);
    let distinct = |side: &Estimate, key| column_of(key).map_or(side.rows, |place| side.distinct(place));
    let keys: Vec<Match> = join
        .on()
        .iter()
        .map(|(one, other)| Match { left: distinct(&left, one), right: distinct(&right, other) })
        .collect();
    let pairs = joined_rows(left.rows, right.rows, &keys);
    let is_of_right =
        matches!(join.join_type(), JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
    let share = if is_of_right {
        let swapped: Vec<Match> = keys.iter().map(|key| Match { left: key.right, right: key.left }).collect();
        tested_share(right.rows, left.rows, &swapped)
    } else {
        tested_share(left.rows, right.rows, &keys)
    };
    let estimate = of_pairs(*join.join_type(), &left, &right, pairs, share);
    Some(projected(estimate, join.projection.as_deref()))
}

/// The rows of a join of so many pairs, in which so many of the rows of the side that is kept have one.
fn of_pairs(kind: JoinType, left: &Estimate, right: &Estimate, pairs: f64, share: f64) -> Estimate {
    let of_both = |rows: f64| {
        let of_side =
            |side: &Estimate| side.columns.iter().map(|column| cut(column, rows)).collect::<Vec<_>>();
        Estimate { rows, columns: [of_side(left), of_side(right)].concat() }
    };
    let marked = |side: &Estimate| {
        let mut columns = side.columns.clone();
        columns.push(ColumnEstimate { distinct: Some(2.0), ..ColumnEstimate::default() });
        Estimate { rows: side.rows, columns }
    };
    match kind {
        JoinType::Inner => of_both(pairs),
        JoinType::Left => of_both(pairs.max(left.rows)),
        JoinType::Right => of_both(pairs.max(right.rows)),
        JoinType::Full => of_both(pairs.max(left.rows + right.rows)),
        JoinType::LeftSemi => left.thinned(share),
        JoinType::RightSemi => right.thinned(share),
        JoinType::LeftAnti => left.thinned(absent(share)),
        JoinType::RightAnti => right.thinned(absent(share)),
        JoinType::LeftMark => marked(left),
        JoinType::RightMark => marked(right),
    }
}

/// The share of rows without a partner; that all have one is rarely meant.
pub(in crate::optimizer) fn absent(share: f64) -> f64 {
    (1.0 - share).max(0.1)
}

fn cut(column: &ColumnEstimate, rows: f64) -> ColumnEstimate {
    ColumnEstimate { distinct: column.distinct.map(|distinct| distinct.min(rows.max(1.0))), ..column.clone() }
}

fn of_union(inputs: &[Estimate], width: usize) -> Estimate {
    let column = |place: usize| {
        let all: Vec<ColumnEstimate> = inputs.iter().map(|input| input.column(place)).collect();
        let known: Option<Vec<f64>> = all.iter().map(|column| column.distinct).collect();
        let ranges: Option<Vec<(f64, f64)>> = all.iter().map(|column| column.range).collect();
        let range = ranges.and_then(|ranges| {
            ranges.into_iter().reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        });
        let step = all.first().and_then(|column| column.step);
        let most = range.zip(step).map_or(f64::INFINITY, |((min, max), step)| (max - min) / step + 1.0);
        let distinct = known.map(|known| known.iter().sum::<f64>().min(most));
        ColumnEstimate { distinct, range, step, nulls: 0.0 }
    };
    let rows = inputs.iter().map(|input| input.rows).sum();
    Estimate { rows, columns: (0..width).map(column).collect() }
}
