//! The scheduler's port: Ballista's calls, and beside them the reports that clients ask for, the requests by which they want their
//! jobs, and the questions of tasks for theirs. HTTP/2 only, which no browser sends to it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response as Answered};
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use yeoul_net::http::{Pages, Request, Response};

use crate::clients::{Client, Clients};
use crate::guard::guarded;
use crate::limits::{CLIENT_ANSWERS_WITHIN, CLIENT_ASKED_EVERY, MESSAGE_BYTES_MAX};
use crate::pages::SchedulerPages;
use crate::token::Token;

/// Path of jobs, and the ends of those by which clients want one, and tasks ask for one.
const JOBS: &str = "/api/v1/jobs/";
const WANTED: &str = "/wanted";
const RUNNING: &str = "/running";

/// Serves calls and reports until it is dropped.
///
/// # Errors
/// Those of the listener.
pub(crate) async fn serve<T, U>(
    listener: TcpListener,
    scheduler: SchedulerServer<T, U>,
    pages: Arc<SchedulerPages<T, U>>,
    clients: Arc<Clients>,
    token: Option<Token>,
) -> Result<(), tonic::transport::Error>
where
    T: AsLogicalPlan + 'static,
    U: AsExecutionPlan + 'static,
{
    let calls = SchedulerGrpcServer::new(scheduler)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let reports = move |method: Method, address: Uri| {
        let (pages, clients) = (Arc::clone(&pages), Arc::clone(&clients));
        async move {
            let path = address.path();
            if let Some(job) = job_of(path, WANTED) {
                open(clients.come(job))
            } else if let Some(job) = job_of(path, RUNNING) {
                pages.is_running(job).to_string().into_response()
            } else {
                report(&pages, &method, path).await
            }
        }
    };
    let routes = guarded(Routes::new(calls).into_axum_router().fallback(reports), token);
    Server::builder()
        .http2_keepalive_interval(Some(CLIENT_ASKED_EVERY))
        .http2_keepalive_timeout(Some(CLIENT_ANSWERS_WITHIN))
        .add_routes(routes.into())
        .serve_with_incoming(TcpIncoming::from(listener))
        .await
}

/// Path by which a client wants a job, for as long as its answer is open.
pub(crate) fn path_of_wanted(job: &str) -> String {
    format!("{JOBS}{job}{WANTED}")
}

/// Path at which a task hears whether its job runs: `true` or `false`.
pub(crate) fn path_of_running(job: &str) -> String {
    format!("{JOBS}{job}{RUNNING}")
}

fn job_of<'a>(path: &'a str, end: &str) -> Option<&'a str> {
    path.strip_prefix(JOBS)?.strip_suffix(end)
}

/// An answer that does not end while the client is there.
fn open(client: Client) -> Answered {
    let until_it_goes = futures::stream::once(async move {
        let _client = client;
        std::future::pending::<Result<Bytes, Infallible>>().await
    });
    Body::from_stream(until_it_goes).into_response()
}

async fn report<T, U>(pages: &SchedulerPages<T, U>, method: &Method, path: &str) -> Answered
where
    T: AsLogicalPlan + 'static,
    U: AsExecutionPlan + 'static,
{
    let request = Request {
        method: method.to_string(),
        path: path.to_owned(),
        query: String::new(),
        accepts_html: false,
        body: Vec::new().into(),
    };
    let Response { status, content_type, body, .. } = pages.answer(request).await;
    let status = StatusCode::from_u16(status).expect("pages have valid codes");
    (status, [(CONTENT_TYPE, content_type)], body).into_response()
}
