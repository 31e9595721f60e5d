//! A subquery for all rows of the query around it at once.

use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, NullEquality, Result, ScalarValue, not_impl_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, ExprSchemable, FetchType, Filter, Join,
    JoinConstraint, JoinType, LogicalPlan, Projection, SkipType, SortExpr, SubqueryAlias, Union, Values,
    Window, lit, when,
};

use super::super::shape::has_subquery;
use super::outer_columns::{Renamed, free_columns, free_columns_below, is_lateral};
use crate::rewrite::{TreeWalk, columns_of};
use crate::types::identity::Identity;

/// A subquery's rows for each of the values that its outer columns have.
pub(super) struct Dependent {
    pub(super) plan: LogicalPlan,
    /// The columns of `plan` that hold the values, in the order of [`DependentJoin::outer`].
    pub(super) keys: Vec<Column>,
}

/// A subquery that depends on the rows of the query around it, as a plan that does not.
///
/// It begins with the distinct values of the outer columns, the *domain*, and joins them to the parts of the subquery that name an
/// outer column. From there on each row has the values that it is for, the *keys*: all that looks at several rows at once does so
/// for each of the keys separately. Such rows are joined with those of the query around the subquery by equal keys, of which nulls
/// are equal too (Neumann and Kemper, Unnesting Arbitrary Queries, 2015).
pub(super) struct DependentJoin<'a> {
    /// The query around the subquery.
    pub(super) around: &'a LogicalPlan,
    /// Its columns that the subquery names.
    pub(super) outer: &'a [Column],
    pub(super) names: &'a AliasGenerator,
}

