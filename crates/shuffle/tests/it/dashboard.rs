//! Goal: a panel of Celeborn's dashboard has data after one job, or the reference says why not. Method: the names of the
//! dashboard of its repository (`celeborn-dashboard.json`, August 2026), one a line in `dashboard_names.txt`, are looked for in
//! what master and workers serve after a job with two copies that goes to disk, and then in the reference.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, SOFT_1G, WHOLE, http, jvm, primary};
use yeoul_shuffle::ids::{LocationId, Mode, ShuffleKey};
use yeoul_shuffle::master;
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::{Status, proto};

const NAMES: &str = include_str!("dashboard_names.txt");

/// What is served at least: a panel that vanishes is noticed.
const SERVED_MIN: usize = 95;

/// A job of one map and two partitions.
async fn job(cluster: &Cluster) {
    let heartbeat = proto::HeartbeatFromApplication {
        app_id: "app-1".to_owned(),
        should_response: true,
        application_count: 1,
        shuffle_count: 2,
        shuffle_fallback_counts: [("policy".to_owned(), 1)].into(),
        ..Default::default()
    };
    let _: proto::HeartbeatFromApplicationResponse = cluster.ask_master(&heartbeat).await.unwrap();
    let key = ShuffleKey::new("app-1", 0);
    let first = Location { peer: Some(cluster.id(1).clone()), ..primary(cluster.id(0), 0) };
    let copy = Location { mode: Mode::Replica, ..first.peer_location().unwrap() };
    let second = primary(cluster.id(0), 1);
    assert_eq!(cluster.reserve(&key, &[first, copy, second], SOFT_1G).await, 0);
    let ids = [0, 1].map(|partition| LocationId::new(partition, 0));
    for id in ids {
        assert_eq!(cluster.push(0, &key, id, &jvm(0, 0, 1, "rows")).await, Ok(Status::Success));
    }
    let committed = cluster.commit(0, &key, &ids, &[], &[0]).await;
    assert_eq!(committed.committed_primary_ids.len(), 2);
    assert!(cluster.workers[0].node().store.flush().await.is_empty(), "it goes to disk");
    assert_eq!(cluster.read(0, &key, "0-0-0", WHOLE).await.unwrap(), ["rows"]);
}

/// The patterns of the names that the reference lists as empty.
fn listed() -> Vec<String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    let path = std::path::Path::new(&package).join("../../docs/reference/shuffle-http.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, table) = page.split_once("| empty |").expect("the page has the table of empty panels");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

/// Whether a name is one that a pattern means: `…` stands for anything, and statistics follow a name.
fn is_meant(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let Some(mut rest) = name.strip_prefix(parts[0]) else { return false };
    for part in &parts[1..] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || rest.starts_with('_') || parts.last().is_some_and(|last| last.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_has_data_or_a_reason() {
    let options = master::Options { http_port: Some(0), ..master::Options::embedded() };
    let cluster = Cluster::start_with(options, 2, 64 << 20).await;
    job(&cluster).await;
    let mut text = cluster.ask_page("/metrics/prometheus").await;
    for worker in &cluster.workers {
        text += &http(worker.http_address().unwrap(), "GET /metrics/prometheus", "").await.1;
    }
    let served: BTreeSet<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let (there, missing): (Vec<&str>, Vec<&str>) = NAMES.lines().partition(|name| served.contains(name));
    assert!(there.len() >= SERVED_MIN, "{} of {} are served", there.len(), NAMES.lines().count());
    let patterns = listed();
    let is_listed = |name: &str| {
        let name = name.strip_prefix("metrics_").unwrap();
        patterns.iter().any(|pattern| is_meant(pattern, name))
    };
    let unexplained: Vec<&str> = missing.into_iter().filter(|name| !is_listed(name)).collect();
    assert_eq!(unexplained, <[&str; 0]>::default(), "no reason is given for these");
    let explained: Vec<&str> = there.into_iter().filter(|name| is_listed(name)).collect();
    assert_eq!(explained, <[&str; 0]>::default(), "these are said to be empty");
    for line in [
        "metrics_ShuffleTotalCount_Value{role=\"Master\"} 2\n",
        "metrics_ShuffleFallbackCount_Value{role=\"Master\"} 1\n",
        "metrics_FetchLocalChunkSuccessCount_Count{role=\"Worker\"} 1\n",
        "metrics_PartitionFileSizeBytes_Count{role=\"Worker\"} 2\n",
        "metrics_EvictedLocalFileCount_Value{role=\"Worker\"} 2\n",
        "metrics_FetchChunkTransferSize_Max{role=\"Worker\"} 20\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
}
