//! Rows whose partition key is null, which Hive and Spark keep in a folder of a name of its own.
//!
//! DataFusion writes such a row as if its key were zero or empty.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit, when};

/// What stands for null in a folder's name: `year=__HIVE_DEFAULT_PARTITION__`.
pub(crate) const FOLDER_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Lets a `COPY … PARTITIONED BY` write rows whose key is null into their own folder. A key that stays in the files too
/// (`keep_partition_by_columns`) stays as it is.
pub(crate) fn write(copy: &mut CopyTo, config: &ConfigOptions) -> Result<()> {
    let keeps = match copy.options.get("execution.keep_partition_by_columns") {
        Some(told) => told.trim() == "true",
        None => config.execution.keep_partition_by_columns,
    };
    if copy.partition_by.is_empty() || keeps {
        return Ok(());
    }
    let columns = copy.input.schema().iter().map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        match folder_text(column.clone(), field).filter(|_| copy.partition_by.contains(field.name())) {
            Some(text) => {
                let text = when(column.is_null(), lit(FOLDER_VALUE)).otherwise(text)?;
                Ok(text.alias_qualified(qualifier.cloned(), field.name()))
            }
            None => Ok(column),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let input = LogicalPlanBuilder::from(Arc::clone(&copy.input)).project(columns)?.build()?;
    copy.input = Arc::new(input);
    Ok(())
}

/// A key as the text that DataFusion puts into a folder's name; `None` for a type that it refuses there.
fn folder_text(key: Expr, field: &Field) -> Option<Expr> {
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match field.data_type() {
        DataType::Date64 => Some(cast(cast(key, DataType::Date32), DataType::Utf8)),
        DataType::Boolean | DataType::Date32 => Some(cast(key, DataType::Utf8)),
        DataType::Dictionary(_, values) if is_text(values) => Some(cast(key, DataType::Utf8)),
        other if is_text(other) || other.is_integer() || other.is_floating() => {
            Some(cast(key, DataType::Utf8))
        }
        _ => None,
    }
}
