use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tracing::debug;
use yeoul_net::{Connection, Handler, Standing};

use super::Groups;
use crate::ids::CallerId;
use crate::memory::{Charge, Memory, Party};
use crate::wire::exception::Exception;
use crate::wire::proto::rpc::{ConnectionContext, RequestHeader, ResponseHeader, Sasl};
use crate::wire::rpc_frame::{self, Authentication, Preamble, Request, Status};
use crate::wire::{DecodeError, Refusal, delimited, limits, protocol};

/// Calls of one connection that are under way. A client with more waits.
const CALLS_PER_CONNECTION_MAX: usize = 256;
/// How long a client may take from its first byte to the end of what must come together: the preamble, a frame.
const TOGETHER_MAX: Duration = Duration::from_secs(60);
/// The least rate at which a long frame has to come, in bytes of each second for which its client is waited for.
const FRAME_RATE_MIN: u64 = 4 << 10;
/// How long a connection may be silent. Clients close theirs after ten seconds, or send a ping each minute.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// How long a call waits for memory before it is refused. Clients give up after a minute.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(20);
/// Bytes of memory of a call and its answer, the frame aside.
const CALL_BYTES: u64 = 8 << 10;
/// A frame longer than this may take a hundred times its bytes when it is decoded: see [`limits::CALL_BYTES_MAX`].
const SHORT_FRAME_BYTES: usize = 4 << 10;
/// Bytes for which a long frame that is on its way waits at a time.
const FRAME_STEP_BYTES: usize = 64 << 10;
/// Bytes of memory for each byte of a long frame.
const DECODED_FACTOR: u64 = 100;
/// Bytes of a user's name.
const USER_BYTES_MAX: usize = 255;
/// The state by which a server says that the negotiation is over.
const SASL_SUCCESS: i32 = 0;
/// Error details of answers that end a connection.
const FATAL_INVALID_HEADER: i32 = 12;
const FATAL_VERSION: i32 = 14;
const FATAL_UNAUTHORIZED: i32 = 15;

/// A call as a service gets it.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The user that the connection named.
    pub user: Arc<str>,
    /// The groups that this host knows for the user.
    pub groups: Arc<[String]>,
    /// The address that the connection is from.
    pub ip: Arc<str>,
    /// By what the call is known if it comes again; none if the client has no proper id.
    pub caller: Option<CallerId>,
    /// The protocol that declares the method.
    pub protocol: String,
    /// The version of the protocol.
    pub version: u64,
    /// The method.
    pub method: String,
    /// Its argument, a message of protobuf.
    pub argument: Bytes,
}

/// The end of a call: an encoded result, or what the client gets to know.
pub type Outcome = Result<Vec<u8>, Refusal>;

/// The answer to a call: there already, or to come.
pub enum Answer {
    /// Nothing has to be waited for.
    Now(Outcome),
    /// It comes when the future ends.
    Later(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

/// What a server does with calls.
pub trait Calls: Send + Sync + 'static {
    /// Begins to carry out a call. It does not wait.
    fn call(&self, call: Incoming) -> Answer;
}

/// Serves Hadoop RPC: answers leave as they are ready, in any order.
pub struct RpcServer<C> {
    calls: Arc<C>,
    groups: Groups,
    memory: Memory,
    patience: Patience,
}

/// How long clients are waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// From the first byte to the end of what must come together, and until the first frame comes.
    together: Duration,
    /// Between two frames.
    silent: Duration,
}

impl<C: Calls> RpcServer<C> {
    /// A server of these calls, which has its memory of `memory`.
    pub fn new(calls: Arc<C>, memory: Memory) -> Self {
        let patience = Patience { together: TOGETHER_MAX, silent: SILENT_MAX };
        Self { calls, groups: Groups::default(), memory, patience }
    }

    /// The same server with groups of users that others ask for, too.
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        Self { groups, ..self }
    }
}

