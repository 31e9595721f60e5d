//! `DELETE` and `UPDATE` of tables in memory. DataFusion hands a table the conditions of a `WHERE` that it can evaluate on a row, and
//! drops the others, such as those with subqueries.
//!
//! A change is a query here: which rows, and their new values. It runs like any query, over the table with a column of row numbers
//! (`numbered_rows`) that only it sees (`private_table`). All new batches of the table (`changed_table`) are made before the first is put in place, so that an error
//! changes nothing.

mod changed_table;
mod numbered_rows;
mod private_table;

use yeoul_dialect::syntax::Statement as AnyStatement;
use yeoul_dialect::syntax::ast::{
    AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectName, SelectItem, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind,
};

use yeoul_dialect::normalized;
use yeoul_dialect::{all_of, plain};

pub(crate) use changed_table::ChangedTable;

/// A `DELETE` or `UPDATE`.
pub(crate) struct Change {
    /// The table that it changes.
    pub(crate) table: ObjectName,
    /// The query for the numbers of the rows that it changes, and their new values.
    pub(crate) query: AnyStatement,
    /// The columns that get new values; `None` if the rows go.
    pub(crate) assigned: Option<Vec<String>>,
}

impl Change {
    /// The change that a statement is, whose clauses are honoured or refused.
    pub(crate) fn of(statement: &AnyStatement) -> Option<Self> {
        let AnyStatement::Statement(statement) = statement else { return None };
        match statement.as_ref() {
            Statement::Delete(delete) => Self::of_delete(delete),
            Statement::Update(update) => Self::of_update(update),
            _ => None,
        }
    }

    fn of_delete(delete: &Delete) -> Option<Self> {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let target = Target::of(tables.first()?)?;
        let query = target.query(Vec::new(), delete.using.iter().flatten(), delete.selection.as_ref());
        Some(Self { table: target.table.clone(), query, assigned: None })
    }

    fn of_update(update: &Update) -> Option<Self> {
        let target = Target::of(&update.table)?;
        let tables = match &update.from {
            Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => {
                tables.as_slice()
            }
            None => &[],
        };
        let column = |target: &AssignmentTarget| match target {
            AssignmentTarget::ColumnName(name) => name.0.last()?.as_ident().map(normalized),
            AssignmentTarget::Tuple(_) => None,
        };
        let columns = update.assignments.iter().map(|assignment| column(&assignment.target));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let values = update.assignments.iter().map(|assignment| assignment.value.clone()).collect();
        let query = target.query(values, tables, update.selection.as_ref());
        Some(Self { table: target.table.clone(), query, assigned: Some(columns) })
    }
}

/// The table that a statement names as the one to change.
struct Target<'s> {
    table: &'s ObjectName,
    /// The name by which the statement knows it.
    name: Ident,
}

impl<'s> Target<'s> {
    fn of(table: &'s TableWithJoins) -> Option<Self> {
        let TableFactor::Table { name: table, alias, .. } = &table.relation else { return None };
        let name = match alias {
            Some(alias) => alias.name.clone(),
            None => table.0.last()?.as_ident()?.clone(),
        };
        Some(Self { table, name })
    }

    /// `SELECT` the number of each row, and `values`, from the numbered rows and `tables`.
    fn query<'t>(
        &self,
        values: Vec<Expr>,
        tables: impl IntoIterator<Item = &'t TableWithJoins>,
        selection: Option<&Expr>,
    ) -> AnyStatement {
        let alias = TableAlias { explicit: true, name: self.name.clone(), columns: Vec::new(), at: None };
        let mut select = all_of(vec![private_table::factor(alias)]);
        select.from.extend(tables.into_iter().cloned());
        select.selection = selection.cloned();
        let number = Expr::CompoundIdentifier(vec![self.name.clone(), numbered_rows::column()]);
        let named = |(place, expr): (usize, Expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("value {}", place + 1)),
        };
        select.projection = std::iter::once(SelectItem::UnnamedExpr(number))
            .chain(values.into_iter().enumerate().map(named))
            .collect();
        let query = plain(SetExpr::Select(Box::new(select)));
        AnyStatement::Statement(Box::new(Statement::Query(Box::new(query))))
    }
}
