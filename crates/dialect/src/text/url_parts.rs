//! `parse_url` of Spark: parts of a URL as `java.net.URI` takes it apart (RFC 2396).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use yeoul_base::ErrorKind;

use super::rows::invoke;
use crate::Error;
use crate::signatures::USER_DEFINED;

/// `spark_parse_url(url, part[, key])`, and `spark_try_parse_url`, which is null for what is no URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum UrlPart {
    OrError,
    OrNull,
}

/// A URL, taken apart. What is there may be empty.
#[derive(Debug, Default, PartialEq, Eq)]
struct Url<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    /// That of an authority which names a host.
    user: Option<&'a str>,
    host: Option<&'a str>,
    path: Option<&'a str>,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Takes a URL apart; `None` if it is none.
    fn parse(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_escaped = |place: usize| {
            bytes.get(place + 1..place + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        if (0..bytes.len()).any(|place| bytes[place] == b'%' && !is_escaped(place)) {
            return None;
        }
        let (rest, fragment) = split_at(text, '#');
        let ends_scheme = rest.find([':', '/', '?']).filter(|place| bytes[*place] == b':');
        let (scheme, rest) = match ends_scheme {
            Some(place) => (Some(&rest[..place]), &rest[place + 1..]),
            None => (None, rest),
        };
        let is_scheme = |name: &str| {
            name.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        if scheme.is_some_and(|name| !is_scheme(name) || rest.is_empty()) {
            return None;
        }
        let url = Self { scheme, fragment, ..Self::default() };
        if !fragment.unwrap_or_default().chars().all(is_part) {
            return None;
        }
        if scheme.is_some() && !rest.starts_with('/') {
            // It has neither path nor query.
            return rest.chars().all(is_part).then_some(url);
        }
        let (before, query) = split_at(rest, '?');
        let (authority, path) = match before.strip_prefix("//") {
            Some(behind) => behind.split_at(behind.find('/').unwrap_or(behind.len())),
            None => ("", before),
        };
        if before.starts_with("//") && authority.is_empty() && path.is_empty() && query.is_none() {
            return None;
        }
        let in_path = |letter: char| is_part(letter) && !"?[]".contains(letter);
        let in_authority = |letter: char| is_part(letter) && !"/?".contains(letter);
        if !query.unwrap_or_default().chars().all(is_part)
            || !path.chars().all(in_path)
            || !authority.chars().all(in_authority)
        {
            return None;
        }
        let authority = Some(authority).filter(|authority| !authority.is_empty());
        let (user, host) = authority.and_then(server).unwrap_or_default();
        // Brackets stand around the address of a host alone.
        if host.is_none() && authority.is_some_and(|authority| authority.contains(['[', ']'])) {
            return None;
        }
        Some(Self { authority, user, host, path: Some(path), query, ..url })
    }

    /// A part by its name; `None` for one that is missing, and for other names.
    fn part(&self, name: &str) -> Option<String> {
        let part = match name {
            "HOST" => self.host,
            "PATH" => self.path,
            "QUERY" => self.query,
            "REF" => self.fragment,
            "PROTOCOL" => self.scheme,
            "AUTHORITY" => self.authority,
            "USERINFO" => self.user,
            "FILE" => {
                return match (self.path, self.query) {
                    (Some(path), Some(query)) => Some(format!("{path}?{query}")),
                    (path, _) => path.map(str::to_owned),
                };
            }
            _ => None,
        };
        part.map(str::to_owned)
    }

    /// The value of a key in the query.
    fn value(&self, key: &str) -> Option<String> {
        let mut pairs = self.query?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == key).map(|(_, value)| value.to_owned())
    }
}

/// What is before the first such letter, and what is behind it.
fn split_at(text: &str, letter: char) -> (&str, Option<&str>) {
    text.split_once(letter).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// True for a letter of a query. All but those of ASCII may stand anywhere, if they are no blanks and no controls.
fn is_part(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric() || "-_.!~*'();/?:@&=+$,[]%".contains(letter);
    }
    !letter.is_control() && !letter.is_whitespace()
}

/// The user and the host of an authority; `None` if it names no host.
fn server(authority: &str) -> Option<(Option<&str>, Option<&str>)> {
    let (user, rest) = match authority.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(['@', '[', ']'])) {
        return None;
    }
    let (host, port) = if rest.starts_with('[') {
        let (host, port) = rest.split_at(rest.find(']')? + 1);
        host[1..host.len() - 1].parse::<std::net::Ipv6Addr>().ok()?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        let (host, port) = split_at(rest, ':');
        let is_label = |label: &str| {
            let is_letter = |byte: &u8| byte.is_ascii_alphanumeric();
            let (first, last) = (label.as_bytes().first(), label.as_bytes().last());
            first.is_some_and(is_letter)
                && last.is_some_and(is_letter)
                && label.bytes().all(|byte| is_letter(&byte) || byte == b'-')
        };
        let labels: Vec<&str> = host.strip_suffix('.').unwrap_or(host).split('.').collect();
        let is_name = labels.iter().all(|label| is_label(label))
            && labels.last().is_some_and(|last| last.starts_with(|first: char| first.is_ascii_alphabetic()));
        if !is_name && host.parse::<std::net::Ipv4Addr>().is_err() {
            return None;
        }
        (host, port)
    };
    let is_port = |port: &str| {
        port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<i32>().is_ok()
    };
    port.is_none_or(is_port).then_some((user, Some(host)))
}

