use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, JoinType, LogicalPlan, Subquery, SubqueryAlias, Window,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use yeoul_base::ErrorKind;

use super::lifted_columns::{namesakes, with_keys, with_own_names};
use super::shape::{Place, gives_one_row, has_subqueries, has_subquery, key_column};
use crate::Error;
use crate::rewrite::{PlanWalk, TreeWalk};

/// Subqueries that name a column of the query around them: correlated ones.
///
/// DataFusion makes joins of them. It lifts each condition on an outer column out of the subquery's filters, over whatever lies
/// between there and the top of the subquery, and joins by it. The answer is another one if a node in between looks at several
/// rows at once: a window, an outer join, an aggregate (datafusion#25507, #25519). This rule refuses such subqueries, and says
/// what to write instead.
///
/// Columns in the conditions are looked up by name: [`lifted_columns`](super::lifted_columns) gives them one where they need it.
///
/// DataFusion's other rules move conditions about, so this is the first rule of each of their rounds.
#[derive(Debug)]
pub(crate) struct CorrelatedSubqueries;

impl OptimizerRule for CorrelatedSubqueries {
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = config.alias_generator();
        plan.rewrite_up_with_subqueries(&mut |node| {
            check_condition(&node)?;
            let node = in_lateral_join(node, names)?.transform_data(above_inner_join)?;
            node.transform_data(|node| in_expressions(node, names))
        })
    }

    fn name(&self) -> &str {
        "correlated_subqueries"
    }
}

/// Mends the subquery on the right of a `JOIN LATERAL`.
fn in_lateral_join(mut node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &mut node else { return Ok(Transformed::no(node)) };
    let is_inner = join.join_type == JoinType::Inner;
    let place = if is_inner { Place::InnerLateral } else { Place::LeftLateral };
    let is_mended = match lateral_in(&mut join.right) {
        Some(subquery) => mend(subquery, place, names)?,
        None => false,
    };
    Ok(Transformed::new_transformed(node, is_mended))
}

fn lateral_in(right: &mut Arc<LogicalPlan>) -> Option<&mut Subquery> {
    let is_lateral = match right.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => matches!(alias.input.as_ref(), LogicalPlan::Subquery(_)),
        other => matches!(other, LogicalPlan::Subquery(_)),
    };
    if !is_lateral {
        return None;
    }
    match Arc::make_mut(right) {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral_in(&mut alias.input),
        _ => None,
    }
}

