//! What a restarted worker finds on its disks: committed locations that are complete.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Store;
use super::copy::{FoundRun, LocationCopy};
use super::directory::Directory;
use super::record::{self, Record, Seal};
use super::segment::Segment;
use crate::ids::{ApplicationId, AttemptId, DriverId, FileName, ShuffleKey};
use crate::stored_name;

/// The numbers of what recovery found and left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Shuffles of which at least one location can be read.
    pub shuffles: usize,
    /// Locations that can be read.
    pub locations: usize,
    /// Locations with batches missing, or without a seal.
    pub incomplete: usize,
    /// Files with a torn or damaged record; the records before it are used.
    pub damaged_files: usize,
    /// Files that could not be read to their end. They stay, because a later start may be able to read them.
    pub unreadable_files: usize,
}

impl Recovered {
    /// Logs what a worker comes back with.
    pub fn say(self) {
        let Self { shuffles, locations, incomplete, damaged_files, unreadable_files } = self;
        let mut text = format!("recovered {shuffles} shuffles with {locations} locations");
        if incomplete > 0 {
            text.push_str(&format!("; left out {incomplete} that were not whole"));
        }
        if damaged_files + unreadable_files > 0 {
            tracing::warn!(
                "{text}; {damaged_files} files are damaged, {unreadable_files} cannot be read to their end"
            );
        } else {
            tracing::info!("{text}");
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    /// By the number of their first batch. There are several if a failed write was repeated, perhaps with other lengths.
    runs: BTreeMap<u32, Vec<FoundRun>>,
    seal: Option<Seal>,
}

/// The attempts that won, by map, and the driver that said so.
type FoundWinners = (Vec<AttemptId>, Option<DriverId>);

#[derive(Debug, Default)]
struct FoundShuffle {
    /// By name and life.
    locations: BTreeMap<(FileName, u64), Found>,
    /// By the birth of the shuffle.
    winners: BTreeMap<u64, Vec<FoundWinners>>,
    segments: Vec<Arc<Segment>>,
    /// Whether there may be more than was found.
    is_unreadable: bool,
}

/// What may have files that were not seen because a folder could not be listed.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    is_anything: bool,
    applications: HashSet<ApplicationId>,
}

impl Unseen {
    /// Whether a shuffle may have files although none was found.
    pub(super) fn may_be_of(&self, key: &ShuffleKey) -> bool {
        self.is_anything || self.applications.contains(&key.application)
    }

    fn is_nothing(&self) -> bool {
        !self.is_anything && self.applications.is_empty()
    }

    fn extend(&mut self, other: Self) {
        self.is_anything |= other.is_anything;
        self.applications.extend(other.applications);
    }
}

/// How reading a file ended: at its end; at a torn or damaged record, which stays so; or at a system error, which may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    /// At a record that is torn or damaged.
    Damaged,
    /// At a system error.
    Unreadable,
}

