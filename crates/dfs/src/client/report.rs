use super::FileSystem;
use crate::error::Result;
use crate::report::ClusterReport;
use crate::wire::proto::namenode::{
    BoolResponse, DatanodeReportRequest, DatanodeReportResponse, Empty, FsStatsResponse, SafeModeRequest,
};

/// Which DataNodes to name, and the question about safe mode, by HDFS's numbers.
const LIVE: i32 = 2;
const DEAD: i32 = 3;
const SAFE_MODE_GET: i32 = 3;

impl FileSystem {
    /// What the cluster has and lacks now.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn report(&self) -> Result<ClusterReport> {
        let stats: FsStatsResponse = self.call("getFsStats", &Empty {}).await?;
        let question = SafeModeRequest { action: SAFE_MODE_GET, checked: Some(false) };
        let safe_mode: BoolResponse = self.call("setSafeMode", &question).await?;
        let [live, dead] = [LIVE, DEAD].map(|kind| DatanodeReportRequest { kind });
        let live: DatanodeReportResponse = self.call("getDatanodeReport", &live).await?;
        let dead: DatanodeReportResponse = self.call("getDatanodeReport", &dead).await?;
        Ok(ClusterReport::new(&stats, safe_mode.result, live, dead))
    }
}
