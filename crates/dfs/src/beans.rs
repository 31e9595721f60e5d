//! The page `/jmx` of both servers: numbers as beans of a JVM, under Hadoop's names, for dashboards and scripts that read those of
//! HDFS. A bean has only what is true here: what is about a JVM's heap or about what is not there is left out.

use serde_json::{Map, Value, json};
use yeoul_console::query_pairs;
use yeoul_net::http::Response;

/// A bean: a name such as `Hadoop:service=NameNode,name=NameNodeInfo`, and its attributes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bean {
    /// Its name.
    pub name: String,
    /// The class that has the attributes in HDFS, which some readers look for.
    pub model: &'static str,
    /// Its attributes by name.
    pub attributes: Vec<(&'static str, Value)>,
}

impl Bean {
    fn object(&self, only: Option<&str>) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("name".to_owned(), self.name.clone().into());
        object.insert("modelerType".to_owned(), self.model.into());
        let wanted = self.attributes.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        object.extend(wanted.map(|(name, value)| ((*name).to_owned(), value.clone())));
        object
    }
}

/// Answers a request as Hadoop's servlet does: all beans, those whose name fits `qry=`, or the attribute that `get=BEAN::ATTRIBUTE`
/// names.
pub(crate) fn answer(beans: &[Bean], query: &str) -> Response {
    let (mut pattern, mut attribute) = (None, None);
    for (name, value) in query_pairs(query) {
        match name.as_str() {
            "qry" => pattern = Some(value),
            "get" => attribute = Some(value),
            _ => {}
        }
    }
    if let Some(text) = attribute {
        return one_attribute(beans, &text);
    }
    let pattern = pattern.filter(|text| !text.is_empty()).unwrap_or_else(|| "*:*".to_owned());
    let Some(pattern) = Pattern::parse(&pattern) else {
        return error(
            400,
            &format!("'{pattern:.200}' is no pattern of names, such as Hadoop:service=NameNode,*"),
        );
    };
    let found =
        beans.iter().filter(|bean| pattern.fits(&bean.name)).map(|bean| Value::Object(bean.object(None)));
    Response::json(200, &json!({ "beans": found.collect::<Vec<_>>() }))
}

fn one_attribute(beans: &[Bean], text: &str) -> Response {
    let Some((name, attribute)) = text.split_once("::").filter(|(_, attribute)| !attribute.contains("::"))
    else {
        return error(400, "query format is not as expected.");
    };
    let Some(pattern) = Pattern::parse(name) else {
        return error(400, "query format is not as expected.");
    };
    let found = beans.iter().find(|bean| pattern.fits(&bean.name));
    let found = found.filter(|bean| bean.attributes.iter().any(|(known, _)| *known == attribute));
    match found {
        Some(bean) => Response::json(200, &json!({ "beans": [bean.object(Some(attribute))] })),
        None => error(404, &format!("No attribute with name {attribute} was found.")),
    }
}

fn error(status: u16, message: &str) -> Response {
    Response::json(status, &json!({ "result": "ERROR", "message": message }))
}

/// A pattern of names: a domain, a colon, and pairs of keys and values in any order. `*` and `?` stand for characters in the
/// domain and in values, and `*` as a pair of its own for further pairs.
struct Pattern<'p> {
    domain: &'p str,
    pairs: Vec<(&'p str, &'p str)>,
    has_more: bool,
}

impl<'p> Pattern<'p> {
    fn parse(text: &'p str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (mut pairs, mut has_more) = (Vec::new(), false);
        for part in rest.split(',') {
            match part.split_once('=') {
                Some((key, value)) if !key.is_empty() => pairs.push((key, value)),
                None if part == "*" => has_more = true,
                _ => return None,
            }
        }
        Some(Self { domain, pairs, has_more })
    }

    fn fits(&self, name: &str) -> bool {
        let Some(name) = Pattern::parse(name) else { return false };
        let has_pair = |(key, wanted): &(&str, &str)| {
            name.pairs.iter().any(|(known, value)| known == key && fits(wanted, value))
        };
        fits(self.domain, name.domain)
            && self.pairs.iter().all(has_pair)
            && (self.has_more || self.pairs.len() == name.pairs.len())
    }
}

/// True if a text fits a pattern with `*` for any characters and `?` for one.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // Where the last `*` is, and up to where it stands for characters.
    let mut star = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((of_star, until)) = star else { return false };
                (at, seen) = (of_star + 1, until + 1);
                star = Some((of_star, until + 1));
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beans() -> Vec<Bean> {
        let bean = |name: &str, attributes| Bean { name: name.to_owned(), model: "M", attributes };
        vec![
            bean("Hadoop:service=NameNode,name=FSNamesystem", vec![("BlocksTotal", 3.into())]),
            bean(
                "Hadoop:service=NameNode,name=FSNamesystemState",
                vec![("FSState", "Operational".into()), ("FilesTotal", 7.into())],
            ),
            bean("java.lang:type=Runtime", vec![("Uptime", 12.into())]),
        ]
    }

    fn asked(query: &str) -> (u16, Value) {
        let response = answer(&beans(), query);
        assert_eq!(response.content_type, "application/json");
        (response.status, serde_json::from_slice(&response.body).unwrap())
    }

    fn names(query: &str) -> Vec<String> {
        let (status, value) = asked(query);
        assert_eq!(status, 200, "{query}");
        let found = value["beans"].as_array().unwrap().iter();
        found.map(|bean| bean["name"].as_str().unwrap().rsplit('=').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn beans_are_found_by_patterns_of_their_names() {
        for (query, expected) in [
            ("", vec!["FSNamesystem", "FSNamesystemState", "Runtime"]),
            ("qry=*:*", vec!["FSNamesystem", "FSNamesystemState", "Runtime"]),
            ("qry=Hadoop:*", vec!["FSNamesystem", "FSNamesystemState"]),
            ("qry=Hadoop%3Aservice%3DNameNode%2Cname%3DFSNamesystem", vec!["FSNamesystem"]),
            ("qry=Hadoop:name=FSNamesystemState,service=NameNode", vec!["FSNamesystemState"]),
            ("qry=Hadoop:service=NameNode,name=FSNamesystem*", vec!["FSNamesystem", "FSNamesystemState"]),
            ("qry=Hado??:service=*Node,*", vec!["FSNamesystem", "FSNamesystemState"]),
            ("qry=Hadoop:service=NameNode", vec![]),
            ("qry=java.lang:type=*", vec!["Runtime"]),
            ("qry=Hadoop:service=DataNode,*", vec![]),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
        assert_eq!(asked("qry=Hadoop").0, 400);
        assert_eq!(asked("qry=Hadoop:service").1["result"], "ERROR");
    }

    #[test]
    fn one_attribute_is_given_or_missed() {
        let name = "get=Hadoop:service=NameNode,name=FSNamesystemState";
        let (status, value) = asked(&format!("{name}::FSState"));
        assert_eq!(status, 200);
        let only = json!({ "name": &name[4..], "modelerType": "M", "FSState": "Operational" });
        assert_eq!(value, json!({ "beans": [only] }));
        assert_eq!(
            asked(&format!("{name}::HeapUsed")),
            (404, json!({ "result": "ERROR", "message": "No attribute with name HeapUsed was found." }))
        );
        assert_eq!(asked(name).0, 400);
        assert_eq!(asked("get=x::y").0, 400);
    }

    #[test]
    fn stars_and_marks_stand_for_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("?", "", false),
            ("a?", "ab", true),
            ("ab", "a", false),
            ("a", "ab", false),
            ("**a", "bba", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
