use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use url::Url;

use crate::Error;

/// The most open stores; opening one more closes all others, and they reopen on demand.
const STORES_MAX: usize = 256;

/// Opens the store of an address when a query first names it.
#[derive(Debug)]
pub(crate) struct Stores {
    local: Arc<LocalFileSystem>,
    opened: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    footers: Footers,
}

/// The cache of Parquet footers, used as long as the session reads from a single store.
///
/// DataFusion looks a footer up by its path alone, so `s3://prod/t.parquet` and `s3://staging/t.parquet` of the same size
/// and second would share it. The cache is switched off when a second store is used.
struct Footers {
    cache: Arc<FileMetadataCache>,
    store: OnceLock<String>,
}

impl fmt::Debug for Footers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footers").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Footers {
    fn read_from(&self, store: String) {
        if *self.store.get_or_init(|| store.clone()) != store {
            self.cache.update_cache_limit(0);
            self.cache.clear();
        }
    }
}

impl Stores {
    /// `footers` is the cache of the runtime that these stores belong to.
    pub(crate) fn new(footers: Arc<FileMetadataCache>) -> Self {
        Self {
            local: Arc::new(LocalFileSystem::new()),
            opened: Mutex::new(HashMap::new()),
            footers: Footers { cache: footers, store: OnceLock::new() },
        }
    }
}

fn key(url: &Url) -> String {
    yeoul_stores::authority(url).to_owned()
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(key(url), store)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.footers.read_from(key(url));
        if url.scheme() == "file" {
            return Ok(Arc::clone(&self.local) as _);
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = opened.get(&key(url)) {
            return Ok(Arc::clone(store));
        }
        let store = yeoul_stores::open(url).map_err(|error| DataFusionError::from(Error::from(error)))?;
        if opened.len() >= STORES_MAX {
            opened.clear();
        }
        opened.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::cache::default_cache::DefaultCache;
    use yeoul_base::ErrorKind;

    use super::*;

    fn footers() -> Arc<FileMetadataCache> {
        Arc::new(DefaultCache::new(1 << 20))
    }

    #[test]
    fn footers_are_kept_for_one_store_only() {
        let cache = footers();
        let stores = Stores::new(Arc::clone(&cache));
        let get = |address: &str| stores.get_store(&Url::parse(address).unwrap()).unwrap();
        get("http://localhost:1/a");
        get("http://localhost:1/b");
        assert_eq!(cache.cache_limit(), 1 << 20);
        get("http://localhost:2/a");
        assert_eq!(cache.cache_limit(), 0);
    }

    #[test]
    fn a_store_is_opened_once_per_authority() {
        let stores = Stores::new(footers());
        let get = |address: &str| stores.get_store(&Url::parse(address).unwrap());
        let first = get("http://localhost:1/a").unwrap();
        assert!(Arc::ptr_eq(&first, &get("http://localhost:1/b").unwrap()));
        assert!(!Arc::ptr_eq(&first, &get("http://localhost:2/a").unwrap()));
        get("file:///tmp").unwrap();
    }

    #[test]
    fn an_unknown_scheme_is_refused_by_name() {
        let error =
            Error::from(Stores::new(footers()).get_store(&Url::parse("gopher://x/y").unwrap()).unwrap_err());
        assert_eq!(error.to_string(), "no store speaks 'gopher://'");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
