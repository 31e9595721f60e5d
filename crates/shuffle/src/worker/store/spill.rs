//! Moves batches from memory to segments when memory is short: large shuffles first, the longest idle of them before the
//! others.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use yeoul_base::failpoint;
use yeoul_disk::Turn;
use yeoul_net::supervise::outcome;

use super::Store;
use super::directory::{Directory, Health, JOB_BYTES};
use super::segment::{Batches, RunToWrite, Segment, WrittenRun};
use super::shuffle::{Contents, Shuffle};
use crate::ids::ApplicationId;
use crate::wire::batch::ByteOrder;
use crate::worker::state::Slot;

/// How long the spiller waits for something to spill when memory is short and everything is being written already.
const RETRY: Duration = Duration::from_millis(5);

/// Batches that are being written to disk.
#[derive(Debug)]
pub struct SpillJob {
    shuffle: Arc<Shuffle>,
    /// Its locations, each with the number of the first batch.
    slots: Vec<(Slot, u32)>,
    runs: Vec<RunToWrite>,
    batches: Batches,
}

/// A job of a shuffle from when it has a directory until its write has ended.
#[derive(Debug)]
pub struct Write {
    directory: Arc<Directory>,
    batches: Batches,
    /// Whether its directory has failed meanwhile: then others may write the same batches, and the first one that ends
    /// counts.
    is_late: bool,
}

impl Store {
    /// Spills whenever memory is short, one job at a time for each directory. Runs until it is dropped.
    pub async fn run_spiller(self: Arc<Self>) {
        let mut jobs = JoinSet::new();
        loop {
            while let Some(ended) = jobs.try_join_next() {
                outcome(ended);
            }
            self.look_for_files(&mut jobs);
            let sealed = self.write_waiting_seals(&mut jobs);
            let started = self.start_job(&mut jobs);
            if started || sealed {
                continue;
            }
            let short = self.memory().excess() > 0;
            let in_want = self.directories().iter().filter(|directory| directory.lacks_files());
            let open_pause = in_want.map(|directory| directory.open_pause()).min();
            tokio::select! {
                () = self.memory().spill_wanted() => {}
                Some(ended) = jobs.join_next() => drop(outcome(ended)),
                () = tokio::time::sleep(RETRY), if short => {}
                () = tokio::time::sleep(open_pause.unwrap_or_default()), if open_pause.is_some() => {}
            }
        }
    }

    /// Begins to check whether files can be opened again, if it is time: what is in memory may need none, and then nobody
    /// else would find out.
    fn look_for_files(&self, jobs: &mut JoinSet<()>) {
        let in_want = |directory: &&Arc<Directory>| directory.lacks_files() && directory.takes_files();
        for directory in self.directories().iter().filter(in_want) {
            let Some(turn) = directory.looks.try_take() else { continue };
            let place = Arc::clone(directory);
            let look = move || {
                place.look_for_file();
                Ok(())
            };
            jobs.spawn(async move { turn.work(look).await.unwrap_or_default() });
        }
    }

    pub(super) fn start_job(self: &Arc<Self>, jobs: &mut JoinSet<()>) -> bool {
        if self.memory().excess() == 0 {
            return false;
        }
        let idle = |directory: &&Arc<Directory>| directory.health() == Health::Healthy && directory.is_idle();
        let directories: Vec<_> = self.directories().iter().filter(idle).cloned().collect();
        // Where no file can be opened, only shuffles that have a file can be spilled.
        for directory in best_first(directories, |directory| (directory.takes_files(), directory.usable())) {
            // Taken before anything is planned: jobs that wait for a disk that hangs would keep the memory.
            let Some(turn) = directory.writes.try_take() else { continue };
            let Some(job) = self.plan(&directory, JOB_BYTES) else {
                if directory.takes_files() {
                    return false; // the other directories have no more to spill
                }
                continue;
            };
            job.goes_to(&directory);
            let store = Arc::clone(self);
            jobs.spawn(async move {
                store.spill_in_turn(job, directory, turn).await;
            });
            return true;
        }
        false
    }

