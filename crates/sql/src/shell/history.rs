use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most entries that are kept.
pub(super) const ENTRIES_MAX: usize = 10_000;

/// Words that suggest credentials: a statement that contains one is not kept.
const SECRETS: [&str; 5] = ["secret", "password", "access_key", "credential", "token"];

/// The path of the history: `$XDG_STATE_HOME/yeoul/history`; that variable defaults to `~/.local/state`.
///
/// `variable` reads an environment variable; relative paths are ignored, as the XDG specification requires.
pub(super) fn path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("yeoul").join("history"))
}

/// Creates the file and its folders, readable by the user only.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

/// Whether an entry may be kept: it is not blank, and suggests no credentials.
pub(super) fn may_keep(entry: &str) -> bool {
    let lower = entry.to_ascii_lowercase();
    !lower.trim().is_empty() && !SECRETS.iter().any(|secret| lower.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_path_follows_the_xdg_specification() {
        let with = |state: Option<&str>, home: Option<&str>| {
            let (state, home) = (state.map(PathBuf::from), home.map(PathBuf::from));
            path(|name| if name == "HOME" { home.clone() } else { state.clone() })
        };
        assert_eq!(with(Some("/s"), Some("/h")), Some("/s/yeoul/history".into()));
        assert_eq!(with(Some("relative"), Some("/h")), Some("/h/.local/state/yeoul/history".into()));
        assert_eq!(with(None, None), None);
    }

    #[test]
    fn only_the_user_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/history");
        create_private(&path).unwrap();
        create_private(&path).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn credentials_are_not_kept() {
        assert!(may_keep("select 1;"));
        assert!(!may_keep("create external table t … options ('aws.SECRET_access_key' 'abc');"));
        assert!(!may_keep("  "));
    }
}
