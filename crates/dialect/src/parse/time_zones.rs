//! `AT TIME ZONE`, as a call of our function. DataFusion's is a cast, which cannot give a wall clock.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Value};

use super::function_call::function_call;
use crate::time::time_zone::TIMEZONE;

/// Turns `time AT TIME ZONE zone` into `timezone(zone, time)`, as PostgreSQL has it.
pub(super) fn call(expr: &mut Expr) {
    let Expr::AtTimeZone { timestamp, time_zone } = expr else { return };
    let taken = |expr: &mut Expr| std::mem::replace(expr, Expr::value(Value::Null));
    *expr = function_call(Ident::new(TIMEZONE), [taken(time_zone), taken(timestamp)]);
}