    /// The directory that a shuffle is spilled to next, of those that take data: healthy before full, idle before possibly
    /// slow, one where it has an open file before others, then the one with the most space.
    pub(super) fn directory_for(
        &self,
        shuffle: &Shuffle,
        takes_it: impl Fn(&Directory) -> bool,
    ) -> Option<Arc<Directory>> {
        let contents = shuffle.lock();
        let choice = |directory: &Arc<Directory>| {
            let has_file = contents.open_segment(directory).is_some();
            let rank = (
                directory.health() == Health::Healthy,
                directory.is_idle(),
                has_file,
                directory.usable(),
                directory.free(),
            );
            (has_file || directory.takes_files()).then(|| (rank, Arc::clone(directory)))
        };
        let choices = self.directories().iter().filter(|directory| takes_it(directory)).filter_map(choice);
        choices.max_by_key(|(rank, _)| *rank).map(|(_, directory)| directory)
    }

    /// The healthy directory with room for a large batch: one in which files can be created before others, idle before
    /// possibly slow, then the one with the most space.
    pub fn directory_for_large(&self, bytes: u64) -> Option<Arc<Directory>> {
        let has_room =
            |directory: &&Arc<Directory>| directory.health() == Health::Healthy && directory.usable() > bytes;
        let is_idle = |directory: &Directory| directory.large_writes.free() > 0;
        let with_room = self.directories().iter().filter(has_room);
        let rank =
            |directory: &&Arc<Directory>| (directory.takes_files(), is_idle(directory), directory.usable());
        with_room.max_by_key(rank).cloned()
    }

    /// Picks what to spill next to a directory: among shuffles that hold at least half as much as the largest, the one idle
    /// longest; of its locations, the largest. If no file can be created, only shuffles that have one.
    ///
    /// While a request waits, it is a shuffle of the application that holds most: its own request waits longest, and would
    /// wait for ever if only others' data were spilled.
    pub fn plan(&self, directory: &Arc<Directory>, bytes_max: u64) -> Option<SpillJob> {
        let mut shuffles = self.all();
        shuffles.retain(|shuffle| shuffle.resident() > 0);
        if !directory.takes_files() {
            shuffles.retain(|shuffle| shuffle.lock().open_segment(directory).is_some());
        }
        if self.memory().waiting() == 0 {
            return plan_among(shuffles, bytes_max);
        }
        let mut applications: HashMap<ApplicationId, (u64, Vec<Arc<Shuffle>>)> = HashMap::new();
        for shuffle in shuffles {
            let (held, own) = applications.entry(shuffle.key().application.clone()).or_default();
            *held += shuffle.resident();
            own.push(shuffle);
        }
        let mut applications: Vec<_> = applications.into_values().collect();
        applications.sort_by_key(|(held, _)| Reverse(*held));
        applications.into_iter().find_map(|(_, shuffles)| plan_among(shuffles, bytes_max))
    }

    /// Writes a job's runs to a directory and frees their memory. If the write fails, or the directory while it hangs, the
    /// batches stay in memory, from where they can go to another one. Returns whether they were written; after a failure of
    /// the directory they still may be.
    pub async fn spill(self: &Arc<Self>, job: SpillJob, directory: Arc<Directory>) -> bool {
        job.goes_to(&directory);
        let turn = tokio::select! {
            biased;
            () = directory.until_failed() => None,
            turn = directory.writes.take() => Some(turn),
        };
        match turn {
            Some(turn) => self.spill_in_turn(job, directory, turn).await,
            None => {
                job.give_up();
                false
            }
        }
    }

    async fn spill_in_turn(self: &Arc<Self>, job: SpillJob, directory: Arc<Directory>, turn: Turn) -> bool {
        let (tell, is_late) = oneshot::channel();
        // A task of its own: whenever the disk answers, that is recorded.
        let mut writing = tokio::spawn(Arc::clone(self).write_job(job, directory, turn, tell));
        tokio::select! {
            biased;
            written = &mut writing => outcome(written).unwrap_or(false),
            Ok(()) = is_late => false,
        }
    }

