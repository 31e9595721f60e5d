//! A client that sends requests to servers: one or a few connections to each, shared by all requests.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use yeoul_base::{Error, ErrorKind};

use super::payload::Payload;
use super::protocol::{Calls, Outcome};
use super::writer::{Outgoing, Place, write_frames};
use crate::keepalive::notice_vanished_peers_after;
use crate::stream::{ReaderOptions, StreamReader};

/// Bytes allocated for an answer before any of it has come. A client that asks for a chunk expects one, and copying it
/// as its allocation grows would cost more than the fetch.
const ANSWER_BEGIN: usize = 16 << 20;

/// Why there is no answer. The first three differ for a replicated push, whose client acts on the difference.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError<F: fmt::Display = String> {
    /// No connection could be made; the request was not sent.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The connection ended before the answer came; the server may have acted.
    #[error("the connection to {address} ended: {reason}")]
    Lost {
        /// The server.
        address: String,
        /// Why.
        reason: Arc<str>,
    },
    /// No answer came in time; the server may still act.
    #[error("{address} did not answer within {after:?}")]
    TimedOut {
        /// The server.
        address: String,
        /// How long the request waited.
        after: Duration,
    },
    /// The server answered with a failure.
    #[error("{address} failed: {text}")]
    Failed {
        /// The server.
        address: String,
        /// Why, in its words.
        text: F,
    },
}

