use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;

use super::time_functions::out_of_range;

/// `generate_series` and `range` of timestamps in a `FROM`, whose own unit is the nanosecond: a timestamp in another one is refused by
/// DataFusion's.
#[derive(Debug)]
pub(crate) struct TimeSeries(Arc<dyn TableFunctionImpl>);

/// Puts these functions in place of DataFusion's.
pub(crate) fn register(state: &mut SessionState) {
    for name in ["generate_series", "range"] {
        if let Some(inner) = state.table_functions().get(name) {
            let inner = Arc::clone(inner.function());
            state.register_udtf(name, Arc::new(TimeSeries(inner)));
        }
    }
}

impl TableFunctionImpl for TimeSeries {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = arguments.exprs().iter().map(in_nanoseconds).collect::<Result<Vec<_>>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, arguments.session()))
    }
}

fn in_nanoseconds(expr: &Expr) -> Result<Expr> {
    let (time, ratio, zone) = match expr {
        Expr::Literal(ScalarValue::TimestampSecond(Some(time), zone), _) => (time, 1_000_000_000, zone),
        Expr::Literal(ScalarValue::TimestampMillisecond(Some(time), zone), _) => (time, 1_000_000, zone),
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(time), zone), _) => (time, 1_000, zone),
        other => return Ok(other.clone()),
    };
    let time = time.checked_mul(ratio).ok_or_else(|| out_of_range(&format!("{expr} in nanoseconds")))?;
    Ok(Expr::Literal(ScalarValue::TimestampNanosecond(Some(time), zone.clone()), None))
}