    /// Writes a job. If its directory fails meanwhile, which is told at once, others may write the same batches; if nobody
    /// has done so when the write ends, it counts all the same: a disk that is only slow would otherwise be given the same
    /// batches for ever. Returns whether it was written in time.
    async fn write_job(
        self: Arc<Self>,
        mut job: SpillJob,
        directory: Arc<Directory>,
        _turn: Turn,
        tell: oneshot::Sender<()>,
    ) -> bool {
        failpoint("worker-spill");
        let bytes = job.bytes();
        let shuffle = Arc::clone(&job.shuffle);
        let (target, lease) = {
            let contents = shuffle.lock();
            if contents.gone {
                return true;
            }
            (contents.target(&directory), contents.lease.clone())
        };
        let (mut runs, batches) = (std::mem::take(&mut job.runs), job.batches.clone());
        let (key, place, begun) = (shuffle.key().clone(), Arc::clone(&directory), Instant::now());
        let mut writing = tokio::task::spawn_blocking(move || {
            if bytes > place.usable() {
                place.measure()?;
                if bytes > place.usable() {
                    return Err(place.lacks_room().into());
                }
            }
            target.write(&place, &key, |segment| segment.append(&mut runs, &batches))
        });
        let written = tokio::select! {
            biased;
            written = &mut writing => Some(written),
            () = directory.until_failed() => None,
        };
        let is_late = written.is_none();
        let written = match written {
            Some(written) => written,
            None => {
                job.turns_late();
                let _ = tell.send(()); // nobody waits for it if the worker ends
                writing.await
            }
        };
        let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic).into()));
        let written = written.map_err(|unwritten| self.delete_left(unwritten, &lease));
        match written {
            Ok((segment, written)) => {
                let is_gone = shuffle.lock().adopt_unless_gone(&segment);
                if is_gone {
                    self.delete_file(segment, lease);
                    return !is_late;
                }
                let freed = job.spilled(&segment, written);
                if freed > 0 {
                    self.spills.record(begun.elapsed());
                    self.spilled_bytes.add(freed);
                    if shuffle.lock().may_be_sealed() {
                        self.seal_later(&shuffle);
                    }
                } // else they are on disk twice, which recovery knows
                !is_late
            }
            Err(_) if shuffle.lock().gone => !is_late, // its file was deleted meanwhile
            Err(error) => {
                tracing::warn!(shuffle = %shuffle.key(), directory = %directory.root().display(), %error, "cannot spill");
                if !is_late {
                    if directory.may_take(bytes) {
                        directory.refused(&error); // whatever the error, the next job must not run into it at once
                    }
                    job.give_up();
                }
                false
            }
        }
    }
}

fn plan_among(shuffles: Vec<Arc<Shuffle>>, bytes_max: u64) -> Option<SpillJob> {
    let mut shuffles = in_turn(shuffles, |shuffle| shuffle.resident(), |shuffle| shuffle.touched_ms());
    shuffles.find_map(|shuffle| plan_of(shuffle, bytes_max, Extent::All))
}

/// Sorts directories, best first for writing. Each is ranked only once: writes and deletions change the ranks meanwhile, and
/// a sort may panic if an order changes.
fn best_first<D, R: Ord>(mut directories: Vec<D>, rank: impl Fn(&D) -> R) -> Vec<D> {
    directories.sort_by_cached_key(|directory| Reverse(rank(directory)));
    directories
}

/// Sorts shuffles in the order in which they are spilled. Each is asked only once: pushes change the numbers meanwhile, and
/// a sort may panic if an order changes.
fn in_turn<S>(
    shuffles: Vec<S>,
    resident: impl Fn(&S) -> u64,
    touched_ms: impl Fn(&S) -> u64,
) -> impl Iterator<Item = S> {
    let seen = |shuffle: S| (resident(&shuffle), touched_ms(&shuffle), shuffle);
    let mut shuffles: Vec<_> = shuffles.into_iter().map(seen).collect();
    shuffles.sort_by_key(|(resident, ..)| Reverse(*resident));
    let largest = shuffles.first().map_or(0, |(resident, ..)| *resident);
    let near = shuffles.partition_point(|(resident, ..)| *resident >= largest / 2);
    shuffles[..near].sort_by_key(|(_, touched_ms, _)| *touched_ms);
    shuffles.into_iter().map(|(.., shuffle)| shuffle)
}

/// The locations of a shuffle that are to go to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    All,
    Committed,
}

