//! The NameNode's HTTP: what the cluster has and lacks, for people, programs and Prometheus.

use std::sync::Arc;

use yeoul_net::http::{Response, Routes};
use yeoul_net::metrics::Exposition;

use super::service::Service;
use crate::report::ClusterReport;
use crate::wire::Refusal;
use crate::wire::proto::namenode::{
    BoolResponse, ContentSummary, ContentSummaryResponse, DatanodeReportRequest, Empty, PathRequest,
    SafeModeRequest,
};

/// Which DataNodes to name, and the question about safe mode, by HDFS's numbers.
const LIVE: i32 = 2;
const DEAD: i32 = 3;
const SAFE_MODE_GET: i32 = 3;

/// The pages of a NameNode.
pub(super) struct NamenodePages {
    service: Arc<Service>,
    /// `host:port` for clients.
    address: String,
}

impl NamenodePages {
    pub(super) fn new(service: Arc<Service>, address: String) -> Self {
        Self { service, address }
    }

    fn report(&self) -> Result<ClusterReport, Refusal> {
        let stats = self.service.ask("getFsStats", &Empty {})?;
        let question = SafeModeRequest { action: SAFE_MODE_GET, checked: None };
        let safe_mode: BoolResponse = self.service.ask("setSafeMode", &question)?;
        let nodes = |kind| self.service.ask("getDatanodeReport", &DatanodeReportRequest { kind });
        Ok(ClusterReport::new(&stats, safe_mode.result, nodes(LIVE)?, nodes(DEAD)?))
    }

    fn metrics(&self) -> Result<String, Refusal> {
        let report = self.report()?;
        let root = PathRequest { src: "/".to_owned() };
        let summary: ContentSummaryResponse = self.service.ask("getContentSummary", &root)?;
        let mut exposition = Exposition::new(&[]);
        show(&report, &summary.summary, &mut exposition);
        let what = "DataNodes that were refused since the start, by address and reason: the log names them";
        exposition.gauge("fs_namesystem_refused_data_nodes", what, &[], self.service.refused());
        exposition.process();
        Ok(exposition.finish())
    }
}

/// Numbers of the cluster, under names that follow those of HDFS's own exporter.
fn show(report: &ClusterReport, summary: &ContentSummary, exposition: &mut Exposition) {
    let live = report.datanodes.iter().filter(|node| node.live).count() as u64;
    let dead = report.datanodes.len() as u64 - live;
    for (name, what, value) in [
        ("capacity_total", "bytes of the storages of live DataNodes", report.capacity),
        ("capacity_used", "bytes of blocks on live DataNodes", report.used),
        ("capacity_remaining", "bytes that new blocks may take", report.remaining),
        ("missing_blocks", "blocks that cannot be read", report.missing_blocks),
        ("under_replicated_blocks", "blocks with too few good copies", report.under_replicated_blocks),
        ("corrupt_blocks", "blocks with a damaged copy", report.corrupt_blocks),
        ("pending_deletion_blocks", "copies that are to be deleted", report.pending_deletions),
        ("num_live_data_nodes", "DataNodes that are heard of", live),
        ("num_dead_data_nodes", "DataNodes that are silent", dead),
        ("files_total", "files and directories", summary.files + summary.directories),
        ("file_bytes", "bytes of the files", summary.length),
        ("safe_mode", "1 while nothing can be changed, else 0", u64::from(report.safe_mode)),
    ] {
        exposition.gauge(&format!("fs_namesystem_{name}"), what, &[], value);
    }
}

impl Routes for NamenodePages {
    const LIST: &'static str = "\
GET  /status              DataNodes, space, and what is missing
GET  /api/v1/status       the same for programs
GET  /metrics/prometheus  numbers for Prometheus
GET  /healthz             200, or 503 while the journal keeps no change
";

    fn get(&self, path: &str, _query: &str) -> Option<Response> {
        let answer = match path {
            "/status" => self.report().map(|report| Response::text(200, report.text(&self.address))),
            "/api/v1/status" => self.report().map(|report| match serde_json::to_value(&report) {
                Ok(value) => Response::json(200, &value),
                Err(error) => Response::text(500, format!("{error}\n")),
            }),
            "/metrics/prometheus" => self.metrics().map(|text| Response::text(200, text)),
            "/healthz" => Ok(match self.service.fault() {
                None => Response::text(200, "ok\n"),
                Some(why) => Response::text(503, format!("changes are not kept: {why}\n")),
            }),
            _ => return None,
        };
        Some(answer.unwrap_or_else(|refusal| Response::text(503, format!("{refusal}\n"))))
    }

    async fn post(&self, _path: &str, _body: &[u8]) -> Option<Result<Response, Response>> {
        None
    }
}
