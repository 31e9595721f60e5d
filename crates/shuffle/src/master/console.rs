//! The master's page for people: workers, applications and shuffles, the ones that need a look first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use yeoul_console::{Cell, Href, Page, ROWS_MAX, Table, Tone};

use super::state::{Application, Held, Now, Standing, State, Worker};
use crate::ids::{ApplicationId, WorkerId};
use crate::report::{Directory, Health};

/// Shuffles among which the newest are looked for.
const SHUFFLES_SORTED_MAX: usize = 100 * ROWS_MAX;
/// Seconds of silence after which a worker's last heartbeat is marked: several heartbeats.
const SILENCE_S_MAX: u64 = 30;

/// The page of a leading master that listens at `address`; `fault` is what is wrong with its journal.
pub(super) fn page(state: &State, now: Now, address: &str, fault: Option<&str>, query: &str) -> Page {
    let mut page = Page::new(format!("Master {address}"), "Yeoul shuffle")
        .refreshing("/", query)
        .link("Workers (JSON)", Href::local("/api/v1/workers", &[]))
        .link("Applications (JSON)", Href::local("/api/v1/applications/info", &[]))
        .link("Shuffles (JSON)", Href::local("/api/v1/shuffles", &[]))
        .link("Settings (JSON)", Href::local("/api/v1/conf", &[]))
        .link("Metrics", Href::local("/metrics/prometheus", &[]))
        .link("Health", Href::local("/healthz", &[]));
    if let Some(fault) = fault {
        page = page.notice(Tone::Bad, format!("The journal does not keep records: {fault}"));
    }
    if state.workers().is_empty() {
        page = page.notice(Tone::Warning, "No worker has registered: no shuffle can be written.");
    } else if !state.has_available_worker() {
        page = page.notice(Tone::Warning, "No worker is available: see the state of each below.");
    }
    let mut page = page.figures(totals(state)).table(workers(state, now));
    if !state.departed().is_empty() {
        page = page.table(departed(state, now));
    }
    page.table(applications(state, now)).table(shuffles(state, now))
}

