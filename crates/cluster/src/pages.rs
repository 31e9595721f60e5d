//! The scheduler's HTTP: a page for people, JSON for programs, and metrics for Prometheus.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ballista_core::JobId;
use ballista_core::serde::scheduler::ExecutorMetadata;
use ballista_scheduler::cluster::JobState as EndedJobs;
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion_proto::logical_plan::AsLogicalPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use serde::Serialize;
use serde_json::{Value, json};
use yeoul_console::{Cell, Href, Page, STYLE, STYLE_PATH, Table, Tone};
use yeoul_net::http::{Pages, Request, Response};
use yeoul_net::metrics::Exposition;

use crate::counts::JobCounts;
use crate::limits::HEARTBEAT_EVERY_S;
use crate::reports::{JobReport, JobState, Jobs, Stages};

/// All pages.
const LIST: &str = "\
GET /                     for browsers: executors and jobs
GET /api/v1/executors     executors, with the time since their last heartbeat
GET /api/v1/jobs          jobs that run, and those that have ended within the last minutes
GET /api/v1/jobs/JOB      its stages, with their tasks and what these have written
GET /metrics/prometheus   metrics
GET /healthz              200 while it serves
";

/// Seconds without a heartbeat after which an executor is marked: several of them.
const SILENCE_S_MAX: u64 = 3 * HEARTBEAT_EVERY_S;

/// The pages of a scheduler.
pub(crate) struct SchedulerPages<T: AsLogicalPlan + 'static, U: AsExecutionPlan + 'static> {
    scheduler: SchedulerServer<T, U>,
    /// Jobs that have ended.
    ended: Arc<dyn EndedJobs>,
    counts: Arc<JobCounts>,
    address: String,
}

/// Executor, with the time of its last heartbeat since 1970.
type Executor = (ExecutorMetadata, Option<Duration>);

impl<T: AsLogicalPlan + 'static, U: AsExecutionPlan + 'static> SchedulerPages<T, U> {
    pub(crate) fn new(
        scheduler: SchedulerServer<T, U>,
        ended: Arc<dyn EndedJobs>,
        counts: Arc<JobCounts>,
        address: String,
    ) -> Self {
        Self { scheduler, ended, counts, address }
    }

    async fn executors(&self) -> Vec<Executor> {
        let known = self.scheduler.state.executor_manager.get_executors_state().await.unwrap_or_default();
        let mut executors: Vec<Executor> = known.into_iter().map(|(known, seen, _)| (known, seen)).collect();
        executors.sort_by(|(one, _), (other, _)| (&one.host, one.port).cmp(&(&other.host, other.port)));
        executors
    }

    /// Jobs, the newest first.
    async fn jobs(&self) -> Jobs {
        let jobs = self.scheduler.state.task_manager.get_all_jobs().await.unwrap_or_default();
        let mut jobs: Vec<_> = jobs.iter().map(JobReport::of).collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.began_ms));
        Jobs { jobs }
    }

    pub(crate) fn is_running(&self, job: &str) -> bool {
        self.scheduler.state.task_manager.get_running_job_cache().contains_key(&JobId::from(job.to_owned()))
    }

    /// The stages of a job; `None` if it is unknown.
    async fn stages(&self, job: &str) -> Option<Stages> {
        let job = JobId::from(job.to_owned());
        let running = self.scheduler.state.task_manager.get_running_job_cache();
        if let Some(running) = running.get(&job) {
            return Some(Stages::of(running.execution_graph.read().await.as_ref()));
        }
        let ended = self.ended.get_execution_graph(&job).await.ok()??;
        Some(Stages::of(ended.as_ref()))
    }

    async fn page(&self, query: &str) -> Page {
        let (executors, jobs) = (self.executors().await, self.jobs().await);
        let mut page = Page::new(format!("Scheduler {}", self.address), "Yeoul cluster")
            .refreshing("/", query)
            .link("Executors (JSON)", Href::local("/api/v1/executors", &[]))
            .link("Jobs (JSON)", Href::local("/api/v1/jobs", &[]))
            .link("Metrics", Href::local("/metrics/prometheus", &[]))
            .link("Health", Href::local("/healthz", &[]));
        if executors.is_empty() {
            page = page.notice(Tone::Warning, "No executor has registered: no query can run.");
        }
        page.figures(self.figures(&executors)).table(executor_table(&executors)).table(job_table(&jobs.jobs))
    }

    fn figures(&self, executors: &[Executor]) -> [(&'static str, Cell); 6] {
        let threads: u64 =
            executors.iter().map(|(executor, _)| u64::from(executor.specification.vcores)).sum();
        [
            ("Executors", Cell::number(executors.len() as u64)),
            ("Tasks at once", Cell::number(threads)),
            ("Jobs running", Cell::number(self.scheduler.running_job_number() as u64)),
            ("Jobs answered", Cell::number(self.counts.completed.get())),
            ("Jobs failed", Cell::number(self.counts.failed.get())),
            ("Version", Cell::text(env!("CARGO_PKG_VERSION"))),
        ]
    }

    async fn metrics(&self) -> String {
        let mut metrics = Exposition::new(&[]);
        let counts = &self.counts;
        let counters = [
            ("submitted", "jobs that were divided into stages", &counts.submitted),
            ("completed", "jobs that have ended with an answer", &counts.completed),
            ("failed", "jobs that have ended with an error", &counts.failed),
            ("cancelled", "jobs that their clients have given up", &counts.cancelled),
        ];
        for (name, what, counter) in counters {
            metrics.counter(&format!("cluster_jobs_{name}_total"), what, &[], counter.get());
        }
        metrics.timer("cluster_job_seconds", "time from a job to its answer", &[], &counts.took);
        metrics.gauge("cluster_jobs_running", "jobs that run", &[], self.scheduler.running_job_number());
        let waiting = counts.tasks_waiting.load(Ordering::Relaxed);
        metrics.gauge("cluster_tasks_waiting", "tasks that wait for an executor", &[], waiting);
        let executors = self.executors().await.len();
        metrics.gauge("cluster_executors", "executors that are registered", &[], executors);
        metrics.process();
        metrics.finish()
    }
}

