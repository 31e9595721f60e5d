//! The state as the HTTP API and the metrics show it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use imbl::OrdMap;
use serde_json::{Value, json};
use yeoul_net::http::Response;

use super::state::{Application, Held, Now, Standing, State, Worker};
use crate::api::{self, worker_name};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::metrics::Exposition;

/// The standings that Celeborn calls excluded, whatever the reason.
const EXCLUDED: [Standing; 3] = [Standing::Unreached, Standing::WithoutStorage, Standing::ExcludedByHand];

/// Applications that one piece of a long list has: some KiB, as every peer that reads slowly makes one wait.
const PIECE_APPLICATIONS: usize = 16;

/// Shuffles that one piece of a long list has, for the same reason.
const PIECE_SHUFFLES: usize = 64;

/// The applications as they were at one moment. A long list is made of it while it is read, however slowly: it shares with the
/// state what has not changed since.
pub(super) struct Applications(OrdMap<ApplicationId, Application>);

impl Applications {
    pub(super) fn of(state: &State) -> Self {
        Self(state.applications().clone())
    }

    /// A list of something of each application.
    pub(super) fn list(
        self,
        shown: impl Fn(&ApplicationId, &Application) -> Value + Send + 'static,
    ) -> Response {
        let mut last: Option<ApplicationId> = None;
        api::list("applications", move || {
            let behind = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.0.range::<_, ApplicationId>((behind, Bound::Unbounded)).take(PIECE_APPLICATIONS);
            let (ids, items): (Vec<_>, Vec<_>) = next.map(|(id, held)| (id.clone(), shown(id, held))).unzip();
            last = ids.into_iter().next_back().or(last.take());
            items
        })
    }

    /// All registered shuffles.
    pub(super) fn shuffles(self) -> Response {
        let mut last: Option<(ApplicationId, ShuffleId)> = None;
        api::list("shuffleIds", move || {
            let from =
                last.as_ref().map_or(Bound::Unbounded, |(application, _)| Bound::Included(application));
            let keys =
                self.0.range::<_, ApplicationId>((from, Bound::Unbounded)).flat_map(|(application, held)| {
                    let behind = match &last {
                        Some((at, shuffle)) if at == application => Bound::Excluded(*shuffle),
                        _ => Bound::Unbounded,
                    };
                    let shuffles =
                        held.shuffles.range((behind, Bound::Unbounded)).map(|(shuffle, _)| *shuffle);
                    shuffles.map(|shuffle| ShuffleKey { application: application.clone(), shuffle })
                });
            let keys: Vec<ShuffleKey> = keys.take(PIECE_SHUFFLES).collect();
            let items = keys.iter().map(|key| key.to_string().into()).collect();
            last = keys.into_iter().next_back().map(|key| (key.application, key.shuffle)).or(last.take());
            items
        })
    }
}

/// The only master, described as a group of masters.
pub(super) fn masters(address: &str) -> Value {
    json!({
        "groupId": "yeoul",
        "leader": { "id": address, "address": address },
        "masterCommitInfo": [{
            "commitIndex": 0, "id": address, "address": address, "clientAddress": address, "startUpRole": "LEADER",
        }],
    })
}

