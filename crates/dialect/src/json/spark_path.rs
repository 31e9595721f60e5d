//! Paths into JSON as in Spark's `get_json_object`: `$.a[0]`, `$['a b']`, `$.a[*].b`.

use yeoul_base::ErrorKind;

use super::document::{Json, Kind};
use crate::{Error, Result};

/// Steps of a path; each is a call when the path is followed.
const STEPS_MAX: usize = 1_000;

/// A path into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SparkPath {
    steps: Vec<Step>,
    /// The steps behind `[*]`, if the path has one.
    of_each: Option<Vec<Step>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Element(usize),
}

/// A step that is read between the points and brackets of a path.
enum Part {
    Step(Step),
    EachElement,
}

impl SparkPath {
    /// Reads a path.
    ///
    /// # Errors
    /// `Invalid` for a text that is no path, for which Spark's answer is null, and for one with more than one wildcard.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(ErrorKind::Invalid, format!("'{text}' is no path of get_json_object"))
                .with_hint("write a path such as $.a, $['a b'], $.a[0], $.a[*].b; for null, write NULL")
        };
        let parts = text.strip_prefix('$').and_then(parsed).ok_or_else(wrong)?;
        if parts.len() > STEPS_MAX {
            return Err(wrong());
        }
        let (mut steps, mut of_each) = (Vec::new(), None::<Vec<Step>>);
        for part in parts {
            match (part, &mut of_each) {
                (Part::Step(step), None) => steps.push(step),
                (Part::Step(step), Some(behind)) => behind.push(step),
                (Part::EachElement, None) => of_each = Some(Vec::new()),
                (Part::EachElement, Some(_)) => {
                    let what =
                        format!("not supported: more than one [*] in the path '{text}' of get_json_object");
                    return Err(Error::new(ErrorKind::Invalid, what)
                        .with_hint("json_extract(text, path) makes a list of all values at a path"));
                }
            }
        }
        Ok(Self { steps, of_each })
    }

    /// The text of what is at this path: of several values an array, of one behind `[*]` the value as it is written.
    pub fn text(&self, json: Json<'_>) -> Option<String> {
        let found = find(json, &self.steps)?;
        let Some(of_each) = &self.of_each else { return found.to_text() };
        if found.kind() != Kind::Array {
            return None;
        }
        let texts: Vec<String> =
            found.elements().filter_map(|element| find(element, of_each)).map(Json::compact).collect();
        // Directly behind a number, Spark keeps the array of a single value.
        let keeps_array = matches!(self.steps.last(), Some(Step::Element(_)));
        match texts.as_slice() {
            [] => None,
            [one] if !keeps_array => Some(one.clone()),
            several => Some(format!("[{}]", several.join(","))),
        }
    }
}

/// The value at steps: of members of one name, the first that has one; none below a member that is null.
fn find<'a>(json: Json<'a>, steps: &[Step]) -> Option<Json<'a>> {
    match steps {
        [] => Some(json),
        [Step::Element(number), rest @ ..] => find(json.elements().nth(*number)?, rest),
        [Step::Name(name), rest @ ..] => {
            let named = json.members().filter(|(found, value)| found == name && value.kind() != Kind::Null);
            named.map(|(_, value)| value).find_map(|value| find(value, rest))
        }
    }
}

/// The parts behind a `$`; `None` if they are none.
fn parsed(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, behind) = quoted.split_once("']")?;
            let is_name = !name.is_empty() && name != "*" && !name.contains(['\'', '?']);
            parts.push(is_name.then(|| Part::Step(Step::Name(name.to_owned())))?);
            rest = behind;
        } else if let Some(number) = rest.strip_prefix('[') {
            let (number, behind) = number.split_once(']')?;
            parts.push(match number {
                "*" => Part::EachElement,
                digits if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                    Part::Step(Step::Element(digits.parse().ok()?))
                }
                _ => return None,
            });
            rest = behind;
        } else {
            let named = rest.strip_prefix('.')?;
            let (name, behind) = named.split_at(named.find(['.', '[']).unwrap_or(named.len()));
            let is_name = !name.is_empty() && name != "*";
            parts.push(is_name.then(|| Part::Step(Step::Name(name.to_owned())))?);
            rest = behind;
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of Spark 4.3, but for the digits of numbers, which it writes as those of a double.
    #[test]
    fn a_path_leads_where_it_does_in_spark() {
        for (json, path, expected) in [
            (r#"{"a":1}"#, "$.a", Some("1")),
            (r#"{"a":"x\u0041"}"#, "$.a", Some("xA")),
            (r#"{"a":null}"#, "$.a", None),
            (r#"{"a":[1, 2,1, "x"]}"#, "$.a", Some(r#"[1,2,1,"x"]"#)),
            (r#"{"a":1}"#, "$", Some(r#"{"a":1}"#)),
            (r#"{"a b":1}"#, "$['a b']", Some("1")),
            (r#"{"a b":1}"#, "$.a b", Some("1")),
            (r#"{"a.b":1}"#, "$['a.b']", Some("1")),
            (r#"{"a":[1,2]}"#, "$.a[1]", Some("2")),
            (r#"{"a":[1,2]}"#, "$.a[5]", None),
            (r#"{"a":[1,2]}"#, "$.a[*]", Some("[1,2]")),
            (r#"{"a":[1]}"#, "$.a[*]", Some("1")),
            (r#"{"a":["x"]}"#, "$.a[*]", Some("\"x\"")),
            (r#"{"a":[]}"#, "$.a[*]", None),
            (r#"{"a":[{"b":1},{"b":2}]}"#, "$.a[*].b", Some("[1,2]")),
            (r#"{"a":[{"b":1},{"b":2}]}"#, "$.a.b", None),
            (r#"{"a":[{"b":1}]}"#, "$.a[*].b", Some("1")),
            (r#"[{"a":null},{"a":"x"},{"b":1}]"#, "$[*].a", Some("\"x\"")),
            ("[[1,2],[3]]", "$[*][0]", Some("[1,3]")),
            (r#"[{"a":[1,2]},{"a":[3]}]"#, "$[*].a", Some("[[1,2],[3]]")),
            (r#"{"a":1,"a":2}"#, "$.a", Some("1")),
            (r#"{"a":{"b":null}}"#, "$.a.b", None),
            (r#"{"a":{"b":null}}"#, "$.a", Some(r#"{"b":null}"#)),
            ("[1,2]", "$[0]", Some("1")),
            ("5", "$", Some("5")),
        ] {
            let of = SparkPath::parse(path).unwrap();
            assert_eq!(of.text(Json::read(json).unwrap()).as_deref(), expected, "{json} {path}");
        }
    }

    #[test]
    fn what_is_no_path_is_an_error() {
        for path in ["a", "", "$.", "$x", "$[\"a\"]", "$.a[-1]", "$.*", "$..b", "$['']", "$[*][*]", "$[1"] {
            let error = SparkPath::parse(path).unwrap_err();
            assert!(error.to_string().contains(path) && error.hint().is_some(), "{path}: {error}");
        }
        assert!(SparkPath::parse(&format!("${}", "[0]".repeat(STEPS_MAX + 1))).is_err());
        let deep = format!("{}1{}", "[".repeat(STEPS_MAX), "]".repeat(STEPS_MAX));
        let path = SparkPath::parse(&format!("${}", "[0]".repeat(STEPS_MAX))).unwrap();
        assert_eq!(path.text(Json::read(&deep).unwrap()).as_deref(), Some("1"));
    }
}
