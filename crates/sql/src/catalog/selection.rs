use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use yeoul_base::ErrorKind;

use crate::Error;

/// The files that a name stands for, and the addresses at which DataFusion finds these and no others.
pub(super) struct Selection {
    /// In the order of their paths; at least one.
    pub files: Vec<ObjectMeta>,
    url: ListingTableUrl,
    /// All that lies at the address, whether it belongs to the selection or not.
    listed: Vec<ObjectMeta>,
}

impl Selection {
    /// Lists the files at `url`, once. Names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.crc`), and
    /// without a glob only `key=value` folders are entered.
    ///
    /// # Errors
    /// `NotFound` when there is none; the store's own.
    pub(super) async fn list(name: &str, url: ListingTableUrl, store: &dyn ObjectStore) -> Result<Self> {
        let listed = list(&url, store).await?;
        let mut files = match url.get_glob() {
            Some(glob) => {
                let pattern = Pattern::new(&url, glob.as_str())?;
                listed
                    .iter()
                    .filter(|file| is_data(&url, file) && pattern.matches(&url, file))
                    .cloned()
                    .collect()
            }
            None => listed
                .iter()
                .filter(|file| is_data(&url, file) && is_direct(&url, file))
                .cloned()
                .collect::<Vec<_>>(),
        };
        files.sort_by(|a, b| a.location.cmp(&b.location));
        if files.is_empty() {
            let what = if url.get_glob().is_some() { "matches" } else { "is in" };
            return Err(Error::new(ErrorKind::NotFound, format!("no file {what} '{name}'")).into());
        }
        Ok(Self { files, url, listed })
    }

    /// The addresses to scan, and the ending that the scan shall ask for. `extension` is that of the first file.
    ///
    /// # Errors
    /// `Invalid` when no address of DataFusion's finds just these files with the columns of their folders.
    pub(super) fn addresses(&self, name: &str, extension: &str) -> Result<(Vec<ListingTableUrl>, String)> {
        let last = self.url.get_glob().as_ref().and_then(|glob| glob.as_str().rsplit('/').next());
        // In a folder, the names that are no notes; `[` is a glob's own only before the known extension.
        let visible = format!("[!_.]*{extension}");
        let globs = last.into_iter().chain([visible.as_str()]);
        let narrowed = globs.map(|glob| self.url.clone().with_glob(glob));
        for url in std::iter::once(Ok(self.url.clone())).chain(narrowed) {
            let url = url?;
            if self.is_all_at(&url, extension) {
                return Ok((vec![url], extension.to_owned()));
            }
        }
        if self.files.iter().any(|file| folders(&self.url, &file.location).any(|part| part.contains('='))) {
            let what =
                format!("the files of '{name}' cannot be read together with the columns of their folders");
            return Err(Error::new(ErrorKind::Invalid, what)
                .with_hint("read the folder above them, and choose with WHERE on the columns of its folders")
                .into());
        }
        let urls = self.files.iter().map(|file| self.address_of(&file.location)).collect::<Result<_>>()?;
        Ok((urls, String::new()))
    }

    /// The columns that the folders name (`year=2024`), in order; every file has the same.
    ///
    /// # Errors
    /// `Invalid` for a file in whose folders they differ: a scan would leave it out, or its column.
    pub(super) fn keys(&self, name: &str) -> Result<Vec<String>> {
        let mut first: Option<(&Path, Vec<&str>)> = None;
        for file in self.files.iter().filter(|file| file.size > 0) {
            let keys: Vec<&str> = folders(&self.url, &file.location).map(key).collect();
            // A key behind a folder without one is not found by a scan.
            let keys_end = keys.iter().rposition(|key| !key.is_empty()).map_or(0, |last| last + 1);
            let keys = keys[..keys_end].to_vec();
            let (first_file, first_keys) = first.get_or_insert_with(|| (&file.location, keys.clone()));
            if keys != *first_keys || keys.contains(&"") {
                let what = format!(
                    "the folders of the files of '{name}' name different columns: '{}' and '{}'",
                    self.below(first_file),
                    self.below(&file.location),
                );
                return Err(Error::new(ErrorKind::Invalid, what)
                    .with_hint("read the folders apart; those of one table are called alike, such as year=2024/month=5")
                    .into());
            }
        }
        Ok(first.map(|(_, keys)| keys.into_iter().map(str::to_owned).collect()).unwrap_or_default())
    }

    /// Whether a folder has this value for the column that it names.
    pub(super) fn has_folder_value(&self, value: &str) -> bool {
        let has = |file: &ObjectMeta| {
            folders(&self.url, &file.location)
                .any(|part| part.split_once('=').is_some_and(|(_, v)| v == value))
        };
        self.files.iter().any(has)
    }

    /// A location as it is below the address.
    fn below(&self, location: &Path) -> String {
        parts(&self.url, location).join("/")
    }

