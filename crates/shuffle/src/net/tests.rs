//! Goal: what only Celeborn's clients want of a connection. Method: an echo over real sockets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::ids::{LocationId, Mode, ShuffleKey};
use crate::wire::{Head, Header, Limits};

const WITHIN: Duration = Duration::from_secs(10);

/// Sends back what it receives.
#[derive(Default)]
struct Echo {
    ended: AtomicUsize,
}

impl Service for Echo {
    async fn call(&self, _: Head, body: &mut Body<'_>, reply: Reply) -> io::Result<()> {
        reply.respond(body.whole().await?);
        Ok(())
    }

    fn closed(&self, _: ConnectionId) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

async fn ask(client: &Client, address: &str) -> Result<Bytes, RequestError> {
    let body = Bytes::from_static(b"question");
    client.request(address, Header::RpcRequest { request_id: 0 }, body, WITHIN).await
}

#[tokio::test]
async fn a_push_that_is_too_long_is_refused_and_costs_no_one_else_the_connection() {
    let service = Arc::new(Echo::default());
    let limits = Limits { rpc_body_max: 4 << 20, push_body_max: 1 << 20, ..Limits::PUSH };
    let listener = Listener::bind("127.0.0.1:0", Options::new(limits)).await.unwrap();
    let address = listener.address().to_string();
    let _serving = listener.serve(service.clone());
    let client = Client::default();
    let (shuffle, location) = (ShuffleKey::new("app", 1), LocationId::new(1, 2));
    let (request_id, mode) = (0, Mode::Primary);
    let one = Header::PushData { request_id, mode, shuffle: shuffle.clone(), location };
    let (locations, offsets) = (vec![location; 60_000], vec![0; 60_000]);
    let many = Header::PushMergedData { request_id, mode, shuffle, locations, offsets };
    let asked = tokio::join!(
        ask(&client, &address),
        client.request(&address, one, Bytes::from(vec![7; (1 << 20) + 1]), WITHIN),
        ask(&client, &address),
        client.request(&address, many, Bytes::from_static(b"batch"), WITHIN),
        ask(&client, &address),
    );
    assert!(asked.0.is_ok() && asked.2.is_ok() && asked.4.is_ok());
    for (failed, limit) in [(asked.1, "body length"), (asked.3, "header length")] {
        let Err(RequestError::Failed { text, .. }) = failed else { panic!("{failed:?}") };
        assert!(text.contains("longer") && text.contains(limit), "{text}");
    }
    assert!(service.ended.load(Ordering::Relaxed) == 0);
}
