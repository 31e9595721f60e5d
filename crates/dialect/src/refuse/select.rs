//! `SELECT`: its columns, its clauses.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, GroupByExpr, GroupByWithModifier, Ident, NamedWindowDefinition,
    NamedWindowExpr, ObjectName, ObjectNamePart, ReplaceSelectElement, Select, SelectInto, SelectItem,
    SelectItemQualifiedWildcardKind, TableWithJoins, WildcardAdditionalOptions,
};

use super::refused::{Clause, absent};
use super::ties::at_place;
use super::walk::Walk;
use crate::Result;
use crate::names::{column_sets, earlier_aliases, normalized};

impl Walk<'_> {
    pub(super) fn select(&mut self, select: &mut Select) -> Result<()> {
        honour_modifiers(select)?;
        let may_make_a_table = mem::replace(&mut self.may_make_a_table, false);
        let Select {
            select_token: _,
            // Hints change no answer.
            optimizer_hints: _,
            distinct,
            select_modifiers,
            // Planning refuses TOP.
            top: _,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            // `parse` writes them as joins.
            lateral_views: _,
            prewhere,
            selection,
            connect_by,
            group_by,
            // Planning refuses CLUSTER BY and SORT BY.
            cluster_by: _,
            distribute_by,
            sort_by: _,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            // `reading` writes out a FROM without a SELECT.
            flavor: _,
        } = select;
        absent(select_modifiers, Clause::SelectModifier)?;
        absent(exclude, Clause::TrailingExclude)?;
        absent(prewhere, Clause::Prewhere)?;
        absent(connect_by, Clause::ConnectBy)?;
        absent(value_table_mode, Clause::ValueTable)?;
        if let Some(SelectInto { temporary: _, unlogged: _, table: _, name }) = into {
            // All tables that are made so end with the session, and none has a log.
            if !may_make_a_table {
                return Err(Clause::IntoInside.error_at(name));
            }
        }
        let outer = mem::replace(&mut self.windows, named_window.clone());
        let walked = self.select_clauses(
            from,
            [&mut *selection, having, qualify],
            (distinct, group_by, distribute_by),
            &mut *projection,
            named_window,
        );
        self.windows = outer;
        walked?;
        if earlier_aliases::are_used(projection, selection) {
            self.questions.about_aliases(selection);
        }
        Ok(())
    }

    fn select_clauses(
        &mut self,
        from: &mut [TableWithJoins],
        conditions: [&mut Option<Expr>; 3],
        (distinct, group_by, distribute_by): (&mut Option<Distinct>, &mut GroupByExpr, &mut [Expr]),
        projection: &mut [SelectItem],
        windows: &mut [NamedWindowDefinition],
    ) -> Result<()> {
        from.iter_mut().try_for_each(|table| self.table_with_joins(table))?;
        conditions.into_iter().flatten().try_for_each(|condition| self.expr(condition))?;
        match distinct {
            Some(Distinct::On(groups)) => self.exprs(groups)?,
            Some(Distinct::All | Distinct::Distinct) | None => {}
        }
        match group_by {
            // The modifiers are written out before.
            GroupByExpr::All(_) => {}
            GroupByExpr::Expressions(keys, _) => self.exprs(keys)?,
        }
        self.exprs(distribute_by)?;
        self.select_items(projection)?;
        windows.iter_mut().try_for_each(|NamedWindowDefinition(_, window)| match window {
            NamedWindowExpr::NamedWindow(_) => Ok(()),
            NamedWindowExpr::WindowSpec(window) => self.window(window),
        })
    }

    pub(super) fn select_items(&mut self, items: &mut [SelectItem]) -> Result<()> {
        items.iter_mut().try_for_each(|item| self.select_item(item))
    }

    fn select_item(&mut self, item: &mut SelectItem) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => {
                self.expr(expr)?;
                if column_sets::stands_in(item) {
                    self.questions.about_columns(item);
                }
                Ok(())
            }
            SelectItem::Wildcard(options) => {
                let asks = self.wildcard(options)?;
                if asks {
                    self.questions.about_columns(item);
                }
                Ok(())
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                match kind {
                    // Planning refuses `expression.*`.
                    SelectItemQualifiedWildcardKind::ObjectName(_)
                    | SelectItemQualifiedWildcardKind::Expr(_) => {}
                }
                let asks = self.wildcard(options)?;
                if asks {
                    self.questions.about_columns(item);
                }
                Ok(())
            }
            // Planning refuses several aliases.
            SelectItem::ExprWithAliases { expr: _, aliases: _ } => Ok(()),
        }
    }

    /// True if what stands behind a `*` depends on its columns.
    fn wildcard(&mut self, options: &mut WildcardAdditionalOptions) -> Result<bool> {
        let WildcardAdditionalOptions {
            wildcard_token: _,
            opt_ilike,
            opt_exclude,
            opt_except,
            opt_replace,
            // Planning refuses RENAME and an alias.
            opt_rename: _,
            opt_alias: _,
        } = options;
        match opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => quote_parts(name),
            Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().for_each(quote_parts),
            None => {}
        }
        if let Some(except) = opt_except {
            quote(&mut except.first_element);
            except.additional_elements.iter_mut().for_each(quote);
        }
        for item in opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
            let ReplaceSelectElement { expr, column_name, as_keyword: _ } = item.as_mut();
            quote(column_name);
            self.expr(expr)?;
        }
        Ok(opt_ilike.is_some() || opt_replace.is_some())
    }
}

