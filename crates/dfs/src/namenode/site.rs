//! The NameNode's HTTP port: its pages, and the check of files, which depends on who asks.

use std::sync::Arc;

use bytes::Bytes;
use tracing::{info, warn};
use yeoul_console::query_pairs;
use yeoul_net::http::{Pages, Request, Response, Rest};

use super::checking::CheckRequest;
use super::console;
use super::pages::NamenodePages;
use super::service::Service;
use super::state::{Check, refused_check};
use crate::wire::proto::namenode::DeleteRequest;

/// The path that `hdfs fsck` asks.
const CHECK_PATH: &str = "/fsck";

/// All that the NameNode's HTTP port has.
pub(super) struct Site {
    pages: NamenodePages,
    service: Arc<Service>,
}

impl Site {
    pub(super) fn new(pages: NamenodePages, service: Arc<Service>) -> Self {
        Self { pages, service }
    }

    /// Begins a check. Its report is made while it leaves, a step for each piece.
    async fn check(&self, query: &str) -> Response {
        let now = self.service.now();
        let request = match CheckRequest::parse(query_pairs(query)) {
            Ok(request) => request,
            Err((path, refusal)) => {
                let name = console::visitor().name;
                return Response::text(200, refused_check(&name, &path, &refusal, now));
            }
        };
        let user = match &request.user {
            Some(name) => self.service.user(name).await,
            None => console::visitor(),
        };
        info!(user = user.name, path = request.path, "a check of files begins");
        let pieces = Pieces { service: Arc::clone(&self.service), check: Check::new(request, user) };
        Response { rest: Rest::of(pieces), ..Response::text(200, "") }
    }
}

impl Pages for Site {
    async fn answer(&self, request: Request) -> Response {
        match request.method.as_str() {
            "GET" if request.path == CHECK_PATH => self.check(&request.query).await,
            _ => self.pages.answer(request).await,
        }
    }
}

/// The pieces of a report.
struct Pieces {
    service: Arc<Service>,
    check: Check,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let now = self.service.now();
        let text = self.service.read(|state| state.check_on(&mut self.check, now))?;
        for src in self.check.take_lost() {
            let request = DeleteRequest { src, recursive: true };
            let user = self.check.user().clone();
            match self.service.change_as(&user, "delete", &request) {
                Ok(()) => info!(path = request.src, user = user.name, "a check removes a file that is lost"),
                Err(refusal) => {
                    warn!(path = request.src, user = user.name, %refusal, "a check cannot remove a file that is lost");
                    self.check.note_failure();
                }
            }
        }
        // A step that has nothing to say shows that the check goes on: a client waits for a minute at most.
        Some(if text.is_empty() { Bytes::from_static(b"\n") } else { text.into() })
    }
}
