//! What a worker does with orders from its handle, its HTTP pages and the master: it stops, leaves, or stays.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use yeoul_base::ByteSize;

use super::listeners::Listeners;
use super::node::Node;
use super::registration::Registration;
use crate::error::{Error, Kind, Result};
use crate::report::{Command, Phase};

/// How often a worker that leaves looks whether it may.
const LEAVE_POLL: Duration = Duration::from_millis(50);

/// How long a worker without shuffles that leaves for good waits for the last files to be deleted: nobody comes back for them.
const DELETIONS_MAX: Duration = Duration::from_secs(60);

/// How often a worker that stops says what it waits for.
const SAY_INTERVAL: Duration = Duration::from_secs(30);

/// Carries out orders from the handle and from the master.
pub(super) struct Lifecycle {
    node: Arc<Node>,
    registration: Arc<Registration>,
    listeners: Listeners,
    /// When a decommissioned worker leaves at the latest.
    leave_by: Option<Instant>,
    /// Tells the master that the worker leaves, which takes a while if it does not answer: no order waits for that.
    telling: JoinSet<()>,
}

impl Lifecycle {
    /// That of a worker which is at work.
    pub(super) fn new(node: Arc<Node>, registration: Arc<Registration>, listeners: Listeners) -> Self {
        Self { node, registration, listeners, leave_by: None, telling: JoinSet::new() }
    }

    /// Returns when the worker has ended, as ordered.
    ///
    /// # Errors
    /// `DataLoss` if a graceful stop could not bring everything to disk.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Command>) -> Result<()> {
        let mut outcome = Ok(());
        let mut poll = interval(LEAVE_POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased; // an order to stay before a look whether it may leave
                Some(order) = orders.recv() => match order { // the registration has a sender
                    Command::StopNow => {
                        tracing::info!("stopping at once, as ordered: what is in memory only is lost");
                        break;
                    }
                    Command::StopGracefully => {
                        let hurried =
                            async { while orders.recv().await.is_some_and(|order| order != Command::StopNow) {} };
                        tokio::select! {
                            handed_over = self.hand_over() => outcome = handed_over,
                            () = hurried => outcome = self.give_up(),
                        }
                        break;
                    }
                    Command::Decommission => self.decommission(),
                    Command::Recommission => {
                        tracing::info!("recommissioned: takes partitions again");
                        self.node.set_phase(Phase::Normal);
                        self.leave_by = None;
                        self.telling.abort_all();
                    }
                },
                Some(_) = self.telling.join_next() => {}
                _ = poll.tick(), if self.leave_by.is_some() && self.telling.is_empty() => if self.leaves() {
                    self.registration.leave(true).await;
                    break;
                }
            }
        }
        self.listeners.close().await;
        outcome
    }

    /// Takes nothing new from now on. Masters and people repeat the order; the time to leave counts from the first, and
    /// each report tells the master again.
    fn decommission(&mut self) {
        if self.leave_by.is_some() {
            return;
        }
        let (held, timeout) = (self.node.store.all().len(), self.node.options.decommission_timeout);
        tracing::info!(
            "decommissioned: takes nothing new, and leaves when its {held} shuffles have gone, at the latest after {}",
            in_words(timeout)
        );
        self.leave_by = Some(Instant::now() + timeout);
        self.node.set_phase(Phase::Decommissioning);
        let registration = Arc::clone(&self.registration);
        self.telling.spawn(async move { registration.leave(false).await });
    }

    /// Whether a decommissioned worker has nothing left, or no time. What is being deleted counts: nobody comes back for
    /// its files.
    fn leaves(&mut self) -> bool {
        let Some(by) = self.leave_by.as_mut() else { return false };
        let store = &self.node.store;
        let (held, with_files) = (store.all().len(), store.shuffle_count());
        if held == 0 {
            *by = (*by).min(Instant::now() + DELETIONS_MAX);
        }
        let is_late = Instant::now() >= *by;
        match (with_files, held) {
            (0, _) => tracing::info!("left: its last shuffle has gone"),
            (deleting, 0) if is_late => {
                tracing::warn!("left before the files of {deleting} shuffles were deleted, which stay");
            }
            (_, held) if is_late => tracing::warn!(
                "left after {} (celeborn.worker.decommission.forceExitTimeout) with {held} shuffles, which are lost",
                in_words(self.node.options.decommission_timeout)
            ),
            _ => return false,
        }
        true
    }

    /// The order to end came before a stop was complete.
    fn give_up(&self) -> Result<()> {
        let resident: u64 = self.node.store.all().iter().map(|shuffle| shuffle.resident()).sum();
        tracing::warn!("told to end before the stop was complete");
        match resident {
            0 => Ok(()),
            _ => Err(lost(format!("{} were not on disk yet", ByteSize::from_bytes(resident)))),
        }
    }

    /// Hands over: the master tells drivers, which commit what is open here and go elsewhere; then everything goes to disk,
    /// while it can still be read. What nobody has committed in time goes there as it is: the next process takes its commit.
    async fn hand_over(&self) -> Result<()> {
        let node = &self.node;
        node.set_phase(Phase::Stopping);
        tracing::info!(
            "stopping: {} locations are open, for whose commits it waits {} at most",
            node.open_locations(),
            in_words(node.options.stop_timeout)
        );
        self.registration.leave(false).await;
        let by = Instant::now() + node.options.stop_timeout;
        let committed = async {
            while node.open_locations() > 0 && Instant::now() < by {
                tokio::time::sleep(LEAVE_POLL).await;
            }
        };
        saying(SAY_INTERVAL, committed, || {
            let left = by.saturating_duration_since(Instant::now()).as_secs();
            format!("stopping: {} locations are still open, {left} s left", node.open_locations())
        })
        .await;
        let open: usize = node.store.all().iter().map(|shuffle| shuffle.lock().state.seal_all()).sum();
        if open > 0 {
            tracing::warn!(
                "{open} locations were not committed in time: they are brought to disk as they are, for a commit after the restart"
            );
        }
        let failed = saying(SAY_INTERVAL, node.store.flush(), || {
            let resident = node.store.all().iter().map(|shuffle| shuffle.resident()).sum();
            format!("stopping: {} are still to be brought to disk", ByteSize::from_bytes(resident))
        })
        .await;
        for shuffle in &failed {
            tracing::warn!(shuffle = %shuffle.key(), "not wholly on disk: what is missing is lost with this process");
        }
        let outcome = match failed.len() {
            0 => {
                tracing::info!("stopped: everything is on disk");
                Ok(())
            }
            failed => {
                tracing::warn!("stopped: {failed} shuffles are not wholly on disk");
                Err(lost(format!("{failed} shuffles are not wholly on disk")))
            }
        };
        self.registration.leave(true).await;
        outcome
    }
}