/// Picks what to spill next of one shuffle; `None` if there is nothing, or all of it is being written.
pub(super) fn plan_of(shuffle: Arc<Shuffle>, bytes_max: u64, extent: Extent) -> Option<SpillJob> {
    let mut contents = shuffle.lock();
    if contents.gone {
        return None;
    }
    let mut candidates: Vec<(u64, Slot)> = contents
        .copies
        .iter()
        .map(|(slot, copy)| (copy.spillable(), *slot))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    if extent == Extent::Committed {
        let committed: HashSet<Slot> = contents.sealed_slots().map(|(_, slot)| slot).collect();
        candidates.retain(|(_, slot)| committed.contains(slot));
    }
    candidates.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
    let (mut slots, mut runs, mut batches, mut planned) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (_, slot) in candidates {
        if planned >= bytes_max {
            break;
        }
        let left = bytes_max - planned;
        let copy = contents.copies.get_mut(&slot);
        if let Some((run, bytes)) = copy.and_then(|copy| copy.begin_spill(left, &mut batches)) {
            planned += bytes;
            slots.push((slot, run.first));
            runs.push(run);
        }
    }
    if runs.is_empty() {
        return None;
    }
    if contents.order.is_none() {
        // Ids are written to disk as they are read now. All lengths so far read the same in both orders: assume the JVM's.
        contents.order = Some(ByteOrder::Little);
    }
    drop(contents);
    Some(SpillJob { shuffle, slots, runs, batches: Batches::new(batches) })
}

impl SpillJob {
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().flat_map(|run| &run.rows).map(|row| u64::from(row.len)).sum()
    }

    /// Notes where it is to be written.
    fn goes_to(&self, directory: &Arc<Directory>) {
        let (directory, batches) = (Arc::clone(directory), self.batches.clone());
        self.shuffle.lock().writes.push(Write { directory, batches, is_late: false });
    }

    /// Gives up a job: its batches stay in memory, to be planned again, and who is writing them loses them.
    pub(super) fn give_up(self) {
        self.leave(&mut self.shuffle.lock());
    }

    /// Lets others write its batches as well.
    fn turns_late(&self) {
        let mut contents = self.shuffle.lock();
        if self.leave(&mut contents) {
            let own = contents.writes.iter_mut().find(|write| write.batches.are(&self.batches));
            own.into_iter().for_each(|write| write.is_late = true);
        } else {
            drop(contents);
            self.batches.give_up(); // nobody else would take from it what has left memory
        }
    }

    /// Has its batches planned again. Returns whether all of them are still in memory.
    fn leave(&self, contents: &mut Contents) -> bool {
        let mut are_here = true;
        for (slot, first) in &self.slots {
            let copy = contents.copies.get_mut(slot);
            are_here &= copy.is_some_and(|copy| copy.spill_failed(*first));
        }
        are_here
    }

    /// Drops from memory what was written, unless it has left it already. Returns how many bytes that were.
    fn spilled(self, segment: &Arc<Segment>, written: Vec<WrittenRun>) -> u64 {
        let mut contents = self.shuffle.lock();
        let mut freed = 0;
        for ((slot, first), written) in self.slots.iter().zip(written) {
            if let Some(copy) = contents.copies.get_mut(slot) {
                let before = copy.resident();
                copy.spilled(*first, segment, written);
                freed += before - copy.resident();
            }
        }
        self.shuffle.shrank(freed);
        // A disk that hangs keeps nothing that another one has.
        let late = if freed > 0 { contents.take_late_writes() } else { Vec::new() };
        drop(contents);
        late.iter().for_each(Write::give_up);
        freed
    }
}

impl Drop for SpillJob {
    /// Its write has ended, or will never begin.
    fn drop(&mut self) {
        self.batches.give_up();
        self.shuffle.lock().writes.retain(|write| !write.batches.are(&self.batches));
    }
}

impl Write {
    /// Takes the batches away from who still writes them.
    pub fn give_up(&self) {
        self.batches.give_up();
    }

    /// Marks its directory as failed, because the write does not end.
    pub(super) fn hangs(&self) {
        if self.directory.health() != Health::Failed {
            self.directory.hangs();
        }
    }
}

