//! Keys that differ by a cast only: `GROUP BY ts::date, ts`. DataFusion leaves casts out of names, and tells columns apart by their names.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};

use crate::parse::function_call::function_call;
use crate::parse::visit::walk_in;
use crate::types::identity::Identity;

/// Whether planning failed because two columns have one name, which casts may have caused.
pub(crate) fn may_be_cause(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        DataFusionError::SchemaError(error, _) => matches!(
            error.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        _ => false,
    }
}

/// Names the casts of columns: each becomes the argument of a function whose name contains it. It is called so in this statement only.
#[derive(Default)]
pub(crate) struct NameCasts {
    pub(crate) is_changed: bool,
}

impl VisitorMut for NameCasts {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if is_cast_of_columns(expr) {
            let cast = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *expr = named(cast);
            self.is_changed = true;
        }
        ControlFlow::Continue(())
    }
}

fn is_cast_of_columns(expr: &Expr) -> bool {
    struct Columns;

    impl VisitorMut for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    let (Expr::Cast { expr: of, .. } | Expr::AtTimeZone { timestamp: of, .. }) = expr else { return false };
    walk_in(&mut of.clone(), &mut Columns).is_break()
}

fn named(cast: Expr) -> Expr {
    function_call(Ident::with_quote('"', Identity::NamedCast.sql_name()), [cast])
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::super::visit;
    use super::*;

    #[test]
    fn casts_of_columns_get_a_name() {
        for (sql, expected) in [
            ("SELECT a::DATE, a FROM t", "SELECT \"named_cast\"(a::DATE), a FROM t"),
            (
                "SELECT 1 GROUP BY TRY_CAST(t.a + 1 AS INT)::TEXT",
                "SELECT 1 GROUP BY \"named_cast\"(\"named_cast\"(TRY_CAST(t.a + 1 AS INT))::TEXT)",
            ),
            ("SELECT a AT TIME ZONE 'UTC'", "SELECT \"named_cast\"(a AT TIME ZONE 'UTC')"),
            ("SELECT '2024-01-01'::DATE LIMIT '1'::INT", "SELECT '2024-01-01'::DATE LIMIT '1'::INT"),
        ] {
            let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
            let mut names = NameCasts::default();
            visit(&mut statement, &mut names);
            assert_eq!(statement.to_string(), expected);
            assert_eq!(names.is_changed, sql != expected, "{sql}");
        }
    }
}
