use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use yeoul_base::ErrorKind;

use super::folder_keys::{column_of, key_of, value_of};
use super::pattern::Pattern;
use super::walk::Walk;
use crate::Error;

/// The files that a name stands for.
pub(super) struct Selection {
    /// In the order of their paths; at least one.
    pub files: Vec<ObjectMeta>,
    pub url: ListingTableUrl,
}

impl Selection {
    /// Lists the files at `url`, once. Names that begin with `_` or `.` are metadata files (`_SUCCESS`, `.crc`), and without
    /// a glob only `key=value` folders are entered.
    ///
    /// # Errors
    /// `NotFound` if there is none; the store's own.
    pub(super) async fn list(name: &str, url: ListingTableUrl, store: &dyn ObjectStore) -> Result<Self> {
        let mut files = match named_file(&url, store).await? {
            Some(file) => vec![file],
            None => files_below(name, &url, store).await?,
        };
        files.sort_by(|a, b| a.location.cmp(&b.location));
        if files.is_empty() {
            let what = if url.get_glob().is_some() { "matches" } else { "is in" };
            return Err(Error::new(ErrorKind::NotFound, format!("no file {what} '{name}'")).into());
        }
        Ok(Self { files, url })
    }

    /// The columns that the folders name (`year=2024`), in order, the same for every file. Folders in between that name none
    /// (possible with a glob) are skipped.
    ///
    /// # Errors
    /// `Invalid` if files disagree, or if two folders of a path name the same column.
    pub(super) fn keys(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut first: Option<(&Path, Vec<String>)> = None;
        for file in self.files.iter().filter(|file| file.size > 0) {
            let keys: Vec<String> = self.said(file).map(|(key, _)| column_of(key)).collect();
            let (first_file, first_keys) = first.get_or_insert_with(|| (&file.location, keys.clone()));
            if keys != *first_keys {
                let what = format!(
                    "the directories of the files of '{name}' name different columns: '{}' and '{}'",
                    self.below(first_file),
                    self.below(&file.location),
                );
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(
                    "read the directories apart; those of one table are called alike, such as year=2024/month=5",
                ));
            }
        }
        let Some((file, keys)) = first else { return Ok(Vec::new()) };
        if let Some(twice) = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
            let what =
                format!("the directories of '{}' name the column '{}' twice", self.below(file), twice.1);
            return Err(Error::new(ErrorKind::Invalid, what).with_hint("read a directory between the two"));
        }
        Ok(keys)
    }

    /// The values in the names of a file's folders, in the order of [`Selection::keys`]; `None` is null.
    pub(super) fn values(&self, file: &ObjectMeta) -> Vec<Option<String>> {
        self.said(file).map(|(_, said)| value_of(said)).collect()
    }

    fn said<'a>(&'a self, file: &'a ObjectMeta) -> impl Iterator<Item = (&'a str, &'a str)> {
        folders(&self.url, &file.location).filter_map(key_of)
    }

    /// A location, relative to the address.
    fn below(&self, location: &Path) -> String {
        parts(&self.url, location).join("/")
    }
}

/// The file at the address itself, if there is one.
async fn named_file(url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<Option<ObjectMeta>> {
    if url.is_collection() {
        return Ok(None);
    }
    match store.head(url.prefix()).await {
        Ok(file) => Ok(Some(file)),
        // A folder in a store may be named without the slash at its end.
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The data files in the folder at the address, which `name` is for.
async fn files_below(name: &str, url: &ListingTableUrl, store: &dyn ObjectStore) -> Result<Vec<ObjectMeta>> {
    let pattern = url.get_glob().as_ref().map(|glob| Pattern::new(url, glob.as_str())).transpose()?;
    let mut files = Walk { name, url, pattern: pattern.as_ref(), store }.files().await?;
    files.retain(|file| {
        is_data(url, file)
            && match &pattern {
                Some(pattern) => pattern.matches(&parts(url, &file.location)),
                None => is_direct(url, file),
            }
    });
    Ok(files)
}

/// The parts of a path below the address.
pub(super) fn parts<'a>(url: &'a ListingTableUrl, location: &'a Path) -> Vec<&'a str> {
    url.strip_prefix(location).map(Iterator::collect).unwrap_or_default()
}

fn folders<'a>(url: &'a ListingTableUrl, location: &'a Path) -> impl Iterator<Item = &'a str> {
    let mut parts = parts(url, location);
    parts.pop();
    parts.into_iter()
}

/// Whether a file is directly at the address, or in folders below it that all name columns.
fn is_direct(url: &ListingTableUrl, file: &ObjectMeta) -> bool {
    folders(url, &file.location).all(|folder| key_of(folder).is_some())
}

fn is_data(url: &ListingTableUrl, file: &ObjectMeta) -> bool {
    let parts = parts(url, &file.location);
    // An object with no part below the folder is the store's marker for the folder itself.
    let Some((file, folders)) = parts.split_last() else { return false };
    !is_note(file) && !folders.iter().any(|folder| is_hidden_folder(folder))
}

/// Whether a name is that of a metadata file.
fn is_note(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// Whether a folder holds only metadata. A column's name may begin with `_`.
pub(super) fn is_hidden_folder(name: &str) -> bool {
    is_note(name) && (name.starts_with('.') || key_of(name).is_none())
}