impl<C: Calls> Handler for RpcServer<C> {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        let ip: Arc<str> = connection.peer.ip().to_canonical().to_string().into();
        let (read, mut write) = connection.stream.into_split();
        let (memory, party) = (self.memory.clone(), Party::client(Arc::clone(&ip)));
        let mut frames = Frames {
            read,
            buffer: BytesMut::new(),
            standing: connection.standing,
            is_first: true,
            patience: self.patience,
            memory,
            party,
            charges: Vec::new(),
        };
        let authentication = match frames.preamble().await? {
            Preamble::Calls(authentication) => authentication,
            Preamble::Http => {
                return write.write_all(HTTP_ANSWER.as_bytes()).await;
            }
            Preamble::OtherVersion(version) => {
                let message =
                    format!("Server IPC version 9 cannot communicate with client version {version}");
                let header = fatal(rpc_frame::CALL_NONE, Exception::VersionMismatch, message, FATAL_VERSION);
                return write.write_all(&rpc_frame::failure(&header)).await;
            }
        };
        if authentication == Authentication::Sasl {
            answer_negotiation(&mut frames, &mut write).await?;
        }
        let (answers, ready) = mpsc::channel(CALLS_PER_CONNECTION_MAX);
        // The writer ends when the reader and all calls under way have.
        let (read, wrote) = tokio::join!(self.read_calls(frames, ip, answers), write_answers(write, ready));
        read.and(wrote)
    }
}

const HTTP_ANSWER: &str = "HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\nConnection: close\r\n\r\n\
    It looks like you are making an HTTP request to a Hadoop IPC port. This is not the correct port for the web interface on this daemon.\r\n";

impl<C: Calls> RpcServer<C> {
    async fn read_calls(
        &self,
        mut frames: Frames,
        ip: Arc<str>,
        answers: mpsc::Sender<Ready>,
    ) -> io::Result<()> {
        let under_way = Arc::new(Semaphore::new(CALLS_PER_CONNECTION_MAX));
        let mut caller: Option<(Arc<str>, Arc<[String]>)> = None;
        while let Some(frame) = frames.next().await? {
            let cost = cost_of(frame.len());
            let request = match Request::decode(frame) {
                Ok(request) => request,
                Err(error) => {
                    return end_with(&answers, rpc_frame::CALL_NONE, Exception::Io, error.to_string()).await;
                }
            };
            let id = request.header.call_id;
            match (id, &caller) {
                (rpc_frame::CALL_PING, _) => {}
                (rpc_frame::CALL_CONTEXT, None) => match user_of(&request) {
                    Ok((user, protocol)) => {
                        if protocol == protocol::CLUSTER {
                            frames.party = Party::server(Arc::clone(&ip));
                        }
                        caller = Some((user.as_str().into(), self.groups.of(&user).await.into()));
                    }
                    Err(refusal) => {
                        let header = fatal(id, refusal.exception, refusal.message, FATAL_UNAUTHORIZED);
                        let _ = answers.send(Ready::free(rpc_frame::failure(&header))).await;
                        return Ok(());
                    }
                },
                (0.., Some((user, groups))) => {
                    let place = Arc::clone(&under_way).acquire_owned().await;
                    let place = place.expect("the semaphore is never closed");
                    let Some(charge) = self.memory.acquire(&frames.party, cost, MEMORY_WAIT_MAX).await else {
                        let ready = Ready::free(encode(&request.header, Err(no_memory())));
                        if answers.send(ready).await.is_err() {
                            return Ok(());
                        }
                        continue;
                    };
                    let answer = match incoming(&request, user, groups, &ip) {
                        Ok(call) => self.calls.call(call),
                        Err(error) => Answer::Now(Err(error.into())),
                    };
                    match answer {
                        Answer::Now(outcome) => {
                            let ready = Ready::charged(encode(&request.header, outcome), charge);
                            if answers.send(ready).await.is_err() {
                                return Ok(());
                            }
                        }
                        Answer::Later(outcome) => {
                            let answers = answers.clone();
                            tokio::spawn(async move {
                                let ready = Ready::charged(encode(&request.header, outcome.await), charge);
                                // The client may be gone.
                                let _ = answers.send(ready).await;
                                drop(place);
                            });
                        }
                    }
                }
                (0.., None) => {
                    let message = "Connection context not established".to_owned();
                    return end_with(&answers, id, Exception::Io, message).await;
                }
                (other, _) => {
                    return end_with(&answers, id, Exception::Io, format!("call id {other} is out of place"))
                        .await;
                }
            }
        }
        Ok(())
    }
}