impl DependentJoin<'_> {
    /// The rows of a subquery for each of the keys.
    ///
    /// # Errors
    /// For what cannot be done for several keys at once.
    pub(super) fn rows(&self, plan: &LogicalPlan) -> Result<Dependent> {
        if !self.names_outer(plan)? {
            return self.with_domain(plan.clone());
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = self.rows(&projection.input)?;
                projected(self.own_named(&projection.expr, plan, &input.keys)?, input)
            }
            LogicalPlan::Filter(filter) => {
                let Dependent { plan: input, keys } = self.rows(&filter.input)?;
                let predicate = self.own(&filter.predicate, plan, &keys)?;
                let filter = Filter::try_new(predicate, Arc::new(input))?;
                Ok(Dependent { plan: LogicalPlan::Filter(filter), keys })
            }
            // What stands above does not see an order.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.rows(&sort.input),
            LogicalPlan::Sort(_) => self.limited(plan, 0, None),
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (SkipType::Literal(skip), FetchType::Literal(fetch)) => {
                    self.limited(&limit.input, skip, fetch)
                }
                _ => not_impl_err!("a limit that is not a number"),
            },
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                self.grand_total(aggregate)
            }
            LogicalPlan::Aggregate(aggregate) => self.groups(aggregate, plan),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Dependent { plan, keys } = self.rows(input)?;
                Ok(Dependent { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), keys })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.first_each(distinct, plan),
            LogicalPlan::Window(window) => self.windows(window, plan),
            LogicalPlan::SubqueryAlias(alias) => {
                let Dependent { plan: input, keys } = self.rows(&alias.input)?;
                let keys =
                    keys.into_iter().map(|key| Column::new(Some(alias.alias.clone()), key.name)).collect();
                let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                Ok(Dependent { plan: LogicalPlan::SubqueryAlias(alias), keys })
            }
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Join(join) => self.join(join, plan),
            other => not_impl_err!("{} of each row of the query around it", other.display()),
        }
    }

    fn names_outer(&self, plan: &LogicalPlan) -> Result<bool> {
        Ok(self.is_named_in(&free_columns(plan)?))
    }

    fn is_named_in(&self, columns: &[Column]) -> bool {
        columns.iter().any(|column| self.outer.contains(column))
    }

    fn domain(&self) -> Result<Dependent> {
        let new_key = |_: &Column| Column::new_unqualified(self.names.next("__outer"));
        let keys: Vec<Column> = self.outer.iter().map(new_key).collect();
        let named = self.outer.iter().zip(&keys).map(|(outer, key)| {
            Ok(comparable(Expr::Column(outer.clone()), self.around.schema())?.alias(&key.name))
        });
        let named = named.collect::<Result<_>>()?;
        let values = Projection::try_new(named, Arc::new(self.around.clone()))?;
        let distinct = Distinct::All(Arc::new(LogicalPlan::Projection(values)));
        Ok(Dependent { plan: LogicalPlan::Distinct(distinct), keys })
    }

    /// Rows that are the same for each of the keys.
    fn with_domain(&self, plan: LogicalPlan) -> Result<Dependent> {
        let domain = self.domain()?;
        if matches!(&plan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row && plan.schema().fields().is_empty())
        {
            return Ok(domain);
        }
        let (none, equality) = (Vec::new(), NullEquality::NullEqualsNothing);
        let plan = joined(domain.plan, plan, none, None, JoinType::Inner, equality)?;
        Ok(Dependent { plan, keys: domain.keys })
    }

    /// An expression of `node`, over inputs that have the keys.
    fn own(&self, expr: &Expr, node: &LogicalPlan, keys: &[Column]) -> Result<Expr> {
        Renamed { outer: self.outer, keys }.own(expr.clone(), &node.inputs())
    }

    /// Expressions that are columns, which keep their names.
    fn own_named(&self, exprs: &[Expr], node: &LogicalPlan, keys: &[Column]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| Ok(named_like(expr, self.own(expr, node, keys)?))).collect()
    }

    fn own_order(&self, order: &[SortExpr], node: &LogicalPlan, keys: &[Column]) -> Result<Vec<SortExpr>> {
        let own = |by: &SortExpr| Ok(SortExpr::new(self.own(&by.expr, node, keys)?, by.asc, by.nulls_first));
        order.iter().map(own).collect()
    }

    /// The rows of each key after the first `skip` of them, and no more than `fetch`.
    fn limited(&self, plan: &LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<Dependent> {
        match plan {
            // It may leave out columns that are sorted by.
            LogicalPlan::Projection(projection) => {
                let input = self.limited(&projection.input, skip, fetch)?;
                projected(self.own_named(&projection.expr, plan, &input.keys)?, input)
            }
            LogicalPlan::Sort(sort) => {
                let input = self.rows(&sort.input)?;
                let order = self.own_order(&sort.expr, plan, &input.keys)?;
                let fetch = match (sort.fetch, fetch) {
                    (Some(sorted), Some(fetch)) => Some(fetch.min(sorted.saturating_sub(skip))),
                    (Some(sorted), None) => Some(sorted.saturating_sub(skip)),
                    (None, fetch) => fetch,
                };
                let partition = key_columns(&input.keys);
                self.numbered(input, partition, order, skip, fetch)
            }
            other => {
                let input = self.rows(other)?;
                let partition = key_columns(&input.keys);
                self.numbered(input, partition, Vec::new(), skip, fetch)
            }
        }
    }

    fn numbered(
        &self,
        rows: Dependent,
        partition: Vec<Expr>,
        order: Vec<SortExpr>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Dependent> {
        let number = Column::new_unqualified(self.names.next("__row"));
        let bound = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
        let mut within = vec![Expr::Column(number.clone()).gt(bound(skip))];
        within
            .extend(fetch.map(|fetch| Expr::Column(number.clone()).lt_eq(bound(skip.saturating_add(fetch)))));
        let columns = columns_of(&rows.plan);
        let function = row_number().partition_by(partition).order_by(order).build()?;
        let window = Window::try_new(vec![function.alias(number.name)], Arc::new(rows.plan))?;
        let window = LogicalPlan::Window(window);
        let plan = match conjunction(within) {
            Some(within) => LogicalPlan::Filter(Filter::try_new(within, Arc::new(window))?),
            None => window,
        };
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        Ok(Dependent { plan, keys: rows.keys })
    }

    /// `DISTINCT ON`.
    fn first_each(&self, distinct: &DistinctOn, node: &LogicalPlan) -> Result<Dependent> {
        let input = self.rows(&distinct.input)?;
        let alike = distinct.on_expr.iter().map(|expr| self.own(expr, node, &input.keys));
        let partition =
            alike.collect::<Result<Vec<_>>>()?.into_iter().chain(key_columns(&input.keys)).collect();
        let order = self.own_order(distinct.sort_expr.as_deref().unwrap_or_default(), node, &input.keys)?;
        let selected = self.own_named(&distinct.select_expr, node, &input.keys)?;
        projected(selected, self.numbered(input, partition, order, 0, Some(1))?)
    }

    /// An aggregate without `GROUP BY`, which has a row for each key, even if no row is aggregated.
    fn grand_total(&self, aggregate: &Aggregate) -> Result<Dependent> {
        let Dependent { plan: domain, keys } = self.domain()?;
        let (rows, on, condition) = match aggregate.input.as_ref() {
            // The join compares as well as the filter would.
            LogicalPlan::Filter(filter)
                if !self.names_outer(&filter.input)? && !has_subquery(&filter.predicate)? =>
            {
                let predicate = self.own(&filter.predicate, &aggregate.input, &keys)?;
                (filter.input.as_ref().clone(), Vec::new(), Some(predicate))
            }
            input => {
                let rows = self.rows(input)?;
                (rows.plan, pairs(&keys, &rows.keys), None)
            }
        };
        let present = Column::new_unqualified(self.names.next("__present"));
        let columns = columns_of(&rows).into_iter().chain([lit(true).alias(&present.name)]).collect();
        let rows = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(rows))?);
        let rows = joined(domain, rows, on, condition, JoinType::Left, NullEquality::NullEqualsNull)?;
        let aggregates = aggregate.aggr_expr.iter().map(|expr| {
            let own = Renamed { outer: self.outer, keys: &keys }.own(expr.clone(), &[&aggregate.input])?;
            Ok(named_like(expr, of_rows_with(own, &present)?))
        });
        let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
        let plan = Aggregate::try_new(Arc::new(rows), key_columns(&keys), aggregates)?;
        Ok(Dependent { plan: LogicalPlan::Aggregate(plan), keys })
    }

    /// An aggregate with `GROUP BY`: the keys are further ones.
    fn groups(&self, aggregate: &Aggregate, node: &LogicalPlan) -> Result<Dependent> {
        let Dependent { plan: input, keys } = self.rows(&aggregate.input)?;
        let groups = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(sets)] => {
                let sets = sets_of(sets)?.into_iter().map(|set| {
                    // Before the others, where they change no bit of the set's number.
                    let own = set.iter().map(|expr| self.own(expr, node, &keys));
                    key_columns(&keys).into_iter().map(Ok).chain(own).collect::<Result<Vec<_>>>()
                });
                let sets = sets.collect::<Result<Vec<_>>>()?;
                let count = GroupingSet::GroupingSets(sets.clone()).distinct_expr().len();
                if count > GROUPING_SET_KEYS_MAX {
                    return not_impl_err!("GROUPING SETS of {count} keys");
                }
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
            }
            groups => {
                let mut groups = self.own_named(groups, node, &keys)?;
                groups.extend(key_columns(&keys));
                groups
            }
        };
        let aggregates = self.own_named(&aggregate.aggr_expr, node, &keys)?;
        let plan = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        Ok(Dependent { plan: LogicalPlan::Aggregate(plan), keys })
    }

    fn windows(&self, window: &Window, node: &LogicalPlan) -> Result<Dependent> {
        let Dependent { plan: input, keys } = self.rows(&window.input)?;
        let windows = window.window_expr.iter().map(|expr| {
            let own = self.own(expr, node, &keys)?.rewrite_up(&mut |expr| match expr {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(key_columns(&keys));
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                other => Ok(Transformed::no(other)),
            });
            Ok(named_like(expr, own.data()?))
        });
        let plan = Window::try_new(windows.collect::<Result<_>>()?, Arc::new(input))?;
        Ok(Dependent { plan: LogicalPlan::Window(plan), keys })
    }

    fn union(&self, union: &Union) -> Result<Dependent> {
        let mut keys: Vec<Column> = Vec::new();
        let mut inputs = Vec::new();
        let names = || union.schema.fields().iter().map(|field| field.name());
        for input in &union.inputs {
            // In the order of the columns, by which those of a union are told apart.
            let columns = columns_of(input).into_iter().zip(names()).map(|(column, name)| column.alias(name));
            let rows = self.rows(input)?;
            if keys.is_empty() {
                keys.extend(rows.keys.iter().map(|_| Column::new_unqualified(self.names.next("__outer"))));
            }
            let named = rows.keys.into_iter().zip(&keys).map(|(own, key)| Expr::Column(own).alias(&key.name));
            let columns = columns.chain(named).collect();
            inputs
                .push(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(rows.plan))?)));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let columns = columns_of(&plan).into_iter().zip(union.schema.iter());
        let columns = columns
            .map(|(column, (relation, field))| column.alias_qualified(relation.cloned(), field.name()))
            .chain(key_columns(&keys))
            .collect();
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        Ok(Dependent { plan, keys })
    }

    /// Rows that are written out: each is one for each key.
    fn values(&self, values: &Values) -> Result<Dependent> {
        let keys: Vec<Column> =
            self.outer.iter().map(|_| Column::new_unqualified(self.names.next("__outer"))).collect();
        let mut rows = Vec::new();
        for row in &values.values {
            let domain = self.domain()?;
            let own = Renamed { outer: self.outer, keys: &domain.keys };
            let mut columns = Vec::new();
            for (value, field) in row.iter().zip(values.schema.fields()) {
                columns.push(own.own(value.clone(), &[])?.alias(field.name()));
            }
            let named = domain.keys.iter().zip(&keys);
            columns.extend(named.map(|(own, key)| Expr::Column(own.clone()).alias(&key.name)));
            let row = Projection::try_new(columns, Arc::new(domain.plan))?;
            rows.push(Arc::new(LogicalPlan::Projection(row)));
        }
        let plan = match rows.as_slice() {
            [row] => row.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?),
        };
        Ok(Dependent { plan, keys })
    }

    fn join(&self, join: &Join, node: &LogicalPlan) -> Result<Dependent> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        if join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer()) {
            return not_impl_err!("a key of a join that is not of its sides");
        }
        let right_columns = free_columns(&join.right)?;
        if is_lateral(&join.right) {
            return self.join_lateral(join, node);
        }
        if right_columns.iter().any(|column| join.left.schema().has_column(column)) {
            return not_impl_err!("a column that may be of a join's other side");
        }
        let left_depends = self.names_outer(&join.left)?;
        let right_depends = self.is_named_in(&right_columns);
        // Each row of the join is one of this side's, at least.
        let is_left = match join.join_type {
            Inner => left_depends || !right_depends,
            Left | LeftSemi | LeftAnti => true,
            Right | RightSemi | RightAnti => false,
            Full => return self.join_full(join, node),
            LeftMark | RightMark => return not_impl_err!("a join of this kind"),
        };
        let side = |rows: bool, plan: &Arc<LogicalPlan>| {
            if rows {
                self.rows(plan)
            } else {
                Ok(Dependent { plan: plan.as_ref().clone(), keys: Vec::new() })
            }
        };
        let left = side(is_left || left_depends, &join.left)?;
        let right = side(!is_left || right_depends, &join.right)?;
        let keys = if is_left { left.keys.clone() } else { right.keys.clone() };
        let plan = self.joined_like(join, node, left, right, &keys)?;
        Ok(Dependent { plan, keys })
    }

    /// `JOIN LATERAL`, whose right side finds the keys on its left.
    fn join_lateral(&self, join: &Join, node: &LogicalPlan) -> Result<Dependent> {
        let below = free_columns_below(&join.right, join.left.schema())?;
        let left = self.rows(&join.left)?;
        let right = if self.is_named_in(&below) {
            Renamed { outer: self.outer, keys: &left.keys }.lateral(&join.right, &join.left)?
        } else {
            join.right.as_ref().clone()
        };
        let keys = left.keys.clone();
        let right = Dependent { plan: right, keys: Vec::new() };
        let plan = self.joined_like(join, node, left, right, &keys)?;
        Ok(Dependent { plan, keys })
    }

    fn join_full(&self, join: &Join, node: &LogicalPlan) -> Result<Dependent> {
        let (left, right) = (self.rows(&join.left)?, self.rows(&join.right)?);
        let mut keys = Vec::new();
        let mut columns = columns_of(node);
        for (left, right) in left.keys.iter().zip(&right.keys) {
            let key = Column::new_unqualified(self.names.next("__outer"));
            // A row has them of the side that it is of.
            let either = coalesce(vec![Expr::Column(left.clone()), Expr::Column(right.clone())]);
            columns.push(either.alias(&key.name));
            keys.push(key);
        }
        let own = left.keys.clone();
        let plan = self.joined_like(join, node, left, right, &own)?;
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        Ok(Dependent { plan, keys })
    }

    /// `join` of sides of which one has the keys, or both.
    fn joined_like(
        &self,
        join: &Join,
        node: &LogicalPlan,
        left: Dependent,
        right: Dependent,
        keys: &[Column],
    ) -> Result<LogicalPlan> {
        let own = join.filter.iter().map(|condition| self.own(condition, node, keys));
        let mut conditions = own.collect::<Result<Vec<_>>>()?;
        let mut on = join.on.clone();
        let mut equality = join.null_equality;
        if !(left.keys.is_empty() || right.keys.is_empty()) {
            if equality == NullEquality::NullEqualsNothing {
                conditions.extend(on.iter().map(|(left, _)| left.clone().is_not_null()));
                equality = NullEquality::NullEqualsNull;
            }
            on.extend(pairs(&left.keys, &right.keys));
        }
        joined(left.plan, right.plan, on, conjunction(conditions), join.join_type, equality)
    }
}

