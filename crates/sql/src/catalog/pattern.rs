use datafusion::common::Result;
use datafusion::datasource::listing::ListingTableUrl;

use super::folder_keys::key_of;

/// A glob, matched part by part: `*` matches within a part, `**` any number of parts. It may leave out `key=value` folders.
pub(super) struct Pattern(Vec<Part>);

enum Part {
    Any,
    One(Box<dyn Fn(&str) -> bool + Send + Sync>),
}

/// Which files below a folder a pattern may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// None.
    Nothing,
    /// Files in it or in some of its folders.
    Some,
    /// Files in any folder below it, because `**` comes next.
    Deep,
}

impl Pattern {
    pub(super) fn new(url: &ListingTableUrl, glob: &str) -> Result<Self> {
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

    /// Whether it matches a file, given by the parts of its path below the address.
    pub(super) fn matches(&self, parts: &[&str]) -> bool {
        let Some((file, folders)) = parts.split_last() else { return false };
        let mut told = without_keys(folders);
        told.push(file);
        match_parts(&self.0, parts) || match_parts(&self.0, &told)
    }

    /// Which files it may match below a folder, given by the parts of its path below the address.
    pub(super) fn reach(&self, folders: &[&str]) -> Reach {
        reach(&self.0, folders).max(reach(&self.0, &without_keys(folders)))
    }
}

fn without_keys<'a>(folders: &[&'a str]) -> Vec<&'a str> {
    folders.iter().copied().filter(|folder| key_of(folder).is_none()).collect()
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

fn reach(pattern: &[Part], folders: &[&str]) -> Reach {
    match (pattern, folders) {
        ([], _) => Reach::Nothing,
        ([Part::Any, ..], _) => Reach::Deep,
        (_, []) => Reach::Some,
        // The last part matches the file name.
        ([Part::One(matches), pattern @ ..], [folder, folders @ ..]) if matches(folder) => {
            reach(pattern, folders)
        }
        _ => Reach::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(glob: &str) -> Pattern {
        Pattern::new(&ListingTableUrl::parse("file:///t/").unwrap(), glob).unwrap()
    }

    fn parts(path: &str) -> Vec<&str> {
        path.split_terminator('/').collect()
    }

    #[test]
    fn a_glob_is_matched_against_the_whole_path() {
        let matches = |glob: &str, path: &str| pattern(glob).matches(&parts(path));
        assert!(matches("*.csv", "a.csv") && !matches("*.csv", "sub/a.csv"));
        assert!(matches("**/*.csv", "a.csv") && matches("**/*.csv", "x/y/a.csv"));
        assert!(matches("200?/[a-c]*.csv", "2001/b.csv") && !matches("200?/*.csv", "1999/b.csv"));
        assert!(matches("x/**", "x/y/a.csv") && !matches("x/**", "y/a.csv") && !matches("x/**", "x"));
        assert!(matches("**/y/*.csv", "x/y/a.csv") && !matches("**/y/*.csv", "x/z/a.csv"));
        assert!(matches("*.csv", "k=1/a.csv") && matches("x/*.csv", "k=1/x/a.csv"));
    }

    #[test]
    fn a_folder_is_reached_if_a_file_below_it_may_match() {
        for (glob, folder, expected) in [
            ("*.csv", "", Reach::Some),
            ("*.csv", "x", Reach::Nothing),
            ("*.csv", "k=1/l=2", Reach::Some),
            ("200?/*.csv", "2001", Reach::Some),
            ("200?/*.csv", "1999", Reach::Nothing),
            ("200?/*.csv", "2001/x", Reach::Nothing),
            ("200?/*.csv", "2001/k=1", Reach::Some),
            ("k=*/*.csv", "k=1", Reach::Some),
            ("k=1/x/*.csv", "k=2/x", Reach::Nothing),
            ("**/*.csv", "", Reach::Deep),
            ("x/**", "x", Reach::Deep),
            ("x/**", "y", Reach::Nothing),
            ("*/y/**", "x/y/z", Reach::Deep),
        ] {
            assert_eq!(pattern(glob).reach(&parts(folder)), expected, "{glob} below '{folder}'");
        }
    }
}