impl Store {
    /// Reads what the directories hold, before the worker serves anyone. Deletes the files of a shuffle that has no complete
    /// location, if all of them could be read. Blocks.
    ///
    /// What cannot be read is counted and left out, so that the other disks' shuffles are served. A shuffle with files but
    /// no complete location is known without locations, so that the master hears of it and decides when it may be deleted.
    pub fn recover(&self) -> Recovered {
        let mut recovered = Recovered::default();
        let mut shuffles: HashMap<ShuffleKey, FoundShuffle> = HashMap::new();
        let mut unseen = Unseen::default();
        for directory in self.directories() {
            let listing = Listing::of(directory).unwrap_or_else(|error| {
                directory.refused(&error);
                let unseen = Unseen { is_anything: true, ..Unseen::default() };
                Listing { unseen, ..Listing::default() }
            });
            unseen.extend(listing.unseen);
            for key in listing.unlisted {
                shuffles.entry(key).or_default().is_unreadable = true;
            }
            for (key, path, number) in listing.files {
                self.numbers.found_segment(number);
                let found = shuffles.entry(key).or_default();
                let ending = match Segment::open(directory, &path).map(Arc::new) {
                    Ok(segment) => {
                        let ending = found.scan(&segment);
                        found.segments.push(segment);
                        ending
                    }
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "cannot open a segment");
                        Ending::Unreadable
                    }
                };
                recovered.damaged_files += usize::from(ending == Ending::Damaged);
                recovered.unreadable_files += usize::from(ending == Ending::Unreadable);
                found.is_unreadable |= ending == Ending::Unreadable;
            }
        }
        // Whether every shuffle on the disks was found, at least in part.
        let are_all_known = !self.lacks_directories && unseen.is_nothing();
        *self.unseen() = unseen;
        let mut is_all = are_all_known;
        for (key, mut found) in shuffles {
            is_all &= !found.is_unreadable;
            found.is_unreadable |= !are_all_known;
            self.restore(&key, found, &mut recovered);
        }
        if !is_all {
            self.numbers.leave_room();
        }
        // The segments that were found may fill a directory's capacity.
        for directory in self.directories() {
            directory.measure().unwrap_or_else(|error| directory.failed(&error));
        }
        recovered
    }

    fn restore(&self, key: &ShuffleKey, found: FoundShuffle, recovered: &mut Recovered) {
        let (mut whole, mut has_earlier) = (BTreeMap::new(), false);
        // Leftovers of an earlier shuffle of that number that were not all deleted in time do not matter.
        let (birth, winners) = found.winners.into_iter().next_back().unwrap_or_default();
        self.numbers.found_life(birth);
        for ((file, life), location) in found.locations {
            self.numbers.found_life(life);
            match location.into_whole() {
                earlier if life < birth => has_earlier |= earlier.is_some(),
                // The lives of a location are in order, so the latest one counts.
                Some((seal, runs)) => drop(whole.insert(file, (seal, runs))),
                None => {
                    // An earlier location of that name, which may be empty, must not be taken for it.
                    whole.remove(&file);
                    recovered.incomplete += 1;
                }
            }
        }
        // What is missing may be in what could not be read. And what looks like another shuffle's may be this one's, if a
        // disk was away when it was written.
        if whole.is_empty() && !found.is_unreadable && !has_earlier {
            for segment in &found.segments {
                if let Err(error) = segment.delete() {
                    let path = segment.path().display();
                    tracing::warn!(%path, %error, "cannot delete a segment in which nothing is whole");
                }
            }
            return;
        }
        recovered.shuffles += usize::from(!whole.is_empty());
        recovered.locations += whole.len();
        let shuffle = self.find_or_insert(key).expect("nothing is deleted before all is recovered");
        let mut contents = shuffle.lock();
        contents.birth = birth;
        // Created as a new shuffle it would get a later birth, which would hide its files.
        contents.is_unread = whole.is_empty() && found.is_unreadable;
        contents.has_unseen_files = found.is_unreadable;
        // Whether it was asked for is forgotten; a driver that did not ask for it ignores it.
        contents.wants_map_bitmap = true;
        for (winners, driver) in winners {
            contents.state.restore_winners(&winners, driver);
        }
        contents.winners_on_disk = contents.state.winners().clone();
        contents.segments = found.segments;
        for (file, (seal, runs)) in whole {
            contents.order = contents.order.or(seal.order);
            let copy = LocationCopy::recovered(file, seal.life, runs, &key.application, self.memory());
            let slot = contents.state.restore(file, copy.index().bytes(), seal.replicated);
            contents.copies.insert(slot, copy);
        }
        contents.charge_slots();
    }
}

impl Found {
    /// The seal and its runs, if these are exactly the batches that it counts.
    fn into_whole(mut self) -> Option<(Seal, Vec<FoundRun>)> {
        let seal = self.seal?;
        let count = u64::from(seal.count);
        // From the end backwards: at each number, a run from which others lead to the end.
        let mut leads: BTreeMap<u64, usize> = BTreeMap::new();
        for (first, runs) in self.runs.iter().rev() {
            let first = u64::from(*first);
            let end = |run: &FoundRun| first + run.rows.len() as u64;
            if runs.iter().any(|run| end(run) > count) {
                return None; // there are more than the seal counts
            }
            if let Some(at) = runs.iter().position(|run| end(run) == count || leads.contains_key(&end(run))) {
                leads.insert(first, at);
            }
        }
        let (mut next, mut found_bytes, mut whole) = (0, 0, Vec::new());
        while u64::from(next) < count {
            let at = *leads.get(&u64::from(next))?;
            let run = self.runs.get_mut(&next)?.swap_remove(at);
            next += run.rows.len() as u32;
            found_bytes += run.rows.iter().map(|row| u64::from(row.len)).sum::<u64>();
            whole.push(run);
        }
        (found_bytes == seal.bytes).then_some((seal, whole))
    }
}

