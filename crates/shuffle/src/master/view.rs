//! The state as the HTTP API and the metrics show it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::state::{Now, Standing, State, Worker};
use crate::api::{self, worker_name};
use crate::ids::{ShuffleKey, WorkerId};
use crate::metrics::Exposition;

/// What Celeborn calls excluded, for whatever reason.
const EXCLUDED: [Standing; 3] = [Standing::Unreached, Standing::WithoutStorage, Standing::ExcludedByHand];

/// All registered shuffles.
pub(super) fn shuffles(state: &State) -> Value {
    let keys = state.applications().iter().flat_map(|(application, held)| {
        let key = |shuffle| ShuffleKey { application: application.clone(), shuffle };
        held.shuffles.keys().map(move |shuffle| key(*shuffle).to_string())
    });
    json!({ "shuffleIds": keys.collect::<Vec<_>>() })
}

/// The one master there is, in the words of a group.
pub(super) fn masters(address: &str) -> Value {
    json!({
        "groupId": "yeoul",
        "leader": { "id": address, "address": address },
        "masterCommitInfo": [{
            "commitIndex": 0, "id": address, "address": address, "clientAddress": address, "startUpRole": "LEADER",
        }],
    })
}

/// The workers, and those of them in each standing.
pub(super) fn workers(state: &State, now: Now) -> Value {
    let data = |worker: &WorkerId, held: &Worker| worker_data(state, worker, held, now);
    let in_standing = |standings: &[Standing]| -> Vec<Value> {
        let chosen = state.workers().iter().filter(|(worker, _)| {
            state.standing(worker).is_some_and(|standing| standings.contains(&standing))
        });
        chosen.map(|(worker, held)| data(worker, held)).collect()
    };
    let lost = state.departed().iter().filter(|(_, departure)| !departure.left);
    let lost = lost.map(
        |(worker, departure)| json!({ "worker": worker_name(worker), "timestamp": departure.at_unix_ms }),
    );
    let by_hand = state.excluded_by_hand().iter().map(|worker| match state.workers().get(worker) {
        Some(held) => data(worker, held),
        None => Value::Object(worker_name(worker)),
    });
    // One that is not there is told when it comes back.
    let leaving = state.leaving_by_hand().iter().filter(|worker| !state.workers().contains_key(worker));
    let leaving = leaving.map(|worker| Value::Object(worker_name(worker)));
    let decommissioning = in_standing(&[Standing::Decommissioning]).into_iter().chain(leaving);
    json!({
        "workers": state.workers().iter().map(|(worker, held)| data(worker, held)).collect::<Vec<_>>(),
        "lostWorkers": lost.collect::<Vec<_>>(),
        "excludedWorkers": in_standing(&EXCLUDED),
        "manualExcludedWorkers": by_hand.collect::<Vec<_>>(),
        "shutdownWorkers": in_standing(&[Standing::Stopping]),
        "decommissioningWorkers": decommissioning.collect::<Vec<_>>(),
    })
}

