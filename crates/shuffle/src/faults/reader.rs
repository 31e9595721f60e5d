//! Readers, and what they must find.

use std::collections::BTreeSet;

use super::job::{Job, Stage};
use super::scene::Scene;
use super::tally::Event;
use super::worker::{Worker, number_of};
use crate::client::tasks::once::Once;
use crate::ids::{FileName, WorkerId};
use crate::wire::executor::Readable;
use crate::wire::packed::Location;
use crate::worker::index::{Entry, MapRange};

const CHUNK_BYTES: u64 = 60 << 20;

/// Reads a partition of a committed shuffle, all of it or a range of its maps, and compares it with what the winners wrote:
/// each batch exactly once, or a loss that has a cause. Returns whether it could be read.
pub fn read(job: &Job, workers: &[Worker], scene: &mut Scene, partition: i32, whole: bool) -> bool {
    let (start, end) = if whole {
        (0, i32::MAX)
    } else {
        let start = scene.random.below(job.maps as usize) as i32;
        (start, start + 1 + scene.random.below((job.maps - start) as usize) as i32)
    };
    let range = MapRange::from_wire(start, end);
    let (mut once, mut found) = (Once::default(), Vec::new());
    for file in &job.files[partition as usize] {
        let Some(entries) = read_location(job, workers, scene, file, range) else {
            scene.count(Event::LossReported);
            return false;
        };
        let given = |Entry { map, attempt, batch, .. }: Entry| {
            once.admits(&job.winners, map, attempt, batch).then_some((map.0, batch.0))
        };
        found.extend(entries.into_iter().filter_map(given));
    }
    let maps = (0..job.maps).filter(|map| (start..end).contains(map));
    let expected: Vec<(i32, i32)> =
        maps.flat_map(|map| job.written(map, partition).map(move |batch| (map, batch))).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "shuffle {}, partition {partition}, maps {start} to {end}", job.key);
    scene.count(Event::Read);
    true
}

/// The batches of one location: from one copy, or if reading that breaks off, its first batches and then all of another
/// copy.
fn read_location(
    job: &Job,
    workers: &[Worker],
    scene: &mut Scene,
    file: &Readable,
    range: MapRange,
) -> Option<Vec<Entry>> {
    let mut copies: Vec<&(WorkerId, FileName)> = file.copies.iter().collect();
    let mut begun = Vec::new();
    if copies.len() > 1 && scene.random.percent(20) {
        copies.reverse();
    }
    while !copies.is_empty() {
        let (worker, name) = copies.remove(0);
        match read_copy(job, &workers[number_of(worker)], *name, range) {
            Some(mut batches) => {
                if !copies.is_empty() && scene.random.percent(10) {
                    batches.truncate(scene.random.below(batches.len()));
                    begun = batches;
                    scene.count(Event::ReadElsewhere);
                    continue;
                }
                begun.extend(batches);
                return Some(begun);
            }
            None if !copies.is_empty() => scene.count(Event::ReadElsewhere),
            None => {}
        }
    }
    None
}

/// The batches that a worker returns from its copy; `None` if it does not have it.
fn read_copy(job: &Job, worker: &Worker, name: FileName, range: MapRange) -> Option<Vec<Entry>> {
    if !worker.up {
        return None;
    }
    let held = worker.shuffles.get(&job.key).filter(|held| held.job == job.id);
    let found = held.and_then(|held| Some((held, held.state.find(name)?)));
    let Some((held, slot)) = found else {
        let is_lost = worker.lost.contains(&(job.id, name));
        assert!(is_lost, "{name} of {} vanished from {}", job.key, worker.id);
        return None;
    };
    assert!(
        held.state.is_sealed(name),
        "{name} of {} is committed, but still open on {}",
        job.key,
        worker.id
    );
    let copy = held.copies.get(&slot).expect("a committed copy has batches");
    assert_eq!(copy.sealed_at, Some(copy.index.len() as usize), "a batch was taken after the commit");
    let repeated = copy.index.repeated();
    let selection = copy.index.select(range, held.state.winners(), &repeated);
    let chunks = copy.index.cut(&selection, CHUNK_BYTES);
    let positions = chunks.iter().flat_map(|chunk| chunk.first..chunk.end);
    let entries: Vec<Entry> = positions.map(|position| copy.index.entry(selection.entry(position))).collect();
    let once: BTreeSet<_> = entries.iter().map(|entry| (entry.map, entry.attempt, entry.batch)).collect();
    assert_eq!(once.len(), entries.len(), "{name} of {} gives a batch twice", job.key);
    for entry in &entries {
        let winner = held.told.get(&entry.map.0).copied();
        assert!(
            winner.is_none_or(|winner| winner == entry.attempt.0),
            "{name} of {} gives a batch of attempt {} although {winner:?} won",
            job.key,
            entry.attempt
        );
    }
    Some(entries)
}

/// A commit that reported a loss must have a cause for every copy of what it lost.
pub fn check_loss(job: &Job, workers: &[Worker]) {
    let Some(lost) = job.lost.filter(|_| job.stage == Stage::Failed) else { return };
    let location: &Location =
        job.locations.iter().flatten().find(|location| location.id == lost).expect("it was committed");
    for copy in location.copies() {
        let file = copy.file();
        let is_gone = workers[number_of(&copy.worker)].lost.contains(&(job.id, file));
        assert!(
            is_gone || job.unanswered.contains(&file),
            "{file} of {} was reported lost by {} for no reason",
            job.key,
            copy.worker
        );
    }
}
