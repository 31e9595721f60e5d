//! `DELETE`, `UPDATE` and `INSERT`.

use std::collections::HashSet;
use std::mem;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Insert, ObjectName, TableAlias, TableFactor,
    TableObject, TableWithJoins, Update, UpdateTableFromKind,
};

use super::refused::{Clause, absent};
use super::walk::Walk;
use crate::Result;
use crate::names::normalized;

impl Walk<'_> {
    pub(super) fn delete(&mut self, delete: &mut Delete) -> Result<()> {
        let Delete {
            delete_token: _,
            // Hints change no answer.
            optimizer_hints: _,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        absent(tables, Clause::ChangeTarget)?;
        absent(returning, Clause::ChangeReturning)?;
        absent(output, Clause::ChangeReturning)?;
        absent(order_by, Clause::ChangeLimit)?;
        absent(limit, Clause::ChangeLimit)?;
        let (FromTable::WithFromKeyword(targets) | FromTable::WithoutKeyword(targets)) = from;
        let [target] = targets.as_slice() else { return Err(Clause::ChangeTarget.error()) };
        check_target(target)?;
        self.tables(using.as_deref_mut().unwrap_or_default())?;
        selection.as_mut().map_or(Ok(()), |selection| self.expr(selection))
    }

    pub(super) fn update(&mut self, update: &mut Update) -> Result<()> {
        let Update {
            update_token: _,
            // Hints change no answer.
            optimizer_hints: _,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        absent(returning, Clause::ChangeReturning)?;
        absent(output, Clause::ChangeReturning)?;
        absent(or, Clause::UpdateConflict)?;
        absent(order_by, Clause::ChangeLimit)?;
        absent(limit, Clause::ChangeLimit)?;
        let names = check_target(table)?;
        *assignments = single_assignments(mem::take(assignments))?;
        check_assignments(assignments, &names)?;
        match from {
            Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => {
                self.tables(tables)?;
            }
            None => {}
        }
        assignments.iter_mut().try_for_each(|assignment| self.assignment(assignment))?;
        selection.as_mut().map_or(Ok(()), |selection| self.expr(selection))
    }

    fn tables(&mut self, tables: &mut [TableWithJoins]) -> Result<()> {
        tables.iter_mut().try_for_each(|table| self.table_with_joins(table))
    }

    fn assignment(&mut self, assignment: &mut Assignment) -> Result<()> {
        let Assignment { target: _, value } = assignment;
        self.expr(value)
    }

    pub(super) fn insert(&mut self, insert: &mut Insert) -> Result<()> {
        // Planning refuses all others but the words, the table, its columns and the query.
        let Insert {
            insert_token: _,
            optimizer_hints: _,
            or: _,
            ignore: _,
            into: _,
            table,
            table_alias: _,
            columns: _,
            overwrite: _,
            source,
            assignments: _,
            partitioned: _,
            after_columns: _,
            has_table_keyword: _,
            on: _,
            returning,
            output,
            replace_into: _,
            priority: _,
            insert_alias: _,
            settings: _,
            format_clause: _,
            multi_table_insert_type: _,
            multi_table_into_clauses: _,
            multi_table_when_clauses: _,
            multi_table_else_clause: _,
        } = insert;
        absent(returning, Clause::ChangeReturning)?;
        absent(output, Clause::ChangeReturning)?;
        match table {
            // Planning refuses the other two.
            TableObject::TableName(_) | TableObject::TableFunction(_) | TableObject::TableQuery(_) => {}
        }
        source.as_mut().map_or(Ok(()), |source| self.query(source))
    }
}

/// Checks that the table that is changed is a name alone, with an alias or not. The names by which the statement knows it.
fn check_target(target: &TableWithJoins) -> Result<Vec<String>> {
    let TableWithJoins { relation, joins } = target;
    absent(joins, Clause::ChangeTarget)?;
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_hints,
    } = relation
    else {
        return Err(Clause::ChangeTarget.error_at(relation));
    };
    absent(args, Clause::ChangeTarget)?;
    absent(with_hints, Clause::TableHints)?;
    absent(version, Clause::TableVersion)?;
    absent(with_ordinality, Clause::Ordinality)?;
    absent(partitions, Clause::TablePartitions)?;
    absent(json_path, Clause::TablePath)?;
    absent(sample, Clause::ChangeTarget)?;
    absent(index_hints, Clause::IndexHints)?;
    match alias {
        Some(TableAlias { explicit: _, name, columns, at }) => {
            absent(columns, Clause::ChangeTarget)?;
            absent(at, Clause::AliasAt)?;
            Ok(vec![normalized(name)])
        }
        None => Ok(name.0.iter().filter_map(|part| part.as_ident()).map(normalized).collect()),
    }
}

/// Writes `SET (a, b) = (x, y)` as `SET a = x, b = y`.
fn single_assignments(assignments: Vec<Assignment>) -> Result<Vec<Assignment>> {
    let mut single = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match assignment {
            Assignment { target: AssignmentTarget::Tuple(targets), value: Expr::Tuple(values) }
                if targets.len() == values.len() =>
            {
                let pairs = targets.into_iter().zip(values);
                single.extend(pairs.map(|(target, value)| Assignment {
                    target: AssignmentTarget::ColumnName(target),
                    value,
                }));
            }
            Assignment { target: AssignmentTarget::Tuple(_), value } => {
                return Err(Clause::AssignedTuple.error_at(&value));
            }
            Assignment { target: AssignmentTarget::ColumnName(_), value: _ } => single.push(assignment),
        }
    }
    Ok(single)
}

fn check_assignments(assignments: &[Assignment], table: &[String]) -> Result<()> {
    let mut columns = HashSet::new();
    assignments.iter().try_for_each(|Assignment { target, value: _ }| {
        let AssignmentTarget::ColumnName(ObjectName(parts)) = target else {
            return Err(Clause::AssignedTuple.error_at(target));
        };
        let parts: Vec<String> = parts.iter().filter_map(|part| part.as_ident()).map(normalized).collect();
        let Some((column, qualifier)) = parts.split_last() else {
            return Err(Clause::AssignedElsewhere.error_at(target));
        };
        if !table.ends_with(qualifier) {
            return Err(Clause::AssignedElsewhere.error_at(target));
        }
        if !columns.insert(column.clone()) {
            return Err(Clause::AssignedTwice.error_at(target));
        }
        Ok(())
    })
}
