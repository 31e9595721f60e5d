//! Object stores of addresses: the same address means the same store to every part.
//!
//! ```
//! use url::Url;
//! use yeoul_base::ErrorKind;
//!
//! let address = Url::parse("gopher://host/file").unwrap();
//! assert_eq!(yeoul_stores::open(&address).unwrap_err().kind(), ErrorKind::Invalid);
//! ```

use std::sync::Arc;

use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use url::{Position, Url};
use yeoul_base::{Error, ErrorKind, Result};

/// The part of an address that names its store: scheme, user, host and port.
pub fn authority(address: &Url) -> &str {
    &address[Position::BeforeScheme..Position::BeforePath]
}

/// Opens the store of an address; paths in it are the store's own.
///
/// `s3://bucket` takes its credentials, region and endpoint from the environment (`AWS_…`), not from the files of the AWS
/// tools; `hdfs://` takes Hadoop's configuration from `HADOOP_CONF_DIR`.
///
/// # Errors
/// `Invalid` for an address that no store has, or an endpoint that is none; `Unavailable` for settings that a store refuses.
pub fn open(address: &Url) -> Result<Arc<dyn ObjectStore>> {
    open_with(address, RetryConfig::default())
}

/// [`open`] with a client that sends requests again as often as `retries` says, where it does so at all: HDFS's has its own way.
///
/// # Errors
/// As [`open`].
pub fn open_with(address: &Url, retries: RetryConfig) -> Result<Arc<dyn ObjectStore>> {
    let authority = authority(address);
    let failed = |source: object_store::Error| {
        Error::new(ErrorKind::Unavailable, format!("cannot open {authority}: {source}")).with_source(source)
    };
    Ok(match address.scheme() {
        "s3" | "s3a" => {
            let bucket = address.host_str().unwrap_or_default();
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retries);
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
                    .with_retry(retries)
                    .build()
                    .map_err(failed)?,
            )
        }
        "hdfs" | "viewfs" => {
            Arc::new(HdfsObjectStoreBuilder::new().with_url(authority).build().map_err(failed)?)
        }
        other => {
            return Err(Error::new(ErrorKind::Invalid, format!("no store speaks '{other}://'")).with_hint(
                "addresses begin with s3://, http://, https:// or hdfs://; a local path has no scheme",
            ));
        }
    })
}

/// Leave to talk to an endpoint without TLS: `http://` is taken at its word.
fn is_plain_http(endpoint: &str) -> Result<bool> {
    let scheme = Url::parse(endpoint).ok().filter(Url::has_host).map(|url| url.scheme().to_owned());
    match scheme.as_deref() {
        Some("http") => Ok(true),
        Some("https") => Ok(false),
        _ => Err(Error::new(ErrorKind::Invalid, format!("the S3 endpoint '{endpoint}' is no address"))
            .with_hint("AWS_ENDPOINT_URL is such as http://127.0.0.1:9000 or https://s3.example.com")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let error = open(&Url::parse("gopher://x/y").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "no store speaks 'gopher://'");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn the_store_of_an_address_is_its_authority() {
        let of = |address: &str| authority(&Url::parse(address).unwrap()).to_owned();
        assert_eq!(of("s3://bucket/a/b"), "s3://bucket");
        assert_eq!(of("hdfs://host:8020/a"), "hdfs://host:8020");
    }
}
