//! The NameNode's HTTP port: its pages, and the check of files, which depends on who asks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};
use yeoul_console::query_pairs;
use yeoul_net::http::{Pages, Request, Response, Rest};

use super::checking::CheckRequest;
use super::console;
use super::lost_and_found::LostAndFound;
use super::pages::NamenodePages;
use super::service::Service;
use super::state::{Check, LostFile, refused_check};
use crate::error::Result;
use crate::wire::proto::namenode::DeleteRequest;

/// The path that `hdfs fsck` asks.
const CHECK_PATH: &str = "/fsck";
/// The path from which `hdfs dfsadmin -fetchImage` takes an image, and what it gets.
const IMAGE_PATH: &str = "/imagetransfer";
const NO_IMAGE: &str = "fetchImage is not supported by yeoul dfs: its images have a format of their own, and are in the NameNode's directory\n";
/// How long a report says nothing while something is copied: a client waits for a minute at most.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// All that the NameNode's HTTP port has.
pub(super) struct Site {
    pages: NamenodePages,
    service: Arc<Service>,
    lost_and_found: Arc<LostAndFound>,
}

impl Site {
    pub(super) fn new(pages: NamenodePages, service: Arc<Service>, lost_and_found: LostAndFound) -> Self {
        Self { pages, service, lost_and_found: Arc::new(lost_and_found) }
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
        let pieces = Pieces {
            service: Arc::clone(&self.service),
            lost_and_found: Arc::clone(&self.lost_and_found),
            check: Check::new(request, user),
            lost: VecDeque::new(),
            copying: None,
        };
        let mut pieces = Box::pin(stream::unfold(pieces, |mut pieces| async move {
            let piece = pieces.next().await?;
            Some((piece, pieces))
        }));
        let rest = Rest::waiting(move |context| pieces.as_mut().poll_next(context));
        Response { rest, ..Response::text(200, "") }
    }
}

impl Pages for Site {
    async fn answer(&self, request: Request) -> Response {
        match request.method.as_str() {
            "GET" if request.path == CHECK_PATH => self.check(&request.query).await,
            "GET" if request.path == IMAGE_PATH => Response::text(501, NO_IMAGE),
            _ => self.pages.answer(request).await,
        }
    }
}

/// The pieces of a report.
struct Pieces {
    service: Arc<Service>,
    lost_and_found: Arc<LostAndFound>,
    check: Check,
    /// Files that cannot be read and are to be copied or removed before the check goes on.
    lost: VecDeque<LostFile>,
    /// The copy of one of them, which goes on when the client does not.
    copying: Option<JoinHandle<(LostFile, Result<()>)>>,
}

impl Pieces {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(copying) = &mut self.copying {
                // A client waits for a minute at most.
                let Ok(copied) = timeout(SILENT_MAX, copying).await else {
                    return Some(Bytes::from_static(b"\n"));
                };
                self.copying = None;
                let (file, copied) = copied.expect("a copy does not panic");
                match copied {
                    Ok(()) => self.remove(file.path),
                    Err(error) => {
                        warn!(path = file.path, %error, "a check cannot copy what is left of a file");
                        self.check.note_failure();
                        let text =
                            format!("\n{}: not all that is left of it is copied: {error}\n", file.path);
                        return Some(text.into());
                    }
                }
                continue;
            }
            if let Some(file) = self.lost.pop_front() {
                if self.check.moves() {
                    let lost_and_found = Arc::clone(&self.lost_and_found);
                    self.copying = Some(tokio::spawn(async move {
                        let copied = lost_and_found.keep(&file).await;
                        (file, copied)
                    }));
                } else {
                    self.remove(file.path);
                }
                continue;
            }
            let now = self.service.now();
            let text = self.service.read(|state| state.check_on(&mut self.check, now))?;
            self.lost.extend(self.check.take_lost());
            // A step that has nothing to say shows that the check goes on.
            return Some(if text.is_empty() { Bytes::from_static(b"\n") } else { text.into() });
        }
    }

    /// Removes a file that cannot be read, if that is wanted.
    fn remove(&mut self, src: String) {
        if !self.check.removes() {
            return;
        }
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
}