/// All workers, and the workers in each standing.
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
    let known_or_not = |worker: &WorkerId| match state.workers().get(worker) {
        Some(held) => data(worker, held),
        None => Value::Object(worker_name(worker)),
    };
    let by_hand = state.excluded_by_hand().iter().map(known_or_not);
    let staying = state.staying_by_hand().iter().map(known_or_not);
    // An absent worker is told when it comes back.
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
        // Not among Celeborn's lists: workers that are told to stay when they come back.
        "recommissioningWorkers": staying.collect::<Vec<_>>(),
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
    let held_of_all = held.held_of_all();
    let slots = held_of_all.locations.saturating_add(held.locations_granted);
    let mut fields = api::worker(worker, state_name, slots, directories.collect());
    let more = [
        ("lastHeartbeatTimestamp", json!(held.heartbeat_unix_ms)),
        ("heartbeatElapsedSeconds", json!(held.silent_for(now).as_secs())),
        ("networkLocation", json!(held.network_location)),
        // Not among Celeborn's fields:
        ("standing", json!(standing.map(|standing| format!("{standing:?}")))),
        ("httpPort", json!(held.http_port)),
        ("version", json!(held.version)),
        ("memoryUsedBytes", json!(report.memory_used_bytes)),
        ("memoryLimitBytes", json!(report.memory_limit_bytes)),
        ("bytesHeld", json!(held_of_all.bytes)),
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

/// An application with its last heartbeat.
pub(super) fn application(application: &ApplicationId, held: &Application) -> Value {
    json!({ "appId": application.as_str(), "lastHeartbeatTimestamp": held.heartbeat_unix_ms })
}

/// An application with what it tells about itself.
pub(super) fn application_info(application: &ApplicationId, held: &Application) -> Value {
    json!({
        "appId": application.as_str(),
        "userIdentifier": format!("`{}`.`{}`", held.user.tenant, held.user.name),
        "extraInfo": held.properties.iter().cloned().collect::<BTreeMap<_, _>>(),
        "registrationTime": held.registered_unix_ms,
    })
}

/// The hosts of the drivers.
pub(super) fn hostnames(state: &State) -> Value {
    let shuffles = state.applications().values().flat_map(|held| held.shuffles.values());
    let hosts: BTreeSet<&str> = shuffles.filter_map(|shuffle| shuffle.driver.as_deref()).collect();
    json!({ "hostnames": hosts })
}

/// The state's metrics for Prometheus.
pub(super) fn metrics(state: &State, exposition: &mut Exposition) {
    let standings = || state.workers().keys().filter_map(|worker| state.standing(worker));
    let count = |wanted: &[Standing]| standings().filter(|standing| wanted.contains(standing)).count();
    let reports = || state.workers().values().map(|held| &held.report);
    let directories = || reports().flat_map(|report| &report.directories);
    let lost = state.departed().values().filter(|gone| !gone.left).count();
    let available = count(&[Standing::Available, Standing::Saturated]);
    let active = state.workers().values().fold(Held::default(), |all, worker| all.plus(worker.held_of_all()));
    let (total, usable) =
        (sum(directories().map(|d| d.bytes_total)), sum(directories().map(|d| d.bytes_usable)));
    let mut gauge = |name: &str, what: &str, value: u64| exposition.gauge(name, what, value);
    let len = |count: usize| count as u64;
    gauge("WorkerCount", "workers that are registered", len(state.workers().len()));
    gauge("LostWorkerCount", "workers that fell silent and have not come back", len(lost));
    gauge(
        "ExcludedWorkerCount",
        "workers left out: by hand, not reached, or without storage",
        len(count(&EXCLUDED)),
    );
    gauge("AvailableWorkerCount", "workers that may be given partitions", len(available));
    gauge("ShutdownWorkerCount", "workers that are stopping", len(count(&[Standing::Stopping])));
    gauge(
        "DecommissionWorkerCount",
        "workers that are leaving for good",
        len(count(&[Standing::Decommissioning])),
    );
    gauge("RegisteredShuffleCount", "shuffles", len(state.shuffle_count()));
    gauge("RunningApplicationCount", "applications", len(state.applications().len()));
    gauge("ActiveShuffleSize", "bytes of the batches that workers hold", active.bytes);
    gauge("ActiveShuffleFileCount", "partition locations that workers hold", active.locations);
    gauge(
        "PartitionSize",
        "mean bytes of a partition location that workers hold",
        active.bytes / active.locations.max(1),
    );
    gauge("DeviceCelebornTotalBytes", "bytes of the file systems of the workers' directories", total);
    gauge("DeviceCelebornFreeBytes", "bytes that may still be stored in the workers' directories", usable);
    // What workers hold now, as Celeborn counts it. Drivers report the bytes written since their last heartbeats, a count
    // that never falls and may arrive twice.
    let mut users: BTreeMap<(&str, &str), Held> =
        state.applications().values().map(|known| (user(known), Held::default())).collect();
    for (application, held) in state.workers().values().flat_map(Worker::held) {
        let Some(application) = state.applications().get(application) else { continue };
        let all = users.entry(user(application)).or_default();
        *all = all.plus(held);
    }
    let mut of_each = |name: &str, what: &str, of: fn(&Held) -> u64| {
        for ((tenant, user), held) in &users {
            exposition.gauge_of(name, what, &[("tenantId", tenant), ("name", user)], of(held));
        }
    };
    of_each("diskBytesWritten", "bytes of a user's batches that workers hold", |held| held.bytes);
    of_each("diskFileCount", "partition locations of a user that workers hold", |held| held.locations);
}

fn user(application: &Application) -> (&str, &str) {
    (&application.user.tenant, &application.user.name)
}

/// The sum; it saturates, because workers may report any number.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::super::record::User;
    use super::super::state::scene::{NEWEST, at, id, registration, run, state_of};
    use super::super::state::{ApplicationRegistration, Limits};
    use super::*;
    use crate::ids::ShuffleId;
    use crate::report::{Command, Directory, Health, HeldShuffle, Registration, Report};

    /// A worker reports what it holds: shuffles of applications by name, with locations and bytes.
    fn report(state: &mut State, worker: u16, held: &[(&str, u64, u64)]) {
        let shuffle = |(number, held): (usize, &(&str, u64, u64))| {
            let (application, locations, bytes) = *held;
            HeldShuffle { shuffle: ShuffleKey::new(application, number as i32), locations, bytes }
        };
        let path = "/d".to_owned();
        let (bytes_total, bytes_usable) = (u64::MAX, u64::MAX);
        let directory = Directory { path, bytes_total, bytes_usable, health: Health::Healthy };
        let shuffles = held.iter().enumerate().map(shuffle).collect();
        let report = Report { shuffles, directories: vec![directory], ..Report::default() };
        let registered = Registration { report, ..registration(id(worker), worker.into()) };
        assert!(state.register_worker(at(0), worker.into(), registered).reply);
    }

    fn shown(state: &State, name: &str) -> Vec<(String, u64)> {
        let mut exposition = Exposition::new("Master");
        metrics(state, &mut exposition);
        let text = exposition.finish();
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("metrics_{name}_Value{{")));
        let read = |line: &str| {
            let (labels, value) = line.split_once("} ").unwrap();
            (labels.rsplit_once("name=").map_or("", |(_, user)| user).to_owned(), value.parse().unwrap())
        };
        lines.map(read).collect()
    }

    #[test]
    fn what_users_hold_is_what_workers_say_now() {
        let mut state = state_of(0);
        for (application, name) in [("first", "a"), ("second", "b"), ("third", "a"), ("fourth", "c")] {
            let user = User { tenant: "t".to_owned(), name: name.to_owned() };
            let registered =
                ApplicationRegistration { user, ..ApplicationRegistration::of(application.into()) };
            assert!(state.register_application(at(0), registered).reply.is_ok());
        }
        report(&mut state, 0, &[("first", 2, 20), ("second", 3, 30), ("nobody's", 4, 40)]);
        report(&mut state, 1, &[("first", 5, 50), ("third", 6, 60)]);
        let of = |a, b, c| [("a", a), ("b", b), ("c", c)].map(|(name, count)| (format!("{name:?}"), count));
        assert_eq!(shown(&state, "diskBytesWritten"), of(130, 30, 0));
        assert_eq!(shown(&state, "diskFileCount"), of(13, 3, 0));
        report(&mut state, 1, &[]);
        assert_eq!(shown(&state, "diskBytesWritten"), of(20, 30, 0), "it falls");
        report(&mut state, 0, &[("first", u64::MAX, u64::MAX), ("third", 1, 1)]);
        assert_eq!(shown(&state, "diskBytesWritten"), of(u64::MAX, 0, 0));
        report(&mut state, 0, &[("first", 2, 20), ("first", 3, 0)]);
        assert_eq!(shown(&state, "diskFileCount"), of(5, 0, 0), "places without bytes count");
        let _ = state.unregister_shuffles(at(1), &"first".into(), &[ShuffleId(0)]);
        let orders = state.worker_orders(NEWEST, &id(0), 0, 0).unwrap().expect("a deletion");
        assert_eq!(state.worker_orders(NEWEST, &id(0), 0, orders.sequence), Ok(None));
        assert_eq!(shown(&state, "diskFileCount"), of(3, 0, 0), "it has deleted the other one");
        report(&mut state, 0, &[("first", u64::MAX, u64::MAX), ("third", 1, 1)]);
        report(&mut state, 1, &[("second", 1, 1)]);
        for name in ["ActiveShuffleSize", "DeviceCelebornTotalBytes", "DeviceCelebornFreeBytes"] {
            assert_eq!(shown(&state, name)[0].1, u64::MAX, "{name}");
        }
    }

    #[test]
    fn a_worker_told_to_stay_is_shown_until_it_does_or_is_forgotten() {
        let mut state = state_of(2);
        for command in [Command::Decommission, Command::Recommission] {
            assert!(state.command_workers(at(0), command, &[id(0), id(1)]).reply.is_ok());
        }
        let shown = |state: &State| {
            let shown = workers(state, at(0))["recommissioningWorkers"].clone();
            let shown = shown.as_array().unwrap().iter();
            shown
                .map(|worker| (worker["rpcPort"].as_u64(), worker.get("standing").is_some()))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&state), [(Some(0), true), (Some(1), true)]);
        let sequence = state.worker_orders(NEWEST, &id(1), 1, 0).unwrap().expect("an order").sequence;
        assert_eq!(state.worker_orders(NEWEST, &id(1), 1, sequence), Ok(None));
        assert!(state.worker_heartbeat(at(1), 1, &id(1), 1, Report::default()).reply.is_ok());
        assert_eq!(shown(&state), [(Some(0), true)], "the other one works");
        let lost = Limits::default().worker_timeout.as_secs() + 5;
        run(&mut state, 0..=lost);
        assert_eq!(shown(&state), [(Some(0), false)], "it is not there");
        let _ = state.forget_departed(at(lost), &[id(0)]);
        assert_eq!(shown(&state), []);
    }
}
