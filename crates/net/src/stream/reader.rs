//! The reading half of a connection: heads go through a small buffer, bodies straight to where they stay.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, timeout, timeout_at};

use super::arrivals::Arrivals;
use super::body::Body;

/// Bytes read at once for a head. The part of a body that comes along is copied, the rest of it is not.
const READ_AHEAD: usize = 8 * 1024;

/// The least rate at which a body has to come, in bytes of each second for which the peer is waited for. A peer that sends a
/// byte now and then would keep its place, and the memory of its body, for ever.
const BODY_RATE_MIN: u64 = 4 << 10;

/// How a reader treats what it reads.
#[derive(Debug, Clone)]
pub struct ReaderOptions {
    /// Bytes allocated for a body before any of it has come.
    pub body_begin: usize,
    /// How long a head that has begun may take, and a body may make no progress. A body that comes in parts may also take
    /// no longer than this and what it takes at 4 KiB/s.
    pub idle_max: Duration,
    /// The most frames that the peer has in flight, for [`Body::deadline`].
    pub window: usize,
}

impl Default for ReaderOptions {
    /// For accepted connections.
    fn default() -> Self {
        Self { body_begin: 64 * 1024, idle_max: Duration::from_secs(120), window: 1 }
    }
}

/// Reads heads, each of which may have a body.
#[derive(Debug)]
pub struct StreamReader {
    half: OwnedReadHalf,
    buffer: BytesMut,
    body_begin: usize,
    idle_max: Duration,
    /// The peer has sent a head in parts: it may wait for an acknowledgement between any two.
    sends_parts: bool,
    arrivals: Arrivals,
    /// Bytes of the current body that were read from the socket.
    body_bytes: u64,
}

impl StreamReader {
    /// A reader of this half of a connection.
    pub fn new(half: OwnedReadHalf, options: &ReaderOptions) -> Self {
        let ReaderOptions { body_begin, idle_max, window } = *options;
        let (buffer, sends_parts) = (BytesMut::new(), false);
        let arrivals = Arrivals::new(window, Instant::now());
        Self { half, buffer, body_begin, idle_max, sends_parts, arrivals, body_bytes: 0 }
    }

    /// The next head; `None` when the peer has closed between two of them. Until a head begins the peer may be silent for
    /// as long as it likes. `decode` takes a head from the front of the bytes received so far, or says that more are
    /// needed and takes nothing; it must refuse a head before it needs more bytes than its protocol allows. Whoever has a
    /// head with a body reads that with [`StreamReader::body`] before the next head.
    ///
    /// # Errors
    /// `InvalidData` if the bytes are no head, with the decoder's error as the source, `UnexpectedEof` and `TimedOut` if
    /// the rest of one does not come; or what the socket says. The connection cannot be used further.
    pub async fn head<T, E>(
        &mut self,
        mut decode: impl FnMut(&mut BytesMut) -> Result<Option<T>, E>,
    ) -> io::Result<Option<T>>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        // Whether a read began with this head, and not with frames before it.
        let mut begun = false;
        let mut deadline = None;
        loop {
            let head = decode(&mut self.buffer);
            let head = head.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if head.is_some() {
                self.arrivals.take(Instant::now());
                self.body_bytes = 0;
                return Ok(head);
            }
            if self.buffer.is_empty() {
                // Between frames a peer may be silent for as long as it likes, and costs no buffer meanwhile.
                self.wait_for_bytes().await?;
                if self.fill().await? == 0 {
                    return Ok(None);
                }
                begun = true;
            } else {
                self.sends_parts |= begun;
                let idle_max = self.idle_max;
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + idle_max);
                let filled = timeout_at(deadline, self.fill()).await;
                if filled.unwrap_or_else(|_| Err(no_progress(idle_max)))? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }

    /// The deadline of the frame whose head was read last: see [`Arrivals::deadline`].
    pub(super) fn deadline(&self, patience: Duration) -> Instant {
        self.arrivals.deadline(patience, Instant::now())
    }

    /// Whether the peer has closed its side, or is gone, and all that it sent has been read.
    pub(super) fn is_at_end(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        match self.buffer.is_empty().then(|| SockRef::from(self.half.as_ref()).peek(&mut byte)) {
            Some(Ok(len)) => len == 0,
            Some(Err(error)) => {
                !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
            None => false,
        }
    }

    /// The `len` bytes that follow the last head.
    pub fn body(&mut self, len: usize) -> Body<'_> {
        Body::new(self, len)
    }

    async fn wait_for_bytes(&mut self) -> io::Result<()> {
        self.buffer = BytesMut::new();
        let Self { half, sends_parts, arrivals, .. } = self;
        wait(half, *sends_parts, arrivals, |half, context| half.as_ref().poll_read_ready(context)).await
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let Self { half, buffer, sends_parts, arrivals, .. } = self;
        buffer.reserve(READ_AHEAD);
        read(half, &mut buffer.limit(READ_AHEAD), *sends_parts, arrivals).await
    }

