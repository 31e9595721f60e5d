//! `yeoul cluster`: queries of `yeoul sql` in stages, on many machines.
//!
//! Ballista divides a plan into stages, gives their tasks to executors and tries those again that fail. What SQL means is decided once,
//! where the query is planned: in the session of the client, by the dialect and the rules of `yeoul sql`. The physical plan goes to the
//! scheduler, which only divides it.
//!
//! - [`Cluster`]: where a session's queries run; `job`: one of them, from the client's side;
//! - [`scheduler`], [`executor`]: the two servers;
//! - `plan_codec`: plans on the wire, deep ones in `parts`; `failure`: errors on the wire;
//! - `analysis`: `EXPLAIN ANALYZE`; `reports`, `reported`: jobs and stages, as a scheduler tells of them and clients ask;
//! - `clients`: jobs whose clients have gone;
//! - `ends`: the end of a task's work with the task;
//! - `exchanges`: operators between stages;
//! - `token`: the secret of a cluster; `guard`: ports that ask for it;
//! - `joins`, `series`, `tables`: operators that are sent in another form;
//! - `orphans`: tasks whose job is over;
//! - `orders`: orders that operators of a stage rely on;
//! - `single_tasks`: operators that only one process can run;
//! - `reruns`: outputs of tasks that have run twice;
//! - `shuffle`: exchanges whose rows outlive the executors that wrote them;
//! - `slots`: how many tasks an executor may be given;
//! - `stage`: a stage's plan as an executor runs it;
//! - `threads`: the threads of tasks;
//! - `whole`: sides of joins that one task reads whole;
//! - `pages`, `counts`: the scheduler's HTTP; `served`: its port;
//! - `watch`: executors whose processes have ended;
//! - `limits`: what a cluster takes and keeps at most.

mod analysis;
mod clients;
mod counts;
mod ends;
mod exchanges;
pub mod executor;
mod failure;
mod guard;
mod job;
mod joins;
mod limits;
mod orders;
mod orphans;
mod pages;
mod parts;
mod plan_codec;
mod reported;
mod reports;
mod reruns;
pub mod scheduler;
mod series;
mod served;
mod shuffle;
mod single_tasks;
mod slots;
mod stage;
mod tables;
mod threads;
mod token;
mod watch;
mod whole;

pub use job::Cluster;
pub use plan_codec::PlanCodec;
pub use token::Token;
use yeoul_base::Error;

/// The error of a session as a server gives it.
fn of_session(error: yeoul_dialect::Error) -> Error {
    let plain = Error::new(error.kind(), error.to_string());
    let plain = match error.hint() {
        Some(hint) => plain.with_hint(hint.to_owned()),
        None => plain,
    };
    plain.with_source(error)
}
