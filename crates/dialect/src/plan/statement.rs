use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, ScalarUDF};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Sql;
use yeoul_base::ErrorKind;

use super::describe::with_type_names;
use super::relations::Relations;
use super::show_functions::with_defined;
use super::{insert_by_name, size, summary, used_schema};
use crate::functions::macros;
use crate::functions::variables::assign;
use crate::names::join_mark::mark;
use crate::names::join_names::name_columns;
use crate::parse::variables;
use crate::refuse::Questions;
use crate::rewrite::PlanWalk;
use crate::types::identity::Identity;
use crate::{Error, Result, names};

/// The most columns that are given another name because another one of the statement has theirs.
const NAMED_APART_MAX: usize = 16;

/// Plans a statement with a state of its own.
///
/// - What a join with `USING` merges is known once its sides are planned. Then the statement names its columns so, and is planned again.
/// - Questions are decided by the columns that planning knows.
/// - Columns that DataFusion would call the same, and refuse, get names of their own.
///
/// # Errors
/// Of the statement as it is written.
pub(crate) async fn planned(
    mut statement: Statement,
    mut questions: Questions,
    state: &mut SessionState,
) -> Result<LogicalPlan> {
    if let Statement::Statement(statement) = &statement
        && macros::carry_out(statement, state)?
    {
        return Ok(LogicalPlanBuilder::empty(false).build()?);
    }
    if let Some((name, query)) = variables::assigned(&statement) {
        let plan = Box::pin(planned(query, questions, state)).await?;
        assign(name, &plan, state)?;
        return Ok(LogicalPlanBuilder::empty(false).build()?);
    }
    used_schema::translate(&mut statement, state)?;
    let inner = match &mut statement {
        Statement::Explain(explain) => explain.statement.as_mut(),
        statement => statement,
    };
    if let Some(query) = summary::asked(inner) {
        let plan = Box::pin(planned(query.clone(), questions.clone(), state)).await?;
        *inner = summary::of(query, plan.schema().as_arrow());
    }
    if let Some(query) = insert_by_name::asked(inner) {
        let plan = Box::pin(planned(query, questions.clone(), state)).await?;
        insert_by_name::name_columns(inner, plan.schema().as_arrow());
    }
    let relations = Arc::new(Relations::default());
    state.register_relation_planner(Arc::clone(&relations) as _)?;
    // What `names::cast_keys` may write.
    state.register_udf(Arc::new(ScalarUDF::from(Identity::NamedCast)))?;
    let definition = is_view(&statement).then(|| statement.to_string());
    names::tables_alike::name_apart(&mut statement)?;
    let outcome = if mark(&mut statement) {
        if questions.has_table() {
            let text = "not supported: COLUMNS, and ILIKE or REPLACE behind b.*, in a statement that has a join with USING";
            return Err(Error::new(ErrorKind::Invalid, text).with_hint("name the columns"));
        }
        with_joined_columns(&mut statement, &mut questions, state, &relations).await?
    } else {
        state.statement_to_plan(statement.clone()).await
    };
    let plan = named_apart(&mut statement, questions, outcome, state).await?;
    let mut plan = with_type_names(with_defined(&statement, plan, state)?)?;
    if let LogicalPlan::Ddl(DdlStatement::CreateView(view)) = &mut plan {
        view.definition = definition;
    }
    Ok(plan)
}

fn is_view(statement: &Statement) -> bool {
    matches!(statement, Statement::Statement(statement) if matches!(**statement, Sql::CreateView(_)))
}

/// Lets a statement whose joins are marked name their columns, and plans it.
async fn with_joined_columns(
    statement: &mut Statement,
    questions: &mut Questions,
    state: &SessionState,
    relations: &Relations,
) -> Result<Result<LogicalPlan, DataFusionError>> {
    let mut marked = statement.clone();
    let mut known = 0;
    loop {
        let outcome = state.statement_to_plan(statement.clone()).await;
        let is_decided = match &outcome {
            Err(error) => questions.decide(&mut marked, error)?,
            Ok(_) => false,
        };
        // Each round decides a question, or comes to know another join, or is the last.
        let now_known = relations.joins().len();
        if now_known == known && !is_decided {
            return Ok(outcome);
        }
        known = now_known;
        *statement = marked.clone();
        name_columns(statement, &relations.joins())?;
    }
}

/// True if two keys of a `GROUP BY` have one name.
fn has_keys_alike(plan: &LogicalPlan) -> Result<bool> {
    let mut are_alike = false;
    plan.each_with_subqueries(&mut |node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            let mut names = HashSet::new();
            let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
            are_alike |= !keys.iter().all(|key| names.insert(key.schema_name().to_string()));
        }
        Ok(if are_alike { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(are_alike)
}

async fn named_apart(
    statement: &mut Statement,
    mut questions: Questions,
    mut outcome: Result<LogicalPlan, DataFusionError>,
    state: &SessionState,
) -> Result<LogicalPlan> {
    let mut first_error = None;
    let mut is_unmeasured = true;
    for _ in 0..=NAMED_APART_MAX + questions.len() {
        match outcome {
            Err(error) if questions.decide(statement, &error)? => {
                outcome = state.statement_to_plan(statement.clone()).await;
            }
            Err(error) if names::name_apart(statement, &error) => {
                first_error.get_or_insert(error);
                outcome = state.statement_to_plan(statement.clone()).await;
            }
            Ok(plan) if is_unmeasured => {
                size::check(&plan)?;
                is_unmeasured = false;
                outcome = Ok(plan);
            }
            // The optimizer would refuse it, or take one key for the other.
            Ok(plan) if has_keys_alike(&plan)? && names::name_casts(statement) => {
                outcome = state.statement_to_plan(statement.clone()).await;
            }
            _ => break,
        }
    }
    // What is said of a statement is about the one that was written.
    Ok(outcome.map_err(|error| first_error.unwrap_or(error))?)
}
