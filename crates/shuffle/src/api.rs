//! What the pages of a master and of a worker share: the JSON of Celeborn 0.6's `/api/v1`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use yeoul_net::http::{Response, flattened};

use crate::ids::WorkerId;

/// A page with this JSON, with status 200.
pub fn ok(value: &Value) -> Response {
    Response::json(200, value)
}

/// A page with a list of items under one name, which is made in pieces as it is read: `next` gives the items behind the last one
/// that it gave, some hundred at a time, and none at the end.
pub fn list(name: &str, mut next: impl FnMut() -> Vec<Value> + Send + 'static) -> Response {
    let (mut head, mut is_over) = (Some(format!("{{{}:[", Value::from(name))), false);
    Response::json_pieces(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let items = next();
        is_over = items.is_empty();
        let is_first = head.is_some();
        let mut piece = head.take().unwrap_or_default();
        for (at, item) in items.iter().enumerate() {
            if !is_first || at > 0 {
                piece.push(',');
            }
            piece += &item.to_string();
        }
        if is_over {
            piece += "]}";
        }
        Some(piece.into())
    }))
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
    let entries = flattened(options).into_iter();
    let configs: Vec<Value> = entries.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "configs": configs })
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