impl UrlPart {
    /// Both functions.
    pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
        [Self::OrError, Self::OrNull].into_iter().map(ScalarUDF::from)
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let columns: Vec<&StringArray> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
        let row = |row: usize| -> Result<Option<String>> {
            if columns.iter().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let (text, part) = (columns[0].value(row), columns[1].value(row));
            let Some(url) = Url::parse(text) else {
                if self == Self::OrNull {
                    return Ok(None);
                }
                let error = Error::new(ErrorKind::Invalid, format!("'{text}' is no URL"));
                return Err(error.with_hint("try_parse_url is null there").into());
            };
            let Some(key) = columns.get(2).map(|keys| keys.value(row)) else { return Ok(url.part(part)) };
            if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
                let text = format!("not supported: the key '{key}' of parse_url");
                let error = Error::new(ErrorKind::Invalid, text);
                return Err(error.with_hint("a key has letters, digits, '_' and '-'").into());
            }
            Ok(url.value(key).filter(|_| part == "QUERY"))
        };
        Ok(Arc::new((0..columns[0].len()).map(row).collect::<Result<StringArray>>()?))
    }
}

impl ScalarUDFImpl for UrlPart {
    fn name(&self) -> &str {
        match self {
            Self::OrError => "spark_parse_url",
            Self::OrNull => "spark_try_parse_url",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let are_texts = kinds.iter().all(|kind| kind.is_string() || kind.is_null());
        if !are_texts || !(2..=3).contains(&kinds.len()) {
            return plan_err!("parse_url takes a URL, the name of a part, and a key of its query");
        }
        Ok(vec![DataType::Utf8; kinds.len()])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.
    #[test]
    fn a_url_has_parts() {
        let text = "http://userinfo@spark.apache.org:80/path;p?query=1&k=%20#Ref";
        let url = Url::parse(text).unwrap();
        for (part, expected) in [
            ("HOST", Some("spark.apache.org")),
            ("PATH", Some("/path;p")),
            ("QUERY", Some("query=1&k=%20")),
            ("REF", Some("Ref")),
            ("PROTOCOL", Some("http")),
            ("FILE", Some("/path;p?query=1&k=%20")),
            ("AUTHORITY", Some("userinfo@spark.apache.org:80")),
            ("USERINFO", Some("userinfo")),
            ("host", None),
        ] {
            assert_eq!(url.part(part).as_deref(), expected, "{part}");
        }
        assert_eq!((url.value("k").as_deref(), url.value("y")), (Some("%20"), None));
    }

    #[test]
    fn what_is_missing_is_null_and_what_is_no_url_is_none() {
        let host = |text: &str| Url::parse(text).map(|url| url.part("HOST"));
        for (text, expected) in [
            ("http://a_b/c", Some(None)),
            ("http://1.2.3.4/", Some(Some("1.2.3.4".to_owned()))),
            ("http://[::1]:8/", Some(Some("[::1]".to_owned()))),
            ("mailto:a@b.org", Some(None)),
            ("/path", Some(None)),
            ("", Some(None)),
            ("http://a b/", None),
            ("http://a/%2", None),
            ("http://a/<b>", None),
            ("1http://a", None),
            ("http:", None),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }
}