/// The error of a stop that has lost data.
fn lost(what: String) -> Error {
    Error::new(Kind::DataLoss, format!("the worker stopped, and {what}"))
        .with_hint("the log names the shuffles; their drivers write again what they find missing")
}

/// Waits, and says now and then what for.
async fn saying<T>(interval: Duration, waiting: impl Future<Output = T>, what_for: impl Fn() -> String) -> T {
    let mut waiting = pin!(waiting);
    loop {
        match tokio::time::timeout(interval, waiting.as_mut()).await {
            Ok(done) => return done,
            Err(_) => tracing::info!("{}", what_for()),
        }
    }
}

/// A time as people say it: whole hours in hours, others in seconds.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds > 0 && seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ => format!("{} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heard::Heard;
    use crate::ids::{FileName, LocationId, MapId, Mode, ShuffleKey};
    use crate::worker::node::tests::{append, reserved};
    use crate::worker::options::Options;
    use crate::worker::server::Server;
    use crate::worker::server::tests::alone;
    use crate::worker::state::Commit;
    use crate::worker::store::segment::Segment;
    use crate::worker::view;

    const WITHIN: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_worker_that_is_told_to_stay_stays() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let worker = Server::start(alone(&place)).await.unwrap();
        worker.decommission();
        worker.order(Command::Recommission);
        worker.stop(); // if it is still there
        worker.ended().await.unwrap();
        assert_eq!(worker.node().phase(), Phase::Stopping);
        let said = heard.text();
        let lines = said.lines().filter(|line| line.contains("INFO ")).map(|line| line.trim_start());
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "INFO decommissioned: takes nothing new, and leaves when its 0 shuffles have gone, at the latest after 6 h",
                "INFO recommissioned: takes partitions again",
                "INFO stopping: 0 locations are open, for whose commits it waits 480 s at most",
                "INFO stopped: everything is on disk",
            ],
            "{said}"
        );
    }

    #[tokio::test]
    async fn what_a_worker_loses_when_it_ends_is_said() {
        let (heard, _listening) = Heard::begin();
        for stops in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let options = Options {
                host: Some("127.0.0.1".into()),
                stop_timeout: Duration::from_millis(100),
                decommission_timeout: Duration::from_millis(1500),
                ..Options::embedded(["127.0.0.1:1"], place.path()) // nobody is there
            };
            let worker = Server::start(options.clone()).await.unwrap();
            let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
            for shuffle in 0..2 {
                let key = ShuffleKey::new("app", shuffle);
                let shuffle = reserved(worker.node(), &key, &[file]);
                append(&shuffle, file, MapId(3));
            }
            if stops {
                worker.stop()
            } else {
                worker.decommission()
            }
            tokio::time::timeout(WITHIN, worker.ended()).await.expect("it ends").unwrap();
            if stops {
                // What was open is there again, and waits for its commit.
                let id = worker.id().clone();
                drop(worker);
                let opened = async {
                    loop {
                        match Node::open(options.clone(), id.clone(), 32 << 20) {
                            Err(error) if error.kind() == Kind::Conflict => {
                                tokio::time::sleep(Duration::from_millis(5)).await; // until its tasks have ended
                            }
                            opened => return opened.unwrap(),
                        }
                    }
                };
                let node = tokio::time::timeout(WITHIN, opened).await.expect("its directory is free");
                let store = &node.store;
                for shuffle in 0..2 {
                    let shuffle = store.find(&ShuffleKey::new("app", shuffle)).expect("it is on disk");
                    let commit = Commit { primaries: vec![file.location], ..Commit::default() };
                    assert_eq!(shuffle.lock().state.commit(&commit).committed, [file]);
                }
            }
        }
        let said = heard.text();
        for line in [
            "WARN left after 1.5 s (celeborn.worker.decommission.forceExitTimeout) with 2 shuffles, which are lost\n",
            "INFO stopping: 2 locations are open, for whose commits it waits 0.1 s at most\n",
            "WARN 2 locations were not committed in time: they are brought to disk as they are, for a commit after the restart\n",
            "INFO stopped: everything is on disk\n",
        ] {
            assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
        }
    }

    #[tokio::test]
    async fn a_stop_that_loses_data_says_so_to_who_waits_for_it() {
        for hurried in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let stop_timeout = if hurried { WITHIN } else { Duration::ZERO };
            let worker = Server::start(Options { stop_timeout, ..alone(&place) }).await.unwrap();
            let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
            let shuffle = reserved(worker.node(), &ShuffleKey::new("app", 1), &[file]);
            append(&shuffle, file, MapId(3));
            if !hurried {
                worker.node().store.directories().iter().for_each(|directory| directory.hangs());
            }
            worker.stop();
            while worker.node().phase() != Phase::Stopping {
                tokio::task::yield_now().await;
            }
            if hurried {
                worker.order(Command::StopNow);
            }
            let error = tokio::time::timeout(WITHIN, worker.ended()).await.expect("it ends").unwrap_err();
            assert_eq!(error.kind(), Kind::DataLoss, "{error}");
        }
    }

    #[tokio::test]
    async fn a_stop_after_its_directory_was_deleted_ends_with_an_error_and_names_the_shuffles() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let probe_interval = Duration::from_millis(5);
        let options = Options { stop_timeout: Duration::ZERO, probe_interval, ..alone(&place) };
        let worker = Server::start(options).await.unwrap();
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        let shuffle = reserved(worker.node(), &ShuffleKey::new("app", 1), &[file]);
        append(&shuffle, file, MapId(3));
        let store = &worker.node().store;
        assert_eq!(store.flush().await.len(), 0, "it is on disk");
        let directory = &store.directories()[0];
        std::fs::remove_dir_all(directory.home()).unwrap();
        std::fs::create_dir(directory.home()).unwrap(); // as the next file in it would need it
        tokio::time::timeout(WITHIN, directory.until_failed()).await.expect("a probe notices");
        let ailment = format!("no directory takes batches: {} has failed", directory.root().display());
        assert_eq!(view::ailment_of_directories(worker.node()), Some(ailment));
        worker.stop();
        let error = tokio::time::timeout(WITHIN, worker.ended()).await.expect("it ends").unwrap_err();
        assert_eq!(error.kind(), Kind::DataLoss, "{error}");
        let said = heard.text();
        for line in [
            "not wholly on disk: what is missing is lost with this process shuffle=app-1",
            "stopped: 1 shuffles are not wholly on disk",
        ] {
            assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
        }
    }

    #[tokio::test]
    async fn a_worker_that_is_told_to_leave_again_and_again_leaves_in_time() {
        let place = tempfile::tempdir().unwrap();
        let (heard, _listening) = Heard::begin();
        let options = Options { decommission_timeout: Duration::from_millis(600), ..alone(&place) };
        let worker = Server::start(options).await.unwrap();
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        reserved(worker.node(), &ShuffleKey::new("app", 1), &[file]);
        let told = async {
            loop {
                worker.decommission();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            ended = worker.ended() => ended.unwrap(),
            () = told => unreachable!("it goes on"),
            () = tokio::time::sleep(WITHIN) => panic!("each order gave it more time"),
        }
        assert_eq!(heard.text().matches("INFO decommissioned: ").count(), 1, "{}", heard.text());
    }

    #[tokio::test]
    async fn what_is_waited_for_is_said_now_and_then() {
        let (heard, _listening) = Heard::begin();
        let waiting = async {
            while heard.text().lines().count() < 3 {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            7
        };
        let waited = saying(Duration::from_millis(20), waiting, || "still there".to_owned());
        assert_eq!(tokio::time::timeout(WITHIN, waited).await.expect("it says so"), 7);
        assert!(heard.text().lines().all(|line| line == " INFO still there"), "{}", heard.text());
    }

    #[tokio::test]
    async fn a_worker_that_stops_gracefully_ends_at_once_if_it_is_told_to() {
        let place = tempfile::tempdir().unwrap();
        let worker = Server::start(alone(&place)).await.unwrap();
        let file = FileName { location: LocationId::new(0, 0), mode: Mode::Primary };
        reserved(worker.node(), &ShuffleKey::new("app", 1), &[file]);
        worker.stop();
        while worker.node().phase() != Phase::Stopping {
            tokio::task::yield_now().await;
        }
        // It waits for the location to be committed.
        assert!(tokio::time::timeout(4 * LEAVE_POLL, worker.ended()).await.is_err());
        worker.order(Command::Decommission);
        worker.order(Command::StopNow);
        tokio::time::timeout(WITHIN, worker.ended()).await.expect("it ends").unwrap();
    }

    #[tokio::test]
    async fn a_worker_that_leaves_for_good_takes_its_files_with_it() {
        let place = tempfile::tempdir().unwrap();
        let worker = Server::start(alone(&place)).await.unwrap();
        let store = &worker.node().store;
        let (key, directory) = (ShuffleKey::new("app", 1), &store.directories()[0]);
        let segment = Arc::new(Segment::create(directory, &key, 1).unwrap());
        let path = segment.path().to_owned();
        store.find_or_insert(&key).unwrap().lock().adopt(&segment);
        drop(segment);
        let still = directory.deletions.take_all().await;
        worker.decommission();
        worker.node().expire_all([key]);
        assert!(tokio::time::timeout(10 * LEAVE_POLL, worker.ended()).await.is_err(), "{path:?} is there");
        drop(still);
        tokio::time::timeout(WITHIN, worker.ended()).await.expect("it ends").unwrap();
        assert!(!path.exists());
    }
}
