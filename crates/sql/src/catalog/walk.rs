use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::folder_keys::key_of;
use super::pattern::{Pattern, Reach};
use super::selection::{is_hidden_folder, parts};
use crate::Error;

/// How many folders are listed at a time.
const FOLDERS_AT_ONCE: usize = 32;
/// The most levels of folders that are entered. Links may form a loop.
const DEPTH_MAX: usize = 32;
/// The most folders that are entered.
const FOLDERS_MAX: usize = 1_000_000;

/// Finds the files of an address level by level. It does not enter folders that cannot hold a match: they may be huge or
/// unreadable.
pub(super) struct Walk<'a> {
    /// The address as the user wrote it.
    pub name: &'a str,
    pub url: &'a ListingTableUrl,
    /// What the files match; without it, only folders that name a column are entered.
    pub pattern: Option<&'a Pattern>,
    pub store: &'a dyn ObjectStore,
}

impl Walk<'_> {
    /// The files of all folders that are entered; the caller filters out those that do not belong to the address.
    ///
    /// # Errors
    /// `Invalid` if there are too many folders or levels; the store's own.
    pub(super) async fn files(&self) -> Result<Vec<ObjectMeta>> {
        let (mut files, mut count) = (Vec::new(), 0);
        let mut level = vec![self.url.prefix().clone()];
        for _ in 0..=DEPTH_MAX {
            count += level.len();
            if count > FOLDERS_MAX {
                return Err(self.refused(format!("there are more than {FOLDERS_MAX} directories")));
            }
            let list = |folder: Path| self.list(folder);
            let mut lists = futures::stream::iter(level).map(list).buffered(FOLDERS_AT_ONCE);
            level = Vec::new();
            while let Some(listed) = lists.try_next().await? {
                files.extend(listed.objects);
                level.extend(listed.common_prefixes);
            }
            if level.is_empty() {
                return Ok(files);
            }
        }
        Err(self.refused(format!("directories lie more than {DEPTH_MAX} levels deep")))
    }

    /// The files of a folder, and the folders to enter next.
    async fn list(&self, folder: Path) -> object_store::Result<ListResult> {
        if self.pattern.is_some_and(|pattern| pattern.reach(&parts(self.url, &folder)) == Reach::Deep) {
            return self.list_below(&folder).await;
        }
        let mut listed = self.store.list_with_delimiter(Some(&folder)).await?;
        listed.common_prefixes.retain(|folder| !is_hidden_folder(self.last_of(folder)));
        let visible = listed.common_prefixes.len();
        listed.common_prefixes.retain(|folder| self.enters(folder));
        let entered = &listed.common_prefixes;
        let are_keys = !entered.is_empty() && entered.iter().all(|folder| self.names_a_column(folder));
        if are_keys && entered.len() == visible && self.url.scheme() != "file" {
            // A store lists 1000 objects per request, in whatever folders: cheaper than a request for each folder.
            return self.list_below(&folder).await;
        }
        Ok(listed)
    }

    /// All files below a folder.
    async fn list_below(&self, folder: &Path) -> object_store::Result<ListResult> {
        let objects = self.store.list(Some(folder)).try_collect().await?;
        Ok(ListResult { common_prefixes: Vec::new(), objects })
    }

    fn enters(&self, folder: &Path) -> bool {
        match self.pattern {
            Some(pattern) => pattern.reach(&parts(self.url, folder)) > Reach::Nothing,
            None => self.names_a_column(folder),
        }
    }

    fn names_a_column(&self, folder: &Path) -> bool {
        key_of(self.last_of(folder)).is_some()
    }

    fn last_of<'a>(&'a self, folder: &'a Path) -> &'a str {
        parts(self.url, folder).last().copied().unwrap_or_default()
    }

    fn refused(&self, what: String) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::Invalid, format!("'{}' cannot be listed: {what}", self.name))
            .with_hint("name a directory further down; is there a link that leads in a circle?")
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use object_store::ObjectStoreExt;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;

    use super::*;

    async fn walked(address: &str, glob: Option<&str>, store: &dyn ObjectStore) -> Result<Vec<String>> {
        let url = ListingTableUrl::parse(address).unwrap();
        let pattern = glob.map(|glob| Pattern::new(&url, glob).unwrap());
        let files = Walk { name: address, url: &url, pattern: pattern.as_ref(), store }.files().await?;
        let mut found: Vec<String> = files.iter().map(|file| parts(&url, &file.location).join("/")).collect();
        found.sort();
        Ok(found)
    }

    #[tokio::test]
    async fn only_folders_that_can_hold_a_file_are_entered() {
        let folder = tempfile::tempdir().unwrap();
        for file in
            ["a.csv", "k=1/b.csv", "x/c.csv", "x/y/d.csv", ".hid/e.csv", "k=1/l=2/f.csv", "_h/k=1/g.csv"]
        {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        // Following the loop further ends in an error.
        fs::create_dir(folder.path().join("circle")).unwrap();
        symlink("../circle", folder.path().join("circle/again")).unwrap();
        let address = format!("file://{}/", folder.path().display());
        let store = LocalFileSystem::new();
        let keyed = ["a.csv", "k=1/b.csv", "k=1/l=2/f.csv"].as_slice();
        for (glob, expected) in [
            (None, keyed),
            (Some("*.csv"), keyed),
            (Some("x/*.csv"), &["a.csv", "k=1/b.csv", "k=1/l=2/f.csv", "x/c.csv"]),
            (Some("x/**"), &["a.csv", "k=1/b.csv", "k=1/l=2/f.csv", "x/c.csv", "x/y/d.csv"]),
        ] {
            assert_eq!(walked(&address, glob, &store).await.unwrap(), expected, "{glob:?}");
        }
        walked(&address, Some("**"), &store).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_circle_of_folders_that_name_columns_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, other) in [("one", "../other"), ("other", "../one")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            symlink(other, folder.path().join(name).join("k=1")).unwrap();
        }
        let address = format!("file://{}/one/", folder.path().display());
        let error = Error::from(walked(&address, None, &LocalFileSystem::new()).await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("levels deep") && error.hint().is_some(), "{error}");
    }

    #[tokio::test]
    async fn a_store_gives_the_same_files() {
        let store = InMemory::new();
        for key in ["t/k=1/l=1/a", "t/k=1/l=2/b", "t/k=2/c", "t/d", "s/x/far/e", "s/k=1/f", "s/g", "other/h"]
        {
            store.put(&Path::from(key), "1".into()).await.unwrap();
        }
        let found = walked("s3://bucket/t", None, &store).await.unwrap();
        assert_eq!(found, ["d", "k=1/l=1/a", "k=1/l=2/b", "k=2/c"]);
        let found = walked("s3://bucket/s/", None, &store).await.unwrap();
        assert_eq!(found, ["g", "k=1/f"]);
    }
}
