//! Queries: `WITH`, set operations, `ORDER BY`, `LIMIT` and what else stands around a `SELECT`.

use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;

use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Expr, ExprWithAlias, ExprWithAliasAndOrderBy, Fetch, JoinConstraint,
    JoinOperator, LimitClause, NamedWindowDefinition, Offset, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, PipeOperator, Query, SetExpr, SetOperator, SetQuantifier, Value, ValueWithSpan, Values,
    With, visit_expressions, visit_relations,
};

use super::refused::{Clause, absent};
use super::syntax::{all_of, derived, plain};
use super::ties;
use super::walk::Walk;
use crate::Result;
use crate::names::normalized;
use crate::parse::other_statements::SHARE;

impl Walk<'_> {
    /// A subquery of an expression, or a lateral one.
    pub(super) fn inner_query(&mut self, query: &mut Query) -> Result<()> {
        let was_inside = mem::replace(&mut self.is_inside, true);
        let windows = mem::take(&mut self.windows);
        let outcome = self.query(query);
        (self.is_inside, self.windows) = (was_inside, windows);
        outcome
    }

    pub(super) fn query(&mut self, query: &mut Query) -> Result<()> {
        let may_make_a_table = mem::replace(&mut self.may_make_a_table, false);
        order_all_columns(query);
        honour_fetch(query)?;
        honour_share(query)?;
        if self.is_inside {
            ties::distinct_on(query)?;
        }
        let twice = query.with.as_ref().map(|with| read_twice(with, query)).unwrap_or_default();
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        absent(locks, Clause::RowLock)?;
        absent(for_clause, Clause::ForDocument)?;
        absent(settings, Clause::QuerySettings)?;
        absent(format_clause, Clause::QueryFormat)?;
        if let Some(with) = with {
            self.with(with, &twice)?;
        }
        self.may_make_a_table = may_make_a_table;
        self.set_expr(body)?;
        let windows = mem::replace(&mut self.windows, windows_of(body));
        let ordered = order_by.as_mut().map_or(Ok(()), |order_by| self.order_by(order_by));
        self.windows = windows;
        ordered?;
        limit_clause.as_mut().map_or(Ok(()), |limit| self.limit_clause(limit))?;
        pipe_operators.iter_mut().try_for_each(|operator| self.pipe_operator(operator))
    }

    fn with(&mut self, with: &mut With, twice: &HashSet<String>) -> Result<()> {
        let With { with_token: _, recursive, cte_tables } = with;
        let mut volatile = HashSet::new();
        for cte in cte_tables {
            if *recursive {
                honour_tail(cte)?;
            }
            let Cte { alias, query, from, materialized, closing_paren_token: _ } = cte;
            absent(from, Clause::CteFrom)?;
            self.table_alias(alias)?;
            self.query(query)?;
            // DataFusion computes the query wherever its name stands.
            let name = normalized(&alias.name);
            let may_be_others = match materialized {
                Some(CteAsMaterialized::Materialized) => {
                    self.is_volatile(query, &volatile) || takes_some_rows(query)
                }
                Some(CteAsMaterialized::NotMaterialized) | None => self.is_volatile(query, &volatile),
            };
            if may_be_others {
                if twice.contains(&name) {
                    return Err(Clause::VolatileCte.error_at_name(&alias.name));
                }
                volatile.insert(name);
            }
        }
        Ok(())
    }

    /// True if a query calls a function that gives other values each time, or reads one of `volatile`.
    fn is_volatile(&self, query: &Query, volatile: &HashSet<String>) -> bool {
        let functions = self.state.scalar_functions();
        let called = visit_expressions(query, |expr| {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = function.name.to_string().to_lowercase();
            match functions.get(&name) {
                Some(function) if function.signature().volatility == Volatility::Volatile => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        });
        called.is_break() || reads(query, &|name| volatile.contains(name)) > 0
    }

    fn set_expr(&mut self, mut body: &mut SetExpr) -> Result<()> {
        // There may be thousands in a chain: recursion would overflow the stack.
        loop {
            body = match body {
                SetExpr::Select(select) => return self.select(select),
                SetExpr::Query(query) => return self.query(query),
                SetExpr::SetOperation { left, op: _, set_quantifier: _, right } => {
                    self.set_expr(right)?;
                    left
                }
                SetExpr::Values(values) => return self.values(values),
                // Planning refuses those.
                SetExpr::Insert(_)
                | SetExpr::Update(_)
                | SetExpr::Delete(_)
                | SetExpr::Merge(_)
                | SetExpr::Table(_) => return Ok(()),
            }
        }
    }

    pub(super) fn values(&mut self, values: &mut Values) -> Result<()> {
        let Values { explicit_row: _, value_keyword: _, rows } = values;
        rows.iter_mut().try_for_each(|row| self.exprs(&mut row.content))
    }

    fn order_by(&mut self, order_by: &mut OrderBy) -> Result<()> {
        // Planning refuses INTERPOLATE.
        let OrderBy { kind, interpolate: _ } = order_by;
        match kind {
            OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => Ok(()),
            OrderByKind::Expressions(keys) => self.sort_keys(keys),
        }
    }

    pub(super) fn sort_keys(&mut self, keys: &mut [OrderByExpr]) -> Result<()> {
        keys.iter_mut().try_for_each(|key| {
            // Planning refuses WITH FILL.
            let OrderByExpr { expr, options: OrderByOptions { asc: _, nulls_first: _ }, with_fill: _ } = key;
            self.expr(expr)
        })
    }

    fn limit_clause(&mut self, limit: &mut LimitClause) -> Result<()> {
        match limit {
            // Planning refuses LIMIT … BY.
            LimitClause::LimitOffset { limit, offset, limit_by: _ } => {
                limit.as_mut().map_or(Ok(()), |limit| self.expr(limit))?;
                match offset {
                    Some(Offset { value, rows: _ }) => self.expr(value),
                    None => Ok(()),
                }
            }
            LimitClause::OffsetCommaLimit { offset, limit } => {
                self.expr(offset)?;
                self.expr(limit)
            }
        }
    }

    fn pipe_operator(&mut self, operator: &mut PipeOperator) -> Result<()> {
        match operator {
            PipeOperator::Limit { expr, offset } => {
                self.expr(expr)?;
                offset.as_mut().map_or(Ok(()), |offset| self.expr(offset))
            }
            PipeOperator::Where { expr } => self.expr(expr),
            PipeOperator::OrderBy { exprs } => self.sort_keys(exprs),
            PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => self.select_items(exprs),
            PipeOperator::As { alias: _ } => Ok(()),
            PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
                self.pipe_columns(full_table_exprs)?;
                // DataFusion groups by the number itself.
                let is_place = |key: &&ExprWithAliasAndOrderBy| {
                    matches!(
                        &key.expr.expr,
                        Expr::Value(ValueWithSpan { value: Value::Number(_, _), span: _ })
                    )
                };
                if group_by_expr.iter().any(|key| is_place(&key)) {
                    return Err(Clause::PipePlace.error());
                }
                self.pipe_columns(group_by_expr)
            }
            PipeOperator::Union { set_quantifier: _, queries }
            | PipeOperator::Intersect { set_quantifier: _, queries }
            | PipeOperator::Except { set_quantifier: _, queries } => {
                queries.iter_mut().try_for_each(|query| self.query(query))
            }
            PipeOperator::Join(join) => {
                // DataFusion gives both columns of the key, or the left one.
                if let JoinOperator::Right(merged)
                | JoinOperator::RightOuter(merged)
                | JoinOperator::FullOuter(merged) = &join.join_operator
                    && matches!(merged, JoinConstraint::Using(_) | JoinConstraint::Natural)
                {
                    return Err(Clause::PipeMerge.error());
                }
                self.join(join)
            }
            // Planning refuses those.
            PipeOperator::Set { assignments: _ }
            | PipeOperator::Drop { columns: _ }
            | PipeOperator::TableSample { sample: _ }
            | PipeOperator::Rename { mappings: _ }
            | PipeOperator::Call { function: _, alias: _ }
            | PipeOperator::Pivot { aggregate_functions: _, value_column: _, value_source: _, alias: _ }
            | PipeOperator::Unpivot { value_column: _, name_column: _, unpivot_columns: _, alias: _ } => {
                Ok(())
            }
        }
    }

    fn pipe_columns(&mut self, columns: &mut [ExprWithAliasAndOrderBy]) -> Result<()> {
        columns.iter_mut().try_for_each(|column| {
            let ExprWithAliasAndOrderBy {
                expr: ExprWithAlias { expr, alias: _ },
                order_by: OrderByOptions { asc, nulls_first },
            } = column;
            absent(asc, Clause::PipeOrder)?;
            absent(nulls_first, Clause::PipeOrder)?;
            self.expr(expr)
        })
    }
}

