//! Rows whose partition key is null, which Hive and Spark keep in a folder with a special name.
//!
//! DataFusion writes such a row as if its key were zero or empty.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit, when};

use yeoul_dialect::Identity;

/// The value that means null in a folder's name: `year=__HIVE_DEFAULT_PARTITION__`.
pub(crate) const FOLDER_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Lets a `COPY … PARTITIONED BY` write rows whose key is null into their own folder. A key that is also kept in the files
/// (`keep_partition_by_columns`) keeps its type, and rows in which it is null are refused.
pub(crate) fn write(copy: &mut CopyTo, state: &mut SessionState) -> Result<()> {
    if copy.partition_by.is_empty() {
        return Ok(());
    }
    let keeps = match copy.options.get("execution.keep_partition_by_columns") {
        Some(told) => told.trim() == "true",
        None => state.config_options().execution.keep_partition_by_columns,
    };
    let columns = copy.input.schema().iter().map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        if !copy.partition_by.contains(field.name()) {
            return Ok(column);
        }
        let key = match folder_text(column.clone(), field) {
            _ if keeps => Identity::PartitionKey.call(column),
            Some(text) => when(column.is_null(), lit(FOLDER_VALUE)).otherwise(text)?,
            None => return Ok(column),
        };
        Ok(key.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    if is_ordered(&copy.input) {
        // DataFusion would distribute the sorted rows over several threads to compute these columns, and not sort them
        // again, since no later operator requires an order.
        state.config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
    }
    let input = LogicalPlanBuilder::from(Arc::clone(&copy.input)).project(columns)?.build()?;
    copy.input = Arc::new(input);
    Ok(())
}

/// Whether the query asks for an order of its rows.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(is_ordered)
        }
        _ => false,
    }
}

/// A key as the text that DataFusion writes into a folder's name; `None` for a type that it refuses there.
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
