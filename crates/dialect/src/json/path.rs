//! Paths into JSON as in DuckDB: a name (`a`), a path (`$.a[0]`), or a pointer (`/a/0`).

use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use crate::{Error, Result};

/// A path into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The first member of a name.
    Name(String),
    /// An element, from 0 on.
    Element(usize),
    /// An element counted from the end, the last one 1.
    FromEnd(usize),
    /// The member of a name, or the element of which this is the number.
    Either(String),
    /// All elements, `[*]`.
    Elements,
    /// All members, `.*`.
    Members,
}

impl Path {
    /// The path to the value itself.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// The path to an element, from 0 on, and from the end if the number is negative.
    pub fn to_element(number: i64) -> Self {
        let distance = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
        Self(vec![if number < 0 { Step::FromEnd(distance) } else { Step::Element(distance) }])
    }

    /// Reads a path.
    ///
    /// # Errors
    /// `Invalid` for one that begins with `$` and is no path.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(steps) = text.strip_prefix('$') {
            return parsed(steps).map(Self).ok_or_else(|| {
                let what = if steps.contains("..") {
                    format!("not supported: '..' in the path '{text}' into JSON")
                } else {
                    format!("'{text}' is no path into JSON")
                };
                Error::new(ErrorKind::Invalid, what)
                    .with_hint("write a name, or a path such as $.a, $.\"a b\", $.a[0], $[-1], $.a[*].b")
            });
        }
        Ok(Self(match text.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(unescaped).map(Step::Either).collect(),
            None if text.is_empty() => Vec::new(),
            None => vec![Step::Name(text.to_owned())],
        }))
    }

    /// True if a value may have several at this path.
    pub fn has_wildcard(&self) -> bool {
        self.0.iter().any(|step| matches!(step, Step::Elements | Step::Members))
    }

    /// The value at this path, which has no wildcards.
    pub fn find<'a>(&self, json: Json<'a>) -> Option<Json<'a>> {
        self.0.iter().try_fold(json, |json, step| match step {
            Step::Name(name) => member(json, name),
            Step::Element(number) => json.elements().nth(*number),
            Step::FromEnd(number) => element_from_end(json, *number),
            Step::Either(name) if json.kind() == Kind::Array => {
                let is_number = name == "0" || !name.starts_with(['0', '+']);
                json.elements().nth(name.parse().ok().filter(|_| is_number)?)
            }
            Step::Either(name) => member(json, name),
            Step::Elements | Step::Members => None,
        })
    }

    /// The values at this path, in their order.
    pub fn find_all<'a>(&self, json: Json<'a>) -> Vec<Json<'a>> {
        let mut found = vec![json];
        for step in &self.0 {
            found = match step {
                Step::Elements => found.into_iter().flat_map(Json::elements).collect(),
                Step::Members => {
                    found.into_iter().flat_map(|json| json.members().map(|(_, value)| value)).collect()
                }
                step => {
                    let path = Self(vec![step.clone()]);
                    found.into_iter().filter_map(|json| path.find(json)).collect()
                }
            };
        }
        found
    }
}

/// The first member of a name.
fn member<'a>(json: Json<'a>, name: &str) -> Option<Json<'a>> {
    json.members().find(|(found, _)| found == name).map(|(_, value)| value)
}

fn element_from_end(json: Json<'_>, number: usize) -> Option<Json<'_>> {
    let place = json.elements().count().checked_sub(number)?;
    json.elements().nth(place)
}

/// A part of a pointer, in which `~1` is `/` and `~0` is `~`.
fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The steps behind a `$`; `None` if they are none.
fn parsed(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '.' => named(&rest[1..], &mut steps)?,
            '[' => {
                let (inner, behind) = rest[1..].split_once(']')?;
                steps.push(numbered(inner)?);
                behind
            }
            _ => return None,
        };
    }
    Some(steps)
}

/// Reads a name behind a point. What is behind it.
fn named<'t>(text: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' if name.is_empty() => return None,
                '"' => {
                    steps.push(Step::Name(name));
                    return Some(&quoted[at + 1..]);
                }
                '\\' => name.push(letters.next()?.1),
                letter => name.push(letter),
            }
        }
        return None;
    }
    let (name, behind) = text.split_at(text.find(['.', '[']).unwrap_or(text.len()));
    steps.push(match name {
        "" => return None,
        "*" => Step::Members,
        name => Step::Name(name.to_owned()),
    });
    Some(behind)
}

