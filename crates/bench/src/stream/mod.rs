//! `yeoul bench stream`: latency and CPU time of queries from Kafka to Kafka, beside a loop that only consumes and produces and beside
//! Spark, with the same producer and consumer around each, one after the other; and what one core does.
//!
//! - `Pipeline`: the queries
//! - `party`: who runs them: our binary, the loop, Spark (`spark`), as processes
//! - `case`: one query, one rate, one party: what is fed, read and counted (`cpu_time`)
//! - [`latency_report`]: all cases as a table and as bars
//! - [`windowed_count`], [`two_streams`]: steps with state in memory; [`json_count`], [`restart`]: with Kafka
//! - [`act`]: for `yeoul demo`

pub mod act;
mod case;
mod cpu_time;
pub mod json_count;
pub mod latency_report;
mod own_process;
mod party;
mod pipelines;
pub mod restart;
mod spark;
pub mod two_streams;
pub mod windowed_count;

pub use case::{Measured, Outcome};
pub use party::{LOOP_VERB, Who};
pub use pipelines::Pipeline;
pub use spark::SparkFiles;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use yeoul_base::Result;
use yeoul_stream::connectors::kafka::measure::bare_loop;

use case::Times;
use party::{Case, Party};

/// Time for which a case warms up, as a part of the time that counts, and at least.
const WARM_UP: f64 = 0.25;
const WARM_UP_MIN: Duration = Duration::from_secs(5);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Address of the broker, in which topics are made that stay.
    pub servers: String,
    /// Records a second, a case each.
    pub rates: Vec<u32>,
    /// Queries, a case each.
    pub pipelines: Vec<Pipeline>,
    /// Time that counts in a case, after some to warm up.
    pub time: Duration,
    /// Files that Spark needs, if it is to be measured, too.
    pub spark: Option<SparkFiles>,
}

/// One party in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The party.
    pub who: Who,
    /// The query.
    pub pipeline: Pipeline,
    /// Records a second.
    pub rate: u32,
    /// Outcome.
    pub outcome: Outcome,
}

impl Plan {
    /// All who are measured, in turn.
    pub fn parties(&self) -> Vec<Who> {
        let spark = if self.spark.is_some() { Who::SPARK.as_slice() } else { &[] };
        Who::OURS.iter().chain(spark).copied().collect()
    }

    fn times(&self) -> Times {
        Times { warm_up: self.time.mul_f64(WARM_UP).max(WARM_UP_MIN), measured: self.time }
    }
}

/// Measures every party in every case, with files in a folder; `say` gets each row as soon as it is there.
///
/// # Errors
/// As Kafka says; `Cancelled` by `stop`. What a party does wrong is in its row.
pub fn run(plan: &Plan, folder: &Path, stop: &AtomicBool, mut say: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let run_id = yeoul_stream::checkpoint::new_id();
    let turn = |who, rate, name: &str| {
        let name = format!("yeoul-bench-{}-{rate}-{name}", &run_id[..8]);
        Turn { plan, who, rate, name, folder, stop, party: None }
    };
    let mut rows = Vec::new();
    // A broker that has just started compiles what it runs: the first party would be measured with that.
    if let Some(rate) = plan.rates.iter().copied().max() {
        turn(Who::BareLoop, rate, "warm").take(Pipeline::Stateless)?;
    }
    for rate in plan.rates.iter().copied() {
        for (number, who) in plan.parties().into_iter().enumerate() {
            let mut turn = turn(who, rate, &number.to_string());
            for pipeline in turn.pipelines() {
                let row = Row { who, pipeline, rate, outcome: turn.take(pipeline)? };
                say(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// A party's turn at a rate.
struct Turn<'a> {
    plan: &'a Plan,
    who: Who,
    rate: u32,
    /// Begin of the names of its topics and files.
    name: String,
    folder: &'a Path,
    stop: &'a AtomicBool,
    party: Option<Box<dyn Party>>,
}

impl Turn<'_> {
    /// Every pipeline is compared with one run of the loop.
    fn pipelines(&self) -> Vec<Pipeline> {
        if self.who == Who::BareLoop { vec![Pipeline::Stateless] } else { self.plan.pipelines.clone() }
    }

    /// One case, by the party that is there, or that is opened for it.
    fn take(&mut self, pipeline: Pipeline) -> Result<Outcome> {
        if let Some(words) = self.who.lacks(pipeline) {
            return Ok(Outcome::Failed(words.to_owned()));
        }
        let name = format!("{}-{}", self.name, pipeline.name());
        let opened = match self.party.take().filter(|party| party.is_usable()) {
            Some(party) => Ok(party),
            None => self.who.open(self.rate, &self.folder.join(&name), self.plan.spark.as_ref()),
        };
        let party = match opened {
            Ok(opened) => self.party.insert(opened),
            Err(error) => return Ok(Outcome::Failed(party::text_of(&error))),
        };
        let case = Case {
            servers: self.plan.servers.clone(),
            pipeline,
            rate: self.rate,
            from: (0..pipeline.inputs()).map(|topic| format!("{name}-in{topic}")).collect(),
            to: format!("{name}-out"),
        };
        case::measure(&case, &self.plan.times(), party.as_mut(), self.stop)
    }
}

/// The bare loop, until the process ends.
///
/// # Errors
/// As Kafka says.
pub fn run_loop(servers: &str, from: &str, to: &str) -> Result<()> {
    bare_loop(servers, from, to, &AtomicBool::new(false))
}