fn worker_data(state: &State, worker: &WorkerId, held: &Worker, now: Now) -> Value {
    let report = &held.report;
    let directories = report.directories.iter().map(|directory| {
        let text = api::directory(directory.bytes_usable, directory.bytes_total, directory.health);
        (directory.path.clone(), text)
    });
    let standing = state.standing(worker);
    let state_name = match standing {
        Some(Standing::Stopping) => "InGraceFul",
        Some(Standing::Decommissioning) => "InDecommission",
        _ => "Normal",
    };
    let slots = report.locations_held().saturating_add(held.locations_granted);
    let mut fields = api::worker(worker, state_name, slots, directories.collect());
    let more = [
        ("lastHeartbeatTimestamp", json!(held.heartbeat_unix_ms)),
        ("heartbeatElapsedSeconds", json!(held.silent_for(now).as_secs())),
        ("networkLocation", json!(held.network_location)),
        // Beyond Celeborn's fields:
        ("standing", json!(standing.map(|standing| format!("{standing:?}")))),
        ("httpPort", json!(held.http_port)),
        ("version", json!(held.version)),
        ("memoryUsedBytes", json!(report.memory_used_bytes)),
        ("memoryLimitBytes", json!(report.memory_limit_bytes)),
        ("bytesHeld", json!(report.bytes_held())),
        ("openLocations", json!(report.open_locations)),
    ];
    fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

/// The workers by rack.
pub(super) fn topology(state: &State) -> Value {
    let mut racks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (worker, held) in state.workers() {
        racks.entry(&held.network_location).or_default().push(worker.to_string());
    }
    let racks = racks.iter().map(|(rack, workers)| json!({ "networkLocation": rack, "workers": workers }));
    json!({ "topologies": racks.collect::<Vec<_>>() })
}

/// Workers that are carrying out a command.
pub(super) fn worker_events(state: &State, now: Now) -> Value {
    let events = state.workers().iter().filter_map(|(worker, held)| {
        let standing = state.standing(worker).filter(|standing| standing.is_leaving())?;
        let kind = if standing == Standing::Stopping { "Graceful" } else { "Decommission" };
        Some(json!({
            "worker": worker_data(state, worker, held, now),
            "event": { "eventType": kind, "eventTime": held.heartbeat_unix_ms },
        }))
    });
    json!({ "workerEvents": events.collect::<Vec<_>>() })
}

/// The applications with their last heartbeats.
pub(super) fn applications(state: &State) -> Value {
    let applications = state.applications().iter().map(|(application, held)| {
        json!({ "appId": application.as_str(), "lastHeartbeatTimestamp": held.heartbeat_unix_ms })
    });
    json!({ "applications": applications.collect::<Vec<_>>() })
}

/// The applications with what they say about themselves.
pub(super) fn application_info(state: &State) -> Value {
    let applications = state.applications().iter().map(|(application, held)| {
        json!({
            "appId": application.as_str(),
            "userIdentifier": format!("`{}`.`{}`", held.user.tenant, held.user.name),
            "extraInfo": held.properties.iter().cloned().collect::<BTreeMap<_, _>>(),
            "registrationTime": held.registered_unix_ms,
        })
    });
    json!({ "applications": applications.collect::<Vec<_>>() })
}

/// The hosts of the drivers.
pub(super) fn hostnames(state: &State) -> Value {
    let shuffles = state.applications().values().flat_map(|held| held.shuffles.values());
    let hosts: BTreeSet<&str> = shuffles.filter_map(|shuffle| shuffle.driver.as_deref()).collect();
    json!({ "hostnames": hosts })
}

/// What the state has for Prometheus.
pub(super) fn metrics(state: &State, exposition: &mut Exposition) {
    let standings = || state.workers().keys().filter_map(|worker| state.standing(worker));
    let count = |wanted: &[Standing]| standings().filter(|standing| wanted.contains(standing)).count();
    let reports = || state.workers().values().map(|held| &held.report);
    let directories = || reports().flat_map(|report| &report.directories);
    exposition.gauge("WorkerCount", state.workers().len());
    exposition.gauge("LostWorkerCount", state.departed().values().filter(|gone| !gone.left).count());
    exposition.gauge("ExcludedWorkerCount", count(&EXCLUDED));
    exposition.gauge("AvailableWorkerCount", count(&[Standing::Available, Standing::Saturated]));
    exposition.gauge("ShutdownWorkerCount", count(&[Standing::Stopping]));
    exposition.gauge("DecommissionWorkerCount", count(&[Standing::Decommissioning]));
    exposition.gauge("RegisteredShuffleCount", state.shuffle_count());
    exposition.gauge("RunningApplicationCount", state.applications().len());
    exposition.gauge("ActiveShuffleSize", reports().map(|report| report.bytes_held()).sum::<u64>());
    exposition.gauge("ActiveShuffleFileCount", reports().map(|report| report.locations_held()).sum::<u64>());
    exposition.gauge("DeviceCelebornTotalBytes", directories().map(|d| d.bytes_total).sum::<u64>());
    exposition.gauge("DeviceCelebornFreeBytes", directories().map(|d| d.bytes_usable).sum::<u64>());
    let mut users: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for held in state.applications().values() {
        let user = users.entry((&held.user.tenant, &held.user.name)).or_default();
        user.0 = user.0.saturating_add(held.bytes_written);
        user.1 = user.1.saturating_add(held.files_written);
    }
    for ((tenant, name), (bytes, _)) in &users {
        exposition.gauge_of("diskBytesWritten", &[("tenantId", tenant), ("name", name)], bytes);
    }
    for ((tenant, name), (_, files)) in &users {
        exposition.gauge_of("diskFileCount", &[("tenantId", tenant), ("name", name)], files);
    }
}
