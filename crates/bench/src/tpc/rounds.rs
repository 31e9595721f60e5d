//! A round: all contestants answer all queries under one memory limit, taking turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use indicatif::ProgressBar;
use yeoul_base::{ByteSize, ErrorKind};

use super::oracle::Oracle;
use super::queries::Query;
use super::{PEAK, TIME};
use crate::compare::Verdict;
use crate::contest::Peer;
use crate::contest::process::{Attempt, Ended, Launch, Process};
use crate::contest::protocol::{Failed, Open, Run};
use crate::error::{Error, Result};
use crate::report::{Case, Limit, Outcome, Round, Status};

/// A contestant over all rounds.
pub(super) struct Entrant {
    /// Which contestant it is.
    pub peer: Peer,
    /// How to start it.
    pub launch: Launch,
    /// The directory with the tables, as it names it.
    pub data: PathBuf,
    /// Its version, once it has started.
    pub version: Option<String>,
}

/// What all rounds share.
pub(super) struct Rules<'a> {
    /// The queries.
    pub queries: &'a [Query],
    /// Measured runs of each query, after the one whose answer is compared.
    pub runs: u32,
    /// How long one run may take.
    pub timeout: Duration,
    /// The data, the threads and the scratch directory.
    pub open: Open,
    /// Set to end the run.
    pub stop: &'a AtomicBool,
    /// Counts runs.
    pub bar: &'a ProgressBar,
}

/// A contestant in one round.
struct Seat<'a> {
    entrant: &'a mut Entrant,
    open: Open,
    process: Option<Process>,
    /// Why it takes no part in this round.
    absent: Option<Failed>,
}

impl Seat<'_> {
    /// The process, started again if the last query ended it.
    fn process(&mut self, stop: &AtomicBool) -> Result<&mut Process> {
        match &mut self.process {
            Some(process) => Ok(process),
            none => {
                let process = Process::start(&self.entrant.launch, &self.open, stop)?;
                self.entrant.version = Some(process.opened().version.clone());
                Ok(none.insert(process))
            }
        }
    }
}

/// Runs a round. All contestants are open at the same time; only one works at a time.
///
/// # Errors
/// If the first contestant, which is ours, does not start, or the run was stopped. How a query ends is an outcome, also of a
/// peer that does not start, and of an answer that the oracle does not judge.
pub(super) fn play(
    rules: &Rules<'_>,
    memory: Option<ByteSize>,
    entrants: &mut [Entrant],
    oracle: &mut Oracle,
) -> Result<Round> {
    let mut seats = Vec::with_capacity(entrants.len());
    let mut overall = Vec::with_capacity(entrants.len());
    for entrant in entrants {
        let scratch = rules.open.scratch.join(entrant.peer.name());
        std::fs::create_dir_all(&scratch).map_err(|e| crate::Error::io("create", &scratch, e))?;
        let memory_bytes = memory.map(ByteSize::as_u64);
        let open = Open { memory_bytes, scratch, data: entrant.data.clone(), ..rules.open.clone() };
        let mut seat = Seat { entrant, open, process: None, absent: None };
        let opened = match seat.process(rules.stop) {
            Ok(process) => process.opened_bytes(),
            Err(error) if seats.is_empty() => return Err(error),
            Err(error) => {
                seat.absent = Some(failure(error)?);
                None
            }
        };
        overall.push(opened.map(|bytes| (PEAK.to_owned(), bytes as f64)).into_iter().collect());
        seats.push(seat);
    }
    let mut cases = Vec::with_capacity(rules.queries.len());
    for query in rules.queries {
        rules.bar.set_message(format!("Q{}", query.number));
        cases.push(Case {
            name: format!("Q{}", query.number),
            outcomes: ask_all(rules, query, &mut seats, oracle)?,
        });
    }
    Ok(Round {
        name: memory.map_or("no memory limit".to_owned(), |memory| format!("memory limit {memory}")),
        limit: memory.map(|memory| Limit { metric: PEAK.to_owned(), value: memory.as_u64() as f64 }),
        overall,
        cases,
    })
}

