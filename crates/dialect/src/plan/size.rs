//! The size of a plan: a table expression that is named twice is planned twice, so that each of a chain of them doubles it.

use std::collections::HashMap;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// The most operators of a plan. The largest statement of TPC-DS has some 200; each takes some kilobytes while it is planned.
const OPERATORS_MAX: u64 = 10_000;

/// Refuses a plan that is too large to be optimized.
///
/// # Errors
/// `ResourceExhausted`, with the number of operators.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    let operators = Sizes::default().of(plan)?;
    if operators <= OPERATORS_MAX {
        return Ok(());
    }
    let counted = if operators == u64::MAX { "too many to count".to_owned() } else { operators.to_string() };
    let what = format!("the plan of the statement has more than {OPERATORS_MAX} operators: {counted}");
    Err(Error::new(ErrorKind::ResourceExhausted, what).with_hint(
        "a WITH that is named several times is planned each time; keep one of them with CREATE TABLE … AS",
    ))
}

/// The number of operators below each one that was seen: what stands in a plan twice is shared until it is optimized.
#[derive(Default)]
struct Sizes(HashMap<*const LogicalPlan, u64>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> Result<u64> {
        let place = std::ptr::from_ref(plan);
        if let Some(known) = self.0.get(&place) {
            return Ok(*known);
        }
        let mut operators = 1u64;
        for input in plan.inputs() {
            operators = operators.saturating_add(self.of(input)?);
        }
        plan.apply_subqueries(|subquery| {
            if let LogicalPlan::Subquery(inner) = subquery {
                operators = operators.saturating_add(self.of(&inner.subquery)?);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.0.insert(place, operators);
        Ok(operators)
    }
}
