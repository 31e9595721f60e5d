//! Goal: whatever happens, a restart finds a prefix of what was appended, with everything that was kept as promised.
//! Method: many lives of a journal, by a seed: appends of both promises, snapshots of a state that changes meanwhile, a disk
//! that is full or tears a write at times; each life ends with a kill, at times also of the power. The state that is read
//! then is compared with the states of a model after each append.

use std::collections::BTreeSet;

use rustix::io::Errno;
use yeoul_base::SplitMix;
use yeoul_disk::{Fault, Operation};

use super::*;
use crate::health::RETRY_MAX;

/// Lives of one journal.
const LIVES: u64 = 12;

/// What happened, over all seeds: each of it has to.
#[derive(Debug, Default)]
struct Tally {
    powers_lost: u64,
    faults: u64,
    snapshots: u64,
    repairs: u64,
    lost: u64,
    unkept: u64,
}

struct Model {
    /// The state after each append, since the first life; the first is empty.
    states: Vec<Table>,
    /// So many appends survive a kill of the process.
    written: usize,
    /// So many survive a power failure.
    synced: usize,
    value: u64,
}

#[test]
fn a_restart_finds_everything_that_was_kept_and_nothing_out_of_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut tally = Tally::default();
    for seed in 0..24 {
        runtime.block_on(live(seed, &mut tally));
    }
    let Tally { powers_lost, faults, snapshots, repairs, lost, unkept } = tally;
    let all = [powers_lost, faults, snapshots, repairs, lost, unkept];
    assert!(all.iter().all(|times| *times >= 10), "{tally:?}");
}

async fn live(seed: u64, tally: &mut Tally) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(seed);
    let mut model = Model { states: vec![Table::new()], written: 0, synced: 0, value: 0 };
    let disk = FaultyDisk::new();
    for life in 0..LIVES {
        let context = format!("seed {seed}, life {life}");
        let mut table = Table::new();
        let options = FileJournalOptions {
            disk: disk.clone(),
            segment_bytes_max: 2000,
            sync_interval: Duration::from_millis(1),
            ..options(dir.path())
        };
        let mut journal = FileJournal::open(options, |put: Put| put.apply(&mut table)).expect(&context);
        // Values are unique, so a state tells after which append it was.
        let after = model.states.iter().rposition(|state| *state == table);
        let after = after.unwrap_or_else(|| panic!("{context}: {table:?} is the state after no append"));
        assert!(after >= model.written, "{context}: {after} of {} appends were found", model.written);
        tally.lost += u64::from(after + 1 < model.states.len());
        model.states.truncate(after + 1);
        (model.written, model.synced) = (after, after);
        for _ in 0..40 {
            step(&mut journal, &disk, &mut model, &mut random, tally).await;
        }
        // Killed: what its threads still do does not reach the disk.
        let dead = disk.inject(Fault::fails_all(Errno::IO));
        drop(journal);
        drop(dead);
        if random.next_u64().is_multiple_of(2) {
            tally.powers_lost += 1;
            disk.lose_power(random.next_u64());
            model.written = model.synced;
        }
    }
}

async fn step(
    journal: &mut FileJournal<Put>,
    disk: &FaultyDisk,
    model: &mut Model,
    random: &mut SplitMix,
    tally: &mut Tally,
) {
    match random.next_u64() % 16 {
        0 => {
            // The state is read in two parts, with an append between them.
            let snapshot = journal.begin_snapshot();
            let repairs = journal.fault().is_some();
            let half = 25;
            let now = model.states.last().unwrap().clone();
            let mut parts: Vec<Put> =
                now.range(..half).map(|(key, value)| Put { key: *key, value: *value }).collect();
            append_one(journal, model, Promise::Written, tally).await;
            let later = model.states.last().unwrap();
            parts.extend(later.range(half..).map(|(key, value)| Put { key: *key, value: *value }));
            tokio::task::spawn_blocking(move || snapshot.write(parts.into_iter())).await.unwrap();
            if journal.failed_snapshots() == 0 {
                tally.snapshots += 1;
                tally.repairs += u64::from(repairs && journal.fault().is_none());
            }
        }
        1 => {
            let bytes = (random.next_u64() % 60) as usize;
            let fault = match random.next_u64() % 3 {
                0 => Fault::fails(Operation::Write, Errno::NOSPC),
                1 => Fault::fails(Operation::Open, Errno::MFILE),
                _ => Fault::tears(bytes, Errno::NOSPC),
            };
            let fault = disk.inject(fault.times(1 + random.next_u64() % 2));
            append_one(journal, model, Promise::Written, tally).await;
            tally.faults += fault.happened();
        }
        2..6 => append_one(journal, model, Promise::Synced, tally).await,
        _ => append_one(journal, model, Promise::Written, tally).await,
    }
    assert!(
        !journal.is_snapshot_due(Instant::now() + 2 * RETRY_MAX)
            || journal.fault().is_some()
            || grown(journal)
    );
}

fn grown(journal: &FileJournal<Put>) -> bool {
    journal.bytes_since.load(Ordering::Relaxed) >= journal.options.snapshot_after_bytes
}

async fn append_one(journal: &mut FileJournal<Put>, model: &mut Model, promise: Promise, tally: &mut Tally) {
    model.value += 1;
    let put = Put::new(model.value);
    let mut state = model.states.last().unwrap().clone();
    put.apply(&mut state);
    model.states.push(state);
    match journal.append(&[put], promise).await {
        Ok(()) => {
            model.written = model.states.len() - 1;
            if promise == Promise::Synced {
                model.synced = model.written;
            }
        }
        Err(_) => tally.unkept += 1,
    }
}

#[test]
fn each_power_failure_takes_another_part() {
    let mut lens = BTreeSet::new();
    for seed in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new();
        let mut journal = open_on(dir.path(), &disk);
        append(&mut journal, 0..100);
        let dead = disk.inject(Fault::fails_all(Errno::IO));
        drop((journal, dead));
        disk.lose_power(seed);
        lens.insert(open(dir.path()).1.len());
    }
    assert!(lens.len() > 10, "{lens:?}");
}
