//! A worker's page for people: its disks, its memory, and the shuffles that it has.

use std::cmp::Reverse;
use std::sync::Arc;

use yeoul_console::{Cell, Href, Page, ROWS_MAX, Table, Tone};

use super::node::Node;
use super::store::shuffle::Shuffle;
use super::view;
use crate::report::{Directory, Health, Phase};

/// The page of a worker.
pub(super) fn page(node: &Node, query: &str) -> Page {
    let page = Page::new(format!("Worker {}:{}", node.id.host, node.id.rpc_port), "Yeoul shuffle")
        .refreshing("/", query)
        .link("Worker (JSON)", Href::local("/api/v1/workers", &[]))
        .link("Shuffles (JSON)", Href::local("/api/v1/shuffles", &[]))
        .link("Settings (JSON)", Href::local("/api/v1/conf", &[]))
        .link("Metrics", Href::local("/metrics/prometheus", &[]))
        .link("Health", Href::local("/healthz", &[]));
    let page = match view::ailment(node) {
        Some(ailment) => page.notice(Tone::Warning, format!("It takes no shuffles: {ailment}.")),
        None => page,
    };
    let shuffles = node.store.all();
    page.figures(totals(node, &shuffles)).table(disks(node)).table(table(shuffles))
}

fn totals(node: &Node, shuffles: &[Arc<Shuffle>]) -> [(&'static str, Cell); 9] {
    let state = match (node.phase(), node.is_registered()) {
        (Phase::Stopping, _) => Cell::state(Tone::Plain, "stopping"),
        (Phase::Decommissioning, _) => Cell::state(Tone::Plain, "decommissioning"),
        (Phase::Normal, true) => Cell::state(Tone::Good, "registered"),
        (Phase::Normal, false) => Cell::state(Tone::Bad, "not registered"),
    };
    let memory = node.store.memory();
    let masters = &node.options.masters;
    [
        ("State", state),
        ("Memory", Cell::space(memory.used(), memory.limit())),
        ("Shuffles", Cell::number(shuffles.len() as u64)),
        ("Locations that take pushes", Cell::number(node.open_locations() as u64)),
        ("Streams of readers", Cell::number(node.streams.len() as u64)),
        ("Taken since the start", Cell::bytes(node.appended())),
        ("Rack", Cell::text(&node.options.network_location)),
        ("Master", Cell::lines(masters.iter().map(Cell::text))),
        ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
    ]
}

fn disks(node: &Node) -> Table {
    let mut table = Table::new("Disks", &["Directory", "State", "Used", "Free for batches"])
        .or_say("No directory: batches stay in memory.");
    let volumes = node.store.directories();
    let rows = volumes.iter().map(|volume| {
        let directory = Directory {
            path: volume.root().display().to_string(),
            bytes_total: volume.total(),
            bytes_usable: volume.usable(),
            health: volume.health(),
        };
        let state = match directory.health {
            Health::Healthy => Cell::state(Tone::Good, "healthy"),
            Health::Full => Cell::state(Tone::Warning, "full"),
            Health::Failed => Cell::state(Tone::Bad, "failed"),
        };
        let used = directory.bytes_total.saturating_sub(directory.bytes_usable);
        vec![
            Cell::text(directory.path),
            state,
            Cell::space(used, directory.bytes_total),
            Cell::bytes(directory.bytes_usable),
        ]
    });
    table.fill(volumes.len(), rows);
    table
}

/// The shuffles, those with most bytes first.
fn table(shuffles: Vec<Arc<Shuffle>>) -> Table {
    let mut table =
        Table::new("Shuffles", &["Shuffle", "Data", "In memory", "Locations", "Taking pushes", "Partitions"])
            .or_say("It has nothing of any shuffle.");
    let total = shuffles.len();
    let sized = shuffles.into_iter().map(|shuffle| {
        let bytes = shuffle.lock().bytes();
        (bytes, shuffle)
    });
    let mut sized: Vec<(u64, Arc<Shuffle>)> = sized.collect();
    sized.sort_by_key(|(bytes, _)| Reverse(*bytes));
    sized.truncate(ROWS_MAX);
    let rows = sized.iter().map(|(bytes, shuffle)| {
        let key = shuffle.key().to_string();
        let partitions = Href::local("/api/v1/shuffles/partitions", &[("shuffle", &key)]);
        let contents = shuffle.lock();
        vec![
            Cell::text(&key),
            Cell::bytes(*bytes),
            Cell::bytes(shuffle.resident()),
            Cell::number(contents.state.len() as u64),
            Cell::number(contents.state.open_locations() as u64),
            Cell::link("JSON", Some(partitions)),
        ]
    });
    table.fill(total, rows);
    table
}

#[cfg(test)]
mod tests {
    use super::super::node::tests::{committed, node};
    use super::*;
    use crate::ids::{FileName, LocationId, Mode, ShuffleKey};

    #[tokio::test]
    async fn a_worker_shows_its_disks_and_what_it_holds_and_no_name_is_markup() {
        let place = tempfile::tempdir().unwrap();
        let node = node(&place);
        let key = ShuffleKey::new("<script>alert(1)</script>", 4);
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let _shuffle = committed(&node, &key, file);
        let html = page(&node, "").render();
        assert!(
            !html.contains("<script") && html.contains("&lt;script&gt;alert(1)&lt;/script&gt;-4"),
            "{html}"
        );
        assert!(html.contains("no master knows the worker") && html.contains("not registered"), "{html}");
        assert!(html.contains(&*place.path().to_string_lossy()) && html.contains("healthy"), "{html}");
        assert!(html.contains("shuffle=%3Cscript%3Ealert%281%29%3C%2Fscript%3E-4"), "{html}");
    }
}