/// `Conflict` if the server refused, and asking again changes nothing; else `Unavailable`.
impl<F: fmt::Debug + fmt::Display + Send + Sync + 'static> From<RequestError<F>> for Error {
    fn from(error: RequestError<F>) -> Self {
        let kind = match error {
            RequestError::Failed { .. } => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

/// How a client treats its connections.
#[derive(Debug, Clone)]
pub struct ClientOptions<L> {
    /// Limits of what servers may answer.
    pub limits: L,
    /// Bytes that are sent first on each connection, if the protocol wants some.
    pub greeting: Bytes,
    /// How long connecting may take.
    pub connect_max: Duration,
    /// Connections to one server, used in turn. Each of them keeps one thread busy at either end.
    pub connections: usize,
    /// Requests in flight over one connection; one more waits.
    pub requests_max: usize,
    /// How long a frame that has begun may make no progress, in either direction.
    pub idle_max: Duration,
}

impl<L> ClientOptions<L> {
    /// The defaults with these limits.
    pub fn new(limits: L) -> Self {
        Self {
            limits,
            greeting: Bytes::new(),
            connect_max: Duration::from_secs(10),
            connections: 1,
            requests_max: 1024,
            idle_max: Duration::from_secs(120),
        }
    }
}

/// A client that keeps connections to each server it has asked, and makes a new one when one ends. Cheap to clone.
pub struct Client<P: Calls> {
    inner: Arc<Inner<P>>,
}

impl<P: Calls> Clone for Client<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<P: Calls> Default for Client<P> {
    fn default() -> Self {
        Self::new(ClientOptions::new(P::answer_limits()))
    }
}

impl<P: Calls> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

struct Inner<P: Calls> {
    options: ClientOptions<P::Limits>,
    next_request: AtomicI64,
    links: Mutex<HashMap<String, Slots<P>>>,
}

/// The connections to one server.
struct Slots<P: Calls> {
    all: Vec<Arc<Slot<P>>>,
    /// The one that the next request uses.
    next: usize,
}

/// One connection, or the attempt to make it.
struct Slot<P: Calls> {
    /// Attempts that failed.
    failures: AtomicUsize,
    /// The lock is held while connecting, so that all requests wait for one attempt.
    made: tokio::sync::Mutex<Made<P>>,
}

impl<P: Calls> Slot<P> {
    fn new() -> Arc<Self> {
        let made = tokio::sync::Mutex::new(Made { link: None, failure: None });
        Arc::new(Self { failures: AtomicUsize::new(0), made })
    }
}

/// The outcome of the last attempt.
struct Made<P: Calls> {
    link: Option<Arc<Link<P>>>,
    failure: Option<RequestError<P::Failure>>,
}

impl<P: Calls> Client<P> {
    /// A client without connections.
    pub fn new(options: ClientOptions<P::Limits>) -> Self {
        let (next_request, links) = (AtomicI64::new(0), Mutex::default());
        Self { inner: Arc::new(Inner { options, next_request, links }) }
    }

    /// Sends a request and waits for its answer. A request id in `header` is replaced by the client's own.
    /// If no answer at all comes over the connection meanwhile, later requests use a new one.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn request(
        &self,
        address: &str,
        mut header: P::Header,
        payload: impl Into<Payload<P>>,
        within: Duration,
    ) -> Result<P::Answer, RequestError<P::Failure>> {
        let deadline = Instant::now() + within;
        let timed_out = || RequestError::TimedOut { address: address.to_owned(), after: within };
        let link = timeout_at(deadline, self.link(address)).await.map_err(|_| timed_out())??;
        let place =
            timeout_at(deadline, link.in_flight.clone().acquire_owned()).await.map_err(|_| timed_out())?;
        let place = Arc::new(place.expect("the semaphore is never closed"));
        let key = self.key(&mut header);
        let (answer, answered) = oneshot::channel();
        let delivered = link.expect(key, answer)?;
        let _pending = Pending { link: &link, key };
        let outgoing =
            Outgoing { header, payload: payload.into(), place: Place::Request(Arc::clone(&place)) };
        link.queue.send(outgoing).map_err(|_| link.lost())?;
        let Ok(answer) = timeout_at(deadline, answered).await else {
            link.doubt(delivered);
            return Err(timed_out());
        };
        drop(place);
        answer.unwrap_or_else(|_| Err(link.lost()))
    }

    /// Sends a frame that has no answer. It counts as sent when the connection has taken it.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn send(
        &self,
        address: &str,
        mut header: P::Header,
        payload: impl Into<Payload<P>>,
    ) -> Result<(), RequestError<P::Failure>> {
        let link = self.link(address).await?;
        self.key(&mut header);
        let outgoing = Outgoing { header, payload: payload.into(), place: Place::Unlimited };
        link.queue.send(outgoing).map_err(|_| link.lost())
    }

    /// Drops the connections to a server, if there are any: the next request makes a new one. Requests in flight end as
    /// they would have, and a connection closes after its last one. Frames that have no answer may be lost.
    pub fn disconnect(&self, address: &str) {
        self.inner.links.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
    }

    /// Closes connections that carried nothing for so long and that no request uses.
    pub fn close_idle(&self, idle: Duration) {
        let mut closed = Vec::new();
        let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, slots| {
            // Where the lock is taken, one is being made.
            for mut made in slots.all.iter().filter_map(|slot| slot.made.try_lock().ok()) {
                closed.extend(made.link.take_if(|link| link.is_idle(idle)));
            }
            let is_used = |slot: &Arc<Slot<P>>| {
                Arc::strong_count(slot) > 1 || slot.made.try_lock().map_or(true, |made| made.link.is_some())
            };
            slots.all.iter().any(is_used)
        });
        drop(links);
        drop(closed); // outside the lock
    }

    /// Numbers the request, and returns the key by which its answer is found.
    fn key(&self, header: &mut P::Header) -> P::Key {
        P::number(header, || self.inner.next_request.fetch_add(1, Ordering::Relaxed))
    }

    async fn link(&self, address: &str) -> Result<Arc<Link<P>>, RequestError<P::Failure>> {
        let slot = {
            let mut links = self.inner.links.lock().unwrap_or_else(PoisonError::into_inner);
            let slots = match links.get_mut(address) {
                Some(slots) => slots,
                None => links.entry(address.to_owned()).or_insert_with(|| Slots { all: Vec::new(), next: 0 }),
            };
            let turn = slots.next;
            slots.next = (turn + 1) % self.inner.options.connections.max(1);
            if turn == slots.all.len() {
                slots.all.push(Slot::new());
            }
            slots.all[turn].clone()
        };
        let failures = slot.failures.load(Ordering::Relaxed);
        let mut made = slot.made.lock().await;
        // A connection that is of no use is dropped before the attempt, however that ends.
        if let Some(link) = made.link.take().filter(|link| link.is_of_use()) {
            link.state().used = Instant::now();
            return Ok(made.link.insert(link).clone());
        }
        if slot.failures.load(Ordering::Relaxed) != failures
            && let Some(failure) = &made.failure
        {
            // Requests that waited for an attempt share its failure, so that they do not try one by one.
            return Err(failure.clone());
        }
        match connect(address, &self.inner.options).await {
            Ok(stream) => Ok(made.link.insert(Link::start(address, stream, &self.inner.options)).clone()),
            Err(error) => {
                let failure = RequestError::Connect { address: address.to_owned(), source: Arc::new(error) };
                made.failure = Some(failure.clone());
                slot.failures.fetch_add(1, Ordering::Relaxed);
                Err(failure)
            }
        }
    }
}

