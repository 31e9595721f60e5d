//! Pages by method and path, as a server answers them to people and scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// A request whose body has arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method, in upper case.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// Its query, or empty.
    pub query: String,
    /// True if the client names HTML among what it takes, as a browser does that shows the answer.
    pub accepts_html: bool,
    /// Its body.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body, or its beginning.
    pub body: Bytes,
    /// The rest of the body, if it is made while it leaves.
    pub rest: Rest,
}

/// The pieces of a long body. Each is made when there is room for it in what the peer reads, so that an answer that nobody
/// reads takes no more memory than a piece.
#[derive(Clone, Default)]
pub struct Rest(Option<Arc<Mutex<NextPiece>>>);

/// Makes the next piece, or has its task woken when it can be made.
type NextPiece = dyn FnMut(&mut Context<'_>) -> Poll<Option<Bytes>> + Send;

impl Rest {
    /// The pieces that an iterator makes; none of them is empty. The iterator does not block.
    pub fn of(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        let mut pieces = pieces;
        Self::waiting(move |_| Poll::Ready(pieces.next()))
    }

    /// The pieces that a task makes, some of which are waited for; none of them is empty, and after the last there is none. `next` wakes its
    /// task as a future does.
    pub fn waiting(next: impl FnMut(&mut Context<'_>) -> Poll<Option<Bytes>> + Send + 'static) -> Self {
        Self(Some(Arc::new(Mutex::new(next))))
    }

    /// The next piece; none after the last.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(next) = &self.0 else { return Poll::Ready(None) };
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        next(context)
    }

    /// Whether there is nothing behind the beginning.
    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_nothing() { "Rest(nothing)" } else { "Rest(pieces)" })
    }
}

/// Two bodies with pieces are never the same: nobody knows what they will be.
impl PartialEq for Rest {
    fn eq(&self, other: &Self) -> bool {
        self.is_nothing() && other.is_nothing()
    }
}

impl Response {
    /// A JSON document.
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self {
            status,
            content_type: "application/json",
            body: value.to_string().into(),
            rest: Rest::default(),
        }
    }

    /// An HTML document.
    pub fn html(status: u16, document: impl Into<String>) -> Self {
        Self { content_type: "text/html; charset=utf-8", ..Self::text(status, document) }
    }

    /// A stylesheet.
    pub fn css(sheet: &'static str) -> Self {
        Self { content_type: "text/css; charset=utf-8", ..Self::text(200, sheet) }
    }

    /// Text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        let (content_type, rest) = ("text/plain; charset=utf-8", Rest::default());
        Self { status, content_type, body: text.into().into(), rest }
    }

    /// A JSON document that is made in pieces while it leaves.
    pub fn json_pieces(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self { status: 200, content_type: "application/json", body: Bytes::new(), rest: Rest::of(pieces) }
    }

    /// The whole body, for whoever has room for it, as far as nothing of it is waited for.
    pub fn whole(&self) -> Bytes {
        let mut whole = self.body.to_vec();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(piece)) = self.rest.poll_next(&mut context) {
            whole.extend_from_slice(&piece);
        }
        whole.into()
    }
}

/// The pages of a server.
pub trait Pages: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// Pages by method and path. `None` means that there is no such page.
pub trait Routes: Send + Sync + 'static {
    /// All of them, as `/` shows them: in each line a method, a path, and what it is for.
    const LIST: &'static str;

    /// Answers a GET.
    fn get(&self, path: &str, query: &str) -> Option<Response>;

    /// Answers a GET of a client that takes HTML with the page for people at a path, `/` being the first one. `None` means
    /// that it gets what every other client gets.
    fn page(&self, _path: &str, _query: &str) -> Option<Response> {
        None
    }

    /// Answers a POST, which changes something.
    fn post(
        &self,
        path: &str,
        body: &[u8],
    ) -> impl Future<Output = Option<Result<Response, Response>>> + Send;
}

impl<R: Routes> Pages for R {
    async fn answer(&self, request: Request) -> Response {
        let path = request.path.trim_end_matches('/');
        // HEAD is GET without the body, which the server leaves out.
        let page = match request.method.as_str() {
            "GET" | "HEAD" if request.accepts_html => {
                self.page(if path.is_empty() { "/" } else { path }, &request.query)
            }
            _ => None,
        };
        if let Some(page) = page {
            return page;
        }
        let answered = match request.method.as_str() {
            "GET" | "HEAD" if path.is_empty() => Some(Response::text(200, R::LIST)),
            "GET" | "HEAD" => self.get(path, &request.query),
            "POST" => self.post(path, &request.body).await.map(|result| result.unwrap_or_else(|error| error)),
            _ => return Response::text(405, "only GET, HEAD and POST are served\n"),
        };
        answered.unwrap_or_else(|| Response::text(404, format!("no such page; there are:\n{}", R::LIST)))
    }
}

