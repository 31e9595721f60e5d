//! Sends a copy on while its body still arrives, so that the other worker has most of it by the time it is whole here.
//! That is worth it for bodies that come in many reads; smaller ones are sent on when they are whole.
//!
//! The end of a body is held back until this worker has appended it: what it refuses, the other does not take either.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::memory::Charge;
use super::node::Node;
use super::replicate::{self, Copied};
use crate::net::{Celeborn, Client, Payload, PieceFuture, PieceSource};
use crate::wire::{Header, Status};

/// A body above this is sent on while it arrives. The stock client sends 64 KiB, and more only for a large row; Sail sends
/// whole record batches, one at a time, and waits for each.
const FORWARD_BYTES_MIN: usize = 256 << 10;

/// Bytes that are received and sent on at a time.
pub const PIECE_BYTES: usize = 128 << 10;

/// Pieces that wait for the connection. Pieces beyond that are sent when the body is whole: a slow copy does not hold
/// up the client's other pushes.
const PIECES_WAITING: usize = 2;

/// Bytes of memory that a copy needs besides the body: the pieces that wait, the one that is being sent, and the next one,
/// which the connection asks for meanwhile.
pub const COST_BYTES: u64 = (PIECE_BYTES * (PIECES_WAITING + 2)) as u64;

/// Whether a body of this length is worth it.
pub fn is_worth_it(len: usize) -> bool {
    len > FORWARD_BYTES_MIN
}

/// A copy that is being sent. Dropped before the end, it breaks off, and the other worker takes nothing.
pub struct Forward {
    pieces: mpsc::Sender<Bytes>,
    rest: oneshot::Sender<Bytes>,
    sent: usize,
    /// The answer, and its connection.
    copied: JoinHandle<(Copied, Client)>,
    node: Arc<Node>,
    peer: Arc<str>,
}

/// The pieces, and after them the rest.
struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    rest: Option<oneshot::Receiver<Bytes>>,
}

impl PieceSource<Celeborn> for Pieces {
    fn next(&mut self) -> PieceFuture<'_> {
        Box::pin(async {
            if let Some(piece) = self.pieces.recv().await {
                return Ok(Some(vec![piece]));
            }
            let Some(rest) = self.rest.take() else { return Ok(None) };
            // Without the rest the body comes out short, which ends the connection.
            Ok(rest.await.ok().map(|rest| vec![rest]))
        })
    }
}

impl Forward {
    /// Begins to send a body of `len` bytes, over a connection of its own: one that breaks off or arrives slowly does
    /// not affect others. `charge` is for [`COST_BYTES`].
    pub fn begin(
        node: &Arc<Node>,
        (peer, within): (Arc<str>, Duration),
        header: Header,
        len: usize,
        charge: Charge,
    ) -> Self {
        let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
        let (rest, last) = oneshot::channel();
        let source = Pieces { pieces: waiting, rest: Some(last) };
        let body = Payload::pull(len, Box::new(source)).with_guard(charge);
        let (client, address) = (node.peers.lend(&peer), Arc::clone(&peer));
        let sender = Arc::clone(node);
        let copied = tokio::spawn(async move {
            let copied = replicate::send(&client, &address, header, body, within).await;
            sender.meters.forwarded.add(1);
            (copied, client)
        });
        Self { pieces, rest, sent: 0, copied, node: Arc::clone(node), peer }
    }

    /// Sends on what has arrived of the body, as far as the connection keeps up.
    pub fn arrived(&mut self, body: &[u8]) {
        while body.len() - self.sent >= PIECE_BYTES {
            let Ok(place) = self.pieces.try_reserve() else { return };
            let piece = &body[self.sent..self.sent + PIECE_BYTES];
            self.sent += piece.len();
            place.send(Bytes::copy_from_slice(piece));
        }
    }

    /// Sends the rest of the body, and waits for the answer.
    pub async fn finish(self, body: Bytes) -> Copied {
        let Self { pieces, rest, sent, copied, node, peer } = self;
        // The other worker may be gone: then its answer says so.
        let is_sent = rest.send(body.slice(sent..)).is_ok();
        drop(pieces);
        match copied.await {
            Ok((copied, client)) => {
                // Not before the connection has all of the body, however early the answer is: the next copy would wait
                // behind this one, and end with it if it breaks off.
                if is_sent && matches!(copied, Copied::Status(_)) {
                    node.peers.take_back(peer, client);
                }
                copied
            }
            Err(panic) => Copied::Failed(Status::PushDataFailNonCriticalCauseReplica, panic.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::node::tests::node;

    /// A connection holds two pieces, see [`PieceSource`].
    #[tokio::test]
    async fn what_a_copy_holds_besides_the_body_is_charged() {
        let place = tempfile::tempdir().unwrap();
        let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
        let (rest, last) = oneshot::channel();
        let copied = tokio::spawn(std::future::pending());
        let mut forward =
            Forward { pieces, rest, sent: 0, copied, node: node(&place), peer: "peer:1".into() };
        let mut connection = Pieces { pieces: waiting, rest: Some(last) };
        let body = vec![7; 10 * PIECE_BYTES];
        let mut held = Vec::new();
        for _ in 0..2 {
            forward.arrived(&body);
            held.push(connection.next().await.unwrap().expect("there is more"));
        }
        forward.arrived(&body);
        assert_eq!(forward.sent as u64, COST_BYTES, "it is all that was copied");
    }
}
