//! A table that one statement sees and no other: in a catalog whose name SQL cannot write, laid over the session's catalogs.

use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
    TableProvider,
};
use datafusion::execution::{SessionState, SessionStateBuilder};
use yeoul_dialect::syntax::ast::{Ident, ObjectName, TableAlias, TableFactor};

/// The name of the catalog, its schema and the table.
const NAME: &str = "\u{0}rows";

/// The table as a `FROM` has it.
pub(super) fn factor(alias: TableAlias) -> TableFactor {
    let part = || Ident::with_quote('"', NAME);
    TableFactor::Table {
        name: ObjectName::from(vec![part(), part(), part()]),
        alias: Some(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// The state with the table.
pub(super) fn with_private_table(state: &SessionState, table: Arc<dyn TableProvider>) -> SessionState {
    let (schema, catalog) = (MemorySchemaProvider::new(), MemoryCatalogProvider::new());
    // Nothing of this name is there yet.
    drop(schema.register_table(NAME.to_owned(), table));
    drop(catalog.register_schema(NAME, Arc::new(schema)));
    let catalogs = Overlaid { below: Arc::clone(state.catalog_list()), above: Arc::new(catalog) };
    SessionStateBuilder::new_from_existing(state.clone()).with_catalog_list(Arc::new(catalogs)).build()
}

/// Catalogs with one more.
#[derive(Debug)]
struct Overlaid {
    below: Arc<dyn CatalogProviderList>,
    above: Arc<dyn CatalogProvider>,
}

impl CatalogProviderList for Overlaid {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.below.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.below.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        if name == NAME { Some(Arc::clone(&self.above)) } else { self.below.catalog(name) }
    }
}
