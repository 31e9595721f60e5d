//! The guard of ports: calls that do not say the cluster's token are answered with a refusal and reach nothing.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tonic::client::GrpcService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};

use crate::limits::{CLIENT_ANSWERS_WITHIN, CLIENT_ASKED_EVERY};
use crate::token::Token;

/// Routes for those who say the token, or for all if there is none.
pub(crate) fn guarded(routes: Router, token: Option<Token>) -> Router {
    let Some(token) = token else { return routes };
    routes.layer(middleware::from_fn(move |call: Request, next: Next| {
        let refusal = token.refusal(call.headers());
        async move {
            match refusal {
                None => next.run(call).await,
                Some(reason) => refused(&call, reason),
            }
        }
    }))
}

fn refused(call: &Request, reason: &'static str) -> Response {
    let kind = call.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    match kind.starts_with(b"application/grpc") {
        true => tonic::Status::unauthenticated(reason).into_http(),
        false => (StatusCode::UNAUTHORIZED, reason).into_response(),
    }
}

/// Serves a port by forwarding what the guard lets through to a server that this machine alone reaches, until it is dropped.
/// It is for servers that a library starts, which has no place for a guard.
///
/// # Errors
/// Those of the listener.
pub(crate) async fn forward(
    listener: TcpListener,
    token: Token,
    server: Channel,
) -> Result<(), tonic::transport::Error> {
    let forwarded = move |call: Request| {
        let mut server = server.clone();
        async move {
            let ready = std::future::poll_fn(|context| server.poll_ready(context)).await;
            let answer = match ready {
                Ok(()) => server.call(call.map(tonic::body::Body::new)).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => answer.map(Body::new),
                Err(error) => tonic::Status::unavailable(error.to_string()).into_http(),
            }
        }
    };
    let routes = guarded(Router::new().fallback(forwarded), Some(token));
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(CLIENT_ASKED_EVERY))
        .http2_keepalive_timeout(Some(CLIENT_ANSWERS_WITHIN))
        .add_routes(routes.into())
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
}