async fn connect<L>(address: &str, options: &ClientOptions<L>) -> io::Result<TcpStream> {
    let connect = tokio::time::timeout(options.connect_max, TcpStream::connect(address));
    let mut stream = connect.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.set_nodelay(true)?;
    notice_vanished_peers_after(&stream, options.idle_max)?;
    // It fits into the socket's empty buffer, so that it does not wait.
    stream.write_all(&options.greeting).await?;
    Ok(stream)
}

type Answer<P> = oneshot::Sender<Result<<P as Calls>::Answer, RequestError<<P as Calls>::Failure>>>;

/// One connection.
struct Link<P: Calls> {
    address: String,
    queue: mpsc::UnboundedSender<Outgoing<P>>,
    in_flight: Arc<Semaphore>,
    state: Mutex<State<P>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

struct State<P: Calls> {
    waiting: HashMap<P::Key, Answer<P>>,
    /// Answers that have come so far, to any request.
    delivered: u64,
    /// A request timed out while no answer came at all: the server's machine may be gone, which the kernel notices
    /// late. Requests in flight may still be answered; new ones are not added.
    in_doubt: bool,
    /// When a request last began or ended.
    used: Instant,
    ended: Option<Arc<str>>,
}

impl<P: Calls> Link<P> {
    fn start(address: &str, stream: TcpStream, options: &ClientOptions<P::Limits>) -> Arc<Self> {
        let (read, write) = stream.into_split();
        let (queue, outgoing) = mpsc::unbounded_channel();
        let used = Instant::now();
        let state = State { waiting: HashMap::new(), delivered: 0, in_doubt: false, used, ended: None };
        let link = Arc::new(Self {
            address: address.to_owned(),
            queue,
            in_flight: Arc::new(Semaphore::new(options.requests_max)),
            state: Mutex::new(state),
            tasks: Mutex::default(),
        });
        let idle_max = options.idle_max;
        let (body_begin, limits) = (ANSWER_BEGIN, options.limits.clone());
        let reading = ReaderOptions { body_begin, idle_max, ..ReaderOptions::default() };
        let mut reader = StreamReader::new(read, &reading);
        // The tasks hold the link weakly: it ends when its client and its requests are gone.
        let weak = Arc::downgrade(&link);
        let writing = tokio::spawn(async move {
            let ended = write_frames(write, outgoing, idle_max).await;
            if let (Err(error), Some(link)) = (ended, weak.upgrade()) {
                link.end(&error.to_string());
            }
        });
        let weak = Arc::downgrade(&link);
        let reading = tokio::spawn(async move {
            let reason = loop {
                match read_answer::<P>(&mut reader, &limits).await {
                    Ok(Some((key, answer))) => {
                        let Some(link) = weak.upgrade() else { return };
                        link.deliver(key, answer);
                    }
                    Ok(None) => break "closed by the server".to_owned(),
                    Err(error) => break error.to_string(),
                }
            };
            if let Some(link) = weak.upgrade() {
                link.end(&reason);
            }
        });
        link.tasks().extend([writing.abort_handle(), reading.abort_handle()]);
        link
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Vec<AbortHandle>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of_use(&self) -> bool {
        let state = self.state();
        // The writer ends silently when the runtime on which the connection was made ends.
        state.ended.is_none() && !state.in_doubt && !self.queue.is_closed()
    }

    /// Whether no request has used it for so long, nor uses it now: each holds it until it ends.
    fn is_idle(self: &Arc<Self>, idle: Duration) -> bool {
        Arc::strong_count(self) == 1 && self.state().used.elapsed() >= idle
    }

    /// Registers a waiting request, and returns how many answers have come so far.
    fn expect(&self, key: P::Key, answer: Answer<P>) -> Result<u64, RequestError<P::Failure>> {
        let mut state = self.state();
        if state.ended.is_some() {
            drop(state);
            return Err(self.lost());
        }
        state.waiting.insert(key, answer);
        Ok(state.delivered)
    }

    /// A request timed out that was sent when `delivered` answers had come.
    fn doubt(&self, delivered: u64) {
        let mut state = self.state();
        state.in_doubt |= state.delivered == delivered;
    }

    fn deliver(&self, key: P::Key, answer: Outcome<P>) {
        let waiting = {
            let mut state = self.state();
            state.delivered += 1;
            state.waiting.remove(&key)
        };
        if let Some(waiting) = waiting {
            let address = self.address.clone();
            // The caller may have given up meanwhile.
            let _ = waiting.send(answer.map_err(|text| RequestError::Failed { address, text }));
        }
    }

    fn end(&self, reason: &str) {
        let waiting = {
            let mut state = self.state();
            state.ended.get_or_insert_with(|| reason.into());
            std::mem::take(&mut state.waiting)
        };
        drop(waiting); // each one sees its sender gone, and reports the link as lost
        self.tasks().iter().for_each(AbortHandle::abort);
    }

    fn lost(&self) -> RequestError<P::Failure> {
        let reason = self.state().ended.clone().unwrap_or_else(|| "closed".into());
        RequestError::Lost { address: self.address.clone(), reason }
    }
}

impl<P: Calls> Drop for Link<P> {
    fn drop(&mut self) {
        self.tasks().iter().for_each(AbortHandle::abort);
    }
}

/// Removes a request that nobody waits for any more.
struct Pending<'a, P: Calls> {
    link: &'a Link<P>,
    key: P::Key,
}

impl<P: Calls> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        let mut state = self.link.state();
        state.waiting.remove(&self.key);
        state.used = Instant::now();
    }
}