/// Answers what a client of SASL sends first: that the negotiation has succeeded. Both sides then go on without it.
async fn answer_negotiation(frames: &mut Frames, write: &mut OwnedWriteHalf) -> io::Result<()> {
    let Some(frame) = frames.next().await? else { return Ok(()) };
    let request = Request::decode(frame).map_err(invalid)?;
    if request.header.call_id != rpc_frame::CALL_SASL {
        return Err(invalid("the negotiation was announced and another frame came"));
    }
    let header = rpc_frame::response_header(&request.header, Status::Success);
    let mut result = BytesMut::new();
    delimited::put(&Sasl { state: SASL_SUCCESS, ..Sasl::default() }, &mut result);
    let mut frame = BytesMut::new();
    delimited::put(&header, &mut frame);
    frame.extend_from_slice(&result);
    let length = u32::try_from(frame.len()).expect("it is short");
    write.write_all(&[&length.to_be_bytes()[..], &frame].concat()).await
}

/// The user and the protocol that a connection context names.
fn user_of(request: &Request) -> Result<(String, String), Refusal> {
    let denied = |message: String| Refusal::new(Exception::Authorization, message);
    let context: ConnectionContext =
        delimited::take_message(&mut request.rest.clone(), "the connection context")?;
    let (user, protocol) = (context.user.unwrap_or_default(), context.protocol.unwrap_or_default());
    let effective = user.effective_user();
    if user.real_user.as_ref().is_some_and(|real| !real.is_empty() && real != effective) {
        let real = user.real_user();
        return Err(denied(format!("User: {real} is not allowed to impersonate {effective}")));
    }
    // Of a Kerberos principal, the name before the host and the realm.
    let name = effective.split(['/', '@']).next().unwrap_or_default();
    if name.is_empty() || name.len() > USER_BYTES_MAX || name.contains(char::is_control) {
        return Err(denied(format!(
            "a user has a name of 1 to {USER_BYTES_MAX} bytes without control characters"
        )));
    }
    Ok((name.to_owned(), protocol))
}

/// Bytes of memory of a call with a frame of so many.
fn cost_of(frame: usize) -> u64 {
    let decoded = if frame > SHORT_FRAME_BYTES { DECODED_FACTOR } else { 1 };
    CALL_BYTES + frame as u64 * decoded
}

/// The answer to a call for which there was no memory: clients with a retry policy call again.
fn no_memory() -> Refusal {
    let waited = MEMORY_WAIT_MAX.as_secs();
    Refusal::new(
        Exception::Retriable,
        format!("Server too busy: no memory for the call within {waited} seconds"),
    )
}

/// An answer that is to be sent, and the memory of its call, which is free once it has been.
struct Ready {
    frame: BytesMut,
    charge: Option<Charge>,
}

impl Ready {
    /// The answer to a call.
    fn charged(frame: BytesMut, mut charge: Charge) -> Self {
        // A long answer is there already: what comes next waits for it.
        charge.grow((frame.len() as u64).saturating_sub(charge.bytes()));
        Self { frame, charge: Some(charge) }
    }

    /// A short answer without a call.
    fn free(frame: BytesMut) -> Self {
        Self { frame, charge: None }
    }
}

fn incoming(
    request: &Request,
    user: &Arc<str>,
    groups: &Arc<[String]>,
    ip: &Arc<str>,
) -> Result<Incoming, DecodeError> {
    let call = request.call()?;
    let client = <[u8; 16]>::try_from(&request.header.client_id[..]).ok();
    Ok(Incoming {
        user: Arc::clone(user),
        groups: Arc::clone(groups),
        ip: Arc::clone(ip),
        caller: client.map(|client| CallerId { client, call: request.header.call_id }),
        protocol: call.header.protocol,
        version: call.header.version,
        method: call.header.method,
        argument: call.argument,
    })
}

fn encode(request: &RequestHeader, outcome: Outcome) -> BytesMut {
    match outcome {
        Ok(result) => rpc_frame::success(request, &result),
        Err(refusal) => {
            let header = rpc_frame::response_header(request, Status::Error);
            rpc_frame::failure(&ResponseHeader {
                exception_class: Some(refusal.exception.class_name().to_owned()),
                error_message: Some(refusal.message),
                error_detail: Some(refusal.exception.error_detail()),
                ..header
            })
        }
    }
}

fn fatal(call_id: i32, exception: Exception, message: String, detail: i32) -> ResponseHeader {
    let request = RequestHeader { call_id, ..RequestHeader::default() };
    ResponseHeader {
        exception_class: Some(exception.class_name().to_owned()),
        error_message: Some(message),
        error_detail: Some(detail),
        ..rpc_frame::response_header(&request, Status::Fatal)
    }
}

