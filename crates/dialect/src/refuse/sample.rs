//! `TABLESAMPLE`, as a subquery: each row with a probability (`random() < 0.1`), or a number of rows (`ORDER BY random() LIMIT 10`).

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SetExpr,
    TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier,
    TableSampleQuantity, TableSampleUnit, Value, ValueWithSpan,
};

use super::refused::{Clause, absent};
use super::syntax::{all_of, binary, derived, function, number, plain};
use crate::Result;

/// Writes a sample of a table as a subquery.
///
/// # Errors
/// `Invalid` for a sample that would need the table's blocks or the order of its rows.
pub(super) fn honour(
    factor: &mut TableFactor,
    sample: TableSampleKind,
    alias: Option<TableAlias>,
) -> Result<()> {
    let sample = match sample {
        TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample) => sample,
    };
    let table = mem::replace(factor, derived(plain(SetExpr::Select(Box::new(all_of(Vec::new())))), None));
    *factor = derived(sampled(table, *sample)?, alias);
    Ok(())
}

fn sampled(table: TableFactor, sample: TableSample) -> Result<Query> {
    let TableSample { modifier, name, quantity, seed, bucket, offset } = sample;
    match modifier {
        TableSampleModifier::Sample | TableSampleModifier::TableSample => {}
    }
    absent(&seed, Clause::SampleSeed)?;
    absent(&bucket, Clause::SampleBucket)?;
    absent(&offset, Clause::SampleBucket)?;
    let is_bernoulli = match name {
        Some(TableSampleMethod::Bernoulli) => true,
        Some(TableSampleMethod::Row | TableSampleMethod::System | TableSampleMethod::Block) => {
            return Err(Clause::SampleMethod.error());
        }
        None => false,
    };
    let Some(TableSampleQuantity { parenthesized: _, value, unit }) = quantity else {
        return Err(Clause::SampleUnit.error());
    };
    let digits = match &value {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), span: _ }) => digits.clone(),
        _ => return Err(Clause::SampleQuantity.error_at(&value)),
    };
    let mut select = all_of(vec![table]);
    match unit {
        Some(TableSampleUnit::Percent) => {}
        None if is_bernoulli => {}
        None => return Err(Clause::SampleUnit.error_at(&value)),
        Some(TableSampleUnit::Rows) => {
            digits.parse::<u64>().map_err(|_| Clause::SampleQuantity.error_at(&value))?;
            let mut query = plain(SetExpr::Select(Box::new(select)));
            let options = OrderByOptions { asc: None, nulls_first: None };
            let key = OrderByExpr { expr: random(), options, with_fill: None };
            query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![key]), interpolate: None });
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(value), offset: None, limit_by: Vec::new() });
            return Ok(query);
        }
    }
    let percent = digits.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    if percent.is_none() {
        return Err(Clause::SampleQuantity.error_at(&value));
    }
    let scaled = binary(random(), BinaryOperator::Multiply, number("100"));
    select.selection = Some(binary(scaled, BinaryOperator::Lt, value));
    Ok(plain(SetExpr::Select(Box::new(select))))
}

fn random() -> Expr {
    function("random", None)
}
