//! Admission of HTTP requests: what a browser sends on behalf of another site is refused before a page sees it.
//!
//! No page asks for a password, so whoever reaches the port may do what the pages do. A browser on a machine that reaches it
//! must not lend that reach to the sites that it shows:
//!
//! - **Forged requests.** A page of another site can have the browser POST a form or text, without asking anybody; JSON only
//!   after a preflight, which is not answered here. So a POST has to be JSON, and a browser's own word of where a request is
//!   from (`Origin`, `Sec-Fetch-Site`) counts.
//! - **DNS rebinding.** A site can let its own name lead to this machine's address; the browser then takes our answers for
//!   the site's. It still sends that name as `Host`, so `Host` has to be one of [ours](HostNames).

use super::host_names::HostNames;

/// What is looked at of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// `Host`, or the authority of an absolute target; none if the client is too old to send one.
    pub host: Option<&'a str>,
    /// `Origin`.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub fetch_site: Option<&'a str>,
    /// `Sec-Fetch-Mode`.
    pub fetch_mode: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The request came to a loopback address of this machine.
    pub is_local: bool,
}

/// The status of a refusal, and a line that says why and what to do.
pub(super) type Refusal = (u16, String);

/// Refuses what a browser sends for another site, and a change that is not JSON.
///
/// # Errors
/// 403 for another site's request, 415 for a POST of another type, 421 for a name that is not this server's.
pub(super) fn admit(head: &Head<'_>, names: &HostNames) -> Result<(), Refusal> {
    if let Some(host) = head.host
        && !names.has(name_of(host), head.is_local)
    {
        let host = host.escape_default();
        return Err((
            421,
            format!(
                "`{host:.80}` is no name of this server: use its address, or start it with --http-name NAME\n"
            ),
        ));
    }
    if let Some(origin) = head.origin
        && !head.host.is_some_and(|host| is_same_origin(origin, host))
    {
        let origin = origin.escape_default();
        return Err((403, format!("a page of another site ({origin:.80}) may not ask this server\n")));
    }
    // A link that somebody follows is no request of the other site: it cannot read the answer, nor frame it.
    let is_link = head.method == "GET" && head.fetch_mode == Some("navigate");
    if head.fetch_site == Some("cross-site") && !is_link {
        return Err((403, "a page of another site may not ask this server\n".to_owned()));
    }
    if head.method == "POST" && !head.content_type.is_some_and(is_json) {
        let found = head.content_type.unwrap_or("none").escape_default();
        return Err((
            415,
            format!(
                "a POST needs `Content-Type: application/json`, and this one has {found:.80}: \
                 curl takes -H 'Content-Type: application/json', or --json\n"
            ),
        ));
    }
    Ok(())
}

/// The host of a host and perhaps a port; an IPv6 address without its brackets.
fn name_of(host: &str) -> &str {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

/// Both name the same host and port. The scheme does not count: behind a proxy that ends TLS it is another one.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let without_port = |host: &str, port: &str| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
    match origin.split_once("://") {
        Some(("http", at)) => without_port(at, ":80") == without_port(host, ":80"),
        Some(("https", at)) => without_port(at, ":443") == without_port(host, ":443"),
        _ => false,
    }
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> HostNames {
        HostNames::of("worker-7", "127.0.1.1 worker-7.lab.example worker-7\n", "search corp.example\n")
    }

    fn status(head: Head<'_>) -> u16 {
        admit(&head, &names()).err().map_or(200, |(status, _)| status)
    }

    #[test]
    fn what_honest_clients_send_is_let_in() {
        let get = Head { method: "GET", host: Some("127.0.0.1:9098"), is_local: true, ..Head::default() };
        let json = Some("application/json");
        for head in [
            get,
            Head { host: Some("localhost"), ..get },
            Head { host: Some("LOCALHOST:9098"), ..get },
            Head { host: Some("[::1]:9098"), ..get },
            Head { host: Some("worker-7:9098"), ..get },
            Head { host: Some("worker-7.lab.example"), ..get },
            // Prometheus at an address, a container at a name of its network, a client of HTTP/1.0.
            Head { host: Some("10.0.0.7:9098"), is_local: false, ..get },
            Head { host: Some("master:9098"), is_local: false, ..get },
            Head { host: Some("master.corp.example"), is_local: false, ..get },
            Head { host: None, ..get },
            // curl --json, generated clients of REST, Python's requests.
            Head { method: "POST", content_type: json, ..get },
            Head { method: "POST", content_type: Some("Application/JSON; charset=UTF-8"), ..get },
            // A page of ours, also behind a proxy that ends TLS.
            Head { method: "POST", content_type: json, origin: Some("http://127.0.0.1:9098"), ..get },
            Head { host: Some("worker-7"), origin: Some("https://worker-7"), ..get },
            Head { fetch_site: Some("same-origin"), fetch_mode: Some("cors"), ..get },
            Head { fetch_site: Some("none"), fetch_mode: Some("navigate"), ..get },
            // A link on a page of another site.
            Head { fetch_site: Some("cross-site"), fetch_mode: Some("navigate"), ..get },
        ] {
            assert_eq!(admit(&head, &names()), Ok(()), "{head:?}");
        }
    }

    #[test]
    fn what_a_browser_sends_for_another_site_is_refused() {
        let get = Head { method: "GET", host: Some("127.0.0.1:9098"), is_local: true, ..Head::default() };
        let post = Head { method: "POST", content_type: Some("application/json"), ..get };
        // A form, text, and a body of which nothing is said, as a page can have them sent without asking.
        for content_type in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; a=application/json"),
        ] {
            assert_eq!(status(Head { content_type, ..post }), 415, "{content_type:?}");
        }
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:3000", "http://127.0.0.1", "", "127.0.0.1:9098"]
        {
            assert_eq!(status(Head { origin: Some(origin), ..post }), 403, "{origin}");
            assert_eq!(status(Head { origin: Some(origin), ..get }), 403, "{origin}");
        }
        assert_eq!(status(Head { origin: Some("http://a"), host: None, ..get }), 403);
        assert_eq!(status(Head { fetch_site: Some("cross-site"), ..post }), 403);
        assert_eq!(
            status(Head { fetch_site: Some("cross-site"), fetch_mode: Some("navigate"), ..post }),
            403
        );
        assert_eq!(status(Head { fetch_site: Some("cross-site"), fetch_mode: Some("no-cors"), ..get }), 403);
        // Names that lead here and are somebody else's.
        for host in [
            "evil.example:9098",
            "worker-7.evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
        ] {
            assert_eq!(status(Head { host: Some(host), ..get }), 421, "{host}");
            assert_eq!(status(Head { host: Some(host), is_local: false, ..post }), 421, "{host}");
        }
        // On a loopback address, nobody but this machine has a name for it.
        assert_eq!(status(Head { host: Some("master"), ..get }), 421);
        assert_eq!(status(Head { host: Some("x.corp.example"), ..get }), 421);
    }
}
