//! Texts that are written where a number or a time is meant: `avg('1')`, `-'1'`, `year('1500-01-01')`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value, ValueWithSpan,
};

use super::calls::filled;
use super::expressions::taken;

/// Functions of numbers.
const OF_NUMBERS: [&str; 15] = [
    "abs",
    "avg",
    "kurtosis",
    "mean",
    "skewness",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "try_avg",
    "try_sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Aggregates of conditions.
const OF_CONDITIONS: [&str; 5] = ["any", "bool_and", "bool_or", "every", "some"];

/// Functions of dates.
const OF_DATES: [&str; 10] = [
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "month",
    "quarter",
    "week",
    "weekday",
    "weekofyear",
    "year",
];

/// Gives a text the type that such a function has.
pub(super) fn give_types(name: &str, call: &mut Function) {
    let kind = if OF_NUMBERS.contains(&name) {
        "DOUBLE"
    } else if OF_CONDITIONS.contains(&name) {
        "BOOLEAN"
    } else if OF_DATES.contains(&name) {
        "DATE"
    } else {
        return;
    };
    let FunctionArguments::List(list) = &mut call.args else { return };
    if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_mut_slice()
        && is_text(value)
    {
        *value = filled(&format!("CAST(x AS {kind})"), [("x", taken(value))]);
    }
}

/// Makes a text behind a sign a number.
pub(super) fn give_sign(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: value } = expr
        && is_text(value)
    {
        **value = filled("CAST(x AS DOUBLE)", [("x", taken(value))]);
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::template;

    #[test]
    fn a_text_has_the_type_that_is_meant() {
        for (sql, expected) in [
            ("avg('1')", "avg((CAST(('1') AS DOUBLE)))"),
            ("every('true')", "every((CAST(('true') AS BOOLEAN)))"),
            ("year('1500-01-01')", "year((CAST(('1500-01-01') AS DATE)))"),
            ("year(x)", "year(x)"),
            ("max('1')", "max('1')"),
        ] {
            let mut expr = template::expr(sql);
            if let Expr::Function(call) = &mut expr {
                let name = call.name.to_string();
                give_types(&name, call);
            }
            assert_eq!(expr.to_string(), expected);
        }
        let mut signed = template::expr("-'1'");
        give_sign(&mut signed);
        assert_eq!(signed.to_string(), "-(CAST(('1') AS DOUBLE))");
    }
}
