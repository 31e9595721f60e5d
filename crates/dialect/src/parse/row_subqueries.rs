//! `(a, b) IN (SELECT x, y …)`, which DataFusion does not plan: true if a row of the query is equal to the other, null if that depends
//! on nulls.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, TableAliasColumnDef, TableFactor, Value,
};

use super::template;

/// Writes a comparison of a row with those of a query by what it asks: is there an equal one, or one that may be.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return };
    let Expr::Tuple(values) = row.as_ref() else { return };
    if values.len() < 2 {
        return;
    }
    let equal = equal_to_row(values);
    let is_equal = exists(subquery, values.len(), equal.clone());
    let is_unknown = exists(subquery, values.len(), Expr::IsNull(Box::new(Expr::Nested(Box::new(equal)))));
    let boolean = |value| Expr::value(Value::Boolean(value));
    let negated = *negated;
    *expr = Expr::Nested(Box::new(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![
            CaseWhen { condition: is_equal, result: boolean(!negated) },
            CaseWhen { condition: is_unknown, result: Expr::value(Value::Null) },
        ],
        else_result: Some(Box::new(boolean(negated))),
    }));
}

/// The name of a column of the query: no statement names one so.
fn column(at: usize) -> Ident {
    Ident::with_quote('"', format!("\u{0}column {at} of the query"))
}

fn equal_to_row(values: &[Expr]) -> Expr {
    let equal = values.iter().enumerate().map(|(at, value)| Expr::BinaryOp {
        left: Box::new(Expr::Identifier(column(at))),
        op: BinaryOperator::Eq,
        right: Box::new(Expr::Nested(Box::new(value.clone()))),
    });
    equal
        .reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        })
        .expect("a row has values")
}

/// The question whether a query has a row for which a condition holds.
fn exists(query: &Query, columns: usize, condition: Expr) -> Expr {
    let mut asked = template::query("SELECT 1 FROM (SELECT 1) AS rows WHERE true");
    let select = template::select(&mut asked);
    select.selection = Some(condition);
    if let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut select.from[0].relation {
        **subquery = query.clone();
        alias.columns =
            (0..columns).map(|at| TableAliasColumnDef { name: column(at), data_type: None }).collect();
    }
    Expr::Exists { subquery: Box::new(asked), negated: false }
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::called;

    #[test]
    fn a_row_is_compared_by_what_is_equal_and_what_may_be() {
        let text = called("SELECT (a, b) NOT IN (SELECT x, y FROM t)").replace('\u{0}', "");
        let columns = "\"column 0 of the query\" = (a) AND \"column 1 of the query\" = (b)";
        let rows = "(SELECT x, y FROM t) AS rows (\"column 0 of the query\", \"column 1 of the query\")";
        assert_eq!(
            text,
            format!(
                "SELECT (CASE WHEN EXISTS (SELECT 1 FROM {rows} WHERE {columns}) THEN false \
                 WHEN EXISTS (SELECT 1 FROM {rows} WHERE ({columns}) IS NULL) THEN NULL ELSE true END)"
            )
        );
        assert_eq!(called("SELECT (a) IN (SELECT x FROM t)"), "SELECT (a) IN (SELECT x FROM t)");
    }
}
