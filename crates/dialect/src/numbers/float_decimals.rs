use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{
    Case, InList, InSubquery, ScalarFunction, SetComparison, WindowFunction,
};
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, DmlStatement, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder,
    Union, Values, WriteOp, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::decimal_texts::{as_number, text_beside};
use crate::rewrite::TreeWalk;
use crate::rewrite::{PlanWalk, columns_below, columns_of, map_expressions};

/// Casts decimals to DOUBLE where they meet floats, as PostgreSQL, DuckDB and Spark do: in comparisons, in the branches of `CASE`, in
/// lists, in the inputs of `UNION`, in `VALUES`, in functions whose arguments have one type.
///
/// DataFusion casts the float instead, to DECIMAL(30, 15), which has no room for `NaN`, for 1e20, or for the digits of 1e-20.
///
/// A text beside a decimal keeps its digits, too ([`decimal_texts`](super::decimal_texts)).
#[derive(Debug)]
pub(crate) struct FloatDecimals;

impl AnalyzerRule for FloatDecimals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            let node = alike_in(node)?;
            is_changed |= node.transformed;
            // The types of what is below may be others, too.
            if is_changed { node.map_data(typed_anew) } else { Ok(node) }
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "float_decimals"
    }
}

/// Functions whose arguments have one type, beside those of lists.
const ONE_TYPE: [&str; 10] =
    ["atan2", "coalesce", "greatest", "ifnull", "least", "log", "make_array", "nullif", "nvl", "power"];

fn alike_in(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let columns = columns_in(&node)?;
    let mapped = map_expressions(node, &mut |expr| {
        expr.rewrite_up(&mut |mut expr| {
            let is_changed = alike_within(&mut expr, &columns)?;
            Ok(Transformed::new_transformed(expr, is_changed))
        })
    })?;
    mapped.transform_data(|node| match node {
        LogicalPlan::Join(join) => alike_keys(join),
        LogicalPlan::Union(union) => alike_inputs(union),
        LogicalPlan::Values(values) => alike_rows(values),
        other => Ok(Transformed::no(other)),
    })
}

/// A node whose schema has the types of its inputs and expressions.
fn typed_anew(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        // What they have in common is found later. Till then it has the types of the first one.
        LogicalPlan::Union(union) => Union::try_new_with_loose_types(union.inputs).map(LogicalPlan::Union),
        other => other.recompute_schema(),
    }
}

/// The columns of a node's expressions, with those of the table that a MERGE changes.
fn columns_in(node: &LogicalPlan) -> Result<DFSchema> {
    let mut columns = columns_below(node);
    if let LogicalPlan::Dml(DmlStatement { op: WriteOp::MergeInto(_), table_name, target, .. }) = node {
        columns.merge(&DFSchema::try_from_qualified_schema(table_name.clone(), &target.schema())?);
    }
    Ok(columns)
}

fn alike_within(expr: &mut Expr, columns: &DFSchema) -> Result<bool> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            compared(vec![left, right], columns)
        }
        Expr::Between(Between { expr, low, high, .. }) => compared(vec![expr, low, high], columns),
        Expr::InList(InList { expr, list, .. }) => {
            compared(std::iter::once(expr.as_mut()).chain(list).collect(), columns)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => {
            let (kind, found) = (expr.get_type(columns), subquery.subquery.schema().field(0).data_type());
            let Ok(kind) = kind else { return Ok(false) };
            if let Some(number) = beside(&kind, found).or_else(|| text_beside(&kind, found)) {
                *expr.as_mut() = cast(std::mem::take(expr.as_mut()), number);
                true
            } else if let Some(float) = beside(found, &kind).or_else(|| text_beside(found, &kind)) {
                subquery.subquery = Arc::new(projected(&subquery.subquery, &[Some(float)])?);
                true
            } else {
                false
            }
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (whens, mut thens): (Vec<_>, Vec<_>) =
                when_then_expr.iter_mut().map(|(when, then)| (when.as_mut(), then.as_mut())).unzip();
            thens.extend(else_expr.as_deref_mut());
            let is_changed = alike(thens, columns);
            let compared = match expr {
                Some(expr) => compared(std::iter::once(expr.as_mut()).chain(whens).collect(), columns),
                None => false,
            };
            is_changed || compared
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "nvl2" => alike(args.iter_mut().skip(1).collect(), columns),
            name if name.starts_with("array_") => alike(args.iter_mut().collect(), columns),
            name if ONE_TYPE.contains(&name) => alike(args.iter_mut().collect(), columns),
            _ => false,
        },
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = call.as_mut();
            // Their last argument stands for rows that are not there.
            matches!(fun.name(), "lag" | "lead") && alike(params.args.iter_mut().collect(), columns)
        }
        _ => false,
    })
}

