//! The port for pages and metrics, of both servers.

use std::sync::Arc;

use yeoul_net::http::{Pages, serve_pages};
use yeoul_net::{Listener, Serving, cannot_bind};

use crate::error::Result;

/// Serves pages on a port, if there is to be one; 0 takes a free one.
///
/// # Errors
/// The port is taken.
pub(crate) async fn serve(host: &str, port: Option<u16>, pages: impl Pages) -> Result<Option<Serving>> {
    let Some(port) = port else { return Ok(None) };
    let listener = Listener::bind((host, port)).await;
    let listener = listener.map_err(|error| cannot_bind("http", host, port, error))?;
    let serving = serve_pages(listener, Arc::new(pages));
    let address = serving.address();
    tracing::info!("http://{address}/status and http://{address}/metrics/prometheus");
    Ok(Some(serving))
}
