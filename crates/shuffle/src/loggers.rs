//! The route `loggers` of Celeborn's `/api/v1`, the same for a master and a worker: levels of the log, listed and changed.

use serde::Deserialize;
use serde_json::{Value, json};
use yeoul_net::http::Response;
use yeoul_net::{LogLevels, ROOT_LOGGER};

use crate::api::{self, handled, handled_with, parse};

/// Path of the route.
pub const PATH: &str = "/api/v1/loggers";

#[derive(Deserialize)]
struct Logger {
    /// As in Celeborn the root is meant if none is named.
    #[serde(default)]
    name: Option<String>,
    level: String,
}

/// The loggers that have levels, or the one of `?name=`.
pub fn list(levels: &LogLevels, query: &str) -> Response {
    let only = query.split('&').find_map(|pair| pair.strip_prefix("name=")).filter(|name| !name.is_empty());
    let only = only.map(|name| name.replace("%3A", ":").replace("%3a", ":"));
    let is_meant = |(name, _): &(String, &'static str)| only.as_ref().is_none_or(|only| only == name);
    let loggers: Vec<Value> = levels
        .all()
        .into_iter()
        .filter(is_meant)
        .map(|(name, level)| json!({ "name": name, "level": level }))
        .collect();
    api::ok(&json!({ "loggers": loggers }))
}

/// Sets the level of a logger.
///
/// # Errors
/// The answer to a logger or a level that there is not.
pub fn set(levels: &LogLevels, body: &[u8]) -> Result<Response, Response> {
    let Logger { name, level } = parse(body)?;
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| ROOT_LOGGER.to_owned());
    levels.set(&name, &level).map_err(|refused| handled_with(400, false, refused.to_string()))?;
    // Who reads the log later is to know why it says more or less from here on.
    tracing::warn!("the level of the logger {name} was set to {level} over HTTP");
    Ok(handled(true, format!("Set logger `{name}` level to `{level}` successfully.")))
}