/// Makes a filter above an inner join of its conditions on outer columns, and of those with subqueries. DataFusion would move them
/// to one of its sides first, and below an alias there, where an outer column may have a namesake.
pub(super) fn above_inner_join(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut join = match node {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => join,
        other => return Ok(Transformed::no(other)),
    };
    let (mut above, mut own) = (Vec::new(), Vec::new());
    for condition in join.filter.iter().flat_map(split_conjunction) {
        let is_above = condition.contains_outer() || has_subquery(condition)?;
        let conditions = if is_above { &mut above } else { &mut own };
        conditions.push(condition.clone());
    }
    let Some(above) = conjunction(above) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    join.filter = conjunction(own);
    let filter = Filter::try_new(above, Arc::new(LogicalPlan::Join(join)))?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// Refuses an outer join of which a subquery that needs both sides decides: DataFusion has subqueries of one side, or of neither.
fn check_condition(node: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Join(join) = node else { return Ok(()) };
    if join.join_type == JoinType::Inner {
        return Ok(());
    }
    for condition in join.filter.iter().flat_map(split_conjunction) {
        let mut columns: Vec<Column> = condition.column_refs().into_iter().cloned().collect();
        let mut is_correlated = false;
        condition.clone().rewrite_up(&mut |mut expr| {
            if let Some((subquery, _)) = subquery_in(&mut expr) {
                let outer = outer_columns(&subquery.subquery)?;
                is_correlated |= !outer.is_empty();
                columns.extend(outer);
            }
            Ok(Transformed::no(expr))
        })?;
        let names_any = |side: &LogicalPlan| columns.iter().any(|column| side.schema().has_column(column));
        if is_correlated && names_any(&join.left) && names_any(&join.right) {
            return Err(refused(
                "in the ON of an outer join, of both of whose sides it is",
                "put the condition into the WHERE of a subquery that is joined: … LEFT JOIN LATERAL (SELECT … WHERE …) AS s ON TRUE",
            ));
        }
    }
    Ok(())
}

/// Mends the subqueries in a node's expressions.
pub(super) fn in_expressions(node: LogicalPlan, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    if !has_subqueries(&node)? {
        return Ok(Transformed::no(node));
    }
    let around = merge_schema(&node.inputs());
    let is_scan = node.inputs().is_empty();
    node.rewrite_expressions_of(&mut |expr| {
        expr.rewrite_up(&mut |mut expr| {
            let Some((subquery, place)) = subquery_in(&mut expr) else { return Ok(Transformed::no(expr)) };
            if !is_scan {
                check_levels(&subquery.subquery, &around)?;
            }
            let is_mended = mend(subquery, place, names)?;
            Ok(Transformed::new_transformed(expr, is_mended))
        })
    })
}

fn subquery_in(expr: &mut Expr) -> Option<(&mut Subquery, Place)> {
    let (subquery, place) = match expr {
        Expr::ScalarSubquery(subquery) => (subquery, Place::Value),
        Expr::InSubquery(is_in) => (&mut is_in.subquery, Place::Members),
        Expr::SetComparison(comparison) => (&mut comparison.subquery, Place::Members),
        Expr::Exists(exists) => (&mut exists.subquery, Place::Exists),
        _ => return None,
    };
    // A value is compared with that row as with another value: see `in_subqueries`.
    let is_value = place == Place::Members && gives_one_row(&subquery.subquery);
    Some((subquery, if is_value { Place::Value } else { place }))
}

/// Gives a subquery the columns that its conditions need, and tells whether it did.
///
/// # Errors
/// `Invalid` for one that DataFusion would give another answer.
fn mend(subquery: &mut Subquery, place: Place, names: &AliasGenerator) -> Result<bool> {
    let outer = outer_columns(&subquery.subquery)?;
    if outer.is_empty() {
        return Ok(false);
    }
    let check = Check { place, outer: &outer };
    let plan = with_keys(subquery.subquery.as_ref().clone(), place, names)?.transform_data(|plan| {
        let lifted = check.check(&plan)?;
        if !lifted.groups_others {
            return with_own_names(plan, &lifted.columns, names);
        }
        if namesakes(&lifted.columns, &plan.schema().columns()).is_empty() {
            return Ok(Transformed::no(plan));
        }
        Err(refused(
            "by another comparison than =, below an aggregate",
            "join and group in FROM: … FROM a LEFT JOIN b ON b.day < a.day GROUP BY a.id",
        ))
    })?;
    check.check_namesakes(&plan.data)?;
    if plan.transformed {
        subquery.subquery = Arc::new(plan.data);
    }
    Ok(plan.transformed)
}

/// The columns of the query around a subquery that it names itself. A subquery within it names columns of its own outer query.
fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.each(&mut |node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        node.each_expression(&mut |expr| {
            expr.each(&mut |expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    columns.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Refuses a subquery that names a column of a query further out than the one it stands in: DataFusion knows one level only.
fn check_levels(plan: &LogicalPlan, around: &DFSchema) -> Result<()> {
    match outer_columns(plan)?.into_iter().find(|column| !around.has_column(column)) {
        Some(column) => Err(refused(
            format!(
                "within another one: '{}' is not a column of the query that is directly around it",
                column.flat_name()
            ),
            "make one subquery of the two: join their tables in its FROM",
        )),
        None => Ok(()),
    }
}

fn refused(what: impl std::fmt::Display, hint: &str) -> DataFusionError {
    let message = format!("not supported: a subquery that names a column of the query around it, {what}");
    Error::new(ErrorKind::Invalid, message).with_hint(hint).into()
}

/// What DataFusion lifts out of a part of a subquery.
#[derive(Clone, Debug, Default)]
struct Lifted {
    /// Whether there are conditions on outer columns.
    is_any: bool,
    /// The subquery's own columns in them.
    columns: Vec<Column>,
    /// Those of them that have one value for each outer row.
    keys: Vec<Column>,
    /// True if a condition is something else than `key = outer column`.
    has_others: bool,
    /// Whether such a condition lies below an aggregate: DataFusion joins by it only if it can make others of it, which may not
    /// be about the same columns.
    groups_others: bool,
    /// True if it is lifted over an aggregate without `GROUP BY`, which gives a row even if no row meets the conditions.
    is_over_one_row: bool,
}

impl Lifted {
    fn and(mut self, other: Self) -> Self {
        self.is_any |= other.is_any;
        self.columns.extend(other.columns);
        self.keys.extend(other.keys);
        self.has_others |= other.has_others;
        self.groups_others |= other.groups_others;
        self.is_over_one_row |= other.is_over_one_row;
        self
    }
}

const NUMBER_ROWS: &str =
    "number the rows by row_number() OVER (PARTITION BY …) in a subquery of FROM, and join with that";
const JOIN_GROUPS: &str =
    "join with groups: … FROM a LEFT JOIN (SELECT key, … GROUP BY key) AS b ON b.key = a.key";

/// Refuses a grand total whose columns the value does not need, or not any more once it is simplified, and one with a `HAVING`. Its row is
/// there if no row meets the conditions, and DataFusion finds out by these columns what the value is then.
fn check_total(plan: &LogicalPlan) -> Result<()> {
    let (mut is_simple, mut is_filtered) = (true, false);
    let mut below = plan;
    loop {
        below = match below {
            LogicalPlan::Projection(projection) => {
                let context = SimplifyContext::builder().with_schema(Arc::clone(projection.input.schema()));
                let simplifier = ExprSimplifier::new(context.build());
                for expr in &projection.expr {
                    let simple = simplifier.simplify(expr.clone())?;
                    is_simple &=
                        !simple.column_refs().is_empty() && simple.column_refs() == expr.column_refs();
                }
                &projection.input
            }
            LogicalPlan::Filter(filter) => {
                is_filtered = true;
                &filter.input
            }
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Aggregate(aggregate)
                if aggregate.group_expr.is_empty() && (is_filtered || !is_simple) =>
            {
                let hint = "join with groups, and let COALESCE and CASE say what no row means: … FROM a LEFT JOIN (SELECT key, count(*) AS n FROM b GROUP BY key) AS b ON b.key = a.key";
                return Err(refused(
                    "as a value, with a HAVING without GROUP BY, or without its aggregate",
                    hint,
                ));
            }
            _ => return Ok(()),
        }
    }
}

/// True if the conditions of a subquery may be lifted to its top.
struct Check<'a> {
    place: Place,
    /// The outer columns that the subquery names.
    outer: &'a [Column],
}

impl Check<'_> {
    /// What is lifted to its top.
    ///
    /// # Errors
    /// `Invalid` if DataFusion would make something else of the subquery.
    fn check(&self, plan: &LogicalPlan) -> Result<Lifted> {
        let lifted = self.lifted(plan)?;
        match self.place {
            Place::Members | Place::Exists => self.check_limits(plan),
            Place::Value => check_total(plan).and_then(|()| self.check_groups(plan)),
            Place::InnerLateral | Place::LeftLateral => self.check_names(plan.schema().columns().iter()),
        }?;
        Ok(lifted)
    }

    /// What [`with_own_names`] leaves: a name that is not a column's own, but another's of the same name, is an error to DataFusion.
    fn check_namesakes(&self, plan: &LogicalPlan) -> Result<()> {
        let lifted = self.lifted(plan)?.columns;
        let mut columns = plan.schema().columns();
        columns.retain(|column| column.relation.is_some());
        match namesakes(&lifted, &columns).into_iter().next() {
            Some(name) => Err(refused(
                format_args!("with several columns '{name}' in FROM"),
                "give them different names in the subqueries of FROM: SELECT c AS c2",
            )),
            None => Ok(()),
        }
    }

    /// DataFusion takes each `LIMIT` out of an `EXISTS`, which is right at the top only.
    fn check_limits(&self, plan: &LogicalPlan) -> Result<()> {
        let below = match plan {
            LogicalPlan::Limit(limit) if self.place == Place::Exists && limit.skip.is_none() => &limit.input,
            other => other,
        };
        if below.has_any(&mut |node| Ok(matches!(node, LogicalPlan::Limit(_))))? {
            return Err(refused("in IN, EXISTS, ANY or ALL, with a LIMIT or OFFSET", NUMBER_ROWS));
        }
        Ok(())
    }

    /// A value is that of one group: the conditions have to say of which.
    fn check_groups(&self, plan: &LogicalPlan) -> Result<()> {
        let mut groups = plan;
        while let LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) = groups {
            groups = groups.inputs()[0];
        }
        let keys = self.lifted(groups)?.keys;
        if let LogicalPlan::Filter(having) = groups {
            groups = &having.input;
        }
        let LogicalPlan::Aggregate(aggregate) = groups else { return Ok(()) };
        if aggregate.group_expr.iter().flat_map(Expr::column_refs).all(|column| keys.contains(column)) {
            return Ok(());
        }
        Err(refused(
            "as a value, with a GROUP BY that may give several rows",
            "let WHERE or HAVING say of each column of the GROUP BY that it is = to one of the query around it",
        ))
    }

    /// What is lifted out of `plan`.
    fn lifted(&self, plan: &LogicalPlan) -> Result<Lifted> {
        if matches!(plan, LogicalPlan::Subquery(_)) {
            return Ok(Lifted::default()); // a JOIN LATERAL's: its outer columns are this query's own
        }
        let inputs = plan.inputs().into_iter().map(|input| self.lifted(input));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let is_lost = matches!(plan, LogicalPlan::Join(join) if is_lost_in_join(join, &inputs));
        let mut below = inputs.into_iter().reduce(Lifted::and).unwrap_or_default();
        if is_lost {
            return Err(refused(
                "on a side of an outer join, EXCEPT or INTERSECT that only adds to the other side's rows",
                "put the condition into the WHERE around it, if that is meant, or join with the query around it in its FROM",
            ));
        }
        match plan {
            LogicalPlan::Filter(filter) => return self.over_filter(filter, below),
            LogicalPlan::SubqueryAlias(alias) => return over_alias(alias, below),
            LogicalPlan::Projection(_) => return Ok(below),
            _ if !below.is_any => return Ok(below),
            _ if below.is_over_one_row => {
                return Err(refused(
                    "with an aggregate without GROUP BY, and more than a HAVING above it",
                    JOIN_GROUPS,
                ));
            }
            _ => {}
        }
        below.groups_others |= below.has_others
            && matches!(plan, LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty());
        match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => self.over_one_row(below),
            LogicalPlan::Aggregate(aggregate)
                if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) =>
            {
                Err(refused("with GROUPING SETS, ROLLUP or CUBE", JOIN_GROUPS))
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.is_empty() => self.over_distinct(below),
            LogicalPlan::Distinct(Distinct::All(_)) => self.over_distinct(below),
            LogicalPlan::Window(window) if !is_by_keys(window, &below) => Err(refused(
                "with a window function",
                "add the columns that are = to those of the query around it to the window's PARTITION BY",
            )),
            LogicalPlan::RecursiveQuery(_) => {
                Err(refused("within WITH RECURSIVE", "join with the recursive query in FROM"))
            }
            _ => Ok(below),
        }
    }

    fn over_filter(&self, filter: &Filter, mut below: Lifted) -> Result<Lifted> {
        let conditions = split_conjunction(&filter.predicate).into_iter();
        let conditions: Vec<&Expr> = conditions.filter(|condition| condition.contains_outer()).collect();
        // DataFusion knows what a HAVING is without rows only if it is about the aggregates and nothing else; and a row that
        // it drops comes back in the left join that JOIN LATERAL becomes.
        let is_clear = conditions.is_empty() && filter.predicate.any_column_refs();
        if below.is_over_one_row && !(is_clear && self.place != Place::InnerLateral) {
            return Err(refused("with an aggregate without GROUP BY and such a HAVING", JOIN_GROUPS));
        }
        below.is_any |= !conditions.is_empty();
        for condition in conditions {
            let key = key_column(condition, filter.input.schema())?;
            below.has_others |= key.is_none();
            below.keys.extend(key.cloned());
            below.columns.extend(condition.column_refs().into_iter().cloned());
        }
        self.check_names(below.columns.iter())?;
        Ok(below)
    }

    /// In a join's conditions, an outer column and one of the subquery's own differ by name only.
    fn check_names<'c>(&self, mut columns: impl Iterator<Item = &'c Column>) -> Result<()> {
        match columns.find(|column| self.outer.contains(column)) {
            Some(column) => Err(refused(
                format_args!("'{}', with a column of the same name of its own", column.flat_name()),
                "give the table another name in one of the two queries: FROM t AS t2",
            )),
            None => Ok(()),
        }
    }

    fn over_one_row(&self, mut below: Lifted) -> Result<Lifted> {
        if matches!(self.place, Place::Members | Place::Exists) {
            return Err(refused(
                "in IN, EXISTS, ANY or ALL, with an aggregate without GROUP BY",
                JOIN_GROUPS,
            ));
        }
        below.is_over_one_row = true;
        Ok(below)
    }

    /// In a join, rows that are alike may each match by another condition than `=`.
    fn over_distinct(&self, below: Lifted) -> Result<Lifted> {
        if self.place.is_lateral() && below.has_others {
            return Err(refused(
                "in JOIN LATERAL, with a DISTINCT and not just =",
                "write the DISTINCT in the query around it",
            ));
        }
        Ok(below)
    }
}

