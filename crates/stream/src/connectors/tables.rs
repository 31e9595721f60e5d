use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::execution::options::{CsvReadOptions, JsonReadOptions, ParquetReadOptions};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::error::{Error, ErrorKind, Result, invalid};
use crate::plan::{Query, TableDefinition, TablePlan, TableRows};
use crate::state::MemoryShare;

/// Name of a table while its files are looked at.
const NAME: &str = "table";

/// Files of a table, with its options checked. Only their schemas are read.
///
/// # Errors
/// `Invalid` for an option that is missing, wrong or not honoured; `NotFound` if there are no files.
pub fn table(definition: &TableDefinition) -> Result<Arc<dyn TableProvider>> {
    let mut options = definition.options.clone();
    let connector = options.require("connector")?;
    if connector != "filesystem" {
        return Err(options.wrong("connector", &connector, "filesystem"));
    }
    let given = options.require("path")?;
    let path = given.strip_prefix("file://").unwrap_or(&given).to_owned();
    if path.contains("://") {
        return Err(options.wrong("path", &given, "a local file or directory"));
    }
    let format = options.require("format")?;
    let has_header = if format == "csv" { options.take_bool("header", false)? } else { false };
    if !["parquet", "csv", "json"].contains(&format.as_str()) {
        return Err(options.wrong("format", &format, "parquet, csv or json"));
    }
    let owner = options.owner().to_owned();
    options.finish()?;
    let schema = schema(definition);
    if (format == "parquet") == schema.is_some() {
        let text = if schema.is_some() {
            "files of Parquet bring their columns: name none"
        } else {
            "name its columns and their types: files of this format do not"
        };
        return Err(invalid(format!("{owner}: {text}")));
    }
    let of_table =
        |error: Error| Error::new(error.kind(), format!("{owner}: cannot read '{given}'")).with_source(error);
    std::fs::metadata(&path).map_err(|error| of_table(error.into()))?;
    let path = as_folder(&path);
    let registered = waiting(async move {
        let mut config = SessionConfig::new().with_target_partitions(1);
        config.options_mut().execution.parquet.schema_force_view_types = false;
        let context = SessionContext::new_with_config(config);
        match (format.as_str(), &schema) {
            ("parquet", _) => context.register_parquet(NAME, &path, ParquetReadOptions::default()).await?,
            ("csv", Some(schema)) => {
                let options = CsvReadOptions::new().has_header(has_header).schema(schema);
                context.register_csv(NAME, &path, options).await?;
            }
            (_, schema) => {
                let schema = schema.as_ref().expect("it was checked");
                context.register_json(NAME, &path, JsonReadOptions::default().schema(schema)).await?;
            }
        }
        context.table_provider(NAME).await
    });
    registered?.map_err(|error| of_table(reading(error)))
}

/// A directory's address ends in a slash.
fn as_folder(path: &str) -> String {
    let is_folder = Path::new(path).is_dir() && !path.ends_with('/');
    if is_folder { format!("{path}/") } else { path.to_owned() }
}

fn schema(definition: &TableDefinition) -> Option<Schema> {
    let field = |column: &crate::plan::StreamColumn| {
        Field::new(&column.name, column.data_type.clone(), column.is_nullable)
    };
    let fields: Vec<Field> = definition.columns.iter().map(field).collect();
    (!fields.is_empty()).then(|| Schema::new(fields))
}

/// Reads the tables that a query is joined with; their rows grow into `memory`.
///
/// # Errors
/// If files cannot be read, or have other columns than they had; `ResourceExhausted` if they do not fit.
pub fn read_tables(query: &mut Query, memory: &MemoryShare) -> Result<()> {
    for lookup in query.pipeline.root.lookups_mut() {
        if let TableRows::Planned(plan) = &lookup.table {
            lookup.table = TableRows::Read(read(plan, memory)?);
        }
    }
    Ok(())
}

fn read(plan: &Arc<TablePlan>, memory: &MemoryShare) -> Result<RecordBatch> {
    let (plan, memory) = (Arc::clone(plan), memory.clone());
    let read = waiting(async move {
        let schema = Arc::new(plan.plan.schema().as_arrow().clone());
        let physical = plan.state.create_physical_plan(&plan.plan).await.map_err(reading)?;
        let mut rows = execute_stream(physical, plan.state.task_ctx()).map_err(reading)?;
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(reading)?;
            // Once as they are read, and once as one batch.
            memory.grow(batch.get_array_memory_size().saturating_mul(2))?;
            batches.push(
                RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())
                    .map_err(|error| reading(error.into()))?,
            );
        }
        concat_batches(&schema, &batches).map_err(|error| reading(error.into()))
    });
    read?.map_err(|error: Error| {
        let wrapped = Error::new(error.kind(), "cannot read a table that the query is joined with");
        match error.hint() {
            Some(hint) => wrapped.with_hint(hint.to_owned()).with_source(error),
            None => wrapped.with_source(error),
        }
    })
}

fn reading(error: DataFusionError) -> Error {
    invalid(error.strip_backtrace())
}

/// Waits for a future on a thread of its own, since the caller may be within a runtime.
fn waiting<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let run = move || -> Result<T> {
        Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
    };
    let thread = std::thread::Builder::new().name("stream-table".to_owned()).spawn(run)?;
    thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "reading a table broke")))
}
