//! A worker's HTTP: Celeborn 0.6's `/api/v1`, as its command line tool uses it, and Prometheus metrics. What of that tool has
//! no route at the master has none here.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use yeoul_net::http::{Response, Routes};

use super::node::Node;
use super::orders::Orders;
use super::{console, view};
use crate::api::{self, handled, handled_with, parse};
use crate::host_pages;
use crate::ids::ShuffleKey;
use crate::loggers;
use crate::metrics::Exposition;
use crate::net::ConnectionCount;
use crate::report::Command;

/// Locations that one page lists; each is some 200 bytes of JSON, several times as much while it is made.
const LOCATIONS_MAX: usize = 4096;

/// The pages of a worker.
pub(super) struct WorkerPages {
    node: Arc<Node>,
    orders: Orders,
    connections: Vec<ConnectionCount>,
}

impl WorkerPages {
    /// Orders go to `orders`; `connections` are those of all listeners.
    pub fn new(node: Arc<Node>, orders: Orders, connections: Vec<ConnectionCount>) -> Self {
        Self { node, orders, connections }
    }

    fn partitions(&self, query: &str) -> Response {
        let only = query.split('&').find_map(|pair| pair.strip_prefix("shuffle="));
        let only: Option<ShuffleKey> = match only.map(str::parse).transpose() {
            Ok(only) => only,
            Err(error) => return Response::text(400, format!("{error}\n")),
        };
        match view::partitions(&self.node, only.as_ref(), LOCATIONS_MAX) {
            Ok(shown) => api::ok(&shown),
            Err(count) => {
                let hint = match only {
                    Some(_) => "",
                    None => ": ask for one shuffle of /api/v1/shuffles, with ?shuffle=<application>-<number>",
                };
                let text = format!("{count} locations, and a page lists {LOCATIONS_MAX} at most{hint}\n");
                Response::text(400, text)
            }
        }
    }

    fn metrics(&self) -> String {
        let mut exposition = Exposition::new("Worker");
        let connections = self.connections.iter().map(ConnectionCount::get).sum();
        view::metrics(&self.node, connections, &mut exposition);
        exposition.process();
        exposition.finish()
    }

    fn exit(&self, body: &[u8]) -> Result<Response, Response> {
        let Exit { kind } = parse(body)?;
        let command = match kind.to_ascii_uppercase().as_str() {
            "IMMEDIATELY" => Command::StopNow,
            "GRACEFUL" => Command::StopGracefully,
            "DECOMMISSION" => Command::Decommission,
            other => {
                let expected = "expected DECOMMISSION, GRACEFUL or IMMEDIATELY";
                return Err(handled_with(400, false, format!("unknown type `{other:.40}`: {expected}")));
            }
        };
        match self.orders.give(command) {
            true => Ok(handled(true, format!("the worker was told to exit: {kind}"))),
            false => Err(handled_with(503, false, "the worker is busy with other orders, or ends")),
        }
    }
}

impl Routes for WorkerPages {
    const LIST: &str = "\
GET  /api/v1/conf                       the options in effect
GET  /api/v1/workers                    this worker
GET  /api/v1/workers/unavailable_peers  nobody: each copy tries the other worker anew
POST /api/v1/workers/exit               stop gracefully or at once, or decommission
GET  /api/v1/applications               those of which it holds something
GET  /api/v1/shuffles                   those of which it holds something
GET  /api/v1/shuffles/partitions        the locations that it holds; ?shuffle=<application>-<number> for those of one
GET  /api/v1/loggers                    levels of the log; ?name=<logger> for one
POST /api/v1/loggers                    set the level of a logger while the worker runs
GET  /api/v1/container_info             the machine or container
GET  /api/v1/thread_dump                the threads of this process
GET  /metrics/prometheus                numbers for Prometheus, under Celeborn's names
GET  /healthz                           200 while it takes shuffles, or 503 with the reason why it does not
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        (path == "/").then(|| Response::html(200, console::page(&self.node, query).render()))
    }

    fn get(&self, path: &str, query: &str) -> Option<Response> {
        let node = &self.node;
        Some(api::ok(&match path {
            "/api/v1/conf" => api::conf(&node.options),
            "/api/v1/container_info" => host_pages::container_info(&node.id.host),
            "/api/v1/thread_dump" => host_pages::thread_dump(),
            loggers::PATH => return Some(loggers::list(node.options.log_levels.as_ref()?, query)),
            "/api/v1/workers" => view::worker(node),
            "/api/v1/workers/unavailable_peers" => json!({ "peers": [] }),
            "/api/v1/applications" => view::applications(node),
            "/api/v1/shuffles" => view::shuffles(node),
            "/api/v1/shuffles/partitions" => return Some(self.partitions(query)),
            yeoul_console::STYLE_PATH => return Some(Response::css(yeoul_console::STYLE)),
            "/metrics/prometheus" => return Some(Response::text(200, self.metrics())),
            "/healthz" => {
                return Some(match view::ailment(node) {
                    None => Response::text(200, "ok\n"),
                    Some(ailment) => Response::text(503, format!("{ailment}\n")),
                });
            }
            _ => return None,
        }))
    }

    async fn post(&self, path: &str, body: &[u8]) -> Option<Result<Response, Response>> {
        match path {
            "/api/v1/workers/exit" => Some(self.exit(body)),
            loggers::PATH => Some(loggers::set(self.node.options.log_levels.as_ref()?, body)),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Exit {
    #[serde(rename = "type")]
    kind: String,
}