impl<T: AsLogicalPlan + 'static, U: AsExecutionPlan + 'static> Pages for SchedulerPages<T, U> {
    async fn answer(&self, request: Request) -> Response {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return Response::text(405, "only GET and HEAD are served\n");
        }
        match request.path.trim_end_matches('/') {
            "" if request.accepts_html => Response::html(200, self.page(&request.query).await.render()),
            "" => Response::text(200, LIST),
            STYLE_PATH => Response::css(STYLE),
            "/api/v1/executors" => {
                let executors: Vec<Value> = self.executors().await.iter().map(executor_json).collect();
                Response::json(200, &json!({ "executors": executors }))
            }
            "/api/v1/jobs" => answer_of(&self.jobs().await),
            "/metrics/prometheus" => Response::text(200, self.metrics().await),
            "/healthz" => Response::text(200, "ok\n"),
            path => {
                let stages = match path.strip_prefix("/api/v1/jobs/") {
                    Some(job) => self.stages(job).await,
                    None => None,
                };
                match stages {
                    Some(stages) => answer_of(&stages),
                    None => Response::text(404, format!("no such page; there are:\n{LIST}")),
                }
            }
        }
    }
}

fn answer_of(report: &impl Serialize) -> Response {
    Response::json(200, &serde_json::to_value(report).expect("reports have names for keys"))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn unix_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The tone of the state of a job.
fn tone_of(state: JobState) -> Tone {
    match state {
        JobState::Running | JobState::Answered => Tone::Good,
        JobState::Failed => Tone::Bad,
        JobState::Queued | JobState::Unknown => Tone::Plain,
    }
}

fn executor_table(executors: &[Executor]) -> Table {
    let mut table =
        Table::new("Executors", &["Executor", "State", "Last heartbeat", "Tasks at once"]).or_say("None.");
    let row = |(executor, seen): &Executor| {
        let silent = seen.map(|seen| now().saturating_sub(seen));
        let (tone, state) = match silent {
            Some(silent) if silent.as_secs() <= SILENCE_S_MAX => (Tone::Good, "there"),
            Some(_) => (Tone::Warning, "silent"),
            None => (Tone::Plain, "new"),
        };
        vec![
            Cell::text(format!("{}:{}", executor.host, executor.port)),
            Cell::state(tone, state),
            seen.map_or_else(|| Cell::text(""), |seen| Cell::ago(unix_ms(seen), unix_ms(now()))),
            Cell::number(u64::from(executor.specification.vcores)),
        ]
    };
    table.fill(executors.len(), executors.iter().map(row));
    table
}

fn job_table(jobs: &[JobReport]) -> Table {
    let columns = &["Job", "State", "Begun", "Stages ended", "Stages"];
    let mut table = Table::new("Jobs", columns).or_say("No query has run within the last minutes.");
    let row = |job: &JobReport| {
        vec![
            Cell::text(&job.id),
            Cell::state(tone_of(job.state), job.state.word()),
            Cell::ago(job.began_ms, unix_ms(now())),
            Cell::number(job.stages_ended),
            Cell::number(job.stages),
        ]
    };
    table.fill(jobs.len(), jobs.iter().map(row));
    table
}

fn executor_json((executor, seen): &Executor) -> Value {
    json!({
        "id": executor.id,
        "host": executor.host,
        "port": executor.port,
        "controlPort": executor.grpc_port,
        "tasksMax": executor.specification.vcores,
        "lastHeartbeatMs": seen.map(unix_ms),
    })
}