impl Contents {
    /// The writes to be given up when something has left memory that they may contain.
    pub fn take_late_writes(&mut self) -> Vec<Write> {
        self.writes.extract_if(.., |write| write.is_late).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::tests::{append, batch, open, reserve, runtime};
    use super::*;
    use crate::ids::ShuffleKey;

    /// A shuffle with this many batches in memory.
    fn pushed(store: &Store, number: i32, batches: i32) -> Arc<Shuffle> {
        let shuffle = store.find_or_insert(&ShuffleKey::new("app", number)).unwrap();
        reserve(&shuffle, 0..1);
        (0..batches).for_each(|number| assert!(append(store, &shuffle, 0, &batch(0, 0, number, 100))));
        shuffle
    }

    #[test]
    fn what_leaves_memory_is_chosen_while_pushes_go_on() {
        // Each answer differs from the last, as if pushes came in between.
        let (asked, drawn) = (Cell::new(0), Cell::new(1_u64));
        let changing = |_: &i32| {
            asked.set(asked.get() + 1);
            drawn.set(drawn.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            drawn.get() >> 58
        };
        let mut chosen: Vec<_> = in_turn((0..1000).collect(), changing, changing).collect();
        assert_eq!(asked.get(), 2 * 1000, "each is asked once");
        chosen.sort_unstable();
        assert!(chosen.into_iter().eq(0..1000));
        asked.set(0);
        let mut ranked = best_first((0..1000).collect(), changing);
        assert_eq!(asked.get(), 1000, "each is ranked once");
        ranked.sort_unstable();
        assert!(ranked.into_iter().eq(0..1000));
    }

    #[test]
    fn the_quietest_of_the_large_ones_goes_first() {
        let shuffles = vec![(40, 1), (100, 9), (50, 7), (49, 0), (80, 8)];
        let found: Vec<_> = in_turn(shuffles, |shuffle| shuffle.0, |shuffle| shuffle.1).collect();
        assert_eq!(found, [(50, 7), (80, 8), (100, 9), (49, 0), (40, 1)]);
        assert_eq!(in_turn(Vec::new(), |_: &()| 0, |_| 0).count(), 0);
        assert_eq!(
            best_first(vec![(true, 3), (false, 9), (true, 5)], |rank| *rank),
            [(true, 5), (true, 3), (false, 9)]
        );
    }

    #[test]
    fn the_index_of_a_batch_costs_less_when_the_batch_is_on_disk() {
        runtime().block_on(async {
            let place = tempfile::tempdir().unwrap();
            let store = open(&place);
            let _shuffle = pushed(&store, 0, 50);
            let before = store.memory().used();
            let job = store.plan(&store.directories()[0], u64::MAX).expect("there is something to spill");
            assert!(store.spill(job, Arc::clone(&store.directories()[0])).await);
            assert_eq!(before - store.memory().used(), 50 * 40 - 50 * 4 - 64, "a run is there instead");
        });
    }

    #[test]
    fn a_job_counts_what_small_batches_cost_besides_their_bytes() {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place);
        let shuffle = pushed(&store, 0, 50);
        let job = store.plan(&store.directories()[0], 1000).expect("there is something to spill");
        assert_eq!(job.runs.iter().map(|run| run.rows.len()).collect::<Vec<_>>(), [5], "of 100 bytes each");
        job.give_up();
        assert_eq!(shuffle.resident(), 5000);
        // With as many locations, too.
        drop(store.remove(shuffle.key()));
        let shuffle = store.find_or_insert(&ShuffleKey::new("app", 1)).unwrap();
        reserve(&shuffle, 0..50);
        (0..50).for_each(|partition| assert!(append(&store, &shuffle, partition, &batch(0, 0, 0, 100))));
        assert_eq!(
            store.plan(&store.directories()[0], 1000).expect("there is something to spill").runs.len(),
            5
        );
    }

    #[test]
    fn so_it_does_where_batches_come_while_others_go() {
        runtime().block_on(async {
            let place = tempfile::tempdir().unwrap();
            let store = open(&place);
            let shuffle = pushed(&store, 0, 50);
            let begin = store.memory().used();
            for turn in 1..10 {
                let job = store.plan(&store.directories()[0], u64::MAX).expect("there is something to spill");
                (0..50).for_each(|number| {
                    assert!(append(&store, &shuffle, 0, &batch(turn, 0, number, 100)));
                });
                assert!(store.spill(job, Arc::clone(&store.directories()[0])).await);
            }
            // 450 more are on disk; the queue has room for twice the 50 that remain, and the index for some.
            let grown = store.memory().used() - begin;
            let on_disk = 450 * (16 + 4) + 9 * 64;
            assert!((on_disk..=on_disk + 50 * 40 + 50 * 16).contains(&grown), "{grown}");
        });
    }
}
