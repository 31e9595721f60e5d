//! The oracle: DuckDB in its own process, without a memory limit, whose answers count as right.
//!
//! Where the standard leaves a choice (the place of nulls, the division of integers), the oracle answers in the dialect of
//! the contestant that it is compared with. Each answer is asked for once, and kept on disk for the next round.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use yeoul_base::ErrorKind;

use super::queries::Query;
use crate::compare::{Answer, Verdict, compare, without_limit};
use crate::contest::process::{Attempt, Ended, Launch, Process};
use crate::contest::protocol::{Dialect, NullOrder, Open, Run};
use crate::error::{Error, Result};

/// How long the oracle may take: it has no limits, and runs alone.
const ANSWER_MAX: Duration = Duration::from_secs(900);

/// The oracle and the answers that it has given.
pub(super) struct Oracle {
    launch: Launch,
    open: Open,
    process: Option<Process>,
    version: Option<String>,
    given: BTreeSet<PathBuf>,
}

impl Oracle {
    /// An oracle for the tables of `open`. It starts with the first question.
    pub fn new(launch: Launch, open: Open) -> Self {
        Self { launch, open, process: None, version: None, given: BTreeSet::new() }
    }

    /// Its version, once it has started.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Whether the answer to `query` in the file `answer` is right in `dialect`.
    ///
    /// # Errors
    /// `Unavailable` if the oracle does not answer; those of reading the file.
    pub fn judge(
        &mut self,
        query: &Query,
        dialect: Dialect,
        answer: &Path,
        stop: &AtomicBool,
    ) -> Result<Verdict> {
        let ours = Answer::read(answer)?;
        let theirs = self.answer(query.number, &query.sql, dialect, "", stop)?;
        compare(&query.sql, &ours, &theirs, || {
            let (sql, _) = without_limit(&query.sql)
                .ok_or_else(|| Error::new(ErrorKind::Internal, "a query without a limit was cut"))?;
            self.answer(query.number, sql, dialect, "-all", stop)
        })
    }

    fn answer(
        &mut self,
        number: u32,
        sql: &str,
        dialect: Dialect,
        kind: &str,
        stop: &AtomicBool,
    ) -> Result<Answer> {
        let nulls = match dialect.nulls {
            NullOrder::Last => "last",
            NullOrder::Largest => "largest",
            NullOrder::Smallest => "smallest",
        };
        let division = if dialect.integer_division { "integer" } else { "real" };
        let path = self.open.scratch.join(format!("oracle-{number}-{nulls}-{division}{kind}.arrow"));
        if !self.given.contains(&path) {
            let process = match &mut self.process {
                Some(process) => process,
                none => {
                    let process = Process::start(&self.launch, &self.open, stop)?;
                    self.version = Some(process.opened().version.clone());
                    none.insert(process)
                }
            };
            let run = Run { sql: sql.to_owned(), save: Some(path.clone()), dialect: Some(dialect) };
            let attempt = process.run(&run, ANSWER_MAX, stop);
            if attempt.as_ref().map_or(true, Attempt::is_last) {
                self.rest();
            }
            match attempt?.ended {
                Ended::Ran(_) => self.given.insert(path.clone()),
                Ended::Failed(failed) | Ended::Gone(failed) => {
                    let message = format!("the oracle does not answer query {number}: {}", failed.message);
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
            };
        }
        Answer::read(&path)
    }

    /// Ends the process, which frees its memory; it starts again with the next question.
    pub fn rest(&mut self) {
        self.process = None;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::ipc::writer::StreamWriter;
    use tempfile::TempDir;

    use super::*;
    use crate::contest::process::tests::scripted;

    const RAN: &str = r#"{"ran":{"elapsed_ms":1.5,"rows":1,"notices":[]}}"#;
    const DIALECT: Dialect = Dialect { nulls: NullOrder::Last, integer_division: false };

    /// An oracle that is a shell script: it does `then` on its second question, and answers the others.
    fn oracle(folder: &TempDir, then: &str) -> Oracle {
        let then =
            format!("read first; echo '{RAN}'; read second; {then}; while read more; do echo '{RAN}'; done");
        let (launch, open) = scripted(folder, &then);
        Oracle::new(launch, open)
    }

    #[test]
    fn what_the_oracle_does_not_answer_is_no_reason_not_to_judge_the_next_query() {
        for then in ["kill -KILL $$", "echo nonsense", "echo 'no'; echo 'answer'"] {
            let folder = TempDir::new().unwrap();
            let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
            let batch = RecordBatch::try_from_iter([("n", one)]).unwrap();
            // The answers are put where the oracle would write them.
            for name in ["ours", "oracle-1-last-real", "oracle-3-last-real"] {
                let file = File::create(folder.path().join(format!("{name}.arrow"))).unwrap();
                let mut writer = StreamWriter::try_new(file, &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.finish().unwrap();
            }
            let mut oracle = oracle(&folder, then);
            assert_eq!(oracle.version(), None);
            let mut judge = |number| {
                let query = Query { number, sql: "select 1 as n".to_owned() };
                let ours = folder.path().join("ours.arrow");
                oracle.judge(&query, DIALECT, &ours, &AtomicBool::new(false))
            };
            assert_eq!(judge(1).unwrap(), Verdict::Right(vec![]), "{then}");
            judge(2).unwrap_err();
            assert_eq!(judge(3).unwrap(), Verdict::Right(vec![]), "{then}");
            assert_eq!(oracle.version(), Some("S 1"), "its own word for it");
        }
    }
}