/// DataFusion numbers the sets of more keys by larger numbers.
const GROUPING_SET_KEYS_MAX: usize = 8;

/// The sets of a `GROUPING SETS`, `ROLLUP` or `CUBE`.
fn sets_of(sets: &GroupingSet) -> Result<Vec<Vec<Expr>>> {
    let sets = match sets {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(_) | GroupingSet::Cube(_) => {
            // They have the set without keys.
            return not_impl_err!("ROLLUP or CUBE");
        }
    };
    if sets.iter().any(Vec::is_empty) {
        return not_impl_err!("a set of all rows, which is there even without rows");
    }
    Ok(sets)
}

/// An aggregate that leaves out the rows which only hold a key.
fn of_rows_with(aggregate: Expr, present: &Column) -> Result<Expr> {
    let aggregate = aggregate.rewrite_up(&mut |expr| match expr {
        Expr::AggregateFunction(mut function) => {
            let is_present = Expr::Column(present.clone());
            let filter = match function.params.filter.take() {
                Some(filter) => is_present.and(*filter),
                None => is_present,
            };
            function.params.filter = Some(Box::new(filter));
            Ok(Transformed::yes(Expr::AggregateFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    });
    aggregate.data()
}

/// A float without -0, which groups with 0, and of which a join's filters do not know that it is equal.
pub(super) fn comparable(value: Expr, schema: &DFSchema) -> Result<Expr> {
    let kind = value.get_type(schema)?;
    if !kind.is_floating() {
        return Ok(value);
    }
    let zero = lit(ScalarValue::new_zero(&kind)?);
    when(value.clone().eq(zero.clone()), zero).otherwise(value)
}

fn projected(mut exprs: Vec<Expr>, input: Dependent) -> Result<Dependent> {
    exprs.extend(key_columns(&input.keys));
    let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input.plan))?);
    Ok(Dependent { plan, keys: input.keys })
}

