//! Goal: a master does over its socket what its state decides, and a master killed without warning comes back within two
//! seconds with every shuffle that it had acknowledged.
//!
//! Method: our own messages from a client and from workers that hold nothing. The kill is a real one, of a child process
//! that is this test binary again.

use std::time::{Duration, Instant};

use crate::cluster::http;
use yeoul_shuffle::Kind;
use yeoul_shuffle::ids::WorkerId;
use yeoul_shuffle::master::{Handle, Options, Server};
use yeoul_shuffle::net::Client;
use yeoul_shuffle::wire::message::{Message, Typed};
use yeoul_shuffle::wire::rpc::{self, Answer, Request};
use yeoul_shuffle::wire::{Header, internal, proto};
use yeoul_simulation::{Child, quiet_port};

const WITHIN: Duration = Duration::from_secs(10);

/// How long a master that is a process of its own lives if nothing ends it, and what it then exits with: the test that waits
/// for its end fails, and nothing stays behind.
const CHILD_LIFE_MAX: Duration = Duration::from_secs(60);
const CHILD_LIVED: i32 = 42;

/// Asks a master on a connection of its own.
struct Peer {
    address: String,
    client: Client,
}

impl Peer {
    fn of(address: impl ToString) -> Self {
        Self { address: address.to_string(), client: Client::default() }
    }

    async fn try_ask<Q: Typed, A: Typed>(&self, question: &Q) -> Result<A, String> {
        let body = Request::encode_native(rpc::MASTER, &Message::of(question));
        let header = Header::RpcRequest { request_id: 0 };
        let answer = self.client.request(&self.address, header, body, WITHIN).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let answer = Answer::decode_message(answer).map_err(|error| error.to_string())?;
        A::decode(answer.payload.unwrap_or_default()).map_err(|error| error.to_string())
    }

    async fn ask<Q: Typed, A: Typed>(&self, question: &Q) -> A {
        self.try_ask(question).await.unwrap()
    }

    async fn register(&self, worker: u16) -> internal::WorkerRegistered {
        let message = internal::WorkerRegister {
            worker: Some(identity(worker)),
            incarnation: worker.into(),
            report: Some(internal::WorkerReport { memory_limit_bytes: 1 << 30, ..Default::default() }),
            ..Default::default()
        };
        self.ask(&message).await
    }

    async fn watch(&self, worker: u16, seen: u64) -> internal::WorkerOrders {
        let incarnation = worker.into();
        self.ask(&internal::WorkerWatch { worker: Some(identity(worker)), incarnation, seen }).await
    }

    async fn slots(&self, shuffle: i32, partitions: i32, replicate: bool) -> proto::RequestSlotsResponse {
        self.try_slots(shuffle, partitions, replicate).await.unwrap()
    }

    async fn try_slots(
        &self,
        shuffle: i32,
        partitions: i32,
        replicate: bool,
    ) -> Result<proto::RequestSlotsResponse, String> {
        let request = proto::RequestSlots {
            application_id: "app-1".to_owned(),
            shuffle_id: shuffle,
            partition_id_list: (0..partitions).collect(),
            should_replicate: replicate,
            packed: true,
            ..Default::default()
        };
        self.try_ask(&request).await
    }

    async fn registered_shuffles(&self) -> Vec<i32> {
        let pulse = proto::HeartbeatFromApplication {
            app_id: "app-1".to_owned(),
            should_response: true,
            ..Default::default()
        };
        let health: proto::HeartbeatFromApplicationResponse = self.ask(&pulse).await;
        health.registered_shuffles
    }
}

fn identity(worker: u16) -> internal::WorkerIdentity {
    let port = i32::from(worker);
    internal::WorkerIdentity {
        host: "w".to_owned(),
        rpc_port: port,
        push_port: port,
        fetch_port: port,
        replicate_port: port,
    }
}