/// The names that the columns have above an alias.
fn over_alias(alias: &SubqueryAlias, mut below: Lifted) -> Result<Lifted> {
    let schema = alias.input.schema();
    if !below.columns.iter().all(|column| schema.has_column(column)) {
        return Err(refused(
            "in a subquery of FROM, whose rows do not have what it is compared with",
            "move that condition from the subquery of FROM into the WHERE around it",
        ));
    }
    for column in below.columns.iter_mut().chain(&mut below.keys) {
        column.relation = Some(alias.alias.clone());
    }
    Ok(below)
}

/// True if a condition below a join, or its own, decides what a row is joined with, and not whether it is there.
fn is_lost_in_join(join: &Join, inputs: &[Lifted]) -> bool {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let (left, right) = match join.join_type {
        Inner => return false,
        Left | LeftSemi | LeftAnti | LeftMark => (false, true),
        Right | RightSemi | RightAnti | RightMark => (true, false),
        Full => (true, true),
    };
    let is_own = join.filter.as_ref().is_some_and(Expr::contains_outer)
        || join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer());
    is_own || inputs.iter().zip([left, right]).any(|(input, is_lost)| is_lost && input.is_any)
}

/// True if each partition of a window has the rows of one outer row.
fn is_by_keys(window: &Window, below: &Lifted) -> bool {
    let is_by_keys = |expr: &Expr| match expr {
        Expr::WindowFunction(function) => {
            let partitions = &function.params.partition_by;
            below.keys.iter().all(|key| partitions.contains(&Expr::Column(key.clone())))
        }
        _ => false,
    };
    !below.has_others && window.window_expr.iter().all(|expr| is_by_keys(&expr.clone().unalias()))
}
