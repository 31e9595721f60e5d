use std::borrow::Cow;
use std::path::Path;

use datafusion::datasource::listing::ListingTableUrl;
use url::Url;
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// A name with the home directory in place of a `~` at its begin, as shells and DuckDB read it.
pub fn at_home(name: &str) -> Cow<'_, str> {
    let home = || std::env::var("HOME").ok().filter(|home| !home.is_empty());
    match name.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => home().map_or(Cow::Borrowed(name), |home| Cow::Owned(format!("{home}{rest}"))),
        None => Cow::Borrowed(name),
    }
}

/// The location that a name stands for. DataFusion recognises globs only in local paths, and treats a path with `[`, `*` or
/// `?` as one even if a file has that name.
pub(super) fn address(name: &str) -> Result<ListingTableUrl> {
    if !name.contains("://") && has_glob(name) && Path::new(name).exists() {
        return literal(name);
    }
    let bad = |source| no_address(name, source);
    let (folder, glob) = split_glob(name).unwrap_or((name, ""));
    let url = ListingTableUrl::parse(folder).map_err(bad)?;
    check_parts(name, url.get_url())?;
    if glob.is_empty() { Ok(url) } else { url.with_glob(glob).map_err(bad) }
}

/// Refuses an address of which DataFusion would ignore a part.
///
/// # Errors
/// `Invalid` for an address with a query or a fragment.
pub(crate) fn check_address(name: &str) -> Result<()> {
    match Url::parse(name) {
        Ok(url) if name.contains("://") => check_parts(name, &url),
        _ => Ok(()),
    }
}

fn check_parts(name: &str, url: &Url) -> Result<()> {
    let (mark, what) = match (url.query(), url.fragment()) {
        (Some(_), _) => ('?', "query"),
        (None, Some(_)) => ('#', "fragment"),
        (None, None) => return Ok(()),
    };
    let error = Error::new(
        ErrorKind::Invalid,
        format!("the address '{name}' has a {what}, the part from '{mark}' on, which cannot be sent"),
    );
    Err(match url.scheme() {
        "http" | "https" => error.with_hint("download the file, and name the local one"),
        _ => error
            .with_hint(format!("in a name, write '{mark}' as {}", if mark == '?' { "%3F" } else { "%23" })),
    })
}

fn literal(name: &str) -> Result<ListingTableUrl> {
    let path = std::path::absolute(name).map_err(|source| no_address(name, source))?;
    let url = if path.is_dir() { Url::from_directory_path(&path) } else { Url::from_file_path(&path) };
    let url =
        url.map_err(|()| Error::new(ErrorKind::Invalid, format!("'{name}' is no path of this system")))?;
    ListingTableUrl::try_new(url, None).map_err(|source| no_address(name, source))
}

fn no_address(name: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Invalid, format!("'{name}' is no address: {source}")).with_source(source)
}

pub(super) fn has_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Splits an address into its folder and the glob after it. HTTP has no globs: it cannot list, and a `?` begins a query
/// there.
fn split_glob(name: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = name.split_once("://")?;
    if scheme.starts_with("http") {
        return None;
    }
    let path = name.len() - rest.len() + rest.find('/')?;
    let first = path + name[path..].find(['*', '?', '['])?;
    let folder = name[..first].rfind('/')? + 1;
    Some((&name[..folder], &name[folder..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_glob() {
        assert_eq!(split_glob("s3://b/t/part=1/*.parquet"), Some(("s3://b/t/part=1/", "*.parquet")));
        assert_eq!(split_glob("hdfs://[::1]:9000/t/p=*/a.csv"), Some(("hdfs://[::1]:9000/t/", "p=*/a.csv")));
        assert_eq!(split_glob("s3://b/t/one.parquet"), None);
        assert_eq!(split_glob("https://host/a.csv?v=1"), None);
        assert_eq!(split_glob("t/*.csv"), None);
    }

    #[test]
    fn no_part_of_an_address_is_left_out() {
        for name in ["https://host/a.csv?v=1", "https://host/a.csv#top", "s3://bucket/a#1.csv"] {
            assert_eq!(address(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
            assert_eq!(check_address(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
        address("s3://bucket/a?.csv").unwrap();
        check_address("s3://bucket/a.csv").unwrap();
        check_address("what?.csv").unwrap();
    }
}
