//! The NameNode's HTTP: what the cluster has and lacks, for people, programs and Prometheus.

use std::sync::Arc;

use yeoul_net::http::{Response, Routes};
use yeoul_net::metrics::Exposition;

use super::beans::Shown;
use super::console;
use super::service::Service;
use crate::beans;
use crate::report::ClusterReport;
use crate::wire::Refusal;
use crate::wire::proto::namenode::{
    BlockGroupStats, BoolResponse, ContentSummary, ContentSummaryResponse, DatanodeReportRequest, Empty,
    FsStatsResponse, PathRequest, ReplicatedBlockStats, SafeModeRequest,
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

    /// The page of the cluster, which is both `/` and `/status` for people.
    fn overview(&self, path: &'static str, query: &str) -> Result<String, Refusal> {
        let (now, root) = (self.service.now(), PathRequest { src: "/".to_owned() });
        let summary: ContentSummaryResponse = self.service.ask("getContentSummary", &root)?;
        let overview = console::Overview {
            address: &self.address,
            now_ms: now.wall_ms,
            report: &self.report()?,
            summary: &summary.summary,
            upkeep: &self.service.read(|state| state.upkeep(now.steady_ms)),
        };
        Ok(overview.page(path, query).render())
    }

    /// The page of a directory.
    fn files(&self, query: &str) -> Response {
        let request = console::listing_request(query);
        let listed = self.service.ask_as(&console::visitor(), "getListing", &request);
        let (status, page) = console::files_page(&request, listed);
        Response::html(status, page.render())
    }

    /// Numbers as beans, for what reads those of HDFS.
    fn beans(&self, query: &str) -> Result<Response, Refusal> {
        let (now, root) = (self.service.now(), PathRequest { src: "/".to_owned() });
        let stats: FsStatsResponse = self.service.ask("getFsStats", &Empty {})?;
        let replicated: ReplicatedBlockStats = self.service.ask("getFsReplicatedBlockStats", &Empty {})?;
        let striped: BlockGroupStats = self.service.ask("getFsECBlockGroupStats", &Empty {})?;
        let summary: ContentSummaryResponse = self.service.ask("getContentSummary", &root)?;
        let (upkeep, figures, datanodes) = self.service.read(|state| {
            let datanodes = state.datanode_infos(now.wall_ms, now.steady_ms);
            (state.upkeep(now.steady_ms), state.figures(now.steady_ms), datanodes)
        });
        let shown = Shown {
            now,
            address: &self.address,
            stats: &stats,
            replicated: &replicated,
            striped: &striped,
            summary: &summary.summary,
            upkeep: &upkeep,
            figures: &figures,
            datanodes: &datanodes,
            started_ms: now.wall_ms.saturating_sub(now.steady_ms),
        };
        Ok(beans::answer(&shown.beans(), query))
    }

    fn metrics(&self) -> Result<String, Refusal> {
        let report = self.report()?;
        let root = PathRequest { src: "/".to_owned() };
        let summary: ContentSummaryResponse = self.service.ask("getContentSummary", &root)?;
        let mut exposition = Exposition::new(&[]);
        show(&report, &summary.summary, &mut exposition);
        let what = "DataNodes that ask to be registered and are refused: the log has the reasons";
        exposition.gauge("fs_namesystem_refused_data_nodes", what, &[], self.service.refused_datanodes());
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
GET  /fsck                a check of files, for `hdfs fsck`
GET  /jmx                 numbers as beans, under HDFS's names
GET  /healthz             200, or 503 while the journal keeps no change
";

    fn page(&self, path: &str, query: &str) -> Option<Response> {
        let path = ["/", "/status"].into_iter().find(|known| *known == path)?;
        Some(match self.overview(path, query) {
            Ok(document) => Response::html(200, document),
            Err(refusal) => Response::text(503, format!("{refusal}\n")),
        })
    }

    fn get(&self, path: &str, query: &str) -> Option<Response> {
        let answer = match path {
            "/status" => self.report().map(|report| Response::text(200, report.text(&self.address))),
            "/api/v1/status" => self.report().map(|report| match serde_json::to_value(&report) {
                Ok(value) => Response::json(200, &value),
                Err(error) => Response::text(500, format!("{error}\n")),
            }),
            "/jmx" => self.beans(query),
            "/metrics/prometheus" => self.metrics().map(|text| Response::text(200, text)),
            console::FILES_PATH => Ok(self.files(query)),
            yeoul_console::STYLE_PATH => Ok(Response::css(yeoul_console::STYLE)),
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use prost::Message;
    use yeoul_journal::{Begun, FileJournal, FileJournalOptions, Journal, Kept, Promise, Snapshot};

    use super::super::clock::Clock;
    use super::super::namespace::User;
    use super::super::service::Decisions;
    use super::super::state::State;
    use super::super::{Context, Now, Rules};
    use super::*;
    use crate::error::{Error, Kind};
    use crate::memory::Memory;
    use crate::rpc::Groups;
    use crate::wire::proto::journal::Record;
    use crate::wire::proto::namenode::MkdirsRequest;
    use crate::wire::proto::shared::Permission;

    /// Pages of a cluster without DataNodes, with a directory for everybody and one for its owner.
    fn pages(dir: &std::path::Path) -> NamenodePages {
        let rules = Rules { superuser: "root".to_owned(), ..Rules::default() };
        let mut state = State::new(rules);
        let options = FileJournalOptions::new(dir.to_owned(), "NameNode");
        let journal = FileJournal::open(options, |record| state.apply(&record)).unwrap();
        pages_of(state, Box::new(journal))
    }

    fn pages_of(mut state: State, journal: Box<dyn Journal<Record>>) -> NamenodePages {
        state.format(1_000_000, "CID-1".to_owned(), "BP-1".to_owned());
        state.begin_term(1_000_000, 0);
        let mut random = fastrand::Rng::with_seed(7);
        state.tick(Now { wall_ms: 1_000_000, steady_ms: 1_000 }, &mut random);
        let user = User { name: "root".to_owned(), groups: Vec::new(), is_superuser: true };
        for (src, mode) in [("/open/<b>", 0o755), ("/private/secret", 0o700)] {
            let masked = Permission { mode };
            let request = MkdirsRequest { src: src.to_owned(), masked, create_parent: true, unmasked: None };
            let now = Now { wall_ms: 2_000_000, steady_ms: 2_000 };
            let mut context = Context { now, user: &user, caller: None, ip: None, random: &mut random };
            state.call(&mut context, "mkdirs", request.encode_to_vec().into()).unwrap();
        }
        let memory = Memory::new(1 << 30).unwrap();
        let decisions = Decisions::new(state, random, journal, memory);
        NamenodePages::new(
            Arc::new(Service::new(decisions, Clock::start(), Groups::default(), std::path::PathBuf::new())),
            "nn:8020".to_owned(),
        )
    }

    /// A journal whose disk is full.
    struct FullDisk;

    impl Journal<Record> for FullDisk {
        fn append(&mut self, _: &[Record], _: Promise) -> Kept {
            Box::pin(async { Err(Error::new(Kind::ResourceExhausted, "no space left on device")) })
        }

        fn wants_snapshot(&self) -> bool {
            false
        }

        fn begin_snapshot(&mut self) -> Snapshot<Record> {
            Snapshot::new(|_| ())
        }

        fn begin_segment(&mut self) -> Begun {
            Box::pin(async { Err(Error::new(Kind::ResourceExhausted, "no space left on device")) })
        }

        fn fault(&self) -> Option<String> {
            Some("no space left on device".to_owned())
        }

        fn failed_snapshots(&self) -> u64 {
            1
        }

        fn ended(&self) -> Pin<Box<dyn Future<Output = Error> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    fn text(response: Option<Response>) -> (u16, &'static str, String) {
        let response = response.expect("there is such a page");
        (response.status, response.content_type, String::from_utf8(response.body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn browsers_get_pages_where_scripts_get_the_text_that_they_always_got() {
        let dir = tempfile::tempdir().unwrap();
        let pages = pages(dir.path());
        for path in ["/", "/status"] {
            let (status, kind, html) = text(pages.page(path, ""));
            assert_eq!((status, kind), (200, "text/html; charset=utf-8"));
            assert!(
                html.contains("NameNode nn:8020") && html.contains("No DataNode has registered."),
                "{html}"
            );
            assert!(html.contains(&format!("href=\"{path}?refresh=off\"")), "{html}");
        }
        let (_, kind, said) = text(pages.get("/status", ""));
        assert_eq!(kind, "text/plain; charset=utf-8");
        assert!(
            said.starts_with("NameNode            nn:8020\nDataNodes           0 live, 0 dead\n"),
            "{said}"
        );
        for path in ["/api/v1/status", "/metrics/prometheus", "/healthz"] {
            assert_eq!(pages.page(path, ""), None, "{path} is for programs, whoever asks");
        }
        assert_eq!(text(pages.get("/console.css", "")).1, "text/css; charset=utf-8");
    }

    #[tokio::test]
    async fn beans_have_the_names_and_the_numbers_that_readers_of_hdfs_look_for() {
        let dir = tempfile::tempdir().unwrap();
        let pages = pages(dir.path());
        let asked = |query: &str| {
            let (status, _, body) = text(pages.get("/jmx", query));
            assert_eq!(status, 200, "{body}");
            serde_json::from_str::<serde_json::Value>(&body).unwrap()["beans"].clone()
        };
        let state = asked("qry=Hadoop:service=NameNode,name=FSNamesystemState");
        assert_eq!((&state[0]["NumLiveDataNodes"], &state[0]["FSState"]), (&0.into(), &"Operational".into()));
        // The root, /open, /open/<b>, /private and /private/secret.
        assert_eq!(state[0]["FilesTotal"], 5);
        let info = asked("get=Hadoop:service=NameNode,name=NameNodeInfo::LiveNodes");
        assert_eq!(info[0]["LiveNodes"], "{}", "a text with JSON in it");
        assert_eq!(asked("qry=Hadoop:service=NameNode,name=NameNodeStatus")[0]["State"], "active");
        assert!(asked("").as_array().unwrap().len() >= 5);
        assert_eq!(text(pages.get("/jmx", "get=Hadoop:service=NameNode,name=NameNodeInfo::Heap")).0, 404);
    }

    #[tokio::test]
    async fn health_is_bad_while_no_change_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(text(pages(dir.path()).get("/healthz", "")).0, 200);
        let rules = Rules { superuser: "root".to_owned(), ..Rules::default() };
        let (status, _, why) = text(pages_of(State::new(rules), Box::new(FullDisk)).get("/healthz", ""));
        assert_eq!((status, why.as_str()), (503, "changes are not kept: no space left on device\n"));
    }

    #[tokio::test]
    async fn the_file_browser_shows_what_everybody_may_see() {
        let dir = tempfile::tempdir().unwrap();
        let pages = pages(dir.path());
        let (status, _, root) = text(pages.get("/files", ""));
        assert_eq!(status, 200);
        assert!(root.contains("href=\"/files?path=%2Fopen\""), "{root}");
        let (status, _, open) = text(pages.get("/files", "path=%2Fopen"));
        assert_eq!(status, 200);
        assert!(open.contains("&lt;b&gt;/") && !open.contains("<b>"), "{open}");
        let (status, _, private) = text(pages.get("/files", "path=%2Fprivate"));
        assert_eq!(status, 403, "{private}");
        assert!(!private.contains("secret"), "{private}");
        assert_eq!(text(pages.get("/files", "path=%2Fnothing")).0, 404);
        assert_eq!(text(pages.get("/files", "path=relative")).0, 400);
        assert_eq!(text(pages.get("/files", "path=%2F&after=%FF%00")).0, 200);
    }
}
