//! The files that a name or a call of a function stands for, and what the names of their directories say.

use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::SessionState;
use object_store::ObjectMeta;
use yeoul_base::ErrorKind;

use super::address::{address, at_home};
use super::files::check_local;
use super::selection::Selection;
use crate::Error;

/// The files of a table, which all are in one store.
pub(super) struct Listing {
    /// The paths as they were named, for errors.
    pub(super) name: String,
    /// As they were named; at least one.
    paths: Vec<String>,
    /// A selection for each path.
    selections: Vec<Selection>,
}

/// A file and its values of the columns that directories name.
pub(super) type Placed = (ObjectMeta, Vec<Option<String>>);

impl Listing {
    /// Lists what paths stand for now.
    ///
    /// # Errors
    /// `NotFound` if there is no file; `Invalid` for paths in different stores; the store's own.
    pub(super) async fn of(paths: &[String], state: &SessionState) -> Result<Self> {
        let paths: Vec<String> = paths.iter().map(|path| at_home(path).into_owned()).collect();
        let mut selections: Vec<Selection> = Vec::with_capacity(paths.len());
        for path in &paths {
            check_local(path)?;
            let url = address(path)?;
            if let Some(first) = selections.first()
                && first.url.object_store() != url.object_store()
            {
                let what = format!("'{}' and '{path}' are not in one store", paths[0]);
                let hint = "read them apart, and put them together with UNION ALL BY NAME";
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into());
            }
            let store = state.runtime_env().object_store(&url)?;
            let at = url.get_url().clone();
            let listed = Selection::list(path, url, store.as_ref()).await;
            selections.push(listed.map_err(|error| Error::at(&at, error))?);
        }
        Ok(Self { name: paths.join(", "), paths, selections })
    }

    /// The address of the first path.
    pub(super) fn url(&self) -> &ListingTableUrl {
        &self.selections[0].url
    }

    /// All files, in the order of the paths that they were found by.
    pub(super) fn files(&self) -> Vec<ObjectMeta> {
        self.selections.iter().flat_map(|selection| &selection.files).cloned().collect()
    }

    /// All files with their paths.
    pub(super) fn paths(&self) -> Vec<(ObjectMeta, String)> {
        let named = |(path, selection, file): (&str, &Selection, &ObjectMeta)| {
            (file.clone(), path_of(path, &selection.url, file))
        };
        self.each().map(named).collect()
    }

    /// Each file, with the path and the selection that found it.
    fn each(&self) -> impl Iterator<Item = (&str, &Selection, &ObjectMeta)> {
        let found = self.paths.iter().zip(&self.selections);
        found.flat_map(|(path, selection)| {
            selection.files.iter().map(move |file| (path.as_str(), selection, file))
        })
    }

    /// The columns that directories name, the same for every file.
    ///
    /// # Errors
    /// `Invalid` if files disagree, or if two directories of a path name the same column.
    pub(super) fn keys(&self) -> Result<Vec<String>> {
        let mut first: Option<(&str, Vec<String>)> = None;
        for (path, selection) in self.paths.iter().zip(&self.selections) {
            let keys = selection.keys(path)?;
            let (first_path, first_keys) = first.get_or_insert_with(|| (path, keys.clone()));
            if keys != *first_keys {
                let what = format!("the directories of '{first_path}' and '{path}' name different columns");
                let hint = "hive_partitioning = false leaves them out";
                return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into());
            }
        }
        Ok(first.map(|(_, keys)| keys).unwrap_or_default())
    }

    /// The files that are not empty, each with its directories' values if they are asked for, and with its path if that is.
    pub(super) fn placed(&self, has_keys: bool, has_path: bool) -> Vec<Placed> {
        let placed = |(path, selection, file): (&str, &Selection, &ObjectMeta)| {
            let mut values = if has_keys { selection.values(file) } else { Vec::new() };
            values.extend(has_path.then(|| Some(path_of(path, &selection.url, file))));
            (file.clone(), values)
        };
        self.each().filter(|(_, _, file)| file.size > 0).map(placed).collect()
    }
}

/// The path of a file: relative if it was found by a relative one.
fn path_of(named: &str, url: &ListingTableUrl, file: &ObjectMeta) -> String {
    if url.scheme() != "file" {
        return format!("{}{}", url.object_store().as_str(), file.location);
    }
    let path = format!("/{}", file.location);
    if named.starts_with('/') || named.contains("://") {
        return path;
    }
    let here = std::env::current_dir().ok().and_then(|here| Some(format!("{}/", here.to_str()?)));
    match here.and_then(|here| path.strip_prefix(&here).map(ToOwned::to_owned)) {
        Some(relative) => relative,
        None => path,
    }
}