    /// Exactly `len` bytes of a body, in an allocation of their own that never exceeds twice what has come plus
    /// `body_begin`.
    pub(super) async fn take(&mut self, len: usize) -> io::Result<Bytes> {
        let mut body = Vec::with_capacity(len.min(self.body_begin));
        self.take_into(&mut body, len).await?;
        Ok(Bytes::from(body))
    }

    /// Exactly `len` more bytes of a body into a vector, which grows as in [`StreamReader::take`] where its capacity is too
    /// small.
    pub(super) async fn take_into(&mut self, body: &mut Vec<u8>, len: usize) -> io::Result<()> {
        let ahead = len.min(self.buffer.len());
        let len = body.len() + len;
        grow(body, ahead, len);
        body.put_slice(&self.buffer[..ahead]);
        self.buffer.advance(ahead);
        while body.len() < len {
            if body.len() == body.capacity() {
                let more = body.len();
                grow(body, more, len);
            }
            // The buffer is empty by now. Spare capacity takes in the next head with the same system call.
            let room = body.capacity().min(len + READ_AHEAD) - body.len();
            let mut rest = (&mut *body).limit(room);
            let read = read(&mut self.half, &mut rest, self.sends_parts, &mut self.arrivals);
            let read = in_time(self.idle_max, read).await?;
            self.keep_pace(read)?;
        }
        self.buffer.extend_from_slice(&body[len..]);
        body.truncate(len);
        Ok(())
    }

    /// Reads `len` bytes of a body and drops them.
    pub(super) async fn skip(&mut self, mut len: usize) -> io::Result<()> {
        loop {
            let here = len.min(self.buffer.len());
            self.buffer.advance(here);
            len -= here;
            if len == 0 {
                return Ok(());
            }
            let read = in_time(self.idle_max, self.fill()).await?;
            self.keep_pace(read)?;
        }
    }

    /// Counts bytes of a body that have come.
    ///
    /// # Errors
    /// There were none, as the peer has closed its side, or they come too slowly.
    fn keep_pace(&mut self, read: usize) -> io::Result<()> {
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.body_bytes += read as u64;
        let most = self.idle_max + Duration::from_secs(self.body_bytes / BODY_RATE_MIN);
        if self.arrivals.waited() > most {
            let text = format!("a frame came more slowly than {BODY_RATE_MIN} bytes a second");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(())
    }
}

/// Fails when a frame that has begun makes no progress for `idle_max`.
async fn in_time<T>(idle_max: Duration, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(idle_max, read).await.unwrap_or_else(|_| Err(no_progress(idle_max)))
}

fn no_progress(idle_max: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("a frame made no progress for {idle_max:?}"))
}

/// Reads what is there, or waits for it.
async fn read(
    half: &mut OwnedReadHalf,
    into: &mut impl BufMut,
    sends_parts: bool,
    arrivals: &mut Arrivals,
) -> io::Result<usize> {
    wait(half, sends_parts, arrivals, |half, context| pin!(half.read_buf(into)).poll(context)).await
}

/// Polls until it is ready, and notes the arrival if the socket was empty before.
async fn wait<T>(
    half: &mut OwnedReadHalf,
    sends_parts: bool,
    arrivals: &mut Arrivals,
    mut poll: impl FnMut(&mut OwnedReadHalf, &mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let mut none_since = None;
    let ready = poll_fn(|context| {
        let polled = poll(half, context);
        if polled.is_pending() {
            none_since.get_or_insert_with(Instant::now);
            if sends_parts {
                acknowledge_at_once(half);
            }
        }
        polled
    });
    let ready = ready.await;
    if let Some(none_since) = none_since {
        arrivals.come(none_since, Instant::now());
    }
    ready
}

/// Sends the acknowledgement without delay, once there is nothing left to read. Sail writes a frame in several small
/// parts with Nagle's algorithm on, and the second leaves when the first is acknowledged: a delayed acknowledgement
/// costs it 40 ms a frame. The kernel resets the option, so each wait sets it again, and only for a peer that sends so:
/// for others it would be a wasted packet and system call.
fn acknowledge_at_once(half: &OwnedReadHalf) {
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(half.as_ref()).set_tcp_quickack(true); // a hint: its failure changes no answer
}

/// Makes room for `more` bytes, but for no more than `len` in total.
fn grow(body: &mut Vec<u8>, more: usize, len: usize) {
    let capacity = (body.len() + more).min(len);
    if capacity > body.capacity() {
        body.reserve_exact(capacity - body.len());
    }
}