impl FoundShuffle {
    /// Reads the records of a file, as far as possible.
    fn scan(&mut self, segment: &Arc<Segment>) -> Ending {
        let mut at = 0;
        while at < segment.len() {
            match self.scan_record(segment, at) {
                Ok(next) => at = next,
                Err(error) => {
                    let is_damage =
                        matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData);
                    let (ending, what) = match is_damage {
                        true => (Ending::Damaged, "is damaged from there on"),
                        false => (Ending::Unreadable, "cannot be read from there on, and stays"),
                    };
                    tracing::warn!(path = %segment.path().display(), at, %error, "a segment {what}");
                    return ending;
                }
            }
        }
        Ending::Whole
    }

    fn scan_record(&mut self, segment: &Arc<Segment>, at: u64) -> io::Result<u64> {
        let (record, end) = record::read(at, segment.len(), |at, len| segment.read(at, len))?;
        match record {
            Record::Run { file, life, first, at, rows } => {
                let location = self.locations.entry((file, life)).or_default();
                let run = FoundRun { segment: Arc::clone(segment), at, rows };
                location.runs.entry(first).or_default().push(run);
            }
            Record::Seal(seal) => {
                let location = self.locations.entry((seal.file, seal.life)).or_default();
                location.seal = Some(seal);
            }
            Record::Winners { birth, attempts, driver } => {
                self.winners.entry(birth).or_default().push((attempts, driver));
            }
        }
        Ok(end)
    }
}

/// The contents of a directory. A folder that cannot be listed is missing from it.
#[derive(Debug, Default)]
struct Listing {
    /// Every segment file with its shuffle and number, the lowest numbers first.
    files: Vec<(ShuffleKey, PathBuf, u32)>,
    /// Shuffles that may have more files.
    unlisted: Vec<ShuffleKey>,
    /// Other shuffles that may have files.
    unseen: Unseen,
}

impl Listing {
    /// Lists the folders of a directory.
    ///
    /// # Errors
    /// The directory itself cannot be listed.
    fn of(directory: &Directory) -> io::Result<Self> {
        let list_below = |path: &Path| match directory.disk().list(path) {
            // A file among the folders is nobody's.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Some(Vec::new()),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot list a directory: what is in it is left out");
                None
            }
            Ok(entries) => Some(entries),
        };
        let mut listing = Self::default();
        for application in directory.disk().list(directory.home())? {
            let Some(name) = application.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(id) = stored_name::decode(name) else { continue };
            let Some(shuffles) = list_below(&application) else {
                listing.unseen.applications.insert(id);
                continue;
            };
            for shuffle in shuffles {
                let number =
                    shuffle.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
                let Some(number) = number.filter(|number: &i32| *number >= 0) else { continue };
                let key = ShuffleKey::new(id.clone(), number);
                match list_below(&shuffle) {
                    Some(entries) => listing.files.extend(entries.into_iter().filter_map(|path| {
                        let number = segment_number(&path)?;
                        Some((key.clone(), path, number))
                    })),
                    None => listing.unlisted.push(key),
                }
            }
        }
        listing.files.sort_by_key(|(_, _, number)| *number);
        Ok(listing)
    }
}

/// The number of a segment file; `None` for other files.
fn segment_number(path: &Path) -> Option<u32> {
    path.extension().filter(|extension| *extension == "segment")?;
    path.file_stem()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heard::Heard;

    #[test]
    fn what_is_damaged_is_a_warning_and_what_a_kill_leaves_is_none() {
        let (heard, _listening) = Heard::begin();
        let killed = Recovered { shuffles: 2, locations: 7, incomplete: 3, ..Recovered::default() };
        Recovered { unreadable_files: 1, ..killed }.say();
        killed.say();
        let text = "recovered 2 shuffles with 7 locations; left out 3 that were not whole";
        let damage = "; 0 files are damaged, 1 cannot be read to their end";
        assert_eq!(heard.text(), format!(" WARN {text}{damage}\n INFO {text}\n"));
    }
}