/// Makes operands [`alike`] that are compared; a text beside a decimal becomes one.
fn compared(mut operands: Vec<&mut Expr>, columns: &DFSchema) -> bool {
    let mut is_changed = alike(operands.iter_mut().map(|operand| &mut **operand).collect(), columns);
    let kinds = kinds_of(&operands, columns);
    for (operand, kind) in operands.into_iter().zip(&kinds) {
        if let Some(number) = kinds.iter().find_map(|other| text_beside(kind, other)) {
            *operand = cast(std::mem::take(operand), number);
            is_changed = true;
        }
    }
    is_changed
}

fn kinds_of(operands: &[&mut Expr], columns: &DFSchema) -> Vec<DataType> {
    operands.iter().map(|operand| operand.get_type(columns).unwrap_or(DataType::Null)).collect()
}

/// Casts decimals among operands to DOUBLE if there are floats among them; otherwise, texts that are written out beside decimals become
/// numbers as they are written. False if there are none.
fn alike(mut operands: Vec<&mut Expr>, columns: &DFSchema) -> bool {
    let kinds = kinds_of(&operands, columns);
    let mut is_changed = false;
    if kinds.iter().any(DataType::is_decimal) && !kinds.iter().any(DataType::is_floating) {
        for operand in &mut operands {
            if let Some(number) = as_number(operand) {
                **operand = number;
                is_changed = true;
            }
        }
    }
    for (operand, kind) in operands.into_iter().zip(&kinds) {
        if let Some(float) = kinds.iter().find_map(|other| beside(kind, other)) {
            *operand = cast(std::mem::take(operand), float);
            is_changed = true;
        }
    }
    is_changed
}

/// The type that a value of `kind` has beside one of `other`, if that is another one: decimals beside floats are floats, in lists and
/// structs, too. A decimal is beside the elements of a list.
pub(crate) fn beside(kind: &DataType, other: &DataType) -> Option<DataType> {
    let element = |field: &Arc<Field>, other: &DataType| {
        let float = beside(field.data_type(), other)?;
        Some(Arc::new(field.as_ref().clone().with_data_type(float)))
    };
    match (kind, other) {
        (kind, other) if kind.is_decimal() && other.is_floating() => Some(DataType::Float64),
        (
            DataType::List(field),
            DataType::List(others) | DataType::LargeList(others) | DataType::FixedSizeList(others, _),
        ) => element(field, others.data_type()).map(DataType::List),
        (
            DataType::LargeList(field),
            DataType::List(others) | DataType::LargeList(others) | DataType::FixedSizeList(others, _),
        ) => element(field, others.data_type()).map(DataType::LargeList),
        (
            DataType::FixedSizeList(field, len),
            DataType::List(others) | DataType::LargeList(others) | DataType::FixedSizeList(others, _),
        ) => element(field, others.data_type()).map(|field| DataType::FixedSizeList(field, *len)),
        (DataType::List(field), other) if other.is_floating() => element(field, other).map(DataType::List),
        (DataType::LargeList(field), other) if other.is_floating() => {
            element(field, other).map(DataType::LargeList)
        }
        (DataType::FixedSizeList(field, len), other) if other.is_floating() => {
            element(field, other).map(|field| DataType::FixedSizeList(field, *len))
        }
        (kind, DataType::List(others) | DataType::LargeList(others) | DataType::FixedSizeList(others, _))
            if kind.is_decimal() =>
        {
            beside(kind, others.data_type())
        }
        (DataType::Struct(fields), DataType::Struct(others)) if fields.len() == others.len() => {
            let kinds: Vec<_> =
                fields.iter().zip(others).map(|(field, other)| element(field, other.data_type())).collect();
            kinds.iter().any(Option::is_some).then(|| {
                let fields =
                    fields.iter().zip(kinds).map(|(field, float)| float.unwrap_or_else(|| Arc::clone(field)));
                DataType::Struct(fields.collect())
            })
        }
        _ => None,
    }
}

