//! A DataNode's HTTP: its storages, for people, programs and Prometheus.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use yeoul_console::{Cell, Href, Page, STYLE, STYLE_PATH, Table, Tone};
use yeoul_net::http::{Response, Routes};
use yeoul_net::metrics::Exposition;

use super::transfer::Transfers;
use crate::beans::{self, Bean};
use crate::display::{size, table};

/// The pages of a DataNode.
pub(super) struct DatanodePages {
    transfers: Arc<Transfers>,
    own: Own,
}

/// What a DataNode's pages say of it beside its storages.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// `host:port` for blocks.
    pub address: String,
    /// The port for calls.
    pub ipc_port: u16,
    /// Its NameNodes.
    pub namenodes: Vec<String>,
    /// Milliseconds since 1970 at which it was started.
    pub started_ms: u64,
}

/// What a DataNode has.
#[derive(Debug, Serialize)]
struct Status {
    address: String,
    uuid: String,
    pool: String,
    transfers: usize,
    /// Replicas that a balancer moves to or from here.
    moves: usize,
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
    pub(super) fn new(transfers: Arc<Transfers>, own: Own) -> Self {
        Self { transfers, own }
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
            address: self.own.address.clone(),
            uuid: store.datanode.clone(),
            pool: store.pool(),
            transfers: self.transfers.open(),
            moves: self.transfers.moves.open(),
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
    let Status { address, uuid, pool, transfers, moves, damaged, .. } = status;
    format!(
        "DataNode   {address}\nId         {uuid}\nPool       {pool}\nTransfers  {transfers}\nMoves      {moves}\nDamaged    {damaged}\n{shown}\n"
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
        ("Moves of a balancer", Cell::number(status.moves as u64)),
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
    let what = "replicas that a balancer moves to or from here now";
    exposition.gauge("data_node_active_moves", what, &[], status.moves);
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

/// The beans of a DataNode, with those of HDFS's attributes that are true here.
fn beans_of(status: &Status, own: &Own) -> Vec<Bean> {
    let sum = |of: fn(&Storage) -> u64| status.storages.iter().map(of).sum::<u64>();
    let failed = status.storages.iter().filter(|storage| storage.failed).count();
    let volume = |storage: &Storage| {
        let (used, free, blocks) = (storage.used, storage.remaining, storage.blocks);
        let shown =
            json!({ "usedSpace": used, "freeSpace": free, "numBlocks": blocks, "storageType": "DISK" });
        (storage.uuid.clone(), shown)
    };
    let volumes: Map<String, Value> = status.storages.iter().map(volume).collect();
    let pool = |namenode: &String| (namenode.clone(), Value::from(status.pool.as_str()));
    let namenodes: Map<String, Value> = own.namenodes.iter().map(pool).collect();
    let version = format!("yeoul {}", env!("CARGO_PKG_VERSION"));
    let data_port = own.address.rsplit_once(':').map_or("", |(_, port)| port);
    let bean = |name: &str, model, attributes| Bean {
        name: format!("Hadoop:service=DataNode,name={name}"),
        model,
        attributes,
    };
    vec![
        bean(
            "FSDatasetState",
            "FSDatasetState",
            vec![
                ("tag.Context", "FSDatasetState".into()),
                ("Capacity", sum(|storage| storage.capacity).into()),
                ("DfsUsed", sum(|storage| storage.used).into()),
                ("Remaining", sum(|storage| storage.remaining).into()),
                ("NumFailedVolumes", failed.into()),
            ],
        ),
        bean(
            "DataNodeInfo",
            "org.apache.hadoop.hdfs.server.datanode.DataNode",
            vec![
                ("Version", version.clone().into()),
                ("SoftwareVersion", version.into()),
                ("DataPort", data_port.into()),
                ("RpcPort", own.ipc_port.to_string().into()),
                ("XceiverCount", status.transfers.into()),
                ("DNStartedTimeInMillis", own.started_ms.into()),
                // Texts with JSON in them, as HDFS has them.
                ("VolumeInfo", Value::Object(volumes).to_string().into()),
                ("NamenodeAddresses", Value::Object(namenodes).to_string().into()),
            ],
        ),
    ]
}

impl Routes for DatanodePages {
    const LIST: &'static str = "\
GET  /status              the storages, and what is under way
GET  /api/v1/status       the same for programs
GET  /metrics/prometheus  numbers for Prometheus
GET  /jmx                 numbers as beans, under HDFS's names
GET  /healthz             200, or 503 if every storage has failed
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        let path = ["/", "/status"].into_iter().find(|known| *known == path)?;
        Some(Response::html(200, page(&self.status(), path, query).render()))
    }

    fn get(&self, path: &str, query: &str) -> Option<Response> {
        let status = self.status();
        Some(match path {
            "/status" => Response::text(200, text(&status)),
            "/api/v1/status" => match serde_json::to_value(&status) {
                Ok(value) => Response::json(200, &value),
                Err(error) => Response::text(500, format!("{error}\n")),
            },
            STYLE_PATH => Response::css(STYLE),
            "/jmx" => beans::answer(&beans_of(&status, &self.own), query),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beans_sum_up_the_storages() {
        let storage = |uuid: &str, failed| Storage {
            uuid: uuid.to_owned(),
            capacity: 100,
            used: 7,
            remaining: 50,
            failed,
            blocks: 3,
        };
        let status = Status {
            address: "10.0.0.1:9866".to_owned(),
            uuid: "u".to_owned(),
            pool: "BP-1".to_owned(),
            transfers: 2,
            moves: 0,
            damaged: 0,
            storages: vec![storage("DS-1", false), storage("DS-2", true)],
        };
        let own = Own {
            address: status.address.clone(),
            ipc_port: 9867,
            namenodes: vec!["nn:8020".to_owned()],
            started_ms: 5,
        };
        let asked = |query: &str| {
            let response = beans::answer(&beans_of(&status, &own), query);
            serde_json::from_slice::<Value>(&response.body).unwrap()["beans"][0].clone()
        };
        let state = asked("qry=Hadoop:service=DataNode,name=FSDatasetState");
        assert_eq!(
            (&state["Capacity"], &state["DfsUsed"], &state["NumFailedVolumes"]),
            (&200.into(), &14.into(), &1.into())
        );
        let info = asked("qry=Hadoop:service=DataNode,name=DataNodeInfo");
        assert_eq!(
            (&info["DataPort"], &info["RpcPort"], &info["XceiverCount"]),
            (&"9866".into(), &"9867".into(), &2.into())
        );
        assert_eq!(info["NamenodeAddresses"], r#"{"nn:8020":"BP-1"}"#);
        let volumes: Value = serde_json::from_str(info["VolumeInfo"].as_str().unwrap()).unwrap();
        assert_eq!(volumes["DS-2"]["numBlocks"], 3);
    }
}
