//! An address that a page links to. Each is made of parts that are checked or encoded, because names come from peers.

use form_urlencoded::Serializer;

/// An address that is safe to link to: a page of this server, or the first page of another one by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Href(String);

impl Href {
    /// A page of this server, with the pairs of its query.
    ///
    /// # Panics
    /// The path does not begin with one slash: it is written in the code, and no value of a peer.
    pub fn local(path: &str, query: &[(&str, &str)]) -> Self {
        assert!(path.starts_with('/') && !path.starts_with("//"), "{path} is no path of this server");
        if query.is_empty() {
            return Self(path.to_owned());
        }
        Self(format!("{path}?{}", Serializer::new(String::new()).extend_pairs(query).finish()))
    }

    /// The first page of another server; none if it serves no pages, or if its host is neither a name nor an address.
    pub fn server(host: &str, port: u16) -> Option<Self> {
        let is_named = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = match bare.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) if is_named(host) => host.to_owned(),
            Err(_) => return None,
        };
        (port != 0).then(|| Self(format!("http://{host}:{port}/")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_own_server_or_nowhere() {
        let href = |host, port| Href::server(host, port).map(|href| href.0);
        assert_eq!(href("node-1.example", 80).as_deref(), Some("http://node-1.example:80/"));
        assert_eq!(href("::1", 80).as_deref(), Some("http://[::1]:80/"));
        assert_eq!(href("[::1]", 80).as_deref(), Some("http://[::1]:80/"));
        for hostile in ["", "a/b", "a@b", "a\"onclick=b", "javascript:alert(1)//", "a b", "a?b", "ä", "a:b"]
        {
            assert_eq!(href(hostile, 80), None, "{hostile}");
        }
        assert_eq!(href("node", 0), None, "it serves no pages");
    }

    #[test]
    fn what_a_query_carries_is_encoded() {
        assert_eq!(Href::local("/files", &[]).0, "/files");
        let hostile = "/a&b=c?#\"<é %";
        let link = Href::local("/files", &[("path", hostile), ("after", "")]);
        assert_eq!(link.0, "/files?path=%2Fa%26b%3Dc%3F%23%22%3C%C3%A9+%25&after=");
        let (_, query) = link.0.split_once('?').unwrap();
        assert_eq!(crate::query_value(query, "path").as_deref(), Some(hostile));
    }
}
