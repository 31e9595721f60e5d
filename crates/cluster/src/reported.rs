//! Reports of a scheduler, as a client asks for them.

use std::fmt;

use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http;
use tonic::transport::Channel;
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;

use crate::limits::MESSAGE_BYTES_MAX;
use crate::served::path_of_wanted;
use crate::token::TOKEN_HINT;

/// Request that tells the scheduler that somebody wants a job, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wanted {
    _open: http::Response<Body>,
}

impl Wanted {
    /// Wants a job.
    ///
    /// # Errors
    /// `Unavailable` if the scheduler does not answer.
    pub(crate) async fn tell(scheduler: &Channel, job: &str) -> Result<Self, Error> {
        Ok(Self { _open: answer(scheduler, &path_of_wanted(job)).await? })
    }
}

/// The report at a path.
///
/// # Errors
/// `NotFound` if there is none; `Unavailable` if it does not come.
pub(crate) async fn asked<T: DeserializeOwned>(scheduler: &Channel, path: &str) -> Result<T, Error> {
    let answer = answer(scheduler, path).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MESSAGE_BYTES_MAX).collect().await;
    let body = body.map_err(lost)?.to_bytes();
    match status {
        http::StatusCode::OK => serde_json::from_slice(&body).map_err(lost),
        http::StatusCode::NOT_FOUND => {
            Err(Error::new(ErrorKind::NotFound, "the scheduler knows nothing of the job any more"))
        }
        http::StatusCode::UNAUTHORIZED => {
            let text =
                format!("the scheduler does not report on its jobs: {}", String::from_utf8_lossy(&body));
            Err(Error::new(ErrorKind::Denied, text).with_hint(TOKEN_HINT))
        }
        other => Err(lost(other)),
    }
}

async fn answer(scheduler: &Channel, path: &str) -> Result<http::Response<Body>, Error> {
    let request = http::Request::get(path).body(Body::empty()).map_err(lost)?;
    let mut scheduler = scheduler.clone();
    std::future::poll_fn(|context| scheduler.poll_ready(context)).await.map_err(lost)?;
    scheduler.call(request).await.map_err(lost)
}

fn lost(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the scheduler does not report on its jobs: {what}"))
}