fn names(response: &proto::RequestSlotsResponse) -> Vec<WorkerId> {
    response.packed_worker_resource.keys().map(|worker| worker.parse().unwrap()).collect()
}

async fn master() -> Handle {
    Server::start(Options::embedded()).await.unwrap()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn deletions_reach_a_watching_worker_at_once() {
    let master = master().await;
    let (worker, client) = (Peer::of(master.address()), Peer::of(master.address()));
    let registered = worker.register(1).await;
    assert_eq!(registered.status, 0);
    assert!(registered.heartbeat_interval_ms > 0);
    assert_eq!(client.slots(7, 3, false).await.status, 0);
    assert_eq!(client.registered_shuffles().await, [7]);
    let asked = Instant::now();
    let (orders, _) = tokio::join!(worker.watch(1, 0), async {
        // Time enough for the watch to be there first, most often.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let unregister =
            proto::UnregisterShuffle { app_id: "app-1".to_owned(), shuffle_id: 7, ..Default::default() };
        client.ask::<_, proto::UnregisterShuffleResponse>(&unregister).await
    });
    // A watch that nobody wakes waits for 20 s.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let expired: Vec<(&str, i32)> =
        orders.expired.iter().map(|name| (name.application.as_str(), name.shuffle)).collect();
    assert_eq!(expired, [("app-1", 7)]);
    assert_eq!(client.registered_shuffles().await, [0; 0]);
    let unknown: internal::WorkerHeartbeatReply =
        worker.ask(&internal::WorkerHeartbeat { worker: Some(identity(9)), ..Default::default() }).await;
    assert_eq!(unknown.status, 28);
}

#[tokio::test]
async fn workers_are_waited_for() {
    let master = master().await;
    let (first, second) = (Peer::of(master.address()), Peer::of(master.address()));
    first.register(1).await;
    master.wait_for_workers(1, Duration::ZERO).await.expect("it is there");
    let error = master.wait_for_workers(2, Duration::from_millis(10)).await.expect_err("there is one");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().contains("1 of 2 workers"), "{error}");
    let (waited, _) = tokio::join!(master.wait_for_workers(2, WITHIN), second.register(2));
    waited.unwrap();
}

#[tokio::test]
async fn a_worker_whose_connection_ended_gets_nothing_while_there_are_others() {
    let master = master().await;
    let client = Peer::of(master.address());
    assert_eq!(client.slots(0, 4, false).await.status, 27, "no worker yet");
    let (first, second) = (Peer::of(master.address()), Peer::of(master.address()));
    first.register(1).await;
    assert_eq!(client.slots(0, 4, true).await.status, 6, "one worker is too few for replicas");
    second.register(2).await;
    assert_eq!(names(&client.slots(0, 100, true).await).len(), 2);
    first.client.disconnect(&first.address);
    eventually("the end of the connection", || master.workers_available() == 1).await;
    assert_eq!(names(&client.slots(1, 100, false).await), ["w:2:2:2:2".parse().unwrap()]);
    second.client.disconnect(&second.address);
    eventually("the end of the other connection", || master.workers_available() == 0).await;
    assert_eq!(names(&client.slots(2, 100, true).await).len(), 2, "clients find out");
    first.register(1).await;
    second.register(2).await;
    assert_eq!((master.workers_available(), names(&client.slots(3, 100, false).await).len()), (2, 2));
}

#[tokio::test]
async fn a_follower_passes_everything_on() {
    let leader = master().await;
    let follower =
        Server::start(Options { leader: Some(leader.address().to_string()), ..Options::embedded() })
            .await
            .unwrap();
    let worker = Peer::of(follower.address());
    worker.register(1).await;
    assert_eq!(Peer::of(follower.address()).slots(3, 4, false).await.status, 0);
    assert_eq!((leader.shuffles(), leader.workers_available()), (1, 1));
    worker.client.disconnect(&worker.address);
    eventually("the end of the relayed connection", || leader.workers_available() == 0).await;
    drop(leader);
    let orphan = Peer::of(follower.address());
    let refused = orphan.try_ask::<_, proto::CheckQuotaResponse>(&proto::CheckQuota::default()).await;
    assert!(refused.is_err(), "a client must go on to its next endpoint");
}