/// The windows that the `ORDER BY` around a `SELECT` may name.
fn windows_of(body: &SetExpr) -> Vec<NamedWindowDefinition> {
    body.as_select().map(|select| select.named_window.clone()).unwrap_or_default()
}

/// Lets `ORDER BY ALL` order what is no `SELECT`: DataFusion would not order it.
fn order_all_columns(query: &mut Query) {
    let all = matches!(&query.order_by, Some(OrderBy { kind: OrderByKind::All(_), interpolate: _ }));
    if all && query.body.as_select().is_none() {
        let body = mem::replace(query.body.as_mut(), SetExpr::Select(Box::new(all_of(Vec::new()))));
        *query.body = SetExpr::Select(Box::new(all_of(vec![derived(plain(body), None)])));
    }
}

/// Writes `FETCH` as `LIMIT`, and `WITH TIES` as a window function.
fn honour_fetch(query: &mut Query) -> Result<()> {
    let Some(Fetch { with_ties, percent, quantity }) = query.fetch.take() else { return Ok(()) };
    absent(&percent, Clause::FetchPercent)?;
    let quantity = quantity.unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false)));
    let clause = query.limit_clause.get_or_insert(LimitClause::LimitOffset {
        limit: None,
        offset: None,
        limit_by: Vec::new(),
    });
    match clause {
        LimitClause::LimitOffset { limit: limit @ None, offset, limit_by: _ } => {
            if with_ties {
                let offset = offset.as_ref().map(|offset| offset.value.clone());
                return ties::with_ties(query, quantity, offset);
            }
            *limit = Some(quantity);
            Ok(())
        }
        LimitClause::LimitOffset { limit: Some(_), offset: _, limit_by: _ }
        | LimitClause::OffsetCommaLimit { offset: _, limit: _ } => Err(Clause::FetchAndLimit.error()),
    }
}

