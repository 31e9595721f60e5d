use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunctionDefinition};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{AggregateUDF, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::numbers::checked_integers::CheckedInteger;
use crate::numbers::checked_results::CheckedResult;
use crate::numbers::decimal_arithmetic::DecimalArithmetic;
use crate::numbers::decimal_type::DecimalType;
use crate::numbers::float_extremes::FloatExtreme;
use crate::rewrite::{PlanWalk, TreeWalk, map_expressions};
use crate::settings::Switch;
use crate::types::Identity;

/// Puts functions that fail on overflow in place of `+`, `-` and `*` of integers, unless they may wrap around, and those that round
/// in place of `/` and `*` of decimals. Hides casts that cut decimals from what would compare the decimals themselves.
///
/// DataFusion's physical operators can fail on overflow, but nothing says so to its planner, nor to what folds constants. Runs once
/// the types of both sides are the same.
#[derive(Debug)]
pub(crate) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let wraps = Switch::WrapIntegers.is_on(config);
        let mut has_other_types = false;
        let plan = plan.rewrite_up_with_subqueries(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let node = map_expressions(node, &mut |expr| {
                expr.rewrite_up(&mut |expr| Ok(exact(expr, &schema, wraps, &mut has_other_types)))
            })?;
            if !has_other_types || node.data.inputs().is_empty() {
                return Ok(node);
            }
            node.map_data(LogicalPlan::recompute_schema)
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "exact_numbers"
    }
}

/// The expression that is exact; notes if its type is another.
fn exact(expr: Expr, schema: &DFSchema, wraps: bool, has_other_type: &mut bool) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if !wraps
                && is_arithmetic(op)
                && let Some(kind) = integers_of(&left, &right, schema)
                && let Some(checked) = CheckedInteger::in_place_of(op, &kind)
            {
                return Transformed::yes(checked.call(vec![*left, *right]));
            }
            if let Some(rounded) = DecimalArithmetic::in_place_of(op, &left, &right, schema) {
                *has_other_type = true;
                return Transformed::yes(rounded.call(*left, *right));
            }
            let kinds = left.get_type(schema).and_then(|kind| Ok((kind, right.get_type(schema)?)));
            match kinds.ok().and_then(|(kind, of_right)| CheckedResult::of(op, &kind, &of_right)) {
                Some(check) => {
                    // The outermost of operators in each other is enough.
                    let [left, right] = [left, right].map(|side| Box::new(CheckedResult::unchecked(*side)));
                    Transformed::yes(check.call(Expr::BinaryExpr(BinaryExpr { left, op, right })))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(operand) if operand.get_type(schema).is_ok_and(|kind| kind.is_floating()) => {
            Transformed::yes(CheckedResult::OneNan.call(Expr::Negative(operand)))
        }
        Expr::ScalarFunction(call) if GIVE_NAN.contains(&call.func.name()) => {
            Transformed::yes(CheckedResult::OneNan.call(Expr::ScalarFunction(call)))
        }
        Expr::Negative(operand) if !wraps => match integers_of(&operand, &operand, schema) {
            Some(kind) => Transformed::yes(CheckedInteger::negative(&kind).call(vec![*operand])),
            None => Transformed::no(Expr::Negative(operand)),
        },
        Expr::AggregateFunction(mut call) if wraps && is_exact_sum(&call.func) => {
            call.func = sum_udaf();
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::AggregateFunction(mut call) => match extreme_of_floats(&call, schema) {
            Some(extreme) => {
                call.func = Arc::new(AggregateUDF::from(extreme));
                Transformed::yes(Expr::AggregateFunction(call))
            }
            None => Transformed::no(Expr::AggregateFunction(call)),
        },
        Expr::WindowFunction(mut call) if wraps => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) if is_exact_sum(function) => {
                call.fun = WindowFunctionDefinition::AggregateUDF(sum_udaf());
                Transformed::yes(Expr::WindowFunction(call))
            }
            _ => Transformed::no(Expr::WindowFunction(call)),
        },
        cast @ (Expr::Cast(_) | Expr::TryCast(_)) if reads_float(&cast, schema) => {
            Transformed::yes(CheckedResult::OneNan.call(cast))
        }
        cast @ (Expr::Cast(_) | Expr::TryCast(_)) if cuts(&cast, schema) => {
            Transformed::yes(Identity::Cut.call(cast))
        }
        other => Transformed::no(other),
    }
}

/// True if an expression casts a decimal to a number with fewer digits behind the point. DataFusion would compare the decimal itself
/// with what the cast is compared with: `CAST(1.2 AS INT) = 1` is `1.2 = 1.0` to it.
fn cuts(expr: &Expr, schema: &DFSchema) -> bool {
    let (from, to) = match expr {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
        _ => return false,
    };
    let scale = match DecimalType::of(to) {
        Some(to) => to.scale,
        None if to.is_integer() => 0,
        None => return false,
    };
    from.get_type(schema).is_ok_and(|from| DecimalType::of(&from).is_some_and(|from| from.scale > scale))
}

fn extreme_of_floats(call: &AggregateFunction, schema: &DFSchema) -> Option<FloatExtreme> {
    let kind = call.params.args.first()?.get_type(schema).ok()?;
    FloatExtreme::in_place_of(call, &kind)
}

/// True of a text cast to a float, which may be '-NaN'.
fn reads_float(expr: &Expr, schema: &DFSchema) -> bool {
    let (from, to) = match expr {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
        _ => return false,
    };
    let is_known = match from.as_literal().and_then(|text| text.try_as_str()) {
        Some(text) => !text.is_some_and(|text| text.to_lowercase().contains("nan")),
        None => false,
    };
    !is_known && to.is_floating() && from.get_type(schema).is_ok_and(|from| from.is_string())
}

/// Functions of floats that give NaN for a number that has no such value.
const GIVE_NAN: [&str; 17] = [
    "acos", "acosh", "asin", "atan2", "atanh", "cos", "cot", "ln", "log", "log10", "log2", "nanvl", "power",
    "signum", "sin", "sqrt", "tan",
];

fn is_arithmetic(operator: Operator) -> bool {
    matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply)
}

/// True if a function is the sum of the dialect, by its name: an engine may have put one of its own around it.
fn is_exact_sum(function: &AggregateUDF) -> bool {
    function.name() == sum_udaf().name()
}

/// The type of two operands, if both are integers of the same.
fn integers_of(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<DataType> {
    let kind_of = |expr: &Expr| match CheckedInteger::type_of(expr) {
        Some(kind) => Some(kind.clone()),
        None => expr.get_type(schema).ok(),
    };
    let kind = kind_of(left).filter(DataType::is_integer)?;
    (kind_of(right)? == kind).then_some(kind)
}
