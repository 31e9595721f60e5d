use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use yeoul_base::ErrorKind;

use super::files::check_local;
use crate::Error;

/// Refuses to read a table of `CREATE EXTERNAL TABLE` whose files are missing; DataFusion would read it as empty.
///
/// An existing local directory may be empty, and so may an address that ends in `/` in a store, which has no directories: an
/// `INSERT` begins a table there.
///
/// # Errors
/// `NotFound`, naming the location; the store's own.
pub(crate) async fn check_there(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    let mut read: Vec<ListingTableUrl> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
            && let Some(table) = table.downcast_ref::<ListingTable>()
        {
            read.extend(table.table_paths().iter().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    for url in read {
        check_location(&url, state).await?;
    }
    Ok(())
}

async fn check_location(url: &ListingTableUrl, state: &SessionState) -> Result<()> {
    let address = url.get_url();
    let path = if address.scheme() == "file" { address.to_file_path().ok() } else { None };
    let place = path.map_or(address.to_string(), |path| path.to_string_lossy().into_owned());
    let what = match url.get_glob() {
        None if address.scheme() == "file" => return Ok(check_local(&place)?),
        None if url.is_collection() => return Ok(()),
        None => format!("there is no file '{place}'"),
        Some(glob) => format!("no file matches '{}/{glob}'", place.trim_end_matches('/')),
    };
    let store = state.runtime_env().object_store(url)?;
    let mut files =
        url.list_all_files(state, store.as_ref(), "").await.map_err(|error| Error::at(address, error))?;
    match files.next().await.transpose().map_err(|error| Error::at(address, error))? {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorKind::NotFound, what).into()),
    }
}
