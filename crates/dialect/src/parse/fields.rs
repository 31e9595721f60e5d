//! Fields of values that are no columns: `(s).x`, `list[1].x`.

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Value};

use crate::names::normalized;

/// Makes a text of a field's name, which is what planning takes there. Behind a column's name it may be that of a column, too.
pub(super) fn name(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut may_be_column = matches!(**root, Expr::Identifier(_));
    for access in access_chain {
        match access {
            AccessExpr::Dot(field) => {
                if let (Expr::Identifier(name), false) = (&*field, may_be_column) {
                    *field = Expr::value(Value::SingleQuotedString(normalized(name)));
                }
            }
            AccessExpr::Subscript(_) => may_be_column = false,
        }
    }
}
