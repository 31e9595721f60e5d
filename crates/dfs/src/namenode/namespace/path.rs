use crate::wire::Refusal;
use crate::wire::exception::Exception;

/// Bytes of a name that is made, as in HDFS (`dfs.namenode.fs-limits.max-component-length`).
pub const COMPONENT_BYTES_MAX: usize = 255;
/// Characters of a path that is made, as in HDFS.
const PATH_CHARACTERS_MAX: usize = 8000;
/// Names in a path that is made, as in HDFS.
const PATH_DEPTH_MAX: usize = 1000;
/// Folder of names that HDFS keeps for itself.
const RESERVED: &str = ".reserved";
/// Where inodes are found by number.
const INODES: &str = ".inodes";
/// Where all files are found once more, as they are on disk.
const RAW: &str = "raw";
/// Folder of snapshots.
const SNAPSHOT: &str = ".snapshot";

/// A path as a client sends it: absolute and in its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    text: &'a str,
    components: Vec<&'a str>,
}

impl<'a> Path<'a> {
    /// Checks the form of a path.
    ///
    /// # Errors
    /// `InvalidPath` for one that does not begin with a slash, or has an empty name, `.`, `..` or a colon in it.
    pub fn parse(text: &'a str) -> Result<Self, Refusal> {
        let invalid =
            || Refusal::new(Exception::InvalidPath, format!("Invalid path name Invalid file name: {text}"));
        let rest = text.strip_prefix('/').ok_or_else(invalid)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return if text == "/" { Ok(Self { text, components: Vec::new() }) } else { Err(invalid()) };
        }
        let components: Vec<&str> = rest.split('/').collect();
        let is_sound =
            |name: &&str| !name.is_empty() && *name != "." && *name != ".." && !name.contains([':', '\0']);
        if components.iter().all(is_sound) { Ok(Self { text, components }) } else { Err(invalid()) }
    }

    /// The path as the client wrote it.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Its names, from the root.
    pub fn components(&self) -> &[&'a str] {
        &self.components
    }

    /// The last name; none of the root.
    pub fn name(&self) -> Option<&'a str> {
        self.components.last().copied()
    }

    /// True for `/`.
    pub fn is_root(&self) -> bool {
        self.components.is_empty()
    }

    /// The number that follows `/.reserved/.inodes/`, and the names behind it.
    pub fn reserved_inode(&self) -> Option<(&'a str, &[&'a str])> {
        match self.components.as_slice() {
            [RESERVED, INODES, id, rest @ ..] => Some((*id, rest)),
            _ => None,
        }
    }

    /// The names behind `/.reserved/raw`.
    pub fn raw(&self) -> Option<&[&'a str]> {
        match self.components.as_slice() {
            [RESERVED, RAW, rest @ ..] => Some(rest),
            _ => None,
        }
    }

    /// Checks that something may be made at this path.
    ///
    /// # Errors
    /// `PathComponentTooLong`, `HadoopIllegalArgument` for names that HDFS keeps for itself, `Io` for a path that is too
    /// long or too deep.
    pub fn check_new(&self) -> Result<(), Refusal> {
        let path = self.text;
        if path.chars().count() > PATH_CHARACTERS_MAX || self.components.len() > PATH_DEPTH_MAX {
            let limits = format!("Limit {PATH_CHARACTERS_MAX} characters, {PATH_DEPTH_MAX} levels.");
            return Err(Refusal::new(Exception::Io, format!("Pathname too long. {limits}")));
        }
        if let Some(long) = self.components.iter().find(|name| name.len() > COMPONENT_BYTES_MAX) {
            let found = long.len();
            let message = format!(
                "The maximum path component name limit of {long} in directory {path} is exceeded: \
                 limit={COMPONENT_BYTES_MAX} length={found}"
            );
            return Err(Refusal::new(Exception::PathComponentTooLong, message));
        }
        let is_inode = self.reserved_inode().is_some();
        if !is_inode && self.components.first() == Some(&RESERVED) || self.components.contains(&SNAPSHOT) {
            let name = if self.components.contains(&SNAPSHOT) { SNAPSHOT } else { RESERVED };
            let message = format!("\"{name}\" is a reserved name: {path} cannot be made");
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_absolute_and_normal() {
        for (text, components) in
            [("/", vec![]), ("/a", vec!["a"]), ("/a/b/", vec!["a", "b"]), ("/ä b/.c", vec!["ä b", ".c"])]
        {
            assert_eq!(Path::parse(text).unwrap().components(), components, "{text}");
        }
        for text in ["", "a", "//", "/a//b", "/a/./b", "/a/..", "/p/a:b", "/a//", "/a\0"] {
            let refused = Path::parse(text).unwrap_err();
            assert_eq!(refused.exception, Exception::InvalidPath, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused_with_the_class_that_clients_know() {
        let refused =
            |text: &str| Path::parse(text).unwrap().check_new().map_err(|refused| refused.exception);
        let name = |bytes| format!("/a/{}", "x".repeat(bytes));
        assert_eq!(refused(&name(255)), Ok(()));
        assert_eq!(refused(&name(256)), Err(Exception::PathComponentTooLong));
        // 128 letters of two bytes each.
        assert_eq!(refused(&format!("/{}", "é".repeat(128))), Err(Exception::PathComponentTooLong));
        assert_eq!(refused("/.reserved/x"), Err(Exception::HadoopIllegalArgument));
        assert_eq!(refused("/a/.snapshot/b"), Err(Exception::HadoopIllegalArgument));
        assert_eq!(refused(&"/x".repeat(1000)), Ok(()));
        assert_eq!(refused(&"/x".repeat(1001)), Err(Exception::Io));
        assert_eq!(refused(&format!("/{}", "a/".repeat(4000))), Err(Exception::Io));
    }
}
