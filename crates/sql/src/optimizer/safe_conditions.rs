//! Conditions that cannot fail, and may be asked in another order than the query has them.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

/// True of columns, constants and casts to a larger type.
pub(super) fn is_plain(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        return is_plain(cast.expr(), schema) && from.is_ok_and(|from| is_lossless(&from, cast.cast_type()));
    }
    expr.is::<Column>() || expr.is::<Literal>()
}

/// True of a cast that never fails, and of which different values stay different.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, LargeUtf8, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View};
    match (from, to) {
        (Int8, Int16 | Int32 | Int64)
        | (Int16, Int32 | Int64)
        | (Int32, Int64)
        | (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64)
        | (UInt16, UInt32 | UInt64 | Int32 | Int64)
        | (UInt32, UInt64 | Int64) => true,
        (DataType::Decimal128(from_digits, from_scale), DataType::Decimal128(to_digits, to_scale)) => {
            let digits = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            from_scale <= to_scale && digits(from_digits, from_scale) <= digits(to_digits, to_scale)
        }
        (from, to) => from == to || (from.is_string() && matches!(to, Utf8 | Utf8View | LargeUtf8)),
    }
}

/// True of a condition that cannot fail, so that it may be asked of rows that another operator would have dropped before.
pub(super) fn is_safe(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_safe_itself = expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>()
        || expr
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|binary| never_fails(*binary.op()) || is_short_decimal(binary, schema));
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        return from.is_ok_and(|from| is_lossless(&from, cast.cast_type())) && is_safe(cast.expr(), schema);
    }
    if !is_safe_itself {
        return is_plain(expr, schema);
    }
    expr.children().into_iter().all(|child| is_safe(child, schema))
}

/// True of a sum, a difference or a product of decimals that has place for all digits that it may have.
fn is_short_decimal(binary: &BinaryExpr, schema: &Schema) -> bool {
    use DataType::Decimal128;
    use Operator::{Minus, Multiply, Plus};
    let of = |side: &Arc<dyn PhysicalExpr>| side.data_type(schema).ok();
    let (Some(Decimal128(left, left_scale)), Some(Decimal128(right, right_scale))) =
        (of(binary.left()), of(binary.right()))
    else {
        return false;
    };
    let Ok(Decimal128(digits, scale)) = binary.data_type(schema) else { return false };
    let digits = i16::from(digits) - i16::from(scale);
    let (left_digits, right_digits) =
        (i16::from(left) - i16::from(left_scale), i16::from(right) - i16::from(right_scale));
    match binary.op() {
        Multiply => scale == left_scale + right_scale && left_digits + right_digits <= digits,
        Plus | Minus => scale == left_scale.max(right_scale) && left_digits.max(right_digits) < digits,
        _ => false,
    }
}

fn never_fails(operator: Operator) -> bool {
    use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | And | Or)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};

    use super::*;

    #[test]
    fn only_what_cannot_fail_is_safe() {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("text", DataType::Utf8, true),
        ]);
        let column = |name: &str| col(name, &schema).unwrap();
        let compared = |left, operator, right| binary(left, operator, right, &schema).unwrap();
        let wide = cast(column("n"), &schema, DataType::Int64).unwrap();
        let safe = compared(wide, Operator::Gt, lit(5i64));
        assert!(is_safe(&safe, &schema));
        let read = cast(column("text"), &schema, DataType::Int64).unwrap();
        assert!(!is_safe(&compared(read, Operator::Gt, lit(5i64)), &schema));
        let divided = compared(lit(1i32), Operator::Divide, column("n"));
        let divided = compared(divided, Operator::Gt, lit(1i32));
        assert!(!is_safe(&divided, &schema));
        assert!(!is_safe(&compared(safe, Operator::Or, divided), &schema));
    }

    /// The digits that a decimal has place for decide.
    #[test]
    fn decimals_that_have_place_for_all_digits_are_safe() {
        let decimal = |name, digits, scale| Field::new(name, DataType::Decimal128(digits, scale), true);
        let schema = Schema::new(vec![decimal("price", 7, 2), decimal("sum", 28, 2)]);
        let column = |name: &str| col(name, &schema).unwrap();
        let of = |left, operator, right| {
            let computed = binary(column(left), operator, column(right), &schema).unwrap();
            is_safe(&binary(computed, Operator::Gt, column("price"), &schema).unwrap(), &schema)
        };
        for operator in [Operator::Plus, Operator::Minus, Operator::Multiply] {
            assert!(of("price", operator, "price"), "{operator}");
        }
        assert!(of("price", Operator::Plus, "sum"));
        assert!(of("price", Operator::Multiply, "sum"));
        assert!(!of("sum", Operator::Multiply, "sum"));
        assert!(!of("price", Operator::Divide, "price"));
        assert!(!of("price", Operator::Modulo, "price"));
        let cast_to = |name, digits, scale| {
            let read = cast(column(name), &schema, DataType::Decimal128(digits, scale)).unwrap();
            is_safe(&read, &schema)
        };
        assert!(cast_to("price", 9, 4));
        assert!(!cast_to("price", 8, 4));
        assert!(!cast_to("price", 9, 1));
    }
}
