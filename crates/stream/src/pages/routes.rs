use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use yeoul_net::http::{Response, Routes};

use super::{QueryFigures, console};

/// The pages of running queries.
#[derive(Debug)]
pub struct StreamPages {
    figures: Arc<QueryFigures>,
}

impl StreamPages {
    /// Pages of these figures.
    pub fn new(figures: Arc<QueryFigures>) -> Self {
        Self { figures }
    }

    fn health(&self) -> Response {
        let statuses = self.figures.statuses();
        let ended: Vec<&str> =
            statuses.iter().filter(|query| !query.is_active).map(|query| query.name.as_str()).collect();
        match ended.as_slice() {
            [] => Response::text(200, "ok\n"),
            names => Response::text(503, format!("not running: {}\n", names.join(", "))),
        }
    }
}

impl Routes for StreamPages {
    const LIST: &'static str = "\
GET  /metrics/prometheus  figures for Prometheus
GET  /queries             the queries with their last progress, as JSON
GET  /healthz             200 while all queries run, else 503
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        (path == "/").then(|| Response::html(200, console::page(&self.figures, now_ms, query).render()))
    }

    fn get(&self, path: &str, _query: &str) -> Option<Response> {
        match path {
            "/metrics/prometheus" | "/metrics" => Some(Response {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                ..Response::text(200, self.figures.prometheus())
            }),
            "/queries" => {
                let queries = serde_json::to_value(self.figures.statuses()).unwrap_or_default();
                Some(Response::json(200, &queries))
            }
            "/healthz" => Some(self.health()),
            yeoul_console::STYLE_PATH => Some(Response::css(yeoul_console::STYLE)),
            _ => None,
        }
    }

    async fn post(&self, _path: &str, _body: &[u8]) -> Option<Result<Response, Response>> {
        None
    }
}