/// One query for all contestants: first an answer to be compared, which also warms up; then measured runs, in turns.
fn ask_all(
    rules: &Rules<'_>,
    query: &Query,
    seats: &mut [Seat<'_>],
    oracle: &mut Oracle,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(seats.len());
    let mut row_counts = Vec::with_capacity(seats.len());
    for seat in seats.iter_mut() {
        let (outcome, rows) = answer_once(rules, query, seat, oracle)?;
        outcomes.push(outcome);
        row_counts.push(rows);
    }
    for turn in 0..rules.runs as usize {
        for who in order(turn, seats.len()) {
            let (seat, outcome) = (&mut seats[who], &mut outcomes[who]);
            let Some(first) = row_counts[who].filter(|_| outcome.status.counts()) else {
                rules.bar.inc(1);
                continue;
            };
            match run(rules, query, seat, None, &mut outcome.values, &mut outcome.notes)? {
                Ok(again) if again == first => {}
                Ok(again) => {
                    let reason =
                        format!("{again} rows in a measured run, {first} in the one that was compared");
                    outcome.status = Status::Wrong { reason };
                }
                Err(failed) => outcome.status = failed.into(),
            }
        }
    }
    Ok(outcomes)
}

/// The run whose answer is compared. Returns its outcome, and the number of rows if it was.
fn answer_once(
    rules: &Rules<'_>,
    query: &Query,
    seat: &mut Seat<'_>,
    oracle: &mut Oracle,
) -> Result<(Outcome, Option<u64>)> {
    let answer = seat.open.scratch.join("answer.arrow");
    let (mut values, mut notes) = (BTreeMap::new(), Vec::new());
    let (status, rows) = match run(rules, query, seat, Some(&answer), &mut values, &mut notes)? {
        Err(failed) => (failed.into(), None),
        Ok(rows) => {
            let dialect = seat.process(rules.stop).map(|process| process.opened().dialect);
            match dialect.and_then(|dialect| oracle.judge(query, dialect, &answer, rules.stop)) {
                Ok(Verdict::Right(allowed)) => {
                    notes.extend(allowed);
                    (Status::Right, Some(rows))
                }
                Ok(Verdict::Wrong(reason)) => (Status::Wrong { reason }, Some(rows)),
                Err(error) => (failure(error)?.into(), None),
            }
        }
    };
    // A time that includes writing the answer does not count.
    values.remove(TIME);
    Ok((Outcome { status, values, notes }, rows))
}

/// A query that cannot be run or judged has failed; the others, and what was measured, are kept.
///
/// # Errors
/// `Cancelled`, which ends everything.
fn failure(error: Error) -> Result<Failed> {
    if error.kind() == ErrorKind::Cancelled {
        return Err(error);
    }
    Ok(Failed { kind: error.kind().to_string(), message: error.to_string() })
}

/// The order of contestants in a turn. A contestant that runs after one that has emptied the caches is slower, so none
/// should always follow the same one: this is a Williams design, in which each follows each other equally often over as many
/// turns as there are contestants (twice as many if their number is odd).
fn order(turn: usize, contestants: usize) -> impl Iterator<Item = usize> {
    let backwards = contestants % 2 == 1 && (turn / contestants) % 2 == 1;
    (0..contestants).map(move |place| {
        let place = if backwards { contestants - 1 - place } else { place };
        let step = if place % 2 == 1 { place / 2 + 1 } else { contestants - place / 2 };
        (turn + step) % contestants
    })
}

/// One run: adds its measurements to `values` and its notices to `notes`. Returns the number of rows, or its failure.
///
/// # Errors
/// Those of [`failure`].
fn run(
    rules: &Rules<'_>,
    query: &Query,
    seat: &mut Seat<'_>,
    save: Option<&Path>,
    values: &mut BTreeMap<String, Vec<f64>>,
    notes: &mut Vec<String>,
) -> Result<Result<u64, Failed>> {
    if let Some(absent) = &seat.absent {
        rules.bar.inc(1);
        return Ok(Err(absent.clone()));
    }
    let run = Run { sql: query.sql.clone(), save: save.map(PathBuf::from), dialect: None };
    let attempt = seat.process(rules.stop).and_then(|process| process.run(&run, rules.timeout, rules.stop));
    if attempt.as_ref().map_or(true, Attempt::is_last) {
        seat.process = None;
    }
    rules.bar.inc(1);
    let attempt = match attempt {
        Ok(attempt) => attempt,
        Err(error) => return failure(error).map(Err),
    };
    let mut record = |name: &str, value: f64| values.entry(name.to_owned()).or_default().push(value);
    if let Some(peak) = attempt.peak_bytes {
        record(PEAK, peak as f64);
    }
    match attempt.ended {
        Ended::Ran(ran) => {
            record(TIME, ran.elapsed_ms);
            for notice in ran.notices {
                if !notes.contains(&notice) {
                    notes.push(notice);
                }
            }
            Ok(Ok(ran.rows))
        }
        Ended::Failed(failed) | Ended::Gone(failed) => Ok(Err(failed)),
    }
}

impl From<Failed> for Status {
    fn from(Failed { kind, message }: Failed) -> Self {
        Self::Failed { kind, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::process::tests::scripted;

    #[test]
    fn what_fails_for_one_query_ends_nothing_and_being_told_to_stop_does() {
        let status = Status::from(failure(Error::new(ErrorKind::Unavailable, "no oracle")).unwrap());
        assert!(matches!(&status, Status::Failed { message, .. } if message == "no oracle"));
        assert!(!status.counts());
        failure(Error::new(ErrorKind::Cancelled, "interrupted")).unwrap_err();
    }

    #[test]
    fn a_contestant_that_breaks_the_protocol_is_not_asked_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let (launch, open) = scripted(&folder, "read query; echo 'no answer'; read more");
        let (stop, bar) = (AtomicBool::new(false), ProgressBar::hidden());
        let timeout = Duration::from_secs(60);
        let rules = Rules { queries: &[], runs: 1, timeout, open: open.clone(), stop: &stop, bar: &bar };
        let mut entrant = Entrant { peer: Peer::DuckDb, launch, data: open.data.clone(), version: None };
        let mut seat = Seat { entrant: &mut entrant, open, process: None, absent: None };
        let query = Query { number: 1, sql: "select 1".to_owned() };
        let (mut values, mut notes) = (BTreeMap::new(), Vec::new());
        let failed = run(&rules, &query, &mut seat, None, &mut values, &mut notes).unwrap().unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Internal.as_str());
        assert!(seat.process.is_none(), "a line that comes late would be the answer to the next query");
    }

    #[test]
    fn a_peer_that_does_not_open_fails_in_all_queries_and_ends_nothing() {
        let (folder, other) = (tempfile::TempDir::new().unwrap(), tempfile::TempDir::new().unwrap());
        let (ours, open) =
            scripted(&folder, r#"while read query; do echo '{"failed":{"kind":"x","message":"y"}}'; done"#);
        let (mut theirs, _) = scripted(&other, "");
        let began = other.path().join("began");
        theirs.arguments = vec!["-c".into(), format!("echo >> {}; exit 3", began.display())];
        let (stop, bar) = (AtomicBool::new(false), ProgressBar::hidden());
        let query = |number| Query { number, sql: "select 1".to_owned() };
        let queries = [query(1), query(2)];
        let timeout = Duration::from_secs(60);
        let rules = Rules { queries: &queries, runs: 1, timeout, open: open.clone(), stop: &stop, bar: &bar };
        let entrant = |launch: &Launch, peer| Entrant {
            peer,
            launch: launch.clone(),
            data: open.data.clone(),
            version: None,
        };
        let mut oracle = Oracle::new(ours.clone(), open.clone());
        let mut entrants = [entrant(&ours, Peer::Yeoul), entrant(&theirs, Peer::Spark)];
        let round = play(&rules, None, &mut entrants, &mut oracle).unwrap();
        for case in &round.cases {
            let failed = |who: usize, says: &str| matches!(&case.outcomes[who].status, Status::Failed { message, .. } if message.contains(says));
            assert!(failed(0, "y") && failed(1, "does not open its tables"), "{:?}", case.outcomes);
        }
        assert_eq!(std::fs::read_to_string(began).unwrap(), "\n", "it is started once");
        entrants.reverse();
        play(&rules, None, &mut entrants, &mut oracle).unwrap_err();
    }

    #[test]
    fn everyone_follows_everyone_equally_often() {
        for contestants in 1..=5 {
            let turns = if contestants % 2 == 0 { contestants } else { 2 * contestants };
            let mut followed = vec![vec![0; contestants]; contestants];
            for turn in 0..turns {
                let order: Vec<usize> = order(turn, contestants).collect();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..contestants), "each once: {order:?}");
                order.windows(2).for_each(|pair| followed[pair[0]][pair[1]] += 1);
            }
            let often = turns / contestants;
            for (one, row) in followed.iter().enumerate() {
                assert!(
                    row.iter().enumerate().all(|(other, times)| one == other || *times == often),
                    "{followed:?}"
                );
            }
        }
    }
}
