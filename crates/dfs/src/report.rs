//! What a cluster has and lacks, for people and programs.

use comfy_table::Table;
use serde::Serialize;

use crate::display::{size, table};
use crate::namenode::AdminState;
use crate::wire::proto::namenode::{DatanodeReportResponse, FsStatsResponse};
use crate::wire::proto::shared::DatanodeInfo;

/// What a cluster has and lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterReport {
    /// True while nothing can be changed.
    pub safe_mode: bool,
    /// Bytes of all storages of live DataNodes.
    pub capacity: u64,
    /// Bytes of blocks.
    pub used: u64,
    /// Bytes that new blocks may take.
    pub remaining: u64,
    /// Blocks with fewer good copies than they are to have, and at least one.
    pub under_replicated_blocks: u64,
    /// Blocks with a damaged copy.
    pub corrupt_blocks: u64,
    /// Blocks that cannot be read.
    pub missing_blocks: u64,
    /// Copies that are to be deleted.
    pub pending_deletions: u64,
    /// The DataNodes, live ones first.
    pub datanodes: Vec<Node>,
}

/// A DataNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Address for blocks.
    pub address: String,
    /// Name by which clients reach it.
    pub host: String,
    /// Its identity.
    pub uuid: String,
    /// The port of its pages; 0 if it serves none.
    #[serde(skip)]
    pub info_port: u16,
    /// Rack.
    pub rack: String,
    /// False after it has been silent.
    pub live: bool,
    /// What it does for the cluster, in HDFS's words, such as `In Service`.
    pub admin_state: &'static str,
    /// Bytes of its storages.
    pub capacity: u64,
    /// Bytes of blocks.
    pub used: u64,
    /// Bytes that new blocks may take.
    pub remaining: u64,
    /// Blocks and internal blocks.
    pub blocks: u64,
    /// Blocks that are written or read now.
    pub transfers: u32,
    /// When it was last heard of, in milliseconds since 1970.
    pub last_seen_ms: u64,
}

impl Node {
    fn new(info: DatanodeInfo, live: bool) -> Self {
        Self {
            address: format!("{}:{}", info.id.ip, info.id.transfer_port),
            host: info.id.host,
            uuid: info.id.uuid,
            info_port: u16::try_from(info.id.info_port).unwrap_or_default(),
            rack: info.rack.unwrap_or_default(),
            live,
            admin_state: AdminState::words_of(info.admin_state.unwrap_or_default()),
            capacity: info.capacity.unwrap_or_default(),
            used: info.used.unwrap_or_default(),
            remaining: info.remaining.unwrap_or_default(),
            blocks: info.blocks.unwrap_or_default().into(),
            transfers: info.transfers.unwrap_or_default(),
            last_seen_ms: info.last_update_ms.unwrap_or_default(),
        }
    }
}

impl ClusterReport {
    /// From a NameNode's answers.
    pub(crate) fn new(
        stats: &FsStatsResponse,
        safe_mode: bool,
        live: DatanodeReportResponse,
        dead: DatanodeReportResponse,
    ) -> Self {
        let live = live.datanodes.into_iter().map(|info| Node::new(info, true));
        let dead = dead.datanodes.into_iter().map(|info| Node::new(info, false));
        Self {
            safe_mode,
            capacity: stats.capacity,
            used: stats.used,
            remaining: stats.remaining,
            under_replicated_blocks: stats.under_replicated,
            corrupt_blocks: stats.corrupt_blocks,
            missing_blocks: stats.missing_blocks,
            pending_deletions: stats.pending_deletion.unwrap_or_default(),
            datanodes: live.chain(dead).collect(),
        }
    }

    /// The report for people, with the NameNode's address.
    pub fn text(&self, address: &str) -> String {
        let mut lines = summary(address, self);
        if !self.datanodes.is_empty() {
            lines.push(nodes(&self.datanodes).to_string());
        }
        lines.join("\n") + "\n"
    }
}

fn summary(address: &str, report: &ClusterReport) -> Vec<String> {
    let live = report.datanodes.iter().filter(|node| node.live).count();
    let dead = report.datanodes.len() - live;
    let human = |bytes| size(bytes, true);
    let mut lines = vec![
        format!("NameNode            {address}"),
        format!("DataNodes           {live} live, {dead} dead"),
        format!(
            "Space               {} used, {} free of {}",
            human(report.used),
            human(report.remaining),
            human(report.capacity)
        ),
        format!("Missing blocks      {}", report.missing_blocks),
        format!("Too few copies      {}", report.under_replicated_blocks),
        format!("Damaged copies      {}", report.corrupt_blocks),
        format!("To be deleted       {}", report.pending_deletions),
    ];
    if report.safe_mode {
        lines.insert(
            1,
            "Safe mode           on: nothing can be changed until the blocks are reported".to_owned(),
        );
    }
    lines
}

fn nodes(nodes: &[Node]) -> Table {
    let mut shown = table(&["DataNode", "state", "rack", "blocks", "used", "free", "transfers"], 3);
    for node in nodes {
        let state = if node.live { "live" } else { "dead" };
        shown.add_row([
            node.address.clone(),
            state.to_owned(),
            node.rack.clone(),
            node.blocks.to_string(),
            size(node.used, true),
            size(node.remaining, true),
            node.transfers.to_string(),
        ]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_what_is_missing_before_it_names_the_nodes() {
        let node = |port, live| Node {
            address: format!("10.0.0.1:{port}"),
            host: "h".to_owned(),
            uuid: "u".to_owned(),
            info_port: 0,
            rack: "/default-rack".to_owned(),
            live,
            admin_state: "In Service",
            capacity: 3 << 30,
            used: 1 << 20,
            remaining: 1 << 30,
            blocks: 17,
            transfers: 2,
            last_seen_ms: 0,
        };
        let report = ClusterReport {
            safe_mode: true,
            capacity: 3 << 30,
            used: 1 << 20,
            remaining: 1 << 30,
            under_replicated_blocks: 4,
            corrupt_blocks: 1,
            missing_blocks: 2,
            pending_deletions: 5,
            datanodes: vec![node(1, true), node(2, false)],
        };
        let lines = summary("n1:8020", &report);
        assert_eq!(lines[0], "NameNode            n1:8020");
        assert!(lines[1].starts_with("Safe mode           on"));
        assert_eq!(lines[2], "DataNodes           1 live, 1 dead");
        assert_eq!(lines[3], "Space               1 M used, 1 G free of 3 G");
        assert_eq!(lines[4], "Missing blocks      2");
        let table = nodes(&report.datanodes).to_string();
        assert!(
            table.contains("│ 10.0.0.1:2 ┆ dead  ┆ /default-rack ┆     17 ┆  1 M ┆  1 G ┆         2 │"),
            "{table}"
        );
    }
}