fn alike_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let kinds = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
        let number = |kind, other| beside(kind, other).or_else(|| text_beside(kind, other));
        for (key, float) in [(left, number(&kinds.0, &kinds.1)), (right, number(&kinds.1, &kinds.0))] {
            if let Some(float) = float {
                *key = cast(std::mem::take(key), float);
                is_changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
}

fn alike_inputs(union: Union) -> Result<Transformed<LogicalPlan>> {
    let kinds: Vec<Vec<DataType>> = union
        .inputs
        .iter()
        .map(|input| input.schema().fields().iter().map(|field| field.data_type().clone()).collect())
        .collect();
    let float = |input: usize, column: usize| {
        let kind = kinds[input].get(column)?;
        kinds.iter().find_map(|others| beside(kind, others.get(column)?))
    };
    let mut inputs = Vec::with_capacity(union.inputs.len());
    let mut is_changed = false;
    for (number, input) in union.inputs.iter().enumerate() {
        let floats: Vec<_> = (0..kinds[number].len()).map(|column| float(number, column)).collect();
        if floats.iter().all(Option::is_none) {
            inputs.push(Arc::clone(input));
        } else {
            inputs.push(Arc::new(projected(input, &floats)?));
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// `input` with the columns for which there are types cast to them.
fn projected(input: &Arc<LogicalPlan>, floats: &[Option<DataType>]) -> Result<LogicalPlan> {
    let columns = columns_of(input).into_iter().zip(input.schema().iter()).zip(floats);
    let columns = columns.map(|((column, (relation, field)), float)| match float {
        Some(float) => cast(column, float.clone()).alias_qualified(relation.cloned(), field.name()),
        None => column,
    });
    LogicalPlanBuilder::new_from_arc(Arc::clone(input)).project(columns)?.build()
}

/// Takes back what DataFusion has made of the floats among decimals.
///
/// A float that a statement casts to such a decimal itself looks the same, and beside other decimals becomes a DOUBLE, too.
fn alike_rows(values: Values) -> Result<Transformed<LogicalPlan>> {
    let is_mixed = |column: usize| {
        let mut rows = values.values.iter().map(|row| &row[column]);
        rows.clone().any(|value| float_in(value).is_some())
            && rows.any(|value| float_in(value).is_none() && is_decimal(value))
    };
    let mixed: Vec<usize> = (0..values.schema.fields().len()).filter(|column| is_mixed(*column)).collect();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let mut rows = values.values;
    for row in &mut rows {
        for column in &mixed {
            let value = std::mem::take(&mut row[*column]);
            row[*column] = match float_in(&value) {
                Some(float) => float.clone(),
                None => cast(value, DataType::Float64),
            };
        }
    }
    LogicalPlanBuilder::values(rows)?.build().map(Transformed::yes)
}

/// The float of which DataFusion has made a decimal with the digits that it gives to floats of that type.
fn float_in(value: &Expr) -> Option<&Expr> {
    let Expr::Cast(Cast { expr, field }) = value else { return None };
    let DataType::Decimal128(precision, scale) = *field.data_type() else { return None };
    let is_made_of_it = match expr.get_type(&DFSchema::empty()).ok()? {
        DataType::Float64 => precision >= 30 && scale >= 15,
        DataType::Float32 => precision >= 14 && scale >= 7,
        _ => false,
    };
    is_made_of_it.then_some(expr)
}

/// True if a value is a decimal, and not a null, beside which every type stays.
fn is_decimal(value: &Expr) -> bool {
    let value = match value {
        Expr::Cast(cast) => &cast.expr,
        other => other,
    };
    !matches!(value, Expr::Literal(literal, _) if literal.is_null())
        && value.get_type(&DFSchema::empty()).is_ok_and(|kind| kind.is_decimal())
}
