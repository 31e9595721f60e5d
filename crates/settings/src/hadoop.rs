//! Hadoop's XML configurations: `core-site.xml`, `hdfs-site.xml` and the like.
//!
//! Read with `roxmltree`, which checks the whole document before anything of it is used, knows the line of each element,
//! and refuses document types, whose entities may expand without end.

use std::collections::BTreeMap;
use std::sync::Arc;

use roxmltree::{Document, Node};
use yeoul_base::{Error, ErrorKind, Result};

use crate::entry::{Entry, Origin};
use crate::notice::Notice;
use crate::table::Table;

/// The most bytes of a file: a document takes several times as much while it is read.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// The most levels of elements: a file of settings has three.
const DEPTH_MAX: usize = 16;

/// A configuration file.
#[derive(Debug, Clone, Copy)]
pub struct File<'t> {
    /// Its name, for messages.
    pub name: &'t str,
    /// Its text.
    pub text: &'t str,
}

/// An entry, and whether later ones may replace it.
struct Property {
    entry: Entry,
    is_final: bool,
}

/// The entries of files in the order in which Hadoop loads them: a later entry replaces an earlier one of the same key, by
/// whatever name of it, unless that is final. Values are without blanks around them, and properties without a value are
/// left out, as in Hadoop. Notices name the entries that a final one does not let through.
///
/// # Errors
/// `Invalid` for a file that is too large, is no XML, has another element than `configuration` at its top, has a property
/// without a name, or includes another file, which is not supported.
pub fn read(files: &[File<'_>], table: &Table) -> Result<(Vec<Entry>, Vec<Notice>)> {
    let (mut entries, mut notices) = (Vec::new(), Vec::new());
    let mut finals: BTreeMap<String, (Origin, String)> = BTreeMap::new();
    for file in files {
        for Property { entry, is_final } in properties(file)? {
            let name =
                table.find(&entry.key).map_or_else(|| entry.key.clone(), |found| found.name.into_owned());
            match finals.get(&name) {
                Some((_, value)) if *value == entry.value => {}
                Some((by, _)) => {
                    notices.push(Notice::Final { key: entry.key, origin: entry.origin, by: by.clone() });
                }
                None => {
                    if is_final {
                        finals.insert(name, (entry.origin.clone(), entry.value.clone()));
                    }
                    entries.push(entry);
                }
            }
        }
    }
    Ok((entries, notices))
}

/// The properties of one file, in their order.
fn properties(file: &File<'_>) -> Result<Vec<Property>> {
    let invalid = |text: String| Error::new(ErrorKind::Invalid, format!("{}: {text}", file.name));
    if file.text.len() > FILE_BYTES_MAX {
        return Err(invalid(format!("a configuration may have {FILE_BYTES_MAX} bytes at most")));
    }
    if too_deep(file.text) {
        return Err(invalid(format!("elements are nested more than {DEPTH_MAX} deep")));
    }
    let document = Document::parse(file.text)
        .map_err(|error| invalid(format!("it is no XML that is read here: {error}")).with_source(error))?;
    let name: Arc<str> = file.name.into();
    let origin = |node: Node<'_, '_>| {
        let line = document.text_pos_at(node.range().start).row as usize;
        Origin { file: Some(Arc::clone(&name)), line: Some(line) }
    };
    let root = document.root_element();
    if root.tag_name().name() != "configuration" {
        let found = root.tag_name().name();
        return Err(invalid(format!("expected <configuration> at the top, and found <{found:.40}>")));
    }
    if let Some(include) =
        root.descendants().find(|node| matches!(node.tag_name().name(), "include" | "fallback"))
    {
        let hint = "write the properties of that file into this one, or name both files";
        let text = format!("{}: it includes another file, which is not supported", origin(include));
        return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint));
    }
    let is_property = |node: &Node<'_, '_>| node.is_element() && node.tag_name().name() == "property";
    let mut found = Vec::new();
    for property in root.descendants().filter(is_property) {
        let field = |name: &str| {
            let element =
                property.children().rfind(|child| child.is_element() && child.tag_name().name() == name);
            element.map(text_of).or_else(|| property.attribute(name).map(|text| text.trim().to_owned()))
        };
        let origin = origin(property);
        let key = field("name").filter(|key| !key.is_empty());
        let key =
            key.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{origin}: a property has no name")))?;
        let is_final = field("final").is_some_and(|text| text == "true");
        if let Some(value) = field("value") {
            found.push(Property { entry: Entry { key, value, origin }, is_final });
        }
    }
    Ok(found)
}

/// All text of an element, without blanks around it.
fn text_of(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text).filter_map(|node| node.text());
    texts.collect::<String>().trim().to_owned()
}

