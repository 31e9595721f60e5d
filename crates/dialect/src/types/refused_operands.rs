use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::rewrite_plan;

/// Refuses operators, functions and casts of types that have no such thing, which DataFusion computes of what lies under the value:
/// the opposite of a timestamp, the bits of a fraction, the length of a list's text, a timestamp of so many nanoseconds.
#[derive(Debug)]
pub(crate) struct RefusedOperands;

impl AnalyzerRule for RefusedOperands {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|expr, columns| match refusal(&expr, columns) {
            None => Ok(Transformed::no(expr)),
            Some((what, hint)) => Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into()),
        })
    }

    fn name(&self) -> &str {
        "refused_operands"
    }
}

/// Functions of texts, of which DataFusion makes some of anything.
const OF_TEXTS: [&str; 22] = [
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "ends_with",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "octet_length",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "upper",
];

/// The refusal of an expression, and a hint at what to write instead.
fn refusal(expr: &Expr, columns: &DFSchema) -> Option<(String, &'static str)> {
    let kind_of = |expr: &Expr| expr.get_type(columns).ok();
    match expr {
        Expr::Negative(operand) => {
            let is_time =
                matches!(kind_of(operand)?, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
            is_time.then(|| ("a time has no opposite".to_owned(), "intervals have: -INTERVAL '1 day'"))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_of_bits(*op) => {
            let has_fraction = |kind: DataType| kind.is_floating() || (kind.is_decimal() && !is_whole(&kind));
            let found = [left, right].into_iter().find(|side| kind_of(side).is_some_and(has_fraction))?;
            let what = format!("{op} of {}, which is no integer", found.schema_name());
            Some((what, "cast it to BIGINT, which cuts the digits behind the point off"))
        }
        Expr::ScalarFunction(call) if OF_TEXTS.contains(&call.func.name()) => {
            let name = call.func.name();
            kind_of(call.args.first()?)?.is_nested().then(|| {
                let hint = "cardinality(list) counts elements, array_reverse and its like take lists; or cast it to TEXT";
                (format!("{name} of a list, a struct or a map"), hint)
            })
        }
        Expr::ScalarFunction(call) if matches!(call.func.name(), "concat" | "concat_ws") => {
            let is_list = |kind: DataType| {
                matches!(kind, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
            };
            let list = call.args.iter().find(|arg| kind_of(arg).is_some_and(is_list))?;
            let what = format!("{} of {}, which is a list", call.func.name(), list.schema_name());
            Some((what, "array_concat(a, b), or a || b, joins lists; as a text it is list::TEXT"))
        }
        Expr::ScalarFunction(call) if call.func.name() == "array_sort" => {
            let order = call.args.iter().skip(1).find(|order| !matches!(order, Expr::Literal(..)))?;
            let hint = "write it out, as in array_sort(list, 'DESC', 'NULLS LAST'), or choose with CASE";
            Some((
                format!("array_sort in the order of {}, which is not one for all rows", order.schema_name()),
                hint,
            ))
        }
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = call.as_ref();
            let place = params.args.get(1).filter(|_| fun.name() == "nth_value")?;
            let is_place = match place {
                Expr::Literal(ScalarValue::Int64(Some(place)), _) => *place > 0,
                Expr::Negative(_) => false,
                _ => true,
            };
            let hint = "the first row is 1; the last one is that of last_value, or of the opposite order";
            (!is_place).then(|| (format!("nth_value of the row {}", place.schema_name()), hint))
        }
        Expr::Cast(cast) => cast_refusal(&kind_of(&cast.expr)?, cast.field.data_type()),
        Expr::TryCast(cast) => cast_refusal(&kind_of(&cast.expr)?, cast.field.data_type()),
        _ => None,
    }
}

fn is_of_bits(op: Operator) -> bool {
    use Operator::{BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, BitwiseXor};
    matches!(op, BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight)
}

fn is_whole(decimal: &DataType) -> bool {
    match decimal {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale <= 0,
        _ => false,
    }
}

fn cast_refusal(from: &DataType, to: &DataType) -> Option<(String, &'static str)> {
    match (from, to) {
        (from, DataType::Timestamp(..)) if from.is_floating() || from.is_decimal() => Some((
            "a number with a fraction cannot be cast to a timestamp".to_owned(),
            "to_timestamp(x) takes seconds",
        )),
        (from, DataType::Time32(_) | DataType::Time64(_)) if from.is_numeric() => {
            let hint = "a time is written as '10:00:00'";
            Some(("a number cannot be cast to a time of day".to_owned(), hint))
        }
        (DataType::Time32(_) | DataType::Time64(_), to) if to.is_numeric() => Some((
            "a time of day cannot be cast to a number".to_owned(),
            "extract(epoch FROM t) gives seconds",
        )),
        (
            DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => match (from.data_type(), to.data_type()) {
            (from, DataType::Timestamp(..)) if from.is_numeric() => Some((
                "a list of numbers cannot be cast to a list of timestamps".to_owned(),
                "cast each behind UNNEST, and collect them by array_agg",
            )),
            (from, to) => cast_refusal(from, to),
        },
        _ => None,
    }
}
