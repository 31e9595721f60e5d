//! `AT TIME ZONE`, as a call of our function. DataFusion's is a cast, which cannot give a wall clock.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Value,
};

use crate::time::time_zone::TIMEZONE;

/// Turns `time AT TIME ZONE zone` into `timezone(zone, time)`, as PostgreSQL has it.
pub(super) fn call(expr: &mut Expr) {
    let Expr::AtTimeZone { timestamp, time_zone } = expr else { return };
    let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
    let arguments = [taken(time_zone), taken(timestamp)];
    let args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).into();
    let none = FunctionArguments::None;
    *expr = Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(TIMEZONE)]),
        uses_odbc_syntax: false,
        parameters: none,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
}