fn totals(state: &State) -> [(&'static str, Cell); 7] {
    let workers = state.workers();
    let held = workers.values().fold(Held::default(), |all, worker| all.plus(worker.held_of_all()));
    let directories = || workers.values().flat_map(|worker| &worker.report.directories);
    let sum = |of: fn(&Directory) -> u64| directories().map(of).fold(0, u64::saturating_add);
    let total = sum(|directory| directory.bytes_total);
    let used = total.saturating_sub(sum(|directory| directory.bytes_usable));
    let count = |count: usize| Cell::number(count as u64);
    [
        ("Workers available", Cell::text(format!("{} of {}", state.workers_available(), workers.len()))),
        ("Applications", count(state.applications().len())),
        ("Shuffles", count(state.shuffle_count())),
        ("Shuffle data", Cell::bytes(held.bytes)),
        ("Locations", Cell::number(held.locations)),
        ("Disk in use", Cell::space(used, total)),
        ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
    ]
}

/// The workers, the worst standing first.
fn workers(state: &State, now: Now) -> Table {
    let mut table = Table::new(
        "Workers",
        &["Worker", "State", "Last heartbeat", "Disks", "Memory", "Data", "Locations", "Rack", "Version"],
    )
    .or_say("No worker has registered.");
    let mut workers: Vec<(Option<Standing>, &WorkerId, &Worker)> =
        state.workers().iter().map(|(id, worker)| (state.standing(id), id, worker)).collect();
    workers.sort_by_key(|(standing, _, _)| Reverse(*standing));
    let row = |(standing, id, worker): &(Option<Standing>, &WorkerId, &Worker)| {
        let report = &worker.report;
        let held = worker.held_of_all();
        let name = format!("{}:{}", id.host, id.rpc_port);
        let (tone, text) = standing.map_or((Tone::Bad, "unknown"), stands);
        vec![
            Cell::link(name, Href::server(&id.host, worker.http_port)),
            Cell::state(tone, text),
            heartbeat(worker, now),
            Cell::lines(report.directories.iter().map(disk)),
            Cell::space(report.memory_used_bytes, report.memory_limit_bytes),
            Cell::bytes(held.bytes),
            Cell::number(held.locations.saturating_add(worker.locations_granted)),
            Cell::text(&worker.network_location),
            Cell::text(&worker.version),
        ]
    };
    table.fill(workers.len(), workers.iter().map(row));
    table
}

fn heartbeat(worker: &Worker, now: Now) -> Cell {
    if worker.heartbeat_unix_ms == 0 {
        return Cell::state(Tone::Warning, "not since the start");
    }
    let silent_s = worker.silent_for(now).as_secs();
    match silent_s > SILENCE_S_MAX {
        true => Cell::state(Tone::Warning, format!("{silent_s} s ago")),
        false => Cell::ago(worker.heartbeat_unix_ms, now.unix_ms),
    }
}

/// The state of a worker in words, and how much it matters.
fn stands(standing: Standing) -> (Tone, &'static str) {
    match standing {
        Standing::Available => (Tone::Good, "available"),
        Standing::Saturated => (Tone::Warning, "saturated"),
        Standing::Unconfirmed => (Tone::Warning, "not heard yet"),
        Standing::Unreached => (Tone::Bad, "not reached"),
        Standing::WithoutStorage => (Tone::Bad, "no storage"),
        Standing::ExcludedByHand => (Tone::Plain, "excluded"),
        Standing::Stopping => (Tone::Plain, "stopping"),
        Standing::Decommissioning => (Tone::Plain, "decommissioning"),
    }
}

/// A directory of a worker: its path, its health if that is not good, and its space.
fn disk(directory: &Directory) -> Cell {
    let used = directory.bytes_total.saturating_sub(directory.bytes_usable);
    let health = match directory.health {
        Health::Healthy => None,
        Health::Full => Some(Cell::state(Tone::Warning, "full")),
        Health::Failed => Some(Cell::state(Tone::Bad, "failed")),
    };
    let space = Cell::space(used, directory.bytes_total);
    Cell::lines([Some(Cell::text(&directory.path)), health, Some(space)].into_iter().flatten())
}

fn departed(state: &State, now: Now) -> Table {
    let mut table = Table::new("Workers that are gone", &["Worker", "How", "When"]);
    let mut gone: Vec<_> = state.departed().iter().collect();
    gone.sort_by_key(|(_, departure)| (departure.left, Reverse(departure.at_unix_ms)));
    let row = |(id, departure): &(&WorkerId, &super::state::Departure)| {
        let how = match departure.left {
            true => Cell::state(Tone::Plain, "left"),
            false => Cell::state(Tone::Bad, "lost"),
        };
        vec![
            Cell::text(format!("{}:{}", id.host, id.rpc_port)),
            how,
            Cell::ago(departure.at_unix_ms, now.unix_ms),
        ]
    };
    table.fill(gone.len(), gone.iter().map(row));
    table
}

/// The applications, those that have most on the workers first.
fn applications(state: &State, now: Now) -> Table {
    let mut table = Table::new(
        "Applications",
        &["Application", "User", "Data", "Locations", "Shuffles", "Registered", "Last heartbeat"],
    )
    .or_say("No application is running.");
    let mut held: BTreeMap<&ApplicationId, Held> = BTreeMap::new();
    for (application, of_one) in state.workers().values().flat_map(Worker::held) {
        let all = held.entry(application).or_default();
        *all = all.plus(of_one);
    }
    let of = |id: &ApplicationId| held.get(id).copied().unwrap_or_default();
    let mut known: Vec<(&ApplicationId, &Application)> = state.applications().iter().collect();
    known.sort_by_key(|(id, application)| Reverse((of(id).bytes, application.registered_unix_ms)));
    let row = |(id, application): &(&ApplicationId, &Application)| {
        let held = of(id);
        let user = &application.user;
        vec![
            Cell::text(id.as_str()),
            Cell::text(format!("{}/{}", user.tenant, user.name)),
            Cell::bytes(held.bytes),
            Cell::number(held.locations),
            Cell::number(application.shuffles.len() as u64),
            Cell::ago(application.registered_unix_ms, now.unix_ms),
            Cell::ago(application.heartbeat_unix_ms, now.unix_ms),
        ]
    };
    table.fill(known.len(), known.iter().map(row));
    table
}

/// The shuffles that were registered last, of those that the table has room for.
fn shuffles(state: &State, now: Now) -> Table {
    let mut table = Table::new("Shuffles", &["Application", "Shuffle", "Driver", "Registered"])
        .or_say("No shuffle is registered.");
    // Numbers grow within an application: its last ones are its newest, and no more than fit are looked at.
    let newest = state.applications().iter().flat_map(|(application, known)| {
        known.shuffles.iter().rev().take(ROWS_MAX).map(move |(id, shuffle)| (application, id, shuffle))
    });
    let mut newest: Vec<_> = newest.take(SHUFFLES_SORTED_MAX).collect();
    newest.sort_by_key(|(_, _, shuffle)| Reverse(shuffle.registered_unix_ms));
    let rows = newest.iter().map(|(application, id, shuffle)| {
        vec![
            Cell::text(application.as_str()),
            Cell::number(u64::try_from(id.0).unwrap_or_default()),
            Cell::text(shuffle.driver.as_deref().unwrap_or_default()),
            Cell::ago(shuffle.registered_unix_ms, now.unix_ms),
        ]
    });
    table.fill(state.shuffle_count(), rows);
    table
}

#[cfg(test)]
mod tests {
    use super::super::record::User;
    use super::super::state::scene::{at, id, registration, state_of};
    use super::super::state::{ApplicationRegistration, Limits};
    use super::*;
    use crate::ids::ShuffleId;
    use crate::report::{HeldShuffle, Registration, Report};

    const HOSTILE: &str = "<script>alert(1)</script>\"'&";

    /// A report of a directory and of a shuffle of an application.
    fn report(path: &str, health: Health, application: &str) -> Report {
        let path = path.to_owned();
        let directory = Directory { path, bytes_total: 100 << 30, bytes_usable: 40 << 30, health };
        let shuffle = crate::ids::ShuffleKey::new(application, 3);
        let held = HeldShuffle { shuffle, locations: 5, bytes: 7 << 20 };
        Report { directories: vec![directory], shuffles: vec![held], ..Report::default() }
    }

    #[test]
    fn what_peers_call_themselves_is_shown_and_is_no_markup() {
        let mut state = state_of(0);
        let user = User { tenant: HOSTILE.to_owned(), name: HOSTILE.to_owned() };
        let properties = vec![(HOSTILE.to_owned(), HOSTILE.to_owned())];
        let registered =
            ApplicationRegistration { user, properties, ..ApplicationRegistration::of(HOSTILE.into()) };
        assert!(state.register_application(at(0), registered).reply.is_ok());
        assert_eq!(state.revise_shuffles(at(0), &HOSTILE.into(), &[ShuffleId(3)]).reply, Ok(()));
        let report = report(HOSTILE, Health::Failed, HOSTILE);
        let worker = Registration {
            report,
            http_port: 99,
            network_location: HOSTILE.to_owned(),
            version: HOSTILE.to_owned(),
            ..registration(id(1), 1)
        };
        assert!(state.register_worker(at(0), 1, worker).reply);
        let html = page(&state, at(1), HOSTILE, Some(HOSTILE), "").render();
        assert!(!html.contains("<script"), "{html}");
        let shown = html.matches("&lt;script&gt;").count();
        assert_eq!(shown, 2 + 1 + 3 + 3 + 1, "title, notice, worker, application, shuffle: {html}");
        for expected in
            ["no storage", "failed", "7 MiB", "60 GiB of 100 GiB", &format!("http://{}:99/", id(1).host)]
        {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn the_worst_workers_come_first_and_the_others_are_counted() {
        let mut state = state_of(0);
        let workers = u16::try_from(ROWS_MAX).unwrap() + 7;
        for number in 1..=workers {
            // The last one has lost its disk.
            let health = if number == workers { Health::Failed } else { Health::Healthy };
            let worker = Registration {
                report: report("/d", health, "app"),
                ..registration(id(number), number.into())
            };
            assert!(state.register_worker(at(0), number.into(), worker).reply);
        }
        let html = page(&state, at(1), "here", None, "").render();
        assert!(html.contains("7 more are not shown."), "{html}");
        let first = html.find("no storage").expect("it is among those shown");
        assert!(first < html.find("class=\"state good\"").unwrap());
    }

    #[test]
    fn a_page_of_a_great_cluster_is_small() {
        let limits = Limits::default();
        let mut state = state_of(0);
        for number in 0..1000 {
            let registered = ApplicationRegistration::of(format!("application-{number}").as_str().into());
            assert!(state.register_application(at(0), registered).reply.is_ok());
            let ids: Vec<ShuffleId> = (0..50).map(ShuffleId).collect();
            let application = format!("application-{number}").as_str().into();
            assert_eq!(state.revise_shuffles(at(0), &application, &ids).reply, Ok(()));
        }
        assert!(state.shuffle_count() < limits.shuffles_max);
        let html = page(&state, at(1), "here", None, "").render();
        assert!(html.len() < 512 << 10, "{} bytes", html.len());
        assert!(html.contains("49,800 more are not shown."), "of the shuffles");
        assert!(html.contains("No worker has registered"));
    }
}
