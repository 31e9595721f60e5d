//! The NameNode's beans, under HDFS's names and with those of its attributes that are true here.

use serde_json::{Map, Value, json};

use super::AdminState;
use super::Now;
use super::state::{Figures, NodeFigures, Upkeep};
use crate::beans::Bean;
use crate::wire::proto::namenode::{BlockGroupStats, ContentSummary, FsStatsResponse, ReplicatedBlockStats};

/// The class that has the attributes in HDFS.
const NAMESYSTEM: &str = "org.apache.hadoop.hdfs.server.namenode.FSNamesystem";

/// What the beans show.
pub(super) struct Shown<'a> {
    pub now: Now,
    /// `host:port` for clients.
    pub address: &'a str,
    pub stats: &'a FsStatsResponse,
    pub replicated: &'a ReplicatedBlockStats,
    pub striped: &'a BlockGroupStats,
    pub summary: &'a ContentSummary,
    pub upkeep: &'a Upkeep,
    pub figures: &'a Figures,
    pub datanodes: &'a [NodeFigures],
    /// Milliseconds since 1970 at which this NameNode was started.
    pub started_ms: u64,
}

impl Shown<'_> {
    /// All beans.
    pub fn beans(&self) -> Vec<Bean> {
        let bean = |name: &str, model, attributes| Bean {
            name: format!("Hadoop:service=NameNode,name={name}"),
            model,
            attributes,
        };
        vec![
            bean("NameNodeInfo", NAMESYSTEM, self.info()),
            bean("NameNodeStatus", "org.apache.hadoop.hdfs.server.namenode.NameNode", self.status()),
            bean("FSNamesystemState", NAMESYSTEM, self.namesystem_state()),
            bean("FSNamesystem", "FSNamesystem", self.namesystem()),
            Bean {
                name: "java.lang:type=Runtime".to_owned(),
                model: "sun.management.RuntimeImpl",
                attributes: vec![
                    ("StartTime", self.started_ms.into()),
                    ("Uptime", self.now.wall_ms.saturating_sub(self.started_ms).into()),
                ],
            },
        ]
    }

    fn count(&self, is_wanted: impl Fn(&NodeFigures) -> bool) -> usize {
        self.datanodes.iter().filter(|node| is_wanted(node)).count()
    }

    fn files(&self) -> u64 {
        self.summary.files + self.summary.directories
    }

    fn transfers(&self) -> u64 {
        let live = self.datanodes.iter().filter(|node| node.is_live);
        live.map(|node| u64::from(node.info.transfers.unwrap_or_default())).sum()
    }

    /// Bytes on the disks that are neither blocks' nor free for blocks.
    fn used_by_others(&self) -> u64 {
        self.stats.capacity.saturating_sub(self.stats.used).saturating_sub(self.stats.remaining)
    }

    fn info(&self) -> Vec<(&'static str, Value)> {
        let percent = |part: u64| {
            if self.stats.capacity == 0 { 0.0 } else { part as f64 * 100.0 / self.stats.capacity as f64 }
        };
        let version = format!("yeoul {}", env!("CARGO_PKG_VERSION"));
        let safe_mode =
            self.upkeep.safe_mode.as_ref().map(|why| format!("Safe mode is ON. {why}")).unwrap_or_default();
        vec![
            ("ClusterId", self.figures.cluster.clone().into()),
            ("BlockPoolId", self.figures.pool.clone().into()),
            ("Version", version.clone().into()),
            ("SoftwareVersion", version.into()),
            ("NNStartedTimeInMillis", self.started_ms.into()),
            ("Safemode", safe_mode.into()),
            ("Total", self.stats.capacity.into()),
            ("Used", self.stats.used.into()),
            ("Free", self.stats.remaining.into()),
            ("NonDfsUsedSpace", self.used_by_others().into()),
            ("BlockPoolUsedSpace", self.stats.used.into()),
            ("PercentUsed", percent(self.stats.used).into()),
            ("PercentBlockPoolUsed", percent(self.stats.used).into()),
            ("PercentRemaining", percent(self.stats.remaining).into()),
            ("TotalBlocks", self.upkeep.blocks.into()),
            ("TotalFiles", self.files().into()),
            ("NumberOfMissingBlocks", self.stats.missing_blocks.into()),
            ("NumberOfSnapshottableDirs", 0.into()),
            ("LiveNodes", self.nodes(true).into()),
            ("DeadNodes", self.nodes(false).into()),
            ("DecomNodes", self.on_their_way(|node| node.admin == AdminState::Decommissioning).into()),
            ("EnteringMaintenanceNodes", self.on_their_way(is_entering).into()),
        ]
    }

    /// DataNodes by name, as a text with JSON in it, as HDFS has it.
    fn nodes(&self, is_live: bool) -> String {
        let wanted = self.datanodes.iter().filter(|node| node.is_live == is_live);
        let node = |NodeFigures { info, admin, .. }: &NodeFigures| {
            let silent_ms = self.now.wall_ms.saturating_sub(info.last_update_ms.unwrap_or_default());
            let mut node = json!({
                "lastContact": silent_ms / 1000,
                "adminState": admin.words(),
                "uuid": info.id.uuid,
                "xferaddr": format!("{}:{}", info.id.ip, info.id.transfer_port),
                "location": info.rack,
            });
            if is_live {
                let capacity = info.capacity.unwrap_or_default();
                let used = info.block_pool_used.unwrap_or_default();
                let percent = if capacity == 0 { 0.0 } else { used as f64 * 100.0 / capacity as f64 };
                let more = json!({
                    "infoAddr": format!("{}:{}", info.id.ip, info.id.info_port),
                    "capacity": capacity,
                    "used": info.used,
                    "usedSpace": info.used,
                    "remaining": info.remaining,
                    "nonDfsUsedSpace": info.non_dfs_used,
                    "numBlocks": info.blocks,
                    "blockPoolUsed": used,
                    "blockPoolUsedPercent": percent,
                });
                merge(&mut node, more);
            } else {
                merge(&mut node, json!({ "decommissioned": *admin == AdminState::Decommissioned }));
            }
            (format!("{}:{}", info.id.host, info.id.transfer_port), node)
        };
        Value::Object(wanted.map(node).collect::<Map<String, Value>>()).to_string()
    }

    /// DataNodes on their way, with the blocks that others do not have yet.
    fn on_their_way(&self, is_wanted: impl Fn(&NodeFigures) -> bool) -> String {
        let wanted = self.datanodes.iter().filter(|node| is_wanted(node));
        let node = |NodeFigures { info, lacking, .. }: &NodeFigures| {
            let address = format!("{}:{}", info.id.ip, info.id.transfer_port);
            let shown = json!({ "xferaddr": address, "underReplicatedBlocks": lacking });
            (format!("{}:{}", info.id.host, info.id.transfer_port), shown)
        };
        Value::Object(wanted.map(node).collect::<Map<String, Value>>()).to_string()
    }

    fn status(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("NNRole", "NameNode".into()),
            ("State", "active".into()),
            ("HostAndPort", self.address.into()),
            ("SecurityEnabled", false.into()),
        ]
    }

    /// What both beans of the namesystem have.
    fn shared(&self) -> Vec<(&'static str, Value)> {
        let (waiting, under_way) = (self.upkeep.waiting, self.upkeep.under_way);
        vec![
            ("CapacityTotal", self.stats.capacity.into()),
            ("CapacityUsed", self.stats.used.into()),
            ("CapacityRemaining", self.stats.remaining.into()),
            ("TotalLoad", self.transfers().into()),
            ("BlocksTotal", self.upkeep.blocks.into()),
            ("FilesTotal", self.files().into()),
            ("PendingReplicationBlocks", under_way.into()),
            ("PendingReconstructionBlocks", under_way.into()),
            ("UnderReplicatedBlocks", self.stats.under_replicated.into()),
            ("LowRedundancyBlocks", self.stats.under_replicated.into()),
            ("ScheduledReplicationBlocks", (waiting + under_way).into()),
            ("PendingDeletionBlocks", self.stats.pending_deletion.into()),
            ("NumLiveDataNodes", self.count(|node| node.is_live).into()),
            ("NumDeadDataNodes", self.count(|node| !node.is_live).into()),
            (
                "NumDecomLiveDataNodes",
                self.count(|node| node.is_live && node.admin == AdminState::Decommissioned).into(),
            ),
            (
                "NumDecomDeadDataNodes",
                self.count(|node| !node.is_live && node.admin == AdminState::Decommissioned).into(),
            ),
            (
                "NumDecommissioningDataNodes",
                self.count(|node| node.admin == AdminState::Decommissioning).into(),
            ),
            (
                "NumInMaintenanceLiveDataNodes",
                self.count(|node| node.is_live && node.admin.is_in_maintenance()).into(),
            ),
            (
                "NumInMaintenanceDeadDataNodes",
                self.count(|node| !node.is_live && node.admin.is_in_maintenance()).into(),
            ),
            ("NumEnteringMaintenanceDataNodes", self.count(is_entering).into()),
            ("VolumeFailuresTotal", self.figures.failed_storages.into()),
        ]
    }

    fn namesystem_state(&self) -> Vec<(&'static str, Value)> {
        let state = if self.upkeep.safe_mode.is_some() { "safeMode" } else { "Operational" };
        let own =
            vec![("FSState", Value::from(state)), ("NumStaleDataNodes", self.figures.stale_datanodes.into())];
        [self.shared(), own].concat()
    }

    fn namesystem(&self) -> Vec<(&'static str, Value)> {
        let gibibytes = |bytes: u64| Value::from(bytes as f64 / f64::from(1 << 30));
        let own = vec![
            ("tag.Context", Value::from("dfs")),
            ("tag.HAState", "active".into()),
            ("MissingBlocks", self.stats.missing_blocks.into()),
            ("CorruptBlocks", self.stats.corrupt_blocks.into()),
            ("CapacityTotalGB", gibibytes(self.stats.capacity)),
            ("CapacityUsedGB", gibibytes(self.stats.used)),
            ("CapacityRemainingGB", gibibytes(self.stats.remaining)),
            ("CapacityUsedNonDFS", self.used_by_others().into()),
            ("NumFilesUnderConstruction", self.figures.open_files.into()),
            ("NumActiveClients", self.figures.writers.into()),
            ("LowRedundancyReplicatedBlocks", self.replicated.low_redundancy.into()),
            ("CorruptReplicatedBlocks", self.replicated.corrupt_blocks.into()),
            ("MissingReplicatedBlocks", self.replicated.missing_blocks.into()),
            ("LowRedundancyECBlockGroups", self.striped.low_redundancy.into()),
            ("CorruptECBlockGroups", self.striped.corrupt_groups.into()),
            ("MissingECBlockGroups", self.striped.missing_groups.into()),
            ("StaleDataNodes", self.figures.stale_datanodes.into()),
        ];
        [self.shared(), own].concat()
    }
}

fn is_entering(node: &NodeFigures) -> bool {
    matches!(node.admin, AdminState::EnteringMaintenance { .. })
}

fn merge(node: &mut Value, more: Value) {
    let (Value::Object(node), Value::Object(more)) = (node, more) else { unreachable!("both are objects") };
    node.extend(more);
}
