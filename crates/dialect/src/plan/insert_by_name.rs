//! `INSERT INTO t BY NAME SELECT …`, as in DuckDB and Spark: the columns of the query go into those of their names, and the others get
//! their defaults.

use datafusion::arrow::datatypes::Schema;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, Insert, ObjectName, Statement as Sql};

use crate::parse::other_statements::BY_NAME;

fn asks(insert: &Insert) -> bool {
    match insert.columns.as_slice() {
        [column] => {
            column.0.first().and_then(|part| part.as_ident()).is_some_and(|name| name.value == BY_NAME)
        }
        _ => false,
    }
}

/// The query whose columns an `INSERT` is to have; `None` for other statements.
pub(super) fn asked(statement: &Statement) -> Option<Statement> {
    let Statement::Statement(statement) = statement else { return None };
    let Sql::Insert(insert) = statement.as_ref() else { return None };
    let query = insert.source.as_ref().filter(|_| asks(insert))?;
    Some(Statement::Statement(Box::new(Sql::Query(query.clone()))))
}

/// Names the columns of such an `INSERT`.
pub(super) fn name_columns(statement: &mut Statement, columns: &Schema) {
    let Statement::Statement(statement) = statement else { return };
    let Sql::Insert(insert) = statement.as_mut() else { return };
    let named = columns.fields().iter().map(|column| ObjectName::from(Ident::with_quote('"', column.name())));
    insert.columns = named.collect();
}
