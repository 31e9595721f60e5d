//! Goal: a byte stream that is not request and response is read within its limits. Method: packets of a length and a body, over
//! real sockets, to a server that sends back how long each was and a checksum.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::connections::{Connection, Handler, Serving, serve_connections};
use crate::gate::Gate;
use crate::listener::Listener;

const WITHIN: Duration = Duration::from_secs(20);
const IDLE_MAX: Duration = Duration::from_millis(300);
const PACKET_MAX: usize = 1 << 30;

/// Answers a packet with its length and the sum of its bytes by their places.
struct Packets;

impl Handler for Packets {
    async fn serve(&self, connection: Connection) -> io::Result<()> {
        let (read, write) = connection.stream.into_split();
        let mut writer = StreamWriter::new(write, IDLE_MAX);
        let mut reader =
            StreamReader::new(read, &ReaderOptions { idle_max: IDLE_MAX, ..ReaderOptions::default() });
        while let Some(len) = reader.head(packet_len).await? {
            let (mut body, mut place, mut sum) = (reader.body(len), 0, 0_u64);
            while let Some(piece) = body.piece(10_000).await? {
                for byte in piece {
                    place += 1;
                    sum = sum.wrapping_add(place * u64::from(byte));
                }
            }
            assert_eq!(place, len as u64);
            writer.gather(Bytes::copy_from_slice(&place.to_be_bytes()));
            writer.gather(Bytes::copy_from_slice(&sum.to_be_bytes()));
            assert_eq!(writer.gathered(), 16);
            writer.write().await?;
            assert_eq!(writer.gathered(), 0);
        }
        writer.close().await
    }
}

fn packet_len(bytes: &mut BytesMut) -> Result<Option<usize>, String> {
    if bytes.len() < 4 {
        return Ok(None);
    }
    match bytes.get_u32() as usize {
        len if len <= PACKET_MAX => Ok(Some(len)),
        len => Err(format!("{len} bytes")),
    }
}

async fn start() -> (Serving, TcpStream) {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let serving = serve_connections(listener, Gate::new(10), Arc::new(Packets));
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    (serving, stream)
}

#[tokio::test]
async fn packets_arrive_whole_however_they_are_cut() {
    let (_serving, stream) = start().await;
    let (mut answers, mut stream) = stream.into_split();
    let bodies: Vec<Vec<u8>> = [0, 1, 9_999, 10_000, 10_001, 65_536, 300_000]
        .map(|len: u64| (0..len).map(|at| (at * at / 7) as u8).collect())
        .into();
    let mut sent = Vec::new();
    for body in &bodies {
        sent.extend_from_slice(&(body.len() as u32).to_be_bytes());
        sent.extend_from_slice(body);
    }
    let writing = async {
        let mut rest = &sent[..];
        for cut in [1, 3, 7, 5_000, 1, 2, 40_000].into_iter().cycle() {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            stream.write_all(now).await.unwrap();
            tokio::task::yield_now().await;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        stream.shutdown().await.unwrap();
    };
    let reading = async {
        for body in &bodies {
            let expected = body
                .iter()
                .zip(1_u64..)
                .fold(0_u64, |sum, (byte, at)| sum.wrapping_add(at * u64::from(*byte)));
            assert_eq!(answers.read_u64().await.unwrap(), body.len() as u64);
            assert_eq!(answers.read_u64().await.unwrap(), expected);
        }
        assert_eq!(answers.read(&mut [0; 1]).await.unwrap(), 0, "it ends when its peer has");
    };
    tokio::time::timeout(WITHIN, async { tokio::join!(writing, reading) }).await.expect("in time");
}

#[tokio::test]
async fn a_body_that_makes_no_progress_and_a_head_that_is_none_end_the_connection() {
    for sent in [&[0x3f, 0xff, 0xff, 0xff, 1, 2, 3][..], &[0, 0, 0], &[0x7f, 0xff, 0xff, 0xff]] {
        let (_serving, mut stream) = start().await;
        stream.write_all(sent).await.unwrap();
        let begun = Instant::now();
        let end = tokio::time::timeout(WITHIN, stream.read(&mut [0; 10])).await.expect("it ends");
        assert!(matches!(end, Ok(0) | Err(_)), "nothing is answered to {sent:?}");
        let is_nonsense = sent[0] == 0x7f;
        assert!(is_nonsense || begun.elapsed() > IDLE_MAX * 9 / 10, "it was given no time for {sent:?}");
    }
    let (_serving, mut stream) = start().await;
    // Between packets a peer may be silent for as long as it likes.
    let silence = tokio::time::timeout(2 * IDLE_MAX, stream.read(&mut [0; 10])).await;
    assert!(silence.is_err(), "{silence:?}");
}