/// Reads what stands in brackets.
fn numbered(text: &str) -> Option<Step> {
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<usize>().ok().filter(|_| is_number)
    };
    if text == "*" {
        return Some(Step::Elements);
    }
    if text == "#" {
        return Some(Step::FromEnd(0));
    }
    match text.strip_prefix("#-").or_else(|| text.strip_prefix('-')).map(number) {
        Some(Some(0)) if text.starts_with('-') => Some(Step::Element(0)),
        Some(from_end) => from_end.map(Step::FromEnd),
        None => number(text).map(Step::Element),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of DuckDB 1.5.5.
    #[test]
    fn a_path_leads_where_it_does_in_duckdb() {
        for (json, path, expected) in [
            (r#"{"a":1}"#, "a", Some("1")),
            (r#"{"a.b":3}"#, "a.b", Some("3")),
            (r#"{"a":{"b":3}}"#, "a.b", None),
            (r#"{"a":{"b":3}}"#, "$.a.b", Some("3")),
            (r#"{"a":{"b":3}}"#, "/a/b", Some("3")),
            (r#"{"a":{"b":3}}"#, "$.a.c", None),
            ("[1,2,3]", "0", None),
            (r#"{"0":5}"#, "0", Some("5")),
            ("[1,2,3]", "$[1]", Some("2")),
            ("[1,2,3]", "$[-1]", Some("3")),
            ("[1,2,3]", "$[#-1]", Some("3")),
            ("[5,6]", "$[-0]", Some("5")),
            ("[5,6]", "$[#]", None),
            ("[5,6]", "$[01]", Some("6")),
            ("[5,6]", "$[#-5]", None),
            ("[5,6]", "$[5]", None),
            (r#"{"a":[5,6]}"#, "/a/1", Some("6")),
            (r#"{"a":[5,6]}"#, "/a/-1", None),
            ("[5,6]", "/01", None),
            (r#"{"a/b":1}"#, "/a~1b", Some("1")),
            (r#"{"a~b":1}"#, "/a~0b", Some("1")),
            (r#"{"a":{"":1}}"#, "/a/", Some("1")),
            (r#"{"a":{"1":7}}"#, "/a/1", Some("7")),
            (r#"{"a":{"1":4}}"#, "$.a.1", Some("4")),
            (r#"{"a":[5,6]}"#, "$.a.1", None),
            (r#"{"a b":1}"#, "$.\"a b\"", Some("1")),
            (r#"{"a b":1}"#, "$.a b", Some("1")),
            (r#"{"a\"b":4}"#, r#"$."a\"b""#, Some("4")),
            (r#"{"a":1,"a":2}"#, "$.a", Some("1")),
            (r#"{"\u0061":4}"#, "a", Some("4")),
            (r#"{"a":1}"#, "$", Some(r#"{"a":1}"#)),
            (r#"{"a":1}"#, "", Some(r#"{"a":1}"#)),
            (r#"{"a":null}"#, "$.a", Some("null")),
            (r#"{"*":3}"#, "*", Some("3")),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.find(Json::read(json).unwrap()).map(Json::written), expected, "{json} {path:?}");
        }
        for path in [
            "$x", "$.", "$ .a", "$.a[x]", "$.a[]", "$.a[1", "$.a.", "$.\"a", "$.\"a\"b", "$.a.\"\"",
            "$['a']", "$..a",
        ] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
        assert!(Path::parse("$[99999999999999999999]").is_err());
    }

    #[test]
    fn wildcards_find_all() {
        for (json, path, expected) in [
            ("[1,2,3]", "$[*]", &["1", "2", "3"][..]),
            (r#"{"a":[{"b":1},{"b":2},{"c":3},4]}"#, "$.a[*].b", &["1", "2"]),
            (r#"{"a":1,"b":[2]}"#, "$.*", &["1", "[2]"]),
            (r#"[{"a":1}]"#, "$.*", &[]),
            (r#"{"a":[1]}"#, "$[*]", &[]),
            ("[[1,2],[3]]", "$[*][*]", &["1", "2", "3"]),
            ("[[1,2],[3]]", "$[*][-1]", &["2", "3"]),
        ] {
            let path = Path::parse(path).unwrap();
            assert!(path.has_wildcard());
            let found: Vec<_> =
                path.find_all(Json::read(json).unwrap()).into_iter().map(Json::written).collect();
            assert_eq!(found, expected, "{json} {path:?}");
        }
    }

    #[test]
    fn a_negative_number_counts_from_the_end() {
        let json = Json::read("[1,2,3]").unwrap();
        let at = |number| Path::to_element(number).find(json).map(Json::written);
        assert_eq!([at(0), at(2), at(-1), at(-3)], ["1", "3", "3", "1"].map(Some));
        assert_eq!([at(3), at(-4), at(i64::MIN), at(i64::MAX)], [None; 4]);
    }
}