/// Options as one text for each, named by its path: `inner.ports` for the field `ports` of the field `inner`. What is not
/// set is left out.
pub fn flattened(options: &impl Serialize) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    flatten("", &serde_json::to_value(options).unwrap_or_default(), &mut entries);
    entries
}

fn flatten(prefix: &str, value: &Value, entries: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            // A duration is serialised as two numbers: shown as one.
            if let (Some(secs), Some(nanos)) = (fields.get("secs"), fields.get("nanos")) {
                let seconds = secs.as_f64().unwrap_or(0.0) + nanos.as_f64().unwrap_or(0.0) / 1e9;
                entries.insert(prefix.to_owned(), format!("{seconds}s"));
                return;
            }
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, entries);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(entries.insert(prefix.to_owned(), text.clone())),
        other => drop(entries.insert(prefix.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn options_are_shown_one_by_one() {
        #[derive(Serialize)]
        struct Options {
            interval: Duration,
            inner: Inner,
            nothing: Option<u8>,
        }
        #[derive(Serialize)]
        struct Inner {
            ports: Vec<u16>,
        }
        let options = Options {
            interval: Duration::from_millis(1500),
            inner: Inner { ports: vec![1, 2] },
            nothing: None,
        };
        let shown: Vec<_> = flattened(&options).into_iter().collect();
        assert_eq!(shown, [("inner.ports".into(), "[1,2]".into()), ("interval".into(), "1.5s".into())]);
    }

    /// One page, and one thing to do.
    struct Lamp;

    impl Routes for Lamp {
        const LIST: &str = "GET  /lamp  whether it is lit\nPOST /lamp  light it\n";

        fn get(&self, path: &str, query: &str) -> Option<Response> {
            (path == "/lamp").then(|| Response::text(200, query))
        }

        fn page(&self, path: &str, query: &str) -> Option<Response> {
            (path == "/").then(|| Response::html(200, format!("<p>{query}")))
        }

        async fn post(&self, path: &str, body: &[u8]) -> Option<Result<Response, Response>> {
            let lit =
                if body == b"on" { Ok(Response::text(200, "lit")) } else { Err(Response::text(400, "?")) };
            (path == "/lamp").then_some(lit)
        }
    }

    #[tokio::test]
    async fn each_request_finds_its_page() {
        let none = format!("no such page; there are:\n{}", Lamp::LIST);
        for (method, path, body, status, text) in [
            ("GET", "/", "", 200, Lamp::LIST),
            ("GET", "/lamp/", "", 200, "q=1"),
            ("HEAD", "/", "", 200, Lamp::LIST),
            ("HEAD", "/lamp", "", 200, "q=1"),
            ("POST", "/lamp", "on", 200, "lit"),
            ("POST", "/lamp", "off", 400, "?"),
            ("GET", "/other", "", 404, &none),
            ("POST", "/", "on", 404, &none),
            ("DELETE", "/lamp", "", 405, "only GET, HEAD and POST are served\n"),
        ] {
            let request = Request {
                method: method.into(),
                path: path.into(),
                query: "q=1".into(),
                accepts_html: false,
                body: Bytes::copy_from_slice(body.as_bytes()),
            };
            let expected = Response::text(status, text);
            assert_eq!(Lamp.answer(request).await, expected, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_browser_gets_the_page_where_there_is_one() {
        for (method, path, content_type, text) in [
            ("GET", "/", "text/html; charset=utf-8", "<p>q=1"),
            ("HEAD", "/", "text/html; charset=utf-8", "<p>q=1"),
            ("GET", "/lamp", "text/plain; charset=utf-8", "q=1"),
        ] {
            let request = Request {
                method: method.into(),
                path: path.into(),
                query: "q=1".into(),
                accepts_html: true,
                body: Bytes::new(),
            };
            let answer = Lamp.answer(request).await;
            assert_eq!(
                (answer.content_type, &*answer.body),
                (content_type, text.as_bytes()),
                "{method} {path}"
            );
        }
    }
}
