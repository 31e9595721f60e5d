//! A DataNode's HTTP: its storages, for people, programs and Prometheus.

use std::sync::Arc;

use serde::Serialize;
use yeoul_console::{Cell, Href, Page, STYLE, STYLE_PATH, Table, Tone};
use yeoul_net::http::{Response, Routes};
use yeoul_net::metrics::Exposition;

use super::transfer::Transfers;
use crate::display::{size, table};

/// The pages of a DataNode.
pub(super) struct DatanodePages {
    transfers: Arc<Transfers>,
    /// `host:port` for blocks.
    address: String,
}

/// What a DataNode has.
#[derive(Debug, Serialize)]
struct Status {
    address: String,
    uuid: String,
    pool: String,
    transfers: usize,
    damaged: usize,
    storages: Vec<Storage>,
}

/// A directory of a DataNode.
#[derive(Debug, Serialize)]
struct Storage {
    uuid: String,
    capacity: u64,
    used: u64,
    remaining: u64,
    failed: bool,
    blocks: usize,
}

impl DatanodePages {
    pub(super) fn new(transfers: Arc<Transfers>, address: String) -> Self {
        Self { transfers, address }
    }

    fn status(&self) -> Status {
        let store = &self.transfers.store;
        let storages = store.storages().into_iter().map(|storage| Storage {
            blocks: store.count(&storage.uuid),
            uuid: storage.uuid,
            capacity: storage.capacity,
            used: storage.used,
            remaining: storage.remaining,
            failed: storage.failed,
        });
        Status {
            address: self.address.clone(),
            uuid: store.datanode.clone(),
            pool: store.pool(),
            transfers: self.transfers.open(),
            damaged: store.damaged_count(),
            storages: storages.collect(),
        }
    }
}

/// The status for people.
fn text(status: &Status) -> String {
    let mut shown = table(&["storage", "state", "blocks", "used", "free", "size"], 2);
    for storage in &status.storages {
        shown.add_row([
            storage.uuid.clone(),
            if storage.failed { "failed" } else { "works" }.to_owned(),
            storage.blocks.to_string(),
            size(storage.used, true),
            size(storage.remaining, true),
            size(storage.capacity, true),
        ]);
    }
    let Status { address, uuid, pool, transfers, damaged, .. } = status;
    format!(
        "DataNode   {address}\nId         {uuid}\nPool       {pool}\nTransfers  {transfers}\nDamaged    {damaged}\n{shown}\n"
    )
}

/// The status as a page.
fn page(status: &Status, path: &'static str, query: &str) -> Page {
    let page = Page::new(format!("DataNode {}", status.address), "Yeoul dfs")
        .refreshing(path, query)
        .link("Status (JSON)", Href::local("/api/v1/status", &[]))
        .link("Metrics", Href::local("/metrics/prometheus", &[]))
        .link("Health", Href::local("/healthz", &[]));
    let mut table = Table::new("Storages", &["Storage", "State", "Blocks", "Blocks' bytes", "Free", "Size"])
        .or_say("It has no storage.");
    let rows = status.storages.iter().map(|storage| {
        let (tone, state) = if storage.failed { (Tone::Bad, "failed") } else { (Tone::Good, "works") };
        vec![
            Cell::text(&storage.uuid),
            Cell::state(tone, state),
            Cell::number(storage.blocks as u64),
            Cell::bytes(storage.used),
            Cell::bytes(storage.remaining),
            Cell::bytes(storage.capacity),
        ]
    });
    table.fill(status.storages.len(), rows);
    let damaged = match status.damaged {
        0 => Cell::number(0),
        damaged => Cell::state(Tone::Bad, damaged.to_string()),
    };
    let blocks = status.storages.iter().map(|storage| storage.blocks as u64).sum();
    let figures = [
        ("Blocks", Cell::number(blocks)),
        ("Transfers", Cell::number(status.transfers as u64)),
        ("Damaged blocks", damaged),
        ("Block pool", Cell::text(&status.pool)),
        ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
    ];
    page.figures(figures).table(table)
}

/// Name and meaning of a number of each storage.
type Gauge = (&'static str, &'static str, fn(&Storage) -> u64);

fn metrics(status: &Status) -> String {
    let mut exposition = Exposition::new(&[]);
    let what = "blocks that are written or read now";
    exposition.gauge("data_node_active_transfers", what, &[], status.transfers);
    let what = "blocks that are known to be damaged and have yet to be deleted";
    exposition.gauge("data_node_damaged_blocks", what, &[], status.damaged);
    let gauges: [Gauge; 5] = [
        ("capacity", "bytes of the storage", |storage| storage.capacity),
        ("used", "bytes of blocks", |storage| storage.used),
        ("remaining", "bytes that new blocks may take", |storage| storage.remaining),
        ("blocks", "blocks and internal blocks", |storage| storage.blocks as u64),
        ("failed", "1 if the disk has failed, else 0", |storage| u64::from(storage.failed)),
    ];
    for (name, what, value) in gauges {
        for storage in &status.storages {
            let labels = [("storage", storage.uuid.as_str())];
            exposition.gauge(&format!("fs_dataset_{name}"), what, &labels, value(storage));
        }
    }
    exposition.process();
    exposition.finish()
}

impl Routes for DatanodePages {
    const LIST: &'static str = "\
GET  /status              the storages, and what is under way
GET  /api/v1/status       the same for programs
GET  /metrics/prometheus  numbers for Prometheus
GET  /healthz             200, or 503 if every storage has failed
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        let path = ["/", "/status"].into_iter().find(|known| *known == path)?;
        Some(Response::html(200, page(&self.status(), path, query).render()))
    }

    fn get(&self, path: &str, _query: &str) -> Option<Response> {
        let status = self.status();
        Some(match path {
            "/status" => Response::text(200, text(&status)),
            "/api/v1/status" => match serde_json::to_value(&status) {
                Ok(value) => Response::json(200, &value),
                Err(error) => Response::text(500, format!("{error}\n")),
            },
            STYLE_PATH => Response::css(STYLE),
            "/metrics/prometheus" => Response::text(200, metrics(&status)),
            "/healthz" if status.storages.iter().all(|storage| storage.failed) => {
                Response::text(503, "every storage has failed\n")
            }
            "/healthz" => Response::text(200, "ok\n"),
            _ => return None,
        })
    }

    async fn post(&self, _path: &str, _body: &[u8]) -> Option<Result<Response, Response>> {
        None
    }
}
