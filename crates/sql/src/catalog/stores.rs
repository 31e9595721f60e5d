use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreRegistry;
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore};
use url::Url;
use yeoul_base::ErrorKind;

use crate::Error;

/// The most open stores; opening one more closes all others, and they reopen on demand.
const STORES_MAX: usize = 256;

/// Opens the store of an address when a query first names it.
///
/// `s3://bucket` takes its credentials, region and endpoint from the environment (`AWS_…`), not from the files of the AWS
/// tools; `hdfs://` takes Hadoop's configuration from `HADOOP_CONF_DIR`.
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

    fn open(url: &Url) -> Result<Arc<dyn ObjectStore>, Error> {
        let authority = &url[url::Position::BeforeScheme..url::Position::BeforePath];
        let failed = |source: object_store::Error| {
            Error::new(ErrorKind::Unavailable, format!("cannot open {authority}: {source}"))
                .with_source(source)
        };
        Ok(match url.scheme() {
            "s3" | "s3a" => {
                let bucket = url.host_str().unwrap_or_default();
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                if let Some(endpoint) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
                    builder = builder.with_allow_http(is_plain_http(&endpoint)?);
                }
                Arc::new(builder.build().map_err(failed)?)
            }
            "http" | "https" => {
                let options = ClientOptions::new().with_allow_http(true);
                Arc::new(
                    HttpBuilder::new()
                        .with_url(authority)
                        .with_client_options(options)
                        .build()
                        .map_err(failed)?,
                )
            }
            "hdfs" | "viewfs" => {
                Arc::new(HdfsObjectStoreBuilder::new().with_url(authority).build().map_err(failed)?)
            }
            other => {
                return Err(Error::new(ErrorKind::Invalid, format!("no store speaks '{other}://'"))
                    .with_hint("addresses begin with s3://, http://, https:// or hdfs://; a local path has no scheme"));
            }
        })
    }
}

/// Whether to talk to an endpoint without TLS: `http://` is taken at its word.
fn is_plain_http(endpoint: &str) -> Result<bool, Error> {
    let scheme = Url::parse(endpoint).ok().filter(Url::has_host).map(|url| url.scheme().to_owned());
    match scheme.as_deref() {
        Some("http") => Ok(true),
        Some("https") => Ok(false),
        _ => Err(Error::new(ErrorKind::Invalid, format!("the S3 endpoint '{endpoint}' is no address"))
            .with_hint("AWS_ENDPOINT_URL is such as http://127.0.0.1:9000 or https://s3.example.com")),
    }
}

fn key(url: &Url) -> String {
    url[url::Position::BeforeScheme..url::Position::BeforePath].to_owned()
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
        let store = Self::open(url).map_err(DataFusionError::from)?;
        if opened.len() >= STORES_MAX {
            opened.clear();
        }
        opened.insert(key(url), Arc::clone(&store));
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::cache::default_cache::DefaultCache;

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
    fn an_endpoint_says_whether_it_is_spoken_to_in_the_clear() {
        let plain = |endpoint: &str| is_plain_http(endpoint).map_err(|error| error.kind());
        assert_eq!(plain("http://127.0.0.1:9000"), Ok(true));
        assert_eq!(plain("https://s3.example.com"), Ok(false));
        for endpoint in ["127.0.0.1:9000", "localhost:9000", "minio", "ftp://x", ""] {
            assert_eq!(plain(endpoint), Err(ErrorKind::Invalid), "{endpoint}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused_by_name() {
        let error =
            Error::from(Stores::new(footers()).get_store(&Url::parse("gopher://x/y").unwrap()).unwrap_err());
        assert_eq!(error.to_string(), "no store speaks 'gopher://'");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
