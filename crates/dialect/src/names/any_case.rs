//! Names without regard to case: where a column of a table has capital letters, each name that differs from it in case alone becomes its
//! name.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Fields};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Ident;
use yeoul_base::ErrorKind;

use super::as_written::each_name;
use crate::{Error, Result};

/// Gives names the letters that the columns of a statement's tables have.
///
/// # Errors
/// `Invalid` for columns that differ in case alone.
pub(crate) async fn name_columns(statement: &mut Statement, state: &SessionState) -> Result<()> {
    // What is wrong with the names of tables is said when the statement is planned.
    let Ok(tables) = state.resolve_table_references(statement) else { return Ok(()) };
    let mut letters = Letters::default();
    for table in tables {
        let name = table.table().to_owned();
        let Ok(schema) = state.schema_for_ref(table) else { continue };
        let Ok(Some(table)) = schema.table(&name).await else { continue };
        letters.read(table.schema().fields())?;
    }
    if letters.of.iter().any(|(lower, name)| lower != name) {
        each_name(statement, &mut |name| letters.write(name));
    }
    Ok(())
}

/// The letters of names, by these in lower case.
#[derive(Default)]
struct Letters {
    of: HashMap<String, String>,
}

impl Letters {
    fn read(&mut self, fields: &Fields) -> Result<()> {
        for field in fields {
            let known = self.of.entry(field.name().to_lowercase()).or_insert_with(|| field.name().clone());
            if known != field.name() {
                let text = format!("columns that differ in case alone: {known}, {}", field.name());
                return Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("SET yeoul.dialect = 'yeoul' tells them apart, in double quotes"));
            }
            self.read_within(field.data_type())?;
        }
        Ok(())
    }

    fn read_within(&mut self, kind: &DataType) -> Result<()> {
        match kind {
            DataType::Struct(fields) => self.read(fields),
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                self.read_within(element.data_type())
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => {
                    fields.iter().try_for_each(|field| self.read_within(field.data_type()))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn write(&self, name: &mut Ident) {
        // A file in single quotes keeps its letters.
        if name.quote_style == Some('\'') {
            return;
        }
        if let Some(letters) = self.of.get(&name.value.to_lowercase()) {
            name.value.clone_from(letters);
            name.quote_style = Some('"');
        }
    }
}
