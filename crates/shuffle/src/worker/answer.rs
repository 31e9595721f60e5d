//! Answers to pushes, each of which is counted.

use std::sync::Arc;
use std::time::Instant;

use super::node::Node;
use crate::ids::Mode;
use crate::net::Reply;
use crate::wire::Status;

/// The way back to whoever pushed.
pub struct PushReply {
    reply: Reply,
    node: Arc<Node>,
    mode: Mode,
    begun: Instant,
}

impl PushReply {
    /// For a push of which only the head has been read.
    pub fn new(reply: Reply, node: &Arc<Node>, mode: Mode) -> Self {
        Self { reply, node: Arc::clone(node), mode, begun: Instant::now() }
    }

    /// Says what became of the push.
    pub fn status(self, status: Status) {
        match status {
            Status::HardSplit => self.node.meters.split.add(1),
            Status::MapEnded => {} // neither taken nor failed: nobody wants it any more
            _ => self.node.meters.taken.add(1),
        }
        self.count().push(status);
    }

    /// Says that it failed, in words.
    pub fn fail(self, text: impl Into<String>) {
        self.node.meters.failed.add(1);
        self.count().fail(text);
    }

    /// Says that no disk took it.
    pub fn unwritten(self, text: &str) {
        let status = match self.mode {
            Mode::Primary => Status::PushDataWriteFailPrimary,
            Mode::Replica => Status::PushDataWriteFailReplica,
        };
        self.fail_with(status, text);
    }

    /// Says that it failed, in a way that clients classify.
    pub fn fail_with(self, status: Status, text: &str) {
        let copies = &self.node.meters.failed_copies;
        match status {
            Status::PushDataCreateConnectionFailReplica => copies.connect.add(1),
            Status::PushDataConnectionExceptionReplica => copies.connection.add(1),
            Status::PushDataTimeoutReplica => copies.timeout.add(1),
            // Where the copy itself was to be written, it is a push that failed.
            Status::PushDataWriteFailReplica if self.mode == Mode::Primary => copies.write.add(1),
            Status::PushDataFailNonCriticalCauseReplica => copies.other.add(1),
            _ => {}
        }
        self.node.meters.failed.add(1);
        self.count().fail_with(status, text);
    }

    fn count(self) -> Reply {
        let meters = &self.node.meters;
        let timer = if self.mode == Mode::Primary { &meters.pushes } else { &meters.copies };
        timer.record(self.begun.elapsed());
        self.reply
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::{LocationId, ShuffleKey};
    use crate::net::{Client, Listener, Options, RequestError};
    use crate::wire::{Header, Limits};
    use crate::worker::node::tests::node;
    use crate::worker::push::PushService;

    #[tokio::test]
    async fn a_push_that_is_too_long_counts_as_failed() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let limits = Limits { push_body_max: 1000, ..Limits::PUSH };
        let listener = Listener::bind("127.0.0.1:0", Options::new(limits)).await.unwrap();
        let address = listener.address().to_string();
        let _serving = listener.serve(Arc::new(PushService::new(Arc::clone(&node), Mode::Replica)));
        let (shuffle, location) = (ShuffleKey::new("app", 1), LocationId::new(0, 0));
        let header = Header::PushData { request_id: 0, mode: Mode::Replica, shuffle, location };
        let body = bytes::Bytes::from(vec![7; 1001]);
        let pushed = Client::default().request(&address, header, body, Duration::from_secs(20)).await;
        let Err(RequestError::Failed { text, .. }) = pushed else { panic!("{pushed:?}") };
        assert!(text.contains("longer than this server takes"), "{text}");
        let meters = &node.meters;
        assert_eq!((meters.failed.get(), meters.copies.count(), meters.pushes.count()), (1, 1, 0));
    }
}
