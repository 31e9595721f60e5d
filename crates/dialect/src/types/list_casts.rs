use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::rewrite_plan;

/// Refuses casts of other values to lists. Arrow makes a list of one element of them, so that `'[1,2]'::varchar[]` has the element
/// `[1,2]`. DuckDB reads such a text, PostgreSQL another one (`{1,2}`), and Spark none.
#[derive(Debug)]
pub(crate) struct ListCasts;

impl AnalyzerRule for ListCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|expr, columns| {
            let (from, to) = match &expr {
                Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
                Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
                _ => return Ok(Transformed::no(expr)),
            };
            if !is_list(to) {
                return Ok(Transformed::no(expr));
            }
            let from = from.get_type(columns)?;
            if is_list(&from) || from.is_null() {
                return Ok(Transformed::no(expr));
            }
            let what = if from.is_string() { "a text".to_owned() } else { from.to_string() };
            let error = Error::new(ErrorKind::Invalid, format!("{what} cannot be cast to a list"));
            let hint = "write the list, [1, 2]; or string_to_array('1,2', ','), whose elements are texts and can be cast";
            Err(error.with_hint(hint).into())
        })
    }

    fn name(&self) -> &str {
        "list_casts"
    }
}

fn is_list(of: &DataType) -> bool {
    match of {
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => true,
        DataType::Dictionary(_, value) => is_list(value),
        _ => false,
    }
}
