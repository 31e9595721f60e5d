//! Goal: a worker's pages show what it holds and what it has done, and take Celeborn's orders to exit.
//!
//! Method: workers over real sockets, a client that does a known number of each thing, and HTTP spoken by hand.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use crate::cluster::{Cluster, SOFT_1G, WHOLE, WITHIN, http, jvm, primary};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;
use yeoul_net::LogLevels;
use yeoul_shuffle::ids::{LocationId, Mode, ShuffleKey};
use yeoul_shuffle::wire::Status;
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::{master, worker};
use yeoul_simulation::quiet_port;

async fn get(address: SocketAddr, path: &str) -> Value {
    let (status, body) = http(address, &format!("GET {path}"), "").await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The value of each metric without labels of its own.
struct Metrics(String);

impl Metrics {
    async fn of(address: SocketAddr) -> Self {
        let (status, text) = http(address, "GET /metrics/prometheus", "").await;
        assert_eq!(status, 200);
        Self(text)
    }

    fn get(&self, name: &str) -> f64 {
        let line = self.0.lines().find(|line| line.starts_with(&format!("{name}{{role=\"Worker\"")));
        let line = line.unwrap_or_else(|| panic!("there is no {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[track_caller]
    fn expect(&self, expected: &[(&str, f64)]) {
        for (name, value) in expected {
            assert_eq!(self.get(&format!("metrics_{name}")), *value, "{name}");
        }
    }
}

/// Waits until a worker says how it is with this status, and returns what it says.
async fn until_health(address: SocketAddr, wanted: u16) -> String {
    let waited = async {
        loop {
            let (status, said) = http(address, "GET /healthz", "").await;
            if status == wanted {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, waited).await.unwrap_or_else(|_| panic!("its health is not {wanted}"))
}

/// A location with a copy on another worker, both ways round.
fn replicated(cluster: &Cluster, partition: i32) -> [Location; 2] {
    let location = |mode, worker: usize, peer: usize| Location {
        id: LocationId::new(partition, 0),
        mode,
        worker: cluster.id(worker).clone(),
        peer: Some(cluster.id(peer).clone()),
    };
    [location(Mode::Primary, 0, 1), location(Mode::Replica, 1, 0)]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_do_is_counted_and_shown() {
    let mut cluster = Cluster::start(2, 64 << 20).await;
    let [first, second] = [0, 1].map(|worker| cluster.workers[worker].http_address().unwrap());
    until_health(first, 200).await;
    let (key, other) = (ShuffleKey::new("app-1", 7), ShuffleKey::new("app-2", 8));
    let mut locations = replicated(&cluster, 0).to_vec();
    locations.push(primary(cluster.id(0), 1));
    assert_eq!(cluster.reserve(&key, &locations, SOFT_1G).await, 0);
    assert_eq!(cluster.reserve(&other, &[primary(cluster.id(0), 0)], SOFT_1G).await, 0);
    let [copied, alone, unknown] = [0, 1, 9].map(|id| LocationId::new(id, 0));
    for number in 1..=3 {
        assert_eq!(
            cluster.push(0, &key, copied, &jvm(0, 0, number, "two copies")).await,
            Ok(Status::Success)
        );
    }
    assert_eq!(cluster.push(0, &key, alone, &jvm(0, 0, 4, "one copy")).await, Ok(Status::Success));
    assert!(cluster.push(0, &key, unknown, &jvm(0, 0, 5, "none")).await.is_err());

    let primaries = &get(first, "/api/v1/shuffles/partitions").await["primaryPartitions"];
    assert_eq!(primaries["app-1-7"].as_object().unwrap().len(), 2);
    assert_eq!(primaries["app-2-8"]["0-0"]["storage"], "MEMORY");
    let peer = format!("{}:{}", cluster.id(1).host, cluster.id(1).replicate_port);
    assert_eq!(primaries["app-1-7"]["0-0"]["peer"], json!(peer));
    let one = get(first, "/api/v1/shuffles/partitions?shuffle=app-2-8").await;
    assert_eq!(one["primaryPartitions"].as_object().unwrap().len(), 1);
    assert_eq!(http(first, "GET /api/v1/shuffles/partitions?shuffle=nothing", "").await.0, 400);
    let replicas = get(second, "/api/v1/shuffles/partitions").await;
    assert_eq!(replicas["replicaPartitions"]["app-1-7"]["0-0"]["mode"], "REPLICA");
    assert_eq!(get(first, "/api/v1/shuffles").await["shuffleIds"], json!(["app-1-7", "app-2-8"]));
    assert_eq!(get(first, "/api/v1/applications").await["applications"], json!(["app-1", "app-2"]));
    assert_eq!(get(second, "/api/v1/applications").await["applications"], json!(["app-1"]));
    let worker = get(first, "/api/v1/workers").await;
    assert_eq!((&worker["isRegistered"], &worker["slotUsed"]), (&json!(true), &json!(3)));
    assert_eq!(worker["pushPort"], json!(cluster.id(0).push_port));
    assert_eq!((&worker["isShutdown"], &worker["isDecommissioning"]), (&json!(false), &json!(false)));

    cluster.commit(0, &key, &[copied, alone], &[], &[0]).await;
    assert_eq!(cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap().len(), 3);
    assert!(cluster.read(0, &key, "9-0-0", WHOLE).await.is_err());
    // The other worker dies: what is pushed now fails, for want of a copy.
    drop(cluster.workers.pop());
    assert_eq!(cluster.reserve(&other, &replicated_to_nobody(&cluster), SOFT_1G).await, 0);
    assert!(cluster.push(0, &other, LocationId::new(1, 0), &jvm(0, 0, 6, "no copy")).await.is_err());

    let metrics = Metrics::of(first).await;
    metrics.expect(&[
        ("RegisteredShuffleCount_Value", 2.0),
        ("RunningApplicationCount_Value", 2.0),
        ("SlotsAllocated_Count", 4.0),
        ("ReserveSlotsTime_Count", 3.0),
        ("CommitFilesTime_Count", 1.0),
        ("PrimaryPushDataTime_Count", 6.0),
        ("ReplicaPushDataTime_Count", 0.0),
        ("WriteDataSuccessCount_Count", 4.0),
        ("WriteDataFailCount_Count", 2.0),
        ("WriteDataHardSplitCount_Count", 0.0),
        ("ReplicateDataFailCount_Count", 1.0),
        ("OpenStreamSuccessCount_Count", 1.0),
        ("OpenStreamFailCount_Count", 1.0),
        ("FetchChunkSuccessCount_Count", 1.0),
        ("FetchChunkFailCount_Count", 0.0),
        ("ActiveSlotsCount_Value", 2.0),
        ("DeviceHealthy_Value", 1.0),
    ]);
    assert!(metrics.get("metrics_ActiveConnectionCount_Count") >= 1.0);
    assert!(metrics.get("metrics_MemoryFileStorageSize_Value") > 100.0);
    assert!(metrics.get("process_resident_memory_bytes") > 1e6);
}

/// A location whose copy is to be on a worker that is not there.
fn replicated_to_nobody(cluster: &Cluster) -> [Location; 1] {
    let mut nobody = cluster.id(0).clone();
    nobody.replicate_port = 1;
    [Location { peer: Some(nobody), ..primary(cluster.id(0), 1) }]
}

#[tokio::test]
async fn the_list_of_pages_has_all_of_them_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let levels = LogLevels::new(LevelFilter::WARN);
    let (master, worker) = served(&place, &levels).await;
    for (address, pages) in [(master.http_address(), 21), (worker.http_address(), 13)] {
        let address = address.unwrap();
        let (status, list) = http(address, "GET /", "").await;
        assert_eq!((status, list.lines().count()), (200, pages), "{list}");
        for line in list.lines() {
            let [method, path] = [0, 1].map(|word| line.split_whitespace().nth(word).unwrap());
            let (status, answer) = http(address, &format!("{method} {path}"), "no JSON").await;
            assert!(
                matches!((method, status), ("GET", 200 | 503) | ("POST", 400)),
                "{line}: {status} {answer}"
            );
        }
        let (status, answer) = http(address, "GET /nothing", "").await;
        assert!(status == 404 && answer.contains("/healthz"), "{status} {answer}");
    }
}

/// A master and its worker with all their pages, also those that change these levels of the log.
async fn served(place: &tempfile::TempDir, levels: &LogLevels) -> (master::Handle, worker::Handle) {
    let log_levels = || Some(levels.clone());
    let embedded = master::Options::embedded();
    let options = master::Options { http_port: Some(0), log_levels: log_levels(), ..embedded };
    let master = master::Server::start(options).await.unwrap();
    let embedded = worker::Options::embedded([master.address().to_string()], place.path());
    let options = worker::Options { http_port: Some(0), log_levels: log_levels(), ..embedded };
    let worker = worker::Server::start(options).await.unwrap();
    (master, worker)
}

/// What a page of another site can have a browser send, and the status of the refusal.
const FORGED: [(&str, u16); 5] = [
    ("content-type: text/plain", 415),
    ("content-type: application/x-www-form-urlencoded", 415),
    ("content-type: application/json\norigin: http://evil.example", 403),
    ("content-type: application/json\nsec-fetch-site: cross-site", 403),
    ("content-type: application/json\nhost: evil.example", 421),
];

#[tokio::test]
async fn no_page_of_another_site_changes_anything() {
    let place = tempfile::tempdir().unwrap();
    let levels = LogLevels::new(LevelFilter::WARN);
    let (master, worker) = served(&place, &levels).await;
    master.wait_for_workers(1, WITHIN).await.unwrap();
    let id = worker.id();
    let name = json!({
        "host": &*id.host, "rpcPort": id.rpc_port, "pushPort": id.push_port, "fetchPort": id.fetch_port,
        "replicatePort": id.replicate_port,
    });
    let shuffles = json!({ "appId": "app-1", "shuffleIds": [7] });
    let bodies = [
        ("/api/v1/workers/exclude", json!({ "add": [name] })),
        ("/api/v1/workers/events", json!({ "eventType": "IMMEDIATELY", "workers": [name] })),
        ("/api/v1/workers/remove_unavailable", json!({ "workers": [name] })),
        ("/api/v1/applications/delete_apps", json!({ "apps": ["app-1"] })),
        ("/api/v1/applications/revise_lost_shuffles", shuffles.clone()),
        ("/api/v1/shuffles/unregister", shuffles),
        ("/api/v1/workers/exit", json!({ "type": "IMMEDIATELY" })),
        ("/api/v1/loggers", json!({ "level": "TRACE" })),
    ];
    let [master_at, worker_at] = [master.http_address().unwrap(), worker.http_address().unwrap()];
    let mut tried = 0;
    for address in [master_at, worker_at] {
        let (_, list) = http(address, "GET /", "").await;
        for path in list.lines().filter_map(|line| line.strip_prefix("POST ")?.split(' ').next()) {
            let (_, body) = bodies
                .iter()
                .find(|(at, _)| *at == path)
                .expect("a body for each route that changes something");
            for (headers, expected) in FORGED {
                let request = format!("POST {path}");
                let (status, said) =
                    yeoul_simulation::http_with(address, &request, headers, &body.to_string()).await.unwrap();
                assert_eq!(status, expected, "{path} with {headers:?}: {said}");
                tried += 1;
            }
        }
        let read =
            yeoul_simulation::http_with(address, "GET /api/v1/conf", "host: evil.example", "").await.unwrap();
        assert_eq!(read.0, 421, "a name that was led here reads nothing: {read:?}");
    }
    assert_eq!(tried, (bodies.len() + 1) * FORGED.len(), "both have loggers");
    assert_eq!(levels.all(), [("root".to_owned(), "WARN")]);
    assert_eq!((until_health(worker_at, 200).await.as_str(), master.workers_available()), ("ok\n", 1));
    assert_eq!(get(master_at, "/api/v1/shuffles").await, json!({ "shuffleIds": [] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_to_exit_are_carried_out_and_others_refused() {
    let cluster = Cluster::start(1, 64 << 20).await;
    let address = cluster.workers[0].http_address().unwrap();
    until_health(address, 200).await;
    let exit = async |body: &str| http(address, "POST /api/v1/workers/exit", body).await;
    for (body, why) in
        [("{\"type\":\"NONE\"}", "expected DECOMMISSION"), ("{}", "missing field"), ("graceful", "JSON")]
    {
        let (status, answer) = exit(body).await;
        assert!(status == 400 && answer.contains(why), "{body}: {status} {answer}");
    }
    assert_eq!(http(address, "GET /healthz", "").await.0, 200, "nothing has changed");
    // One that still holds an open location is decommissioned, and waits for that.
    let key = ShuffleKey::new("app-1", 0);
    assert_eq!(cluster.reserve(&key, &[primary(cluster.id(0), 0)], SOFT_1G).await, 0);
    let (status, answer) = exit("{\"type\":\"DECOMMISSION\"}").await;
    assert!(status == 200 && answer.contains("\"success\":true"), "{answer}");
    assert_eq!(until_health(address, 503).await, "the worker is decommissioned\n");
    assert_eq!(get(address, "/api/v1/workers").await["isDecommissioning"], json!(true));
    assert_eq!(exit("{\"type\":\"immediately\"}").await.0, 200);
    tokio::time::timeout(WITHIN, cluster.workers[0].ended()).await.expect("it ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_would_not_fit_into_memory_is_refused() {
    let cluster = Cluster::start(1, 64 << 20).await;
    let address = cluster.workers[0].http_address().unwrap();
    let (large, small) = (ShuffleKey::new("app-1", 0), ShuffleKey::new("app-1", 1));
    let locations: Vec<_> = (0..5000).map(|partition| primary(cluster.id(0), partition)).collect();
    assert_eq!(cluster.reserve(&large, &locations, SOFT_1G).await, 0);
    assert_eq!(cluster.reserve(&small, &locations[..10], SOFT_1G).await, 0);
    let ask = async |query: &str| http(address, &format!("GET /api/v1/shuffles/partitions{query}"), "").await;
    let (status, text) = ask("").await;
    assert!(status == 400 && text.contains("5010") && text.contains("?shuffle="), "{status} {text}");
    assert_eq!(ask("?shuffle=app-1-0").await.0, 400);
    assert_eq!(ask("?shuffle=app-1-1").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = Cluster::start(0, 64 << 20).await;
    let place = tempfile::tempdir().unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = worker::Options {
        directories: vec![place.path().into()],
        bind: Some(Ipv4Addr::LOCALHOST.into()),
        http_port: Some(port),
        ..cluster.options.clone()
    };
    let error = worker::Server::start(options).await.err().unwrap();
    assert!(error.to_string().contains(&format!("http port, {port}")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_that_no_master_knows_it_until_one_does() {
    let port = quiet_port();
    let place = tempfile::tempdir().unwrap();
    let options = worker::Options {
        directories: vec![place.path().into()],
        masters: vec![format!("127.0.0.1:{port}")],
        ..worker::Options::default()
    };
    let worker = worker::Server::start(options).await.unwrap();
    let address = worker.http_address().unwrap();
    let master = || master::Server::start(master::Options { port, ..master::Options::embedded() });
    for _ in 0..2 {
        assert_eq!(until_health(address, 503).await, "no master knows the worker\n");
        let master = master().await.unwrap();
        until_health(address, 200).await;
        assert_eq!(master.workers_available(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_of_the_log_are_shown_and_changed_while_servers_run() {
    let place = tempfile::tempdir().unwrap();
    let levels = LogLevels::new(LevelFilter::WARN);
    let (master, worker) = served(&place, &levels).await;
    for (address, module) in [
        (master.http_address().unwrap(), "yeoul_shuffle::master"),
        (worker.http_address().unwrap(), "yeoul_shuffle::worker"),
    ] {
        let root = json!({ "name": "root", "level": "WARN" });
        assert_eq!(get(address, "/api/v1/loggers?name=root").await, json!({ "loggers": [root] }));
        let body = json!({ "name": module, "level": "debug" }).to_string();
        let (status, said) = http(address, "POST /api/v1/loggers", &body).await;
        assert_eq!((status, said.contains("successfully")), (200, true), "{said}");
        let of_module = json!({ "loggers": [{ "name": module, "level": "DEBUG" }] });
        assert_eq!(get(address, &format!("/api/v1/loggers?name={module}")).await, of_module);
        let (status, said) = http(address, "POST /api/v1/loggers", r#"{"level": "LOUD"}"#).await;
        assert_eq!((status, said.contains("unknown level `LOUD`")), (400, true), "{said}");
        // Without a name it is that of all others.
        assert_eq!(http(address, "POST /api/v1/loggers", r#"{"level": "ERROR"}"#).await.0, 200);
        assert_eq!(levels.all().last().unwrap().1, "DEBUG");
        assert_eq!(levels.all()[0], ("root".to_owned(), "ERROR"));
        levels.set("root", "WARN").unwrap();
    }
    // Servers that are parts of another process leave its log alone.
    let options = master::Options { http_port: Some(0), ..master::Options::embedded() };
    let other = master::Server::start(options).await.unwrap();
    assert_eq!(http(other.http_address().unwrap(), "GET /api/v1/loggers", "").await.0, 404);
}
