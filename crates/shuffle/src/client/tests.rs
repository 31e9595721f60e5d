//! Goal: what a client says of its data is so when servers fail, connections end and calls are cancelled at every place
//! where they wait. Method: servers that fail where they are told to.

use std::time::Duration;

use super::scripted::{Fault, Point, Scripted, until};
use super::*;
use crate::error::Kind;
use crate::ids::{AttemptId, MapId, PartitionId, ShuffleId};

const NEVER: Duration = Duration::from_secs(3600);

async fn shuffle(options: Options, partitions: usize) -> Shuffle {
    let application = Application::start(Options { heartbeat: NEVER, ..options }).await.unwrap();
    application.register(ShuffleId(0), 1, partitions).await.unwrap()
}

fn writer(shuffle: &Shuffle) -> Writer {
    shuffle.writer(MapId(0), AttemptId(0))
}

/// Polls a future until it waits for something that does not come, and drops it.
async fn cancel<F: Future>(future: F) {
    let waited = tokio::time::timeout(Duration::from_millis(20), future).await;
    assert!(waited.is_err(), "it was to be cancelled and ended");
}

async fn read(shuffle: &Shuffle, partition: i32) -> Result<Vec<String>, crate::Error> {
    let mut reader = shuffle.reader(PartitionId(partition), ..)?;
    let mut texts = Vec::new();
    while let Some(batch) = reader.next().await? {
        texts.push(String::from_utf8(batch.payload.to_vec()).unwrap());
    }
    texts.sort();
    Ok(texts)
}

#[tokio::test]
async fn a_writer_that_has_told_of_a_failure_does_not_finish() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { merge_len: 0, revives_max: 0, ..cluster.options() }, 1).await;
    let mut writer = writer(&shuffle);
    cluster.fail(0, Point::Push, &[Fault::Fail]);
    writer.push(PartitionId(0), &b"lost"[..]).await.unwrap();
    until(|| writer.is_idle()).await;
    for _ in 0..2 {
        let error = writer.push(PartitionId(0), &b"behind it"[..]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(error.to_string().contains("told to"), "{error}");
    }
    let error = writer.finish().await.expect_err("a batch is missing");
    assert!(error.to_string().contains("told to"), "{error}");
}

#[tokio::test]
async fn a_cancelled_push_takes_nothing_with_it() {
    let cluster = Scripted::start(1).await;
    let shuffle = shuffle(Options { window: 1, merge_len: 50, ..cluster.options() }, 2).await;
    let mut writer = writer(&shuffle);
    cluster.fail(0, Point::Push, &[Fault::Hang]);
    let long = |number: usize| format!("{number} is long enough to be pushed on its own, whatever is there");
    // As many as a writer may have begun.
    for number in 0..4 {
        writer.push(PartitionId(0), long(number)).await.unwrap();
    }
    writer.push(PartitionId(1), &b"gathered"[..]).await.unwrap();
    cancel(writer.push(PartitionId(0), long(4))).await;
    cancel(writer.push(PartitionId(1), "cancelled, and with it what was gathered")).await;
    cluster.release();
    writer.push(PartitionId(1), &b"last"[..]).await.unwrap();
    assert_eq!(cluster.faults_left(), 0);
    writer.finish().await.unwrap();
    shuffle.commit().await.unwrap();
    assert_eq!(read(&shuffle, 0).await.unwrap(), (0..4).map(long).collect::<Vec<_>>());
    assert_eq!(read(&shuffle, 1).await.unwrap(), ["gathered", "last"]);
}
