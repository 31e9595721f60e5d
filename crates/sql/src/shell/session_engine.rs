//! The shell's [`Engine`], implemented by a session.

use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::{FutureExt, StreamExt};

use super::engine::{Answer, ColumnInfo, Diagnose, Engine, Watched};
use super::panics::defect;

use crate::output::{ProgressSnapshot, ProgressSource};
use crate::{Error, MemoryReport, Session, Span, Watch};

impl Diagnose for Error {
    fn hint(&self) -> Option<String> {
        self.hint().map(str::to_owned)
    }

    fn span(&self) -> Option<Span> {
        self.span()
    }
}

#[async_trait]
impl Engine for Arc<Session> {
    type Error = Error;

    async fn run(&self, sql: &str) -> Result<Answer<Error>, Error> {
        // Some file decoders panic on damaged input. That ends the statement, but not the shell or its session.
        let answer = AssertUnwindSafe(self.sql(sql))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(defect(&*panic)))?;
        let watch = WatchedQuery { session: Arc::clone(self), watch: answer.watch() };
        let (schema, is_plan) = (answer.schema(), answer.is_plan());
        let batches = AssertUnwindSafe(answer).catch_unwind();
        let batches = batches.map(|batch| batch.unwrap_or_else(|panic| Err(defect(&*panic)))).boxed();
        Ok(Answer { schema, is_plan, batches, watch: Some(Arc::new(watch)) })
    }

    async fn tables(&self) -> Result<Vec<String>, Error> {
        Ok(Session::tables(self))
    }

    async fn columns(&self, table: &str) -> Result<Vec<ColumnInfo>, Error> {
        let columns = AssertUnwindSafe(Session::columns(self, table))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(defect(&*panic)))?;
        Ok(columns.into_iter().map(|(name, data_type)| ColumnInfo { name, data_type }).collect())
    }

    async fn jobs(&self) -> Result<RecordBatch, Error> {
        Session::jobs(self).await
    }

    fn functions(&self) -> Vec<String> {
        Session::functions(self)
    }

    fn memory_report(&self) -> String {
        memory_text(&self.memory())
    }
}

struct WatchedQuery {
    session: Arc<Session>,
    watch: Watch,
}

impl ProgressSource for WatchedQuery {
    fn snapshot(&self) -> ProgressSnapshot {
        let (progress, memory) = (self.watch.progress(), self.session.memory());
        ProgressSnapshot {
            input_share: progress.input_share,
            rows: progress.rows_read,
            spilled: yeoul_base::ByteSize::from_bytes(progress.spilled_bytes),
            memory: memory.resident,
            memory_limit: memory.promise,
        }
    }
}

impl Watched for WatchedQuery {
    fn notices(&self) -> Vec<String> {
        self.watch.notices()
    }
}

/// What `.memory` prints.
fn memory_text(report: &MemoryReport) -> String {
    let mut text = String::new();
    let mut line =
        |name: &str, value: String| writeln!(text, "{name:<10}{value}").expect("a string takes all text");
    match report.promise {
        Some(promise) => line("limit", format!("{promise} for the whole process")),
        None => line("limit", "none; set one with --memory".to_owned()),
    }
    line("process", format!("{} now, {} at most", report.resident, report.resident_peak));
    if let Some((now, peak, limit)) = report.reserved {
        line("operators", format!("{now} now, {peak} at most, {limit} allowed"));
    }
    let (spilled, spill_limit) = report.spilled;
    line("spilled", format!("{spilled} now, {spill_limit} allowed"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use yeoul_base::ByteSize;

    #[test]
    fn the_memory_report_is_a_line_for_each_thing() {
        let report = MemoryReport {
            promise: Some(ByteSize::from_gib(1)),
            resident: ByteSize::from_mib(200),
            resident_peak: ByteSize::from_mib(300),
            reserved: Some((ByteSize::from_mib(10), ByteSize::from_mib(20), ByteSize::from_mib(400))),
            spilled: (ByteSize::ZERO, ByteSize::from_gib(100)),
        };
        let expected = "limit     1 GiB for the whole process\nprocess   200 MiB now, 300 MiB at most\n\
            operators 10 MiB now, 20 MiB at most, 400 MiB allowed\nspilled   0 B now, 100 GiB allowed\n";
        assert_eq!(memory_text(&report), expected);
        let free = memory_text(&MemoryReport { promise: None, reserved: None, ..report });
        assert!(free.starts_with("limit     none; set one with --memory\n") && free.lines().count() == 3);
    }
}