async fn end_with(
    answers: &mpsc::Sender<Ready>,
    call_id: i32,
    exception: Exception,
    message: String,
) -> io::Result<()> {
    let header = fatal(call_id, exception, message, FATAL_INVALID_HEADER);
    let _ = answers.send(Ready::free(rpc_frame::failure(&header))).await;
    Ok(())
}

async fn write_answers(mut write: OwnedWriteHalf, mut ready: mpsc::Receiver<Ready>) -> io::Result<()> {
    while let Some(Ready { mut frame, charge }) = ready.recv().await {
        let mut charges = vec![charge];
        // What is ready goes out together.
        while frame.len() < 64 << 10
            && let Ok(next) = ready.try_recv()
        {
            frame.extend_from_slice(&next.frame);
            charges.push(next.charge);
        }
        timeout(TOGETHER_MAX, write.write_all(&frame)).await??;
    }
    Ok(())
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The frames that a connection brings.
struct Frames {
    read: OwnedReadHalf,
    buffer: BytesMut,
    standing: Standing,
    /// No frame has come yet.
    is_first: bool,
    patience: Patience,
    memory: Memory,
    party: Party,
    /// What holds the bytes of a long frame that is on its way, or was the last one.
    charges: Vec<Charge>,
}

impl Frames {
    async fn preamble(&mut self) -> io::Result<Preamble> {
        let mut bytes = [0; rpc_frame::PREAMBLE_BYTES];
        timeout(self.patience.together, self.read.read_exact(&mut bytes)).await??;
        let preamble = Preamble::decode(bytes).map_err(invalid);
        if let Err(error) = &preamble {
            debug!(%error, "no client of Hadoop RPC");
        }
        preamble
    }

    /// The next frame; none at the end of the connection.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.charges.clear();
        // How long the client was waited for since the frame began.
        let mut waited = Duration::ZERO;
        loop {
            if let Some(frame) =
                rpc_frame::take_frame(&mut self.buffer, limits::CALL_BYTES_MAX).map_err(invalid)?
            {
                self.standing.work();
                self.is_first = false;
                return Ok(Some(frame));
            }
            let is_silent = self.buffer.is_empty() && !self.is_first;
            let come = Duration::from_secs(self.buffer.len() as u64 / FRAME_RATE_MIN);
            let Patience { together, silent } = self.patience;
            let wait = if is_silent { silent } else { (together + come).saturating_sub(waited) };
            if self.buffer.len() >= SHORT_FRAME_BYTES + self.charges.len() * FRAME_STEP_BYTES {
                let room = self.memory.acquire(&self.party, FRAME_STEP_BYTES as u64, MEMORY_WAIT_MAX);
                let no_room = || io::Error::other("there is no memory for a long frame");
                self.charges.push(room.await.ok_or_else(no_room)?);
            }
            self.buffer.reserve(8 << 10);
            let begun = Instant::now();
            if timeout(wait, self.read.read_buf(&mut self.buffer)).await?? == 0 {
                return Ok(None);
            }
            if !is_silent {
                waited += begun.elapsed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;
    use yeoul_net::{Listener, serve_connections};

    use super::*;
    use crate::memory::MEMORY_BYTES_MIN;

    /// Answers no call.
    struct Nothing;

    impl Calls for Nothing {
        fn call(&self, _: Incoming) -> Answer {
            Answer::Now(Ok(Vec::new()))
        }
    }

    #[tokio::test]
    async fn a_client_has_some_time_for_its_first_frame_and_for_the_rest_of_one() {
        let patience = Patience { together: Duration::from_millis(200), silent: Duration::from_secs(3600) };
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let gate = memory.gate(10).with_first_max(patience.together);
        let server = RpcServer { patience, ..RpcServer::new(Arc::new(Nothing), memory) };
        let serving = serve_connections(listener, gate, Arc::new(server));
        let frame = b"hrpc\x09\x00\x00\x00\x00\x01\x00";
        for (sent, dripped) in [(&b""[..], 0), (&frame[..7], 0), (&frame[..], 200)] {
            let mut stream = TcpStream::connect(serving.address()).await.unwrap();
            stream.write_all(sent).await.unwrap();
            let ended = async {
                // Each byte comes in time for itself.
                for _ in 0..dripped {
                    tokio::time::sleep(patience.together / 2).await;
                    if stream.write_all(b"x").await.is_err() {
                        break;
                    }
                }
                let _ = stream.read(&mut [0; 10]).await; // it is closed
            };
            timeout(20 * patience.together, ended).await.unwrap_or_else(|_| panic!("{sent:?} stays"));
        }
    }
}