fn named_like(old: &Expr, new: Expr) -> Expr {
    NamePreserver::new_for_projection().save(old).restore(new)
}

pub(super) fn key_columns(keys: &[Column]) -> Vec<Expr> {
    keys.iter().cloned().map(Expr::Column).collect()
}

pub(super) fn pairs(left: &[Column], right: &[Column]) -> Vec<(Expr, Expr)> {
    key_columns(left).into_iter().zip(key_columns(right)).collect()
}

/// A join of sides of whose columns none is known to determine others.
///
/// DataFusion believes a group's key to be unique if that was so on one side of a join below, even where the other side repeats it
/// and is a key as well. It then leaves out a `DISTINCT`. Domains are distinct, so nearly each join here would be such a one.
pub(super) fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    let (left, right) = (Arc::new(undetermined(left)?), Arc::new(undetermined(right)?));
    // A rule may still make keys of the filter, whose nulls are not equal.
    let null_equality = if on.is_empty() { NullEquality::NullEqualsNothing } else { null_equality };
    let join = Join::try_new(left, right, on, filter, join_type, JoinConstraint::On, null_equality, false)?;
    Ok(LogicalPlan::Join(join))
}

fn undetermined(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Only the optimizer makes a group of it, which has a key.
    let is_distinct = plan.has_any(&mut |node| Ok(matches!(node, LogicalPlan::Distinct(_))))?;
    if !is_distinct && plan.schema().functional_dependencies().is_empty() {
        return Ok(plan);
    }
    let columns = plan.schema().iter().map(|(relation, field)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        Identity::Alone.call(column).alias_qualified(relation.cloned(), field.name())
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
