use super::options::authority_of;
use crate::error::{Error, Kind, Result};

/// Characters that make a path a pattern, as in Hadoop.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// A path as a person gives it: `hdfs://host:port/a/b`, `/a/b`, or `a/b` below the home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePath {
    /// `host:port` of the NameNode that it names, if it names one.
    authority: Option<String>,
    /// From the root, without empty parts, `.` and `..`.
    path: String,
}

impl RemotePath {
    /// Reads a path; `user` has the home directory that one without a slash is below.
    ///
    /// # Errors
    /// `Invalid` for an address of another scheme, and for nothing at all.
    pub fn parse(text: &str, user: &str) -> Result<Self> {
        let (authority, path) = match text.split_once("://") {
            None if text.is_empty() => return Err(Error::new(Kind::Invalid, "a path is empty")),
            None => (None, text),
            Some(("hdfs", rest)) => {
                let at = rest.find('/').unwrap_or(rest.len());
                let authority = if at == 0 { None } else { Some(authority_of(text)?) };
                (authority, if at == rest.len() { "/" } else { &rest[at..] })
            }
            Some((scheme, _)) => {
                let message = format!("'{text:.100}' is no path of this file system: its scheme is {scheme}");
                let hint = "paths are /a/b or hdfs://HOST:PORT/a/b; local files are only in -put and -get";
                return Err(Error::new(Kind::Invalid, message).with_hint(hint));
            }
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/user/{user}/{path}") };
        Ok(Self { authority, path: normal(&path) })
    }

    /// `host:port` of the NameNode that it names, if it names one.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// From the root, without empty parts, `.` and `..`.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// True if it stands for all paths of a pattern.
    pub fn is_pattern(&self) -> bool {
        self.path.contains(PATTERN)
    }
}

/// A path without empty parts, `.` and `..`; above the root is the root.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// An entry of a directory.
pub(crate) fn child(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// The last part of a path; empty for the root.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The directory of a path; the root's is the root.
pub(crate) fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, String) {
        let path = RemotePath::parse(text, "ada").unwrap();
        (path.authority, path.path)
    }

    #[test]
    fn paths_are_read_as_hadoop_reads_them() {
        for (text, authority, path) in [
            ("/a//b/", None, "/a/b"),
            ("a/./b", None, "/user/ada/a/b"),
            ("../eve/x", None, "/user/eve/x"),
            ("/../..", None, "/"),
            ("hdfs://n1:9000/a/b", Some("n1:9000"), "/a/b"),
            ("hdfs://n1", Some("n1:8020"), "/"),
            ("hdfs:///a", None, "/a"),
            (".", None, "/user/ada"),
        ] {
            assert_eq!(read(text), (authority.map(str::to_owned), path.to_owned()), "{text}");
        }
        for text in ["file:///tmp/x", "s3://b/x", ""] {
            assert_eq!(RemotePath::parse(text, "ada").unwrap_err().kind(), Kind::Invalid, "{text}");
        }
        assert!(RemotePath::parse("/a/*.csv", "ada").unwrap().is_pattern());
        assert!(!RemotePath::parse("/a/b.csv", "ada").unwrap().is_pattern());
    }

    #[test]
    fn a_path_has_a_directory_and_a_name() {
        assert_eq!((parent_of("/a/b"), name_of("/a/b"), child("/a", "b")), ("/a", "b", "/a/b".to_owned()));
        assert_eq!((parent_of("/a"), name_of("/"), child("/", "b")), ("/", "", "/b".to_owned()));
    }
}
