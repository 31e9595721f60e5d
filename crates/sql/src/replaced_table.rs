use std::sync::Arc;

use datafusion::catalog::{SchemaProvider, TableProvider};

/// A table that a `CREATE OR REPLACE` replaces. DataFusion drops it before it makes the new one; dropping this puts it
/// back if there is no new one, because the statement failed or was cancelled.
pub(crate) struct ReplacedTable {
    schema: Arc<dyn SchemaProvider>,
    name: String,
    table: Arc<dyn TableProvider>,
}

impl ReplacedTable {
    /// Keeps the table `name` of `schema`, if there is one.
    pub(crate) async fn keep(schema: Arc<dyn SchemaProvider>, name: &str) -> Option<Self> {
        if !schema.table_exist(name) {
            return None;
        }
        let table = schema.table(name).await.ok()??;
        Some(Self { schema, name: name.to_owned(), table })
    }
}

impl Drop for ReplacedTable {
    fn drop(&mut self) {
        if !self.schema.table_exist(&self.name) {
            // The schema accepts it: it was registered under this name a moment ago.
            drop(self.schema.register_table(self.name.clone(), Arc::clone(&self.table)));
        }
    }
}