/// Writes `LIMIT … %` as a window function.
fn honour_share(query: &mut Query) -> Result<()> {
    let Some(LimitClause::LimitOffset { limit, offset, limit_by: _ }) = &mut query.limit_clause else {
        return Ok(());
    };
    let Some(Expr::Function(call)) = limit.as_ref() else { return Ok(()) };
    let is_marked =
        call.name.0.first().and_then(|part| part.as_ident()).is_some_and(|name| name.value == SHARE);
    if !is_marked {
        return Ok(());
    }
    let percent = call.args.to_string();
    let percent = percent.trim_matches(['(', ')']).to_owned();
    let offset = offset.as_ref().map(|offset| offset.value.clone());
    *limit = None;
    ties::with_share(query, &percent, offset)
}

/// Keeps what stands around the `UNION` of a query in `WITH RECURSIVE`, which DataFusion drops.
fn honour_tail(cte: &mut Cte) -> Result<()> {
    let SetExpr::SetOperation { left: _, op: SetOperator::Union, set_quantifier, right: _ } =
        cte.query.body.as_ref()
    else {
        return Ok(());
    };
    let name = normalized(&cte.alias.name);
    let is_recursive = reads(&cte.query, &|read| read == name) > 0;
    let by_name = match set_quantifier {
        SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName => true,
        SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None => false,
    };
    if is_recursive && by_name {
        return Err(Clause::RecursiveByName.error_at_name(&cte.alias.name));
    }
    let Query {
        with,
        body: _,
        order_by,
        limit_clause,
        fetch,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators,
    } = cte.query.as_ref();
    let is_bare = with.is_none()
        && order_by.is_none()
        && limit_clause.is_none()
        && fetch.is_none()
        && pipe_operators.is_empty();
    if is_bare {
        return Ok(());
    }
    if is_recursive {
        return Err(Clause::RecursiveTail.error_at_name(&cte.alias.name));
    }
    let empty = plain(SetExpr::Select(Box::new(all_of(Vec::new()))));
    let query = mem::replace(cte.query.as_mut(), empty);
    *cte.query = plain(SetExpr::Query(Box::new(query)));
    Ok(())
}

/// How often a query reads tables of such names.
fn reads(query: &Query, is_it: &dyn Fn(&str) -> bool) -> usize {
    let mut count = 0;
    let ControlFlow::Continue(()) = visit_relations(query, |relation| {
        if let [part] = relation.0.as_slice()
            && part.as_ident().is_some_and(|name| is_it(&normalized(name)))
        {
            count += 1;
        }
        ControlFlow::<std::convert::Infallible>::Continue(())
    });
    count
}

/// The names of the `WITH` queries that are read more than once.
fn read_twice(with: &With, query: &Query) -> HashSet<String> {
    let names = with.cte_tables.iter().map(|cte| normalized(&cte.alias.name));
    names.filter(|name| reads(query, &|read| read == name.as_str()) > 1).collect()
}

/// True if a query takes as many rows as it needs, and not always the same.
fn takes_some_rows(query: &Query) -> bool {
    query.limit_clause.is_some() || query.fetch.is_some()
}
