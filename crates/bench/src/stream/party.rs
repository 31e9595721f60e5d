//! Parties that carry records from topics to a topic: our binary, the bare loop, and Spark.

use std::path::{Path, PathBuf};

use yeoul_base::{Error, Result};

use super::own_process::OwnProcess;
use super::pipelines::Pipeline;
use super::spark::{Mode, Spark, SparkFiles};

/// The verb of our binary that is the bare loop.
pub const LOOP_VERB: &str = "bench-loop";

/// One of them, as a column of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A loop that only consumes and produces.
    BareLoop,
    /// `yeoul stream run`.
    Yeoul,
    /// Spark, each batch as soon as the last is done.
    MicroBatch,
    /// Spark's real-time mode as it comes.
    RealTime,
    /// Spark's real-time mode with buffers that wait less between its tasks.
    RealTimeTuned,
}

/// One that is there.
pub(super) trait Party {
    /// Has it wait for records of a case.
    fn start(&mut self, case: &Case) -> Result<()>;
    /// Check that it still works; the error is its own.
    fn check(&mut self) -> Result<()>;
    /// Processes of the party, without those that they have started.
    fn processes(&self) -> Vec<u32>;
    /// Ends the work on a case.
    fn stop(&mut self) -> Result<()>;
    /// True if it can take another case.
    fn is_usable(&self) -> bool {
        true
    }
}

/// Query with the topics that it reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub servers: String,
    pub pipeline: Pipeline,
    /// Records a second, over all topics.
    pub rate: u32,
    pub from: Vec<String>,
    pub to: String,
}

impl Who {
    /// Those without a peer.
    pub const OURS: [Self; 2] = [Self::BareLoop, Self::Yeoul];
    /// Those that Spark is.
    pub const SPARK: [Self; 3] = [Self::MicroBatch, Self::RealTime, Self::RealTimeTuned];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::BareLoop => "bare loop",
            Self::Yeoul => "yeoul",
            Self::MicroBatch => "Spark micro-batch",
            Self::RealTime => "Spark real-time",
            Self::RealTimeTuned => "Spark real-time, tuned",
        }
    }

    /// Why it cannot run a pipeline, if that is known without trying.
    pub(super) fn lacks(self, pipeline: Pipeline) -> Option<&'static str> {
        let is_spark = Self::SPARK.contains(&self);
        // Its guide to Kafka says so; there is nothing that could be tried.
        (is_spark && pipeline == Pipeline::ExactlyOnce)
            .then_some("Spark's Kafka sink delivers at least once in every mode")
    }

    /// Brings it up for the cases of a rate, with files in a folder.
    pub(super) fn open(self, rate: u32, folder: &Path, spark: Option<&SparkFiles>) -> Result<Box<dyn Party>> {
        std::fs::create_dir_all(folder)?;
        let mode = match self {
            Self::BareLoop | Self::Yeoul => {
                let (is_loop, folder) = (self == Self::BareLoop, folder.to_owned());
                return Ok(Box::new(Ours { is_loop, folder, process: None }));
            }
            Self::MicroBatch => Mode::MicroBatch,
            Self::RealTime => Mode::RealTime,
            Self::RealTimeTuned => Mode::real_time_tuned(rate),
        };
        let files = spark.expect("Spark's files are prepared before it is opened");
        Ok(Box::new(Spark::open(files, mode, folder)?))
    }
}

/// A process of our binary for each case: `yeoul stream run`, or the bare loop, whose CPU time can be told from that of the measuring
/// clients then.
struct Ours {
    is_loop: bool,
    folder: PathBuf,
    process: Option<OwnProcess>,
}

impl Party for Ours {
    fn start(&mut self, case: &Case) -> Result<()> {
        self.process = Some(if self.is_loop {
            let arguments = [LOOP_VERB, &case.servers, &case.from[0], &case.to];
            OwnProcess::start(&arguments, &self.folder.join("loop.log"))?
        } else {
            let job = case.pipeline.job(&case.servers, &case.from, &case.to);
            OwnProcess::of_job(&job, &self.folder, case.pipeline.name())?
        });
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), OwnProcess::check)
    }

    fn processes(&self) -> Vec<u32> {
        self.process.iter().map(OwnProcess::id).collect()
    }

    fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            // It has nothing to bring to an end.
            Some(mut process) if self.is_loop => process.check(),
            Some(process) => process.stop(),
            None => Ok(()),
        }
    }
}

/// Text of an error with its causes, for a report.
pub(super) fn text_of(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
