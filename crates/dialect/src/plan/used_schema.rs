//! `USE s`: tables that a later statement names without a schema are those of this one.

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as Sql, Use};
use yeoul_base::ErrorKind;

use crate::names::normalized;
use crate::parse::template;
use crate::{Error, Result, suggest};

/// Writes `USE s` as the `SET` that it is.
///
/// # Errors
/// `NotFound` for a schema that is not there, `Invalid` for what is none.
pub(super) fn translate(statement: &mut Statement, state: &SessionState) -> Result<()> {
    let Statement::Statement(statement) = statement else { return Ok(()) };
    let Sql::Use(used) = statement.as_ref() else { return Ok(()) };
    let schema = match used {
        Use::Object(name) | Use::Schema(name) | Use::Database(name) => schema_of(name, state),
        _ => None,
    };
    let schema = schema.ok_or_else(|| {
        let text = format!("not supported: {statement}");
        Error::new(ErrorKind::Invalid, text)
            .with_hint("USE with the name of a schema: SHOW SCHEMAS lists them")
    })?;
    let settings = &state.config_options().catalog;
    let catalog = state.catalog_list().catalog(&settings.default_catalog);
    let schemas = catalog.map(|catalog| catalog.schema_names()).unwrap_or_default();
    if !schemas.contains(&schema) {
        let text = format!("there is no schema '{schema}'");
        let hint = format!("the schemas are {}; CREATE SCHEMA makes one", suggest::list(&schemas));
        return Err(Error::new(ErrorKind::NotFound, text).with_hint(hint));
    }
    let schema = schema.replace('\'', "''");
    **statement = template::statement(&format!("SET datafusion.catalog.default_schema = '{schema}'"));
    Ok(())
}

/// The schema of a name, which may have that of the catalog before it.
fn schema_of(name: &ObjectName, state: &SessionState) -> Option<String> {
    let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
    let catalog = &state.config_options().catalog.default_catalog;
    match parts?.as_slice() {
        [schema] => Some(normalized(schema)),
        [of, schema] if normalized(of) == *catalog => Some(normalized(schema)),
        _ => None,
    }
}
