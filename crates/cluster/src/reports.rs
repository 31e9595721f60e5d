//! Reports of jobs and their stages, as the scheduler's pages give them and clients read them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::serde::protobuf::job_status::Status as Job;
use ballista_core::serde::protobuf::task_status::Status as Task;
use ballista_scheduler::state::execution_graph::ExecutionGraph;
use ballista_scheduler::state::execution_stage::ExecutionStage;
use ballista_scheduler::state::task_manager::JobOverview;
use datafusion::arrow::array::{ArrayRef, StringArray, TimestampMillisecondArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::physical_plan::displayable;
use serde::{Deserialize, Serialize};
use yeoul_base::ByteSize;

/// Jobs, the newest first.
#[derive(Serialize, Deserialize)]
pub(crate) struct Jobs {
    pub jobs: Vec<JobReport>,
}

impl Jobs {
    /// A row for each job.
    pub(crate) fn table(&self) -> RecordBatch {
        let times = |of: &dyn Fn(&JobReport) -> Option<u64>| -> ArrayRef {
            let times = self.jobs.iter().map(|job| of(job).and_then(|ms| i64::try_from(ms).ok()));
            Arc::new(TimestampMillisecondArray::from_iter(times))
        };
        let counts = |of: &dyn Fn(&JobReport) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(self.jobs.iter().map(of)))
        };
        let texts = |of: &dyn Fn(&JobReport) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.jobs.iter().map(of)))
        };
        let columns = [
            ("job", texts(&|job| job.id.clone())),
            ("state", texts(&|job| job.state.word().to_owned())),
            ("began", times(&|job| Some(job.began_ms))),
            ("ended", times(&|job| job.ended_ms)),
            ("stages_ended", counts(&|job| job.stages_ended)),
            ("stages", counts(&|job| job.stages)),
        ];
        RecordBatch::try_from_iter(columns).expect("the columns have the same length and distinct names")
    }
}

/// Report of a job. Times are milliseconds since 1970.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobReport {
    pub id: String,
    pub state: JobState,
    pub began_ms: u64,
    pub ended_ms: Option<u64>,
    pub stages: u64,
    pub stages_ended: u64,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JobState {
    Queued,
    Running,
    Answered,
    Failed,
    Unknown,
}

impl JobState {
    /// Word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl JobReport {
    pub(crate) fn of(job: &JobOverview) -> Self {
        let state = match &job.status.status {
            Some(Job::Queued(_)) => JobState::Queued,
            Some(Job::Running(_)) => JobState::Running,
            Some(Job::Successful(_)) => JobState::Answered,
            Some(Job::Failed(_)) => JobState::Failed,
            None => JobState::Unknown,
        };
        Self {
            id: job.job_id.to_string(),
            state,
            began_ms: job.start_time,
            ended_ms: Some(job.end_time).filter(|ended| *ended > 0),
            stages: job.num_stages as u64,
            stages_ended: job.completed_stages as u64,
        }
    }
}

/// Stages of a job, the first ones first.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stages {
    pub stages: Vec<StageReport>,
}

impl Stages {
    pub(crate) fn of(graph: &dyn ExecutionGraph) -> Self {
        let mut stages: Vec<_> =
            graph.stages().iter().map(|(id, stage)| StageReport::of(*id as u64, stage)).collect();
        stages.sort_by_key(|stage| stage.stage);
        Self { stages }
    }
}

/// Report of a stage: what its ended tasks have written, and how long each of them ran.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StageReport {
    pub stage: u64,
    /// `Unresolved` before the stages that it reads have ended, `Resolved` before its first task; `Running`, `Successful`, `Failed`.
    pub state: String,
    pub tasks: u64,
    pub tasks_ended: u64,
    pub executors: u64,
    pub rows: u64,
    pub bytes: u64,
    pub shortest_ms: Option<u64>,
    pub longest_ms: Option<u64>,
    /// Operators, a line each.
    pub plan: String,
}

impl StageReport {
    fn of(id: u64, stage: &ExecutionStage) -> Self {
        let tasks = match stage {
            ExecutionStage::UnResolved(_) => 0,
            ExecutionStage::Resolved(stage) => stage.partitions,
            ExecutionStage::Running(stage) => stage.partitions,
            ExecutionStage::Successful(stage) => stage.partitions,
            ExecutionStage::Failed(stage) => stage.partitions,
        };
        let ended = stage.task_infos().into_iter().flatten().filter_map(|task| match &task.task_status {
            Task::Successful(done) => Some((task, done)),
            _ => None,
        });
        let (mut executors, mut times) = (HashSet::new(), Vec::new());
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        for (task, done) in ended {
            executors.insert(&done.executor_id);
            let took = task.end_exec_time.saturating_sub(task.start_exec_time);
            times.push(u64::try_from(took).unwrap_or(u64::MAX));
            for written in &done.partitions {
                rows = rows.saturating_add(written.num_rows);
                bytes = bytes.saturating_add(written.num_bytes);
            }
        }
        Self {
            stage: id,
            state: stage.variant_name().to_owned(),
            tasks: tasks as u64,
            tasks_ended: times.len() as u64,
            executors: executors.len() as u64,
            rows,
            bytes,
            shortest_ms: times.iter().min().copied(),
            longest_ms: times.iter().max().copied(),
            plan: displayable(stage.plan()).indent(false).to_string(),
        }
    }

    /// Line for people, without the plan.
    pub(crate) fn line(&self) -> String {
        let s = |count: u64| if count == 1 { "" } else { "s" };
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        let took = match (self.shortest_ms, self.longest_ms) {
            (Some(shortest), Some(longest)) if shortest != longest => {
                format!(" in {:.3} to {:.3} s", seconds(shortest), seconds(longest))
            }
            (_, Some(longest)) => format!(" in {:.3} s", seconds(longest)),
            _ => String::new(),
        };
        let Self { stage, tasks_ended, executors, rows, .. } = self;
        let bytes = ByteSize::from_bytes(self.bytes);
        format!(
            "stage {stage}: {tasks_ended} task{} on {executors} executor{}{took}, {rows} row{}, {bytes}",
            s(*tasks_ended),
            s(*executors),
            s(*rows)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_a_line() {
        let one = StageReport {
            stage: 2,
            state: "Successful".to_owned(),
            tasks: 3,
            tasks_ended: 3,
            executors: 1,
            rows: 45_000,
            bytes: 2048,
            shortest_ms: Some(20),
            longest_ms: Some(1250),
            plan: "A\n  B\n".to_owned(),
        };
        assert_eq!(one.line(), "stage 2: 3 tasks on 1 executor in 0.020 to 1.250 s, 45000 rows, 2 KiB");
        let alone = StageReport { tasks_ended: 1, rows: 1, shortest_ms: Some(1250), ..one };
        assert_eq!(alone.line(), "stage 2: 1 task on 1 executor in 1.250 s, 1 row, 2 KiB");
        let none = StageReport { tasks_ended: 0, executors: 0, shortest_ms: None, longest_ms: None, ..alone };
        assert_eq!(none.line(), "stage 2: 0 tasks on 0 executors, 1 row, 2 KiB");
    }
}
