use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, Result, ScalarValue, project_schema};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use tokio::sync::Mutex;
use yeoul_base::ErrorKind;

use super::exact_values;
use super::file_scan::FileScan;
use super::file_set::FileSet;
use crate::Error;

/// How many files are checked at a time against a filter on their folders.
const FILES_AT_ONCE: usize = 1024;

/// Counts a session's statements, so that none uses the listing of an earlier one.
#[derive(Debug, Default)]
pub(super) struct Statements(AtomicU64);

impl Statements {
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The latest statement. What is listed after this call is at least as new as that statement.
    pub(super) fn latest(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The files that a name stands for, as a table. Views and prepared statements keep it: each statement that scans it lists
/// and checks the files anew; only the columns stay as first inferred.
#[derive(Debug)]
pub(super) struct FileTable {
    name: String,
    /// The columns of the files, then the keys.
    schema: SchemaRef,
    /// The folders' columns.
    keys: Fields,
    statements: Arc<Statements>,
    /// The last listing, and the statement that it was made for.
    found: Mutex<(u64, Arc<FileSet>)>,
}

impl FileTable {
    /// A table of what was found, for the statement that was the latest when the search began.
    pub(super) fn new(name: &str, found: FileSet, statement: u64, statements: Arc<Statements>) -> Self {
        let (columns, keys) = (found.columns(), found.keys());
        let fields: Fields = columns.fields().iter().chain(&keys).cloned().collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()));
        let found = Mutex::new((statement, Arc::new(found)));
        Self { name: name.to_owned(), schema, keys, statements, found }
    }

    /// What the name stands for in the running statement. A statement that scans it twice reads the same files.
    async fn found(&self, state: &dyn Session) -> Result<Arc<FileSet>> {
        let statement = self.statements.latest();
        let mut found = self.found.lock().await;
        if found.0 != statement {
            let state = state.as_any().downcast_ref::<SessionState>().ok_or_else(|| {
                Error::new(ErrorKind::Internal, "files are listed in a session of their own only")
            })?;
            *found = (statement, Arc::new(FileSet::find(&self.name, state).await?));
        }
        Ok(Arc::clone(&found.1))
    }

    /// The number of columns of the files.
    fn columns(&self) -> usize {
        self.schema.fields().len() - self.keys.len()
    }

    /// Whether a filter uses folder columns only, so that it keeps or drops whole files.
    fn is_about_folders(&self, filter: &Expr) -> bool {
        let keys: Vec<&str> = self.keys.iter().map(|key| key.name().as_str()).collect();
        !keys.is_empty() && expr_applicable_for_cols(&keys, filter)
    }

    /// The indices in `scanned` of the columns that a scan asks for.
    fn places(&self, projection: Option<&Vec<usize>>, scanned: &TableSchema) -> Result<Vec<usize>> {
        let place = |column: usize| -> Result<usize> {
            match column.checked_sub(self.columns()) {
                Some(key) => Ok(scanned.file_schema().fields().len() + key),
                None => Ok(scanned.file_schema().index_of(self.schema.field(column).name())?),
            }
        };
        match projection {
            Some(columns) => columns.iter().copied().map(place).collect(),
            None => (0..self.schema.fields().len()).map(place).collect(),
        }
    }

    /// The files that a filter on the keys keeps.
    fn kept(
        &self,
        state: &dyn Session,
        files: Vec<PartitionedFile>,
        filters: &[&Expr],
    ) -> Result<Vec<PartitionedFile>> {
        let Some(filter) = conjunction(filters.iter().copied().cloned()) else { return Ok(files) };
        let keys = DFSchema::from_unqualified_fields(self.keys.clone(), HashMap::new())?;
        let filter = state.create_physical_expr(filter, &keys)?;
        let mut kept = Vec::new();
        for files in files.chunks(FILES_AT_ONCE) {
            let values = |key: usize| {
                ScalarValue::iter_to_array(files.iter().map(|file| file.partition_values[key].clone()))
            };
            let values = (0..self.keys.len()).map(values).collect::<Result<_>>()?;
            let values = RecordBatch::try_new(Arc::clone(keys.inner()), values)?;
            let keeps = filter.evaluate(&values)?.into_array(files.len())?;
            let keeps = as_boolean_array(&keeps)?;
            let keeps = |at: &usize| keeps.is_valid(*at) && keeps.value(*at);
            kept.extend((0..files.len()).filter(keeps).map(|at| files[at].clone()));
        }
        Ok(kept)
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| {
            if self.is_about_folders(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = self.found(state).await?;
        let scanned = found.scanned(&self.name, &self.schema.fields()[..self.columns()], &self.keys)?;
        let format = found.format.get_ext();
        let scanned = exact_values::as_read(&format, scanned);
        let (of_folders, of_rows): (Vec<_>, Vec<_>) =
            filters.iter().partition(|filter| self.is_about_folders(filter));
        let files = self.kept(state, found.files(&self.name, &self.keys)?, &of_folders)?;
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema, projection)?)));
        }
        let columns = self.places(projection, &scanned)?;
        // A limit counts the rows left by all filters.
        let enough = limit.filter(|_| of_rows.is_empty());
        let scan = FileScan { state, found: &found, schema: &scanned };
        let plan = scan.plan(files, columns, limit, enough).await?;
        exact_values::exact(plan, &project_schema(&self.schema, projection)?, state)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        how: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = self.found(state).await?;
        found.check_insert(&self.name)?;
        let schema = found.scanned(&self.name, &self.schema.fields()[..self.columns()], &self.keys)?;
        FileScan { state, found: &found, schema: &schema }.plan_insert(input, how).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use datafusion::catalog::UrlTableFactory;
    use datafusion::datasource::file_format::csv::CsvFormat;
    use datafusion::prelude::SessionContext;

    use crate::catalog::files::FileTables;
    use crate::catalog::own_format::OwnFormatFactory;

    /// A statement lists once: a file that appears while it runs is in none of its scans, even one planned later.
    #[tokio::test]
    async fn a_statement_reads_the_files_that_it_has_listed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), "n\n1\n").unwrap();
        write("a.csv");
        let context = SessionContext::new();
        let csv = Arc::new(OwnFormatFactory::<CsvFormat>::new());
        context.state_ref().write().register_file_format(csv, true).unwrap();
        let files = FileTables::default();
        files.serve(&context);
        files.begin_statement();
        let table = files.try_new(folder.path().to_str().unwrap()).await.unwrap().unwrap();
        write("b.csv");
        let read = context.read_table(table).unwrap();
        assert_eq!(read.clone().count().await.unwrap(), 1);
        assert_eq!(read.clone().count().await.unwrap(), 1);
        files.begin_statement();
        assert_eq!(read.clone().count().await.unwrap(), 2);
        write("c.csv");
        assert_eq!(read.count().await.unwrap(), 2);
    }
}