/// Writes a name as DataFusion's `EXCLUDE` and `REPLACE` compare it: they do not take it in small letters.
fn quote(name: &mut Ident) {
    name.value = normalized(name);
    name.quote_style = Some('"');
}

fn quote_parts(name: &mut ObjectName) {
    for part in &mut name.0 {
        match part {
            ObjectNamePart::Identifier(name) => quote(name),
            // Planning refuses it.
            ObjectNamePart::Function(_) => {}
        }
    }
}

/// Writes the items whose places are in `GROUPING SETS`, `ROLLUP` and `CUBE` out. DataFusion takes `1` there for a number.
fn named_in_sets(key: Expr, select: &Select) -> Result<Expr> {
    let named = |sets: Vec<Vec<Expr>>| -> Result<Vec<Vec<Expr>>> {
        let set =
            |set: Vec<Expr>| set.iter().map(|key| at_place(key, select, Clause::GroupPosition)).collect();
        sets.into_iter().map(set).collect()
    };
    Ok(match key {
        Expr::GroupingSets(sets) => Expr::GroupingSets(named(sets)?),
        Expr::Rollup(sets) => Expr::Rollup(named(sets)?),
        Expr::Cube(sets) => Expr::Cube(named(sets)?),
        other => other,
    })
}

/// Writes `GROUP BY a, b WITH ROLLUP` as `GROUP BY ROLLUP (a, b)`.
fn honour_modifiers(select: &mut Select) -> Result<()> {
    let (keys, modifiers) = match &mut select.group_by {
        GroupByExpr::All(modifiers) => return absent(modifiers, Clause::GroupAllModifier),
        GroupByExpr::Expressions(keys, modifiers) => (mem::take(keys), mem::take(modifiers)),
    };
    let sets = |keys: Vec<Expr>| -> Result<Vec<Vec<Expr>>> {
        keys.into_iter().map(|key| Ok(vec![at_place(&key, select, Clause::GroupPosition)?])).collect()
    };
    let keys = match modifiers.as_slice() {
        [] => keys.into_iter().map(|key| named_in_sets(key, select)).collect::<Result<_>>()?,
        [GroupByWithModifier::Rollup] => vec![Expr::Rollup(sets(keys)?)],
        [GroupByWithModifier::Cube] => vec![Expr::Cube(sets(keys)?)],
        // The keys before it are those of its sets, as in Spark and Hive.
        [GroupByWithModifier::GroupingSets(sets)] => vec![named_in_sets(sets.clone(), select)?],
        [
            GroupByWithModifier::Rollup
            | GroupByWithModifier::Cube
            | GroupByWithModifier::Totals
            | GroupByWithModifier::GroupingSets(_),
            ..,
        ] => return Err(Clause::GroupTotals.error()),
    };
    select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    Ok(())
}