#[tokio::test]
async fn bad_requests_are_answered_and_change_nothing() {
    let master = master().await;
    let peer = Peer::of(master.address());
    let nameless = proto::UnregisterShuffle::default();
    let error = peer.try_ask::<_, proto::UnregisterShuffleResponse>(&nameless).await.unwrap_err();
    assert!(error.contains("application id"), "{error}");
    let foreign = Message { kind: yeoul_shuffle::wire::message::MessageType(99), payload: None };
    for (endpoint, expected) in [(rpc::MASTER, "message type"), ("Nobody", "no endpoint")] {
        let body = Request::encode_native(endpoint, &foreign);
        let header = Header::RpcRequest { request_id: 0 };
        let error = peer.client.request(&peer.address, header, body, WITHIN).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(master.shuffles(), 0);
}

/// The child process of the tests that end one: a master on the directory and port of its environment, until it is killed
/// or ends by itself.
#[tokio::test]
async fn child_master() {
    let Ok(dir) = std::env::var("YEOUL_TEST_MASTER_DIR") else { return };
    let port = std::env::var("YEOUL_TEST_MASTER_PORT").unwrap().parse().unwrap();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let options = Options { port, dir: Some(dir.into()), ..Options::embedded() };
    let _master = Server::start(options).await.unwrap();
    tokio::time::sleep(CHILD_LIFE_MAX).await;
    std::process::exit(CHILD_LIVED);
}

fn master_command(dir: &std::path::Path, port: u16) -> std::process::Command {
    let mut command = Child::command("master::child_master");
    command.env("YEOUL_TEST_MASTER_DIR", dir).env("YEOUL_TEST_MASTER_PORT", port.to_string());
    command
}

fn spawn_master(dir: &std::path::Path, port: u16) -> Child {
    Child::start(&mut master_command(dir, port)).unwrap()
}

async fn connected(address: &str) -> Peer {
    let deadline = Instant::now() + WITHIN;
    loop {
        let peer = Peer::of(address);
        if peer.try_ask::<_, proto::CheckQuotaResponse>(&proto::CheckQuota::default()).await.is_ok() {
            return peer;
        }
        assert!(Instant::now() < deadline, "no master at {address}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_killed_master_is_back_within_two_seconds_with_all_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let port = quiet_port();
    let address = format!("127.0.0.1:{port}");
    let (mut acknowledged, mut took) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let started = Instant::now();
        let master = spawn_master(dir.path(), port);
        let client = connected(&address).await;
        took.push(started.elapsed());
        assert_eq!(client.registered_shuffles().await, acknowledged, "round {round}");
        if round > 0 {
            // Before any worker is back a running job gets its slots: the journal knows the worker.
            assert_eq!(client.slots(acknowledged[0], 1, false).await.status, 0);
        }
        let worker = Peer::of(&address);
        worker.register(1).await;
        for shuffle in round * 500..round * 500 + 500 {
            assert_eq!(client.slots(shuffle, 2, false).await.status, 0);
            acknowledged.push(shuffle);
        }
        master.kill();
    }
    // The last rounds have something to read. One of them had the machine for itself.
    assert!(took[1..].iter().any(|took| *took < Duration::from_secs(2)), "{took:?}");
}

/// Runs a master whose journal fails in the middle of its work until it ends, and another one that reads what it left.
async fn a_journal_ends_its_master(failpoint: &str, says: &str) {
    let dir = tempfile::tempdir().unwrap();
    let port = quiet_port();
    let address = format!("127.0.0.1:{port}");
    let mut command = master_command(dir.path(), port);
    command.env("YEOUL_FAILPOINTS", failpoint);
    let running = tokio::task::spawn_blocking(move || Child::run(&mut command).unwrap());
    let client = connected(&address).await;
    let worker = Peer::of(&address);
    worker.register(1).await;
    let mut acknowledged = Vec::new();
    let deadline = Instant::now() + WITHIN;
    for shuffle in 0.. {
        match client.try_slots(shuffle, 2, false).await {
            Ok(granted) if granted.status == 0 => acknowledged.push(shuffle),
            // A reply that rests on what was not kept is an error, and so is the end of the connection.
            _ => break,
        }
        assert!(Instant::now() < deadline, "{failpoint}: it goes on without a journal");
    }
    assert!(acknowledged.len() > 10, "{failpoint}: it failed before it had done anything: {acknowledged:?}");
    let ended = running.await.unwrap();
    let said = &ended.stderr;
    assert_eq!(ended.status.code(), Some(1), "{failpoint}: {said}");
    let point = failpoint.split('@').next().unwrap();
    assert!(said.contains(&format!("failpoint {point}")) && said.contains(says), "{failpoint}: {said}");
    let again = spawn_master(dir.path(), port);
    let found = connected(&address).await.registered_shuffles().await;
    let lost: Vec<_> = acknowledged.iter().filter(|shuffle| !found.contains(shuffle)).collect();
    assert!(lost.is_empty(), "{failpoint}: {lost:?} of {acknowledged:?} are lost");
    again.kill();
}

#[tokio::test]
async fn a_journal_whose_writer_panics_ends_its_master_and_nothing_acknowledged_is_lost() {
    a_journal_ends_its_master("journal-write@100", "the master's journal ended").await;
}

#[tokio::test]
async fn a_journal_whose_syncs_fail_ends_its_master_and_nothing_acknowledged_is_lost() {
    a_journal_ends_its_master("journal-fsync@3", "the master's journal ended").await;
}

#[tokio::test]
async fn a_journal_whose_syncer_panics_ends_its_master_and_nothing_acknowledged_is_lost() {
    a_journal_ends_its_master("journal-sync@2", "the master's journal ended").await;
}

#[tokio::test]
async fn the_http_api_shows_and_changes_what_celeborns_does() {
    let master = Server::start(Options { http_port: Some(0), ..Options::embedded() }).await.unwrap();
    let address = master.http_address().unwrap();
    let get = async |path: &str| -> serde_json::Value {
        let (status, body) = http(address, &format!("GET {path}"), "").await;
        assert_eq!(status, 200, "{path}");
        serde_json::from_str(&body).unwrap()
    };
    let (first, second, client) =
        (Peer::of(master.address()), Peer::of(master.address()), Peer::of(master.address()));
    first.register(1).await;
    second.register(2).await;
    client.slots(5, 30, false).await;
    assert_eq!(get("/api/v1/shuffles").await["shuffleIds"], serde_json::json!(["app-1-5"]));
    assert_eq!(get("/api/v1/workers").await["workers"].as_array().unwrap().len(), 2);
    assert_eq!(get("/api/v1/applications").await["applications"][0]["appId"], "app-1");
    let worker = r#"{"host":"w","rpcPort":1,"pushPort":1,"fetchPort":1,"replicatePort":1}"#;
    let (status, answer) =
        http(address, "POST /api/v1/workers/exclude", &format!("{{\"add\":[{worker}],\"remove\":[]}}")).await;
    assert_eq!((status, answer.contains("\"success\":true")), (200, true), "{answer}");
    assert_eq!(names(&client.slots(6, 30, false).await), ["w:2:2:2:2".parse().unwrap()]);
    let shown = get("/api/v1/workers").await;
    assert_eq!(shown["manualExcludedWorkers"][0]["rpcPort"], 1);
    let event = format!("{{\"eventType\":\"DECOMMISSION\",\"workers\":[{worker}]}}");
    let (orders, (status, _)) =
        tokio::join!(first.watch(1, 0), http(address, "POST /api/v1/workers/events", &event));
    assert_eq!((status, orders.command()), (200, internal::WorkerCommand::CommandDecommission));
    let events = get("/api/v1/workers/events").await;
    assert_eq!(
        events["workerEvents"][0]["event"]["eventType"], "Decommission",
        "it may not have heard of it"
    );
    let stranger = worker.replace("\"w\"", "\"stranger\"");
    for (kind, workers, expected, why) in [
        ("DECOMMISSION", format!("{worker},{stranger}"), (200, true), "N; not registered: stranger:1:1:1:1"),
        ("DECOMMISSION", stranger.clone(), (400, false), "none of them is registered: stranger:1:1:1:1"),
        ("DECOMMISSION", String::new(), (400, false), "no worker is named"),
        ("DECOMMISSIONTHENIDLE", worker.to_owned(), (400, false), "use DECOMMISSION"),
    ] {
        let event = format!("{{\"eventType\":\"{kind}\",\"workers\":[{workers}]}}");
        let (status, answer) = http(address, "POST /api/v1/workers/events", &event).await;
        assert_eq!((status, answer.contains("\"success\":true")), expected, "{answer}");
        assert!(answer.contains(why), "{answer}");
    }
    for (list, workers, why) in [
        ("add", format!("{worker},{stranger}"), "put back nothing; not registered: stranger:1:1:1:1\""),
        ("remove", format!("{worker},{stranger}"), "stranger:1:1:1:1; not registered: stranger:1:1:1:1\""),
        ("add", worker.to_owned(), "put back nothing\""),
    ] {
        let exclusion = format!("{{\"{list}\":[{workers}]}}");
        let (status, answer) = http(address, "POST /api/v1/workers/exclude", &exclusion).await;
        assert!(status == 200 && answer.contains(why), "{status} {answer}");
    }
    let name = internal::ShuffleName { application: "app-1".to_owned(), shuffle: 5 };
    let held = internal::HeldShuffle { name: Some(name), locations: 30, bytes: 5000 };
    let report = Some(internal::WorkerReport { shuffles: vec![held], ..Default::default() });
    let beat = internal::WorkerHeartbeat { worker: Some(identity(1)), incarnation: 1, report };
    let reply: internal::WorkerHeartbeatReply = first.ask(&beat).await;
    assert_eq!(reply.status, 0);
    let (status, text) = http(address, "GET /metrics/prometheus", "").await;
    assert_eq!(status, 200);
    assert!(text.contains("metrics_WorkerCount_Value{role=\"Master\""), "{text}");
    for (metric, value) in [("diskBytesWritten", 5000), ("diskFileCount", 30)] {
        let line = text.lines().find(|line| line.starts_with(&format!("metrics_{metric}_Value")));
        let ending = format!("tenantId=\"default\",name=\"default\"}} {value}");
        assert!(line.is_some_and(|line| line.ends_with(&ending)), "{metric}: {text}");
    }
    assert!(
        text.lines()
            .any(|line| line.starts_with("metrics_AvailableWorkerCount_Value") && line.ends_with(" 1"))
    );
    let (status, answer) = http(address, "POST /api/v1/workers/exclude", "{\"add\":7}").await;
    assert_eq!((status, answer.contains("\"success\":false")), (400, true));
    assert_eq!(http(address, "GET /nothing", "").await.0, 404);
    assert_eq!(http(address, "DELETE /api/v1/shuffles", "").await.0, 405);
    for apps in [String::new(), "a".repeat(1025), vec!["a"; (1 << 16) + 1].join("\",\"")] {
        let delete = format!("{{\"apps\":[\"app-1\",\"{apps}\"]}}");
        assert_eq!(http(address, "POST /api/v1/applications/delete_apps", &delete).await.0, 400);
    }
    assert_eq!(get("/api/v1/shuffles").await["shuffleIds"].as_array().unwrap().len(), 2, "nothing was done");
    for (path, body, expected, why) in [
        (
            "shuffles/unregister",
            r#"{"appId":"app-1","shuffleIds":[5,77]}"#.to_owned(),
            (200, true),
            "unregistered 5; not known: 77\"",
        ),
        (
            "shuffles/unregister",
            r#"{"appId":"app-9","shuffleIds":[6]}"#.to_owned(),
            (200, true),
            "unregistered nothing; not known: 6\"",
        ),
        (
            "applications/revise_lost_shuffles",
            format!(r#"{{"appId":"{}","shuffleIds":[1]}}"#, "a".repeat(201)),
            (400, false),
            "1 to 200 bytes",
        ),
        (
            "applications/delete_apps",
            r#"{"apps":["app-1","app-9"]}"#.to_owned(),
            (200, true),
            "deleted app-1; not known: app-9\"",
        ),
    ] {
        let (status, answer) = http(address, &format!("POST /api/v1/{path}"), &body).await;
        assert_eq!((status, answer.contains("\"success\":true")), expected, "{path} {answer}");
        assert!(answer.contains(why), "{path} {answer}");
    }
    assert_eq!(get("/api/v1/shuffles").await["shuffleIds"], serde_json::json!([]));
    assert_eq!(get("/api/v1/masters").await["groupId"], "yeoul");
    let names = get("/api/v1/conf").await;
    assert!(
        names["configs"].as_array().unwrap().iter().any(|entry| entry["name"] == "limits.worker_timeout")
    );
}

#[tokio::test]
async fn an_application_that_no_worker_could_store_is_refused_by_status() {
    let master = master().await;
    let peer = Peer::of(master.address());
    peer.register(1).await;
    for (id, status) in [("a".repeat(200), 0), ("a".repeat(201), 2), ("a".repeat(1024), 2)] {
        let request = proto::RequestSlots {
            application_id: id.clone(),
            partition_id_list: vec![0],
            ..Default::default()
        };
        let response: proto::RequestSlotsResponse = peer.ask(&request).await;
        assert_eq!(response.status, status, "{} bytes", id.len());
        let pulse =
            proto::HeartbeatFromApplication { app_id: id, should_response: true, ..Default::default() };
        let health: proto::HeartbeatFromApplicationResponse = peer.ask(&pulse).await;
        assert_eq!(health.status, status);
    }
    let lost = proto::ReviseLostShuffles { app_id: "é".repeat(34), ..Default::default() };
    let revised: proto::ReviseLostShufflesResponse = peer.ask(&lost).await;
    assert!(!revised.success && revised.message.contains("1 to 200 bytes"), "{}", revised.message);
}

#[tokio::test]
async fn a_client_that_asks_for_tags_is_told_that_no_worker_will_do() {
    let master = master().await;
    let peer = Peer::of(master.address());
    peer.register(1).await;
    for (tags_expr, status) in [("", 0), ("gpu,prod", 27), (" ", 27)] {
        let request = proto::RequestSlots {
            application_id: "app-1".to_owned(),
            partition_id_list: vec![0],
            tags_expr: tags_expr.to_owned(),
            ..Default::default()
        };
        let response: proto::RequestSlotsResponse = peer.ask(&request).await;
        assert_eq!(response.status, status, "{tags_expr}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let embedded = Options::embedded;
    for (what, options) in [
        ("rpc", Options { port, ..embedded() }),
        ("http", Options { http_port: Some(port), ..embedded() }),
        ("rpc", Options { port, leader: Some("127.0.0.1:1".to_owned()), ..embedded() }),
    ] {
        let error = Server::start(options).await.err().expect("it is taken").to_string();
        assert!(error.contains(what) && error.contains(&port.to_string()), "{error}");
    }
}
