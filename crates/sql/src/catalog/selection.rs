use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use yeoul_base::ErrorKind;

use super::folder_keys::{key_of, value_of};
use crate::Error;

/// The files that a name stands for.
pub(super) struct Selection {
    /// In the order of their paths; at least one.
    pub files: Vec<ObjectMeta>,
    pub url: ListingTableUrl,
}

impl Selection {
    /// Lists the files at `url`, once. Names that begin with `_` or `.` are notes of the writer (`_SUCCESS`, `.crc`), and
    /// without a glob only `key=value` folders are entered.
    ///
    /// # Errors
    /// `NotFound` when there is none; the store's own.
    pub(super) async fn list(name: &str, url: ListingTableUrl, store: &dyn ObjectStore) -> Result<Self> {
        let mut files = list(&url, store).await?;
        match url.get_glob() {
            Some(glob) => {
                let pattern = Pattern::new(&url, glob.as_str())?;
                files.retain(|file| is_data(&url, file) && pattern.matches(&url, file));
            }
            None => files.retain(|file| is_data(&url, file) && is_direct(&url, file)),
        }
        files.sort_by(|a, b| a.location.cmp(&b.location));
        if files.is_empty() {
            let what = if url.get_glob().is_some() { "matches" } else { "is in" };
            return Err(Error::new(ErrorKind::NotFound, format!("no file {what} '{name}'")).into());
        }
        Ok(Self { files, url })
    }

    /// The columns that the folders name (`year=2024`), in order; every file has the same. Folders between them that name
    /// none, of which a glob can have some, are passed over.
    ///
    /// # Errors
    /// `Invalid` for a file in whose folders they differ, and for folders of which two name one column.
    pub(super) fn keys(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut first: Option<(&Path, Vec<&str>)> = None;
        for file in self.files.iter().filter(|file| file.size > 0) {
            let keys: Vec<&str> = self.said(file).map(|(key, _)| key).collect();
            let (first_file, first_keys) = first.get_or_insert_with(|| (&file.location, keys.clone()));
            if keys != *first_keys {
                let what = format!(
                    "the folders of the files of '{name}' name different columns: '{}' and '{}'",
                    self.below(first_file),
                    self.below(&file.location),
                );
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(
                    "read the folders apart; those of one table are called alike, such as year=2024/month=5",
                ));
            }
        }
        let Some((file, keys)) = first else { return Ok(Vec::new()) };
        if let Some(twice) = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
            let what = format!("the folders of '{}' name the column '{}' twice", self.below(file), twice.1);
            return Err(Error::new(ErrorKind::Invalid, what).with_hint("read a folder between the two"));
        }
        Ok(keys.into_iter().map(str::to_owned).collect())
    }

    /// What the folders of a file say of the columns that they name, in order; `None` is null.
    pub(super) fn values(&self, file: &ObjectMeta) -> Vec<Option<String>> {
        self.said(file).map(|(_, said)| value_of(said)).collect()
    }

    fn said<'a>(&'a self, file: &'a ObjectMeta) -> impl Iterator<Item = (&'a str, &'a str)> {
        folders(&self.url, &file.location).filter_map(key_of)
    }

    /// Whether all lie where an `INSERT` puts files: in the address itself, or in folders there that name columns.
    pub(super) fn is_direct(&self) -> bool {
        self.files.iter().all(|file| is_direct(&self.url, file))
    }

    /// A location as it is below the address.
    fn below(&self, location: &Path) -> String {
        parts(&self.url, location).join("/")
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

/// Whether a file lies in the address itself, or in folders there that name columns.
fn is_direct(url: &ListingTableUrl, file: &ObjectMeta) -> bool {
    folders(url, &file.location).all(|folder| key_of(folder).is_some())
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
            .any(|folder| is_note(folder) && (folder.starts_with('.') || key_of(folder).is_none()))
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
        parts.retain(|folder| key_of(folder).is_none());
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