/// Whether elements are nested deeper than any settings are. Tags in comments count, too: a file that has so many in a row
/// is no settings file either.
fn too_deep(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut tags = text.split('<').skip(1);
    tags.any(|tag| {
        let is_empty = tag.split_once('>').is_some_and(|(tag, _)| tag.ends_with('/'));
        if tag.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !tag.starts_with(['?', '!']) && !is_empty {
            depth += 1;
        }
        depth > DEPTH_MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "@n\ndfs.replication\t3\thonoured\t\ndfs.namenode.name.dir\t\thonoured\t\tdfs.name.dir\n";

    /// Keys, values and places, and notices.
    type Found = (Vec<(String, String, String)>, Vec<String>);

    fn read_all(files: &[(&str, &str)]) -> Result<Found> {
        let files: Vec<File<'_>> = files.iter().map(|(name, text)| File { name, text }).collect();
        let (entries, notices) = read(&files, &Table::parse(TABLE, &[]))?;
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value, entry.origin.to_string()));
        Ok((entries.collect(), notices.iter().map(ToString::to_string).collect()))
    }

    fn one(text: &str) -> Result<Vec<(String, String)>> {
        let (entries, notices) = read_all(&[("a.xml", text)])?;
        assert!(notices.is_empty(), "{notices:?}");
        Ok(entries.into_iter().map(|(key, value, _)| (key, value)).collect())
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_file_as_hadoops_own_are() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- <property><name>no</name><value>no</value></property> -->
<configuration>
  <property>
    <name> fs.defaultFS </name>
    <value>
      hdfs://n1:8020
    </value>
    <description>where &lt;it&gt; is</description>
  </property>
  <property name="a" value="1 &amp; 2" final="true"/>
  <property><name>b</name><value></value></property>
  <property><name>c</name></property>
  <property><name>d</name><value><![CDATA[<x>]]></value><source>here</source></property>
  <configuration><property><name>e</name><value>5</value></property></configuration>
</configuration>
"#;
        let expected = [
            pair("fs.defaultFS", "hdfs://n1:8020"),
            pair("a", "1 & 2"),
            pair("b", ""),
            pair("d", "<x>"),
            pair("e", "5"),
        ];
        assert_eq!(one(text).unwrap(), expected);
        let (entries, _) = read_all(&[("core-site.xml", text)]).unwrap();
        assert_eq!(entries[0].2, "core-site.xml, line 5");
    }

    #[test]
    fn what_is_final_stays() {
        let core = "<configuration>\n<property><name>x</name><value>1</value></property>\n\
            <property><name>dfs.name.dir</name><value>/a</value><final>true</final></property>\n\
            <property><name>y</name><value>1</value><final>yes</final></property>\n</configuration>";
        let site = "<configuration><property><name>x</name><value>2</value></property>\n\
            <property><name>dfs.namenode.name.dir</name><value>/b</value></property>\n\
            <property><name>dfs.name.dir</name><value>/a</value></property>\n\
            <property><name>y</name><value>2</value></property></configuration>";
        let (entries, notices) = read_all(&[("core-site.xml", core), ("hdfs-site.xml", site)]).unwrap();
        let pairs: Vec<_> = entries.iter().map(|(key, value, _)| pair(key, value)).collect();
        assert_eq!(
            pairs,
            [pair("x", "1"), pair("dfs.name.dir", "/a"), pair("y", "1"), pair("x", "2"), pair("y", "2")]
        );
        assert_eq!(
            notices,
            [
                "hdfs-site.xml, line 2: dfs.namenode.name.dir is ignored: the value at core-site.xml, line 3 is final"
            ]
        );
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_place() {
        for (text, expected) in [
            ("", "a.xml: it is no XML that is read here"),
            ("<configuration>", "a.xml: it is no XML that is read here"),
            ("<settings/>", "a.xml: expected <configuration> at the top, and found <settings>"),
            (
                "<configuration>\n<property><value>1</value></property></configuration>",
                "a.xml, line 2: a property has no name",
            ),
            (
                "<configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">\n\n<xi:include href=\"/etc/passwd\"/></configuration>",
                "a.xml, line 3: it includes another file, which is not supported",
            ),
            (
                "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><configuration>&b;</configuration>",
                "a.xml: it is no XML that is read here",
            ),
        ] {
            let error = one(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with(expected), "{error}");
        }
        let deep =
            format!("<configuration>{}{}</configuration>", "<a>".repeat(1_000_000), "</a>".repeat(1_000_000));
        assert!(one(&deep[..FILE_BYTES_MAX - 1]).unwrap_err().to_string().contains("more than 16 deep"));
        let long = format!("<configuration>{}</configuration>", " ".repeat(FILE_BYTES_MAX));
        assert!(one(&long).unwrap_err().to_string().contains("bytes at most"));
    }

    proptest::proptest! {
        #[test]
        fn properties_read_back(pairs in proptest::collection::vec(("[a-z.]{1,12}", "[a-z0-9<&>\"]{0,8}"), 0..8)) {
            let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let properties: String = pairs
                .iter()
                .map(|(key, value)| format!("<property><name>{key}</name><value>{}</value></property>", escaped(value)))
                .collect();
            proptest::prop_assert_eq!(one(&format!("<configuration>{properties}</configuration>")).unwrap(), pairs);
        }

        #[test]
        fn arbitrary_text_never_panics(inner in "(<[/!?]?(property|name|value|a)?/?>?|[&;x\n]){0,20}", whole in "[<>/!?a\\]\\[-]{0,40}") {
            let _ = one(&whole);
            let _ = one(&format!("<configuration>{inner}</configuration>"));
        }
    }
}
