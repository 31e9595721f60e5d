use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use yeoul_base::ErrorKind;

use crate::Error;
use crate::rewrite::rewrite_plan;

/// Refuses patterns of `to_char` without a field. They are PostgreSQL's (`YYYY-MM`) or Spark's (`yyyy-MM`), and DataFusion, whose fields
/// begin with `%`, gives them back as they are.
#[derive(Debug)]
pub(crate) struct Patterns;

impl AnalyzerRule for Patterns {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|expr, _| match pattern_without_fields(&expr) {
            None => Ok(Transformed::no(expr)),
            Some(pattern) => {
                let what = format!("the pattern '{pattern}' of to_char has no field");
                let error = Error::new(ErrorKind::Invalid, what);
                let hint = "its fields are those of strftime, such as '%Y-%m-%d %H:%M:%S'; date_format has Spark's, such as 'yyyy-MM-dd'";
                Err(error.with_hint(hint).into())
            }
        })
    }

    fn name(&self) -> &str {
        "patterns"
    }
}

fn pattern_without_fields(expr: &Expr) -> Option<&str> {
    let Expr::ScalarFunction(call) = expr else { return None };
    if call.func.name() != "to_char" {
        return None;
    }
    let mut pattern = call.args.get(1)?;
    while let Expr::Cast(cast) = pattern {
        pattern = &cast.expr;
    }
    let pattern = pattern.as_literal()?.try_as_str()??;
    (!pattern.contains('%') && pattern.contains(char::is_alphabetic)).then_some(pattern)
}