/// An answer, and the key of its request.
type Answered<P> = (<P as Calls>::Key, Outcome<P>);

/// The next answer; frames that are not answers are skipped.
async fn read_answer<P: Calls>(
    reader: &mut StreamReader,
    limits: &P::Limits,
) -> io::Result<Option<Answered<P>>> {
    loop {
        let Some((head, body_len)) = reader.head(|bytes| P::decode(bytes, limits)).await? else {
            return Ok(None);
        };
        let body = reader.body(body_len).whole().await?;
        if let Some(answered) = P::answer(head, body) {
            return Ok(Some(answered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::letters::{Header, Letters, Limits};

    fn options() -> ClientOptions<Limits> {
        ClientOptions::new(Letters::answer_limits())
    }

    #[tokio::test]
    async fn who_waits_for_an_attempt_that_fails_shares_its_failure() {
        // A listener whose backlog is full: the system drops further connections, as a machine that is gone does.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let address = full.local_addr().unwrap().as_socket().unwrap().to_string();
        let options = ClientOptions { connect_max: Duration::from_millis(300), ..options() };
        let mut in_line = Vec::new();
        while let Ok(stream) = connect(&address, &options).await {
            in_line.push(stream);
        }

        let client = Client::<Letters>::new(options);
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (client, address) = (client.clone(), address.clone());
            asked.spawn(async move {
                let header = Header::Request { id: 0 };
                client.request(&address, header, Bytes::new(), Duration::from_secs(60)).await.unwrap_err()
            });
        }
        let attempt = |error| match error {
            RequestError::Connect { source, .. } => source,
            other => panic!("{other}"),
        };
        let attempts: Vec<_> = asked.join_all().await.into_iter().map(attempt).collect();
        assert!(attempts.iter().all(|one| Arc::ptr_eq(one, &attempts[0])), "they made several");

        drop((full, in_line));
        let socket = tokio::net::TcpListener::bind(&address).await.unwrap();
        assert!(client.link(&address).await.is_ok(), "who comes later tries again");
        drop(socket);
    }

    #[tokio::test]
    async fn a_server_whose_machine_is_gone_is_noticed() {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        // But not before `idle_max`, as far as the kernel can count.
        let longest = Duration::from_millis(i32::MAX as u64);
        let [short, least, long, month] = [10, 120, 400, 30 * 24 * 3600].map(Duration::from_secs);
        for (idle_max, _given_up_after) in [(short, least), (long, long), (month, longest)] {
            let options = ClientOptions { idle_max, ..options() };
            let stream = connect(&address, &options).await.unwrap();
            let stream = socket2::SockRef::from(&stream);
            assert!(stream.keepalive().unwrap());
            #[cfg(target_os = "linux")]
            assert_eq!(stream.tcp_user_timeout().unwrap(), Some(_given_up_after));
        }
    }
}
