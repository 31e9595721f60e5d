use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::tree_node::TransformedResult;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, ObjectName, TableFactor, TableWithJoins, Value,
};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::names::join_mark::{JoinId, constraint_of, outermost};
use crate::names::joined_columns::JoinedColumns;
use crate::names::merged_join::{MergedNames, merged_join};
use crate::rules::key_dependencies::cut;

/// Plans what stands in the `FROM`s of one statement: joins that merge columns, and tables, of whose keys the planner is to believe only what
/// is true (it adds to the keys of a `GROUP BY` what they determine).
#[derive(Debug, Default)]
pub(crate) struct Relations {
    /// True if the next relation is one that this planner passed on.
    is_passed_on: AtomicBool,
    joins: Mutex<HashMap<JoinId, JoinedColumns>>,
}

impl Relations {
    /// What is known by now of the columns of marked joins.
    pub(crate) fn joins(&self) -> MutexGuard<'_, HashMap<JoinId, JoinedColumns>> {
        self.joins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a marked join by way of one whose condition is always true, whose sides DataFusion plans.
    fn join(
        &self,
        id: JoinId,
        mut tables: TableWithJoins,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let inner = outermost(&tables);
        let constraint = tables.joins.last_mut().and_then(|join| constraint_of(&mut join.join_operator));
        let always = JoinConstraint::On(Expr::value(Value::Boolean(true)));
        let names = match constraint.map(|constraint| std::mem::replace(constraint, always)) {
            Some(JoinConstraint::Natural) => MergedNames::Natural,
            Some(JoinConstraint::Using(names)) => MergedNames::Using(names_in(names, context)?),
            _ => return internal_err!("a join is marked that merges no columns"),
        };
        let plan =
            context.plan(TableFactor::NestedJoin { table_with_joins: Box::new(tables), alias: None })?;
        let LogicalPlan::Join(join) = plan else {
            return internal_err!("a join is planned as something else");
        };
        let mut columns = JoinedColumns::default();
        inner.iter().filter_map(|id| self.joins().get(id).cloned()).for_each(|inner| columns.extend(inner));
        let plan = merged_join(id, [join.left, join.right], join.join_type, names, &mut columns)?;
        self.joins().insert(id, columns);
        Ok(plan)
    }
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let plan = if let Some((id, tables)) = JoinId::of(&relation) {
            self.join(id, tables.clone(), context)?
        } else if matches!(relation, TableFactor::Table { .. } | TableFactor::Derived { .. })
            && !self.is_passed_on.swap(false, Ordering::Relaxed)
        {
            self.is_passed_on.store(true, Ordering::Relaxed);
            let plan = context.plan(relation)?;
            // Before it is walked: a chain of table expressions doubles it each time.
            super::size::check(&plan)?;
            cut(plan).data()?
        } else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The names of a `USING`, each once.
fn names_in(names: Vec<ObjectName>, context: &dyn RelationPlannerContext) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let [part] = &name.0[..] else { return Err(no_name(&name)) };
        let ident: &Ident = part.as_ident().ok_or_else(|| no_name(&name))?;
        let ident = context.normalize_ident(ident.clone());
        if !found.contains(&ident) {
            found.push(ident);
        }
    }
    Ok(found)
}

fn no_name(name: &ObjectName) -> datafusion::common::DataFusionError {
    let error = Error::new(ErrorKind::Invalid, format!("USING names columns of both sides, not '{name}'"));
    error.with_hint("leave out the table").into()
}
