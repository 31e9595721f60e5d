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
        || expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| never_fails(*binary.op()));
    if !is_safe_itself {
        return is_plain(expr, schema);
    }
    expr.children().into_iter().all(|child| is_safe(child, schema))
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
}
