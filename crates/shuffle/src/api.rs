//! What the pages of a master and of a worker share: the JSON of Celeborn 0.6's `/api/v1`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::http::{Pages, Request, Response};
use crate::ids::WorkerId;

/// Pages by method and path. `None` means that there is no such page.
pub trait Routes: Send + Sync + 'static {
    /// All of them, as `/` shows them: in each line a method, a path, and what it is for.
    const LIST: &'static str;

    /// Answers a GET.
    fn get(&self, path: &str, query: &str) -> Option<Response>;

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
        let answered = match request.method.as_str() {
            "GET" if path.is_empty() => Some(Response::text(200, R::LIST)),
            "GET" => self.get(path, &request.query),
            "POST" => self.post(path, &request.body).await.map(|result| result.unwrap_or_else(|error| error)),
            _ => return Response::text(405, "only GET and POST are served\n"),
        };
        answered.unwrap_or_else(|| {
            Response::text(
                404,
                "no such page; / lists all, such as /api/v1/workers, /metrics/prometheus and /healthz\n",
            )
        })
    }
}

/// A page with this JSON, with status 200.
pub fn ok(value: &Value) -> Response {
    Response::json(200, value)
}

/// The outcome of a request to change something.
pub fn handled(success: bool, message: impl Into<String>) -> Response {
    handled_with(200, success, message)
}

/// As [`handled`], with another status than 200.
pub fn handled_with(status: u16, success: bool, message: impl Into<String>) -> Response {
    Response::json(status, &json!({ "success": success, "message": message.into() }))
}

/// Parses the JSON of a request.
///
/// # Errors
/// The answer to JSON that is not what was expected.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    serde_json::from_slice(body)
        .map_err(|error| handled_with(400, false, format!("not the JSON expected: {error}")))
}

/// The options in effect, one entry for each.
pub fn conf(options: &impl Serialize) -> Value {
    let mut entries = BTreeMap::new();
    let value = serde_json::to_value(options).unwrap_or_default();
    flatten("", &value, &mut entries);
    let configs: Vec<Value> =
        entries.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "configs": configs })
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

/// The fields that name a worker.
pub fn worker_name(worker: &WorkerId) -> Map<String, Value> {
    let fields = [
        ("host", json!(&*worker.host)),
        ("rpcPort", json!(worker.rpc_port)),
        ("pushPort", json!(worker.push_port)),
        ("fetchPort", json!(worker.fetch_port)),
        ("replicatePort", json!(worker.replicate_port)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A worker as every list of workers shows it, without what only one of the two servers knows: its name, the directories
/// (path and [`directory`]) and one of Celeborn's names for what it is doing.
pub fn worker(
    worker: &WorkerId,
    state: &str,
    slots: u64,
    directories: BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut fields = worker_name(worker);
    let more = [
        ("internalPort", json!(worker.rpc_port)),
        ("slotUsed", json!(slots)),
        ("diskInfos", json!(directories)),
        ("resourceConsumptions", json!({})),
        ("workerRef", json!(worker.address(worker.rpc_port))),
        ("workerState", json!(state)),
    ];
    fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    fields
}

/// A directory of a worker.
pub fn directory(bytes_usable: u64, bytes_total: u64, health: impl Debug) -> String {
    format!(
        "DiskInfo(usableSpace: {bytes_usable} bytes, totalSpace: {bytes_total} bytes, status: {health:?})"
    )
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
        let shown = conf(&options);
        let expected = json!([
            { "name": "inner.ports", "value": "[1,2]" },
            { "name": "interval", "value": "1.5s" },
        ]);
        assert_eq!(shown["configs"], expected);
    }
}