    /// Whether a scan of `url` reads the files of the selection and no others.
    fn is_all_at(&self, url: &ListingTableUrl, extension: &str) -> bool {
        let found = |file: &&ObjectMeta| {
            file.location.as_ref().ends_with(extension) && url.contains(&file.location, true)
        };
        // An empty file has no rows, and a scan leaves it out.
        let mut found: Vec<&Path> = self
            .listed
            .iter()
            .filter(found)
            .filter(|file| file.size > 0)
            .map(|file| &file.location)
            .collect();
        found.sort();
        self.files.iter().filter(|file| file.size > 0).map(|file| &file.location).eq(found)
    }

    fn address_of(&self, location: &Path) -> Result<ListingTableUrl> {
        let mut url = self.url.get_url().clone();
        url.set_path(&format!("/{}", location.as_ref().replace('%', "%25")));
        let url = ListingTableUrl::try_new(url, None)?;
        if url.prefix() != location {
            let what = format!("the name of '{location}' cannot be written as an address");
            return Err(Error::new(ErrorKind::Invalid, what).into());
        }
        Ok(url)
    }
}

async fn list(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<Vec<ObjectMeta>> {
    if !url.is_collection() {
        match store.head(url.prefix()).await {
            Ok(file) => return Ok(vec![file]),
            // In a store, a folder may be named without the slash at its end.
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(store.list(Some(url.prefix())).try_collect().await?)
}

/// The parts of a path below the address.
fn parts<'a>(url: &'a ListingTableUrl, location: &'a Path) -> Vec<&'a str> {
    url.strip_prefix(location).map(Iterator::collect).unwrap_or_default()
}

fn folders<'a>(url: &'a ListingTableUrl, location: &'a Path) -> impl Iterator<Item = &'a str> {
    let mut parts = parts(url, location);
    parts.pop();
    parts.into_iter()
}

/// The column that a folder names; empty if it names none.
fn key(folder: &str) -> &str {
    folder.split_once('=').map_or("", |(key, _)| key)
}

/// Whether a file lies in the address itself, or in folders there that name columns.
fn is_direct(url: &ListingTableUrl, file: &ObjectMeta) -> bool {
    folders(url, &file.location).all(|folder| folder.contains('='))
}

fn is_data(url: &ListingTableUrl, file: &ObjectMeta) -> bool {
    let parts = parts(url, &file.location);
    let Some((file, folders)) = parts.split_last() else {
        // The file that was named itself; or the mark that a store keeps in place of a folder.
        return !url.is_collection();
    };
    let is_note = |name: &str| name.starts_with(['.', '_']);
    // A column's name may begin with `_`.
    !is_note(file)
        && !folders
            .iter()
            .any(|folder| is_note(folder) && (folder.starts_with('.') || key(folder).is_empty()))
}

/// A glob, matched part by part: `*` stays within a part, `**` is any number of parts.
struct Pattern(Vec<Part>);

enum Part {
    Any,
    One(Box<dyn Fn(&str) -> bool + Send + Sync>),
}

impl Pattern {
    fn new(url: &ListingTableUrl, glob: &str) -> Result<Self> {
        let part = |part: &str| {
            if part == "**" {
                return Ok(Part::Any);
            }
            let matcher = url.clone().with_glob(part)?;
            Ok(Part::One(Box::new(move |name| {
                matcher.get_glob().as_ref().is_some_and(|pattern| pattern.matches(name))
            })))
        };
        Ok(Self(glob.split('/').map(part).collect::<Result<_>>()?))
    }

    /// Folders that name a column may be left out of the glob.
    fn matches(&self, url: &ListingTableUrl, file: &ObjectMeta) -> bool {
        let mut parts = parts(url, &file.location);
        if match_parts(&self.0, &parts) {
            return true;
        }
        let Some(file) = parts.pop() else { return false };
        parts.retain(|folder| !folder.contains('='));
        parts.push(file);
        match_parts(&self.0, &parts)
    }
}

fn match_parts(pattern: &[Part], parts: &[&str]) -> bool {
    match (pattern, parts) {
        ([], []) => true,
        ([Part::Any], _) => !parts.is_empty(),
        ([Part::Any, rest @ ..], _) => (0..=parts.len()).any(|skipped| match_parts(rest, &parts[skipped..])),
        ([Part::One(matches), pattern @ ..], [part, parts @ ..]) => {
            matches(part) && match_parts(pattern, parts)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_matched_against_the_whole_path() {
        let url = ListingTableUrl::parse("file:///t/").unwrap();
        let matches = |glob: &str, path: &str| {
            match_parts(&Pattern::new(&url, glob).unwrap().0, &path.split('/').collect::<Vec<_>>())
        };
        assert!(matches("*.csv", "a.csv") && !matches("*.csv", "sub/a.csv"));
        assert!(matches("**/*.csv", "a.csv") && matches("**/*.csv", "x/y/a.csv"));
        assert!(matches("200?/[a-c]*.csv", "2001/b.csv") && !matches("200?/*.csv", "1999/b.csv"));
        assert!(matches("x/**", "x/y/a.csv") && !matches("x/**", "y/a.csv") && !matches("x/**", "x"));
        assert!(matches("**/y/*.csv", "x/y/a.csv") && !matches("**/y/*.csv", "x/z/a.csv"));
    }
}
