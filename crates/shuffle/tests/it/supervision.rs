//! Goal: a server of which a part has panicked does not live on: its process ends, with a message and code 1, and a master
//! that is started again has what it had acknowledged.
//!
//! Method: each scene is a process of its own, which is this program once more: a master, a worker and a client that does
//! what reaches the failpoint. The same scene without a failpoint goes through to its end.

use std::path::Path;
use std::time::Duration;

use crate::cluster::{Cluster, SOFT_1G, WITHIN, jvm, primary};
use yeoul_shuffle::ids::{LocationId, ShuffleKey};
use yeoul_shuffle::master;
use yeoul_shuffle::wire::{Status, proto};
use yeoul_simulation::{Child, Ended};

/// The directory of the master of a scene, in the environment of its process.
const DIR: &str = "YEOUL_TEST_SCENE_DIR";

/// Names the fault of a scene.
const FAILPOINTS: &str = "YEOUL_FAILPOINTS";

/// The memory of the worker, in bytes: far more than its process needs besides batches, whatever it was compiled for.
const MEMORY: u64 = 128 << 20;

/// What a process that comes to the end of its scene exits with: no other way to end does.
const LIVES: i32 = 42;

fn play(dir: &Path, failpoint: &str) -> Ended {
    Child::run(Child::command("supervision::scene").env(DIR, dir).env(FAILPOINTS, failpoint)).unwrap()
}

fn dies(failpoint: &str, what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let played = play(dir.path(), failpoint);
    let said = &played.stderr;
    assert_eq!(played.status.code(), Some(1), "{failpoint}: {said}");
    // The first that is said is that the fault has happened.
    assert!(said.contains(&format!("failpoint {failpoint}\n")), "{said}");
    assert!(said.contains(&format!("error: {what}\nhint: ")), "{failpoint}: {said}");
    let again = play(dir.path(), "");
    assert_eq!(again.status.code(), Some(LIVES), "{}", again.stderr);
}

#[test]
fn nothing_dies_without_a_fault() {
    let dir = tempfile::tempdir().unwrap();
    let played = play(dir.path(), "");
    let said = &played.stderr;
    assert_eq!(played.status.code(), Some(LIVES), "{said}");
    assert!(!said.contains("error: "), "{said}");
}

#[test]
fn the_ticker_of_a_master() {
    dies("master-tick", "the master's ticker panicked: failpoint master-tick");
}

#[test]
fn a_connection_while_the_master_decides() {
    dies("master-request-slots", "the master's state was left half changed by a panic in a decision");
}

#[test]
fn a_task_of_a_worker() {
    dies("worker-governor", "the worker's governor panicked: failpoint worker-governor");
}

#[test]
fn a_connection_while_a_worker_decides() {
    dies(
        "worker-reserve",
        "the state of a shuffle on this worker was left half changed by a panic in a decision",
    );
}

#[test]
fn a_job_of_a_worker() {
    dies("worker-spill", "the worker's spiller panicked: failpoint worker-spill");
}

/// Not a test of its own: what the other processes do.
#[test]
fn scene() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = master::Options { dir: Some(dir.into()), ..master::Options::embedded() };
        let cluster = Cluster::start_with(options, 1, MEMORY).await;
        let key = ShuffleKey::new("app", 1);
        let request = proto::RequestSlots {
            application_id: key.application.to_string(),
            shuffle_id: key.shuffle.0,
            partition_id_list: vec![0],
            hostname: "here".to_owned(),
            ..Default::default()
        };
        // The worker may not have registered yet.
        let granted = async {
            loop {
                let granted: proto::RequestSlotsResponse = cluster.ask_master(&request).await.unwrap();
                match granted.status {
                    0 => break,
                    status => assert_eq!(status, Status::WorkerExcluded.code()),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WITHIN, granted).await.expect("there are slots");
        let location = primary(cluster.id(0), 0);
        assert_eq!(cluster.reserve(&key, &[location], SOFT_1G).await, 0);
        // More than the memory, so that some of it is spilled.
        let payload = "x".repeat(1 << 20);
        for number in 0..((2 * MEMORY) >> 20) as i32 {
            let pushed = cluster.push(0, &key, LocationId::new(0, 0), &jvm(0, 0, number, &payload)).await;
            assert!(pushed.is_ok(), "{pushed:?}");
        }
        if std::env::var(FAILPOINTS).is_ok_and(|points| !points.is_empty()) {
            std::future::pending::<()>().await; // until the fault has happened
        }
        std::process::exit(LIVES);
    });
}
