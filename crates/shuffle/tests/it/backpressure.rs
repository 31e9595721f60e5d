//! Goal: who brings more than its share waits, and nobody waits for it. Method: disks that stand still, so that memory
//! fills and stays full for as long as a test wants; then who is answered meanwhile is a matter of order, not of time.
//! Each test runs in a process of its own ([`is_alone`]).

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::cluster::{Cluster, SOFT_1G, WHOLE, WITHIN, batch, noise, primary};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use yeoul_shuffle::ids::{ApplicationId, LocationId, Mode, ShuffleKey, WorkerId};
use yeoul_shuffle::net::{Client, Payload};
use yeoul_shuffle::wire::batch::{BATCH_HEADER_LEN, ByteOrder};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::{Header, Status};
use yeoul_shuffle::worker;
use yeoul_shuffle::worker::memory::Party;

/// Set in the process that a test has for itself.
const ALONE: &str = "YEOUL_TEST_ALONE";

/// Whether this is the process that the test has for itself. If not, runs it there and fails if it fails.
///
/// What a worker may use is what its process does not need besides, and what the allocator keeps of an earlier test, or
/// what another test has, would count as that.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let run = command
        .args(["--exact", &format!("backpressure::{test}"), "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let [said, complained] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(run.status.success() && said.contains(" 1 passed"), "{test} by itself:\n{said}{complained}");
    false
}

const BATCH_BYTES: usize = 64 << 10;
const PARTITIONS: i32 = 4;

/// Pushes over connections of its own, all at once.
struct Flood {
    pushes: JoinSet<()>,
    /// How many batches each connection has sent.
    batches: usize,
    /// How many of each connection's were answered.
    answered: Vec<Arc<AtomicUsize>>,
}

impl Flood {
    /// `connections` times `batches` batches, map by connection. A batch that is refused is a failure.
    fn start(to: &WorkerId, key: &ShuffleKey, connections: i32, batches: i32) -> Self {
        let (mut pushes, mut answered) = (JoinSet::new(), Vec::new());
        let address = format!("{}:{}", to.host, to.push_port);
        // One payload for all of them: the clients, which are of this process, are not to need memory.
        let payload = Bytes::from(noise(7, BATCH_BYTES));
        for map in 0..connections {
            let client = Client::default();
            let own = Arc::new(AtomicUsize::new(0));
            answered.push(Arc::clone(&own));
            for number in 0..batches {
                let head = batch(ByteOrder::Little, map, 0, number, &payload).slice(..BATCH_HEADER_LEN);
                let head = Bytes::copy_from_slice(&head);
                let body = Payload::parts(vec![head, payload.clone()]);
                let header = Header::PushData {
                    request_id: 0,
                    mode: Mode::Primary,
                    shuffle: key.clone(),
                    location: LocationId::new(number % PARTITIONS, 0),
                };
                let (client, address, own) = (client.clone(), address.clone(), Arc::clone(&own));
                pushes.spawn(async move {
                    let answer = client.request(&address, header, body, 6 * WITHIN).await.expect("an answer");
                    let status = Status::from_code(answer[0].into());
                    assert!(matches!(status, Some(Status::Success | Status::SoftSplit)), "{status:?}");
                    own.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        Self { pushes, batches: batches as usize, answered }
    }

    fn answered(&self) -> usize {
        self.answered.iter().map(|own| own.load(Ordering::Relaxed)).sum()
    }

    /// Connections that still have something to send.
    fn unfinished(&self) -> usize {
        self.answered.iter().filter(|own| own.load(Ordering::Relaxed) < self.batches).count()
    }

    async fn end(mut self) {
        while let Some(pushed) = self.pushes.join_next().await {
            pushed.expect("a push");
        }
        assert_eq!(self.unfinished(), 0);
    }
}

async fn reserve(cluster: &Cluster, key: &ShuffleKey, worker: usize) {
    let locations: Vec<_> = (0..PARTITIONS).map(|id| primary(cluster.id(worker), id)).collect();
    assert_eq!(cluster.reserve(key, &locations, SOFT_1G).await, 0);
}

async fn until(mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(WITHIN, holds).await.expect("it comes to pass");
}

fn all_locations() -> Vec<LocationId> {
    (0..PARTITIONS).map(|id| LocationId::new(id, 0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modest_application_pushes_and_fetches_while_a_greedy_one_waits() {
    if !is_alone("a_modest_application_pushes_and_fetches_while_a_greedy_one_waits") {
        return;
    }
    let cluster = Cluster::start(1, 128 << 20).await;
    let store = Arc::clone(&cluster.workers[0].node().store);
    let (greedy, modest) = (ShuffleKey::new("greedy", 0), ShuffleKey::new("modest", 0));
    reserve(&cluster, &greedy, 0).await;
    reserve(&cluster, &modest, 0).await;
    // The modest one has a committed shuffle to read, on disk and, the later batches, in memory.
    let payload = |number| noise(number, BATCH_BYTES);
    let push = async |number: i32| {
        let batch = batch(ByteOrder::Little, number, 0, 1, &payload(number));
        cluster.push(0, &modest, LocationId::new(number % PARTITIONS, 0), &batch).await
    };
    for number in 0..8 {
        assert_eq!(push(number).await, Ok(Status::Success));
    }
    assert!(store.flush().await.is_empty());
    for number in 8..12 {
        assert_eq!(push(number).await, Ok(Status::Success));
    }
    let committed = LocationId::new(0, 0);
    cluster.commit(0, &modest, &[committed], &[], &[0; 12]).await;

    let still = store.directories()[0].stand_still().await;
    let flood = Flood::start(cluster.id(0), &greedy, 32, 100); // 200 MiB
    let all_wait = || store.memory().waiting() > 8 && store.memory().waiting() == flood.unfinished();
    until(all_wait).await;
    assert!(flood.answered() > 0);

    // Within its share the modest one is answered at once, whatever waits, and its batches are not split away. That is
    // more than the seat that is kept for who comes next: it needs its share.
    let modest_party = Party::pushes(&ApplicationId::from("modest"));
    for number in 12..224 {
        if number % PARTITIONS != 0 {
            assert_eq!(push(number).await, Ok(Status::Success));
        }
        let read = cluster.read(0, &modest, "0-0-0", WHOLE).await.unwrap();
        assert!(
            read.iter().map(|found| &found[..]).eq([0, 4, 8].map(payload).iter().map(|found| &found[..]))
        );
    }
    assert!(store.memory().held(&modest_party) > 10 << 20, "nothing of it has left memory");
    // More of it may have come in where the process needed less besides, but every connection still waits.
    until(all_wait).await;

    drop(still);
    flood.end().await;
    assert!(store.memory().high_water() < 128 << 20);
    cluster.commit(0, &greedy, &all_locations(), &[], &[0; 32]).await;
    let mut batches = 0;
    for partition in 0..PARTITIONS {
        batches += cluster.read(0, &greedy, &format!("{partition}-0-0"), WHOLE).await.unwrap().len();
    }
    assert_eq!(batches, 3200, "what waited is there, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_wait_is_sent_elsewhere_and_who_has_gone_brings_nothing() {
    if !is_alone("who_cannot_wait_is_sent_elsewhere_and_who_has_gone_brings_nothing") {
        return;
    }
    let cluster = Cluster::start(1, 64 << 20).await;
    let store = Arc::clone(&cluster.workers[0].node().store);
    let [greedy, brief, gone] = [0, 1, 2].map(|shuffle| ShuffleKey::new("greedy", shuffle));
    let place = LocationId::new(0, 0);
    reserve(&cluster, &greedy, 0).await;
    reserve(&cluster, &gone, 0).await;
    let split = cluster.reserve_within(&brief, &[primary(cluster.id(0), 0)], SOFT_1G, 300).await;
    assert_eq!(split, 0);
    let still = store.directories()[0].stand_still().await;
    let flood = Flood::start(cluster.id(0), &greedy, 16, 100);
    until(|| store.memory().waiting() > 0 && store.memory().waiting() == flood.unfinished()).await;

    // A few may find room where the process needed less besides. Whoever does not is told so long before its client would
    // take the worker for dead.
    let batch_of = |map| batch(ByteOrder::Little, map, 0, 1, &noise(map, BATCH_BYTES));
    let mut map = 0;
    while cluster.push(0, &brief, place, &batch_of(map)).await != Ok(Status::HardSplit) {
        map += 1;
        assert!(map < 1000, "there is always room");
    }

    // A row that is written while it comes waits for a disk, and not for ever either. That it was not written is counted by
    // its client, which a split is not.
    let row = batch(ByteOrder::Little, 2000, 0, 1, &noise(1, 10 << 20));
    let unwritten = cluster.push(0, &brief, place, &row).await.unwrap_err();
    assert!(unwritten.starts_with("PUSH_DATA_WRITE_FAIL_PRIMARY: "), "{unwritten}");

    // Who waits in line waits, too.
    let line = ShuffleKey::new("greedy", 3);
    assert_eq!(cluster.reserve_within(&line, &[primary(cluster.id(0), 0)], SOFT_1G, 3000).await, 0);
    let client = Client::default();
    let address = format!("{}:{}", cluster.id(0).host, cluster.id(0).push_port);
    let mut pushes = JoinSet::new();
    let begin = Instant::now();
    for map in 0..30 {
        let (client, address, shuffle) = (client.clone(), address.clone(), line.clone());
        let body = batch_of(map);
        let header = Header::PushData { request_id: 0, mode: Mode::Primary, shuffle, location: place };
        pushes.spawn(async move { client.request(&address, header, body, 6 * WITHIN).await.unwrap()[0] });
    }
    let answers = pushes.join_all().await;
    assert!(answers.contains(&(Status::HardSplit as u8)), "there is always room");
    assert!(begin.elapsed() < Duration::from_secs(10), "each of them waited a second by itself");

    let leaver = Client::default();
    let address = format!("{}:{}", cluster.id(0).host, cluster.id(0).push_port);
    let waiting = store.memory().waiting();
    let mut taken = Vec::new();
    loop {
        let map = taken.len() as i32;
        let header =
            Header::PushData { request_id: 0, mode: Mode::Primary, shuffle: gone.clone(), location: place };
        tokio::select! {
            answer = leaver.request(&address, header, batch_of(map), WITHIN) => {
                assert_eq!(answer.unwrap()[0], Status::Success as u8);
                taken.push(noise(map, BATCH_BYTES));
            }
            () = until(|| store.memory().waiting() > waiting) => break,
        }
    }
    leaver.disconnect(&address);
    drop(still);
    flood.end().await;
    until(|| store.memory().waiting() == 0).await;
    assert_eq!(cluster.push(0, &gone, place, &batch_of(500)).await, Ok(Status::Success));
    taken.push(noise(500, BATCH_BYTES));
    cluster.commit(0, &gone, &[place], &[], &[0; 501]).await;
    let read = cluster.read(0, &gone, "0-0-0", WHOLE).await.unwrap();
    assert!(read == taken, "what its client had given up is there, or something else is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_modest_application_do_not_wait_behind_those_of_a_greedy_one() {
    if !is_alone("copies_of_a_modest_application_do_not_wait_behind_those_of_a_greedy_one") {
        return;
    }
    let mut cluster = Cluster::start(1, 512 << 20).await;
    let place = tempfile::tempdir().unwrap();
    let small = worker::Options {
        memory_bytes: 128 << 20,
        directories: vec![place.path().into()],
        ..cluster.options.clone()
    };
    cluster.workers.push(worker::Server::start(small).await.unwrap());
    cluster.places.push(place);
    let (greedy, modest) = (ShuffleKey::new("greedy", 0), ShuffleKey::new("modest", 0));
    for key in [&greedy, &modest] {
        let locations = (0..PARTITIONS).flat_map(|id| {
            let peer = Some(cluster.id(1).clone());
            let primary = Location { peer, ..primary(cluster.id(0), id) };
            [primary.peer_location().unwrap(), primary]
        });
        assert_eq!(cluster.reserve(key, &locations.collect::<Vec<_>>(), SOFT_1G).await, 0);
    }
    let store = Arc::clone(&cluster.workers[1].node().store);
    let still = store.directories()[0].stand_still().await;
    let flood = Flood::start(cluster.id(0), &greedy, 8, 250); // 125 MiB
    until(|| store.memory().waiting() == 1).await; // all its copies come over one connection
    for number in 0..16 {
        let batch = batch(ByteOrder::Little, number, 0, 1, &noise(number, BATCH_BYTES));
        let status = cluster.push(0, &modest, LocationId::new(0, 0), &batch).await;
        assert_eq!(status, Ok(Status::Success), "acknowledged by both");
    }
    // The governor may have raised the limit, for which it goes on for a moment.
    until(|| store.memory().waiting() == 1).await;
    assert!(flood.unfinished() > 0, "the greedy one still waits");
    drop(still);
    flood.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_copy_to_each_other_do_not_wait_for_each_other() {
    if !is_alone("workers_that_copy_to_each_other_do_not_wait_for_each_other") {
        return;
    }
    let cluster = Cluster::start(2, 64 << 20).await;
    let keys = [ShuffleKey::new("app", 0), ShuffleKey::new("app", 1)];
    for (worker, key) in keys.iter().enumerate() {
        let locations = (0..PARTITIONS).flat_map(|id| {
            let peer = Some(cluster.id(1 - worker).clone());
            let primary = Location { peer, ..primary(cluster.id(worker), id) };
            [primary.peer_location().unwrap(), primary]
        });
        assert_eq!(cluster.reserve(key, &locations.collect::<Vec<_>>(), SOFT_1G).await, 0);
    }
    let stores = [0, 1].map(|worker| Arc::clone(&cluster.workers[worker].node().store));
    let mut stills = Vec::new();
    for store in &stores {
        stills.push(store.directories()[0].stand_still().await);
    }
    // Both fill up with batches whose copies the other one has no room for.
    let floods = [0, 1].map(|worker| Flood::start(cluster.id(worker), &keys[worker], 16, 100));
    until(|| stores.iter().all(|store| store.memory().waiting() > 0)).await;
    drop(stills);
    for flood in floods {
        flood.end().await;
    }
}
