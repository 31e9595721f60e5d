//! What an application knows of a shuffle while its tasks run: decisions, without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::fate::Committed;
use super::routes::Routes;
use crate::error::{Error, Kind, Result};
use crate::ids::{AttemptId, MapId, PartitionId, ShuffleKey};
use crate::wire::executor::{Ended, Maps, OPEN_MAPS_MAX, SUMMARIES_LEN_MAX, SUMMARY_LEN_MAX};
use crate::wire::packed::Location;

/// The most attempts of one map.
pub(in crate::client) const ATTEMPTS_MAX: usize = 1 << 10;

/// Stage of a shuffle.
#[derive(Debug, Clone)]
pub(in crate::client) enum Stage {
    /// Maps write.
    Writing,
    /// A commit has recorded the locations and the winners: there will be no others.
    Committing,
    Committed(Arc<Committed>),
    /// It was unregistered: nothing more may be sent to workers under its id.
    Ended,
}

/// Outcome for a task that wants to begin an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::client) enum Beginning {
    Begun(AttemptId),
    /// The map has ended with another attempt.
    Ended(Ended),
}

/// The routes, attempts and winners of a shuffle.
pub(in crate::client) struct State {
    key: ShuffleKey,
    pub routes: Routes,
    maps: Maps,
    /// By map id: the attempt that ended first. If the number of maps is open, up to the last one that has ended.
    winners: Vec<AttemptId>,
    /// Summaries that winners gave of themselves, unless that was nothing.
    summaries: BTreeMap<MapId, Bytes>,
    /// Bytes of all summaries.
    summaries_len: usize,
    /// Maps that have begun an attempt and not ended.
    running: BTreeSet<MapId>,
    /// The attempts that have begun, each with the name of its request; 0 for one that cannot be repeated.
    begun: BTreeMap<(MapId, AttemptId), u64>,
    pub stage: Stage,
}

impl State {
    /// The state of a shuffle of so many maps, of which none has begun.
    pub fn new(key: ShuffleKey, routes: Routes, maps: Maps) -> Self {
        let winners = match maps {
            Maps::Fixed(maps) => vec![AttemptId::NONE; maps as usize],
            Maps::Open => Vec::new(),
        };
        Self {
            key,
            routes,
            maps,
            winners,
            summaries: BTreeMap::new(),
            summaries_len: 0,
            running: BTreeSet::new(),
            begun: BTreeMap::new(),
            stage: Stage::Writing,
        }
    }

    /// Number of the shuffle's maps.
    pub fn maps(&self) -> Maps {
        self.maps
    }

    /// By partition, all its locations; and the winners so far.
    pub fn to_commit(&self) -> (Vec<Vec<Location>>, Vec<AttemptId>) {
        let partitions = 0..self.routes.partitions();
        let locations = partitions.map(|at| self.routes.all(PartitionId(at as i32)).to_vec());
        (locations.collect(), self.winners.clone())
    }

    /// Refuses work on a shuffle that was unregistered.
    ///
    /// # Errors
    /// `Conflict` if it was.
    pub fn check(&self) -> Result<()> {
        match self.stage {
            Stage::Ended => Err(ended(&self.key)),
            _ => Ok(()),
        }
    }

    /// Refuses changes to a shuffle once its commit has begun.
    ///
    /// # Errors
    /// `Conflict` if it has, or if the shuffle was unregistered.
    pub fn check_writing(&self) -> Result<()> {
        self.check()?;
        match self.stage {
            Stage::Writing => Ok(()),
            _ => Err(Error::new(Kind::Conflict, format!("the commit of shuffle {} has begun", self.key))),
        }
    }

    /// Refuses a partition that does not exist.
    ///
    /// # Errors
    /// `Invalid` for one.
    pub fn check_partition(&self, partition: PartitionId) -> Result<()> {
        check_partition(partition, self.routes.partitions())
    }

    /// Refuses to let a shuffle be read to which a map may still write.
    ///
    /// # Errors
    /// `Conflict` if a map has not ended and nobody has begun the commit, or if the shuffle was unregistered.
    pub fn check_readable(&self) -> Result<()> {
        self.check()?;
        let unended = match self.stage {
            Stage::Writing => self.first_unended(),
            _ => None,
        };
        match unended {
            Some(map) => {
                let text = format!("map {map} of shuffle {} has not ended", self.key);
                Err(Error::new(Kind::Conflict, text).with_hint("read when all maps have ended"))
            }
            None => Ok(()),
        }
    }

    /// The first map that has to end before the shuffle is read. Of an open number of maps, only those that have begun have
    /// to.
    fn first_unended(&self) -> Option<MapId> {
        match self.maps {
            Maps::Fixed(maps) => (0..maps.cast_signed()).map(MapId).find(|map| !self.has_ended(*map)),
            Maps::Open => self.running.first().copied(),
        }
    }

    /// Records the locations and the winners for the commit of the whole shuffle: from here on there are no others.
    ///
    /// # Errors
    /// `Conflict` if the shuffle was unregistered.
    pub fn close(&mut self) -> Result<(Vec<Vec<Location>>, Vec<AttemptId>)> {
        self.check()?;
        if matches!(self.stage, Stage::Writing) {
            self.stage = Stage::Committing;
        }
        Ok(self.to_commit())
    }

    fn has_ended(&self, map: MapId) -> bool {
        self.winner_of(map).is_some()
    }

    fn winner_of(&self, map: MapId) -> Option<AttemptId> {
        let winner = *self.winners.get(usize::try_from(map.0).ok()?)?;
        Some(winner).filter(|winner| *winner != AttemptId::NONE)
    }

    /// The end of a map, if it has ended.
    pub fn end_of(&self, map: MapId) -> Option<Ended> {
        let attempt = self.winner_of(map)?;
        Some(Ended { attempt, summary: self.summaries.get(&map).cloned().unwrap_or_default() })
    }

    /// Begins an attempt of a map that has not ended; without a number, one that was not used. A repeated request begins
    /// nothing more.
    ///
    /// # Errors
    /// As for [`State::begin_attempt`]; `Conflict` if the shuffle's commit has begun or it was unregistered.
    pub fn begin(&mut self, map: MapId, attempt: Option<AttemptId>, request: u64) -> Result<Beginning> {
        self.check_map(map)?;
        self.check()?;
        if let Some(ended) = self.end_of(map) {
            return Ok(Beginning::Ended(ended));
        }
        self.check_writing()?;
        let attempt = match attempt {
            Some(attempt) => attempt,
            None => self.draw(map)?,
        };
        self.begin_attempt(map, attempt, request)?;
        Ok(Beginning::Begun(attempt))
    }

    /// Begins an attempt, whether its map has ended or not.
    ///
    /// # Errors
    /// `Invalid` for one that does not exist; `Conflict` for one that has begun before: batches are identified by their
    /// numbers, and of two with the same number only one is read; `ResourceExhausted` for one too many.
    pub fn begin_attempt(&mut self, map: MapId, attempt: AttemptId, request: u64) -> Result<()> {
        self.check_map(map)?;
        if attempt.0 < 0 {
            return Err(Error::new(Kind::Invalid, format!("attempt {attempt} stands for no attempt")));
        }
        match self.begun.get(&(map, attempt)) {
            Some(before) if *before == request && request != 0 => return Ok(()),
            Some(_) => {
                let text = format!("attempt {attempt} of map {map} has had a writer before");
                return Err(Error::new(Kind::Conflict, text).with_hint("try again as another attempt"));
            }
            None => {}
        }
        if self.attempts_of(map).count() >= ATTEMPTS_MAX {
            let text = format!("map {map} has begun {ATTEMPTS_MAX} attempts, expected no more");
            return Err(Error::new(Kind::ResourceExhausted, text));
        }
        self.begun.insert((map, attempt), request);
        if !self.has_ended(map) {
            self.running.insert(map);
        }
        Ok(())
    }

    /// Ends a map with an attempt whose batches workers have. The first one wins; a repeated request, or another attempt,
    /// learns who has. `summary` is what the attempt says of itself.
    ///
    /// # Errors
    /// `Invalid` for a map that does not exist, or a summary of more than [`SUMMARY_LEN_MAX`] bytes; `Conflict` for an
    /// attempt that has not begun, or if the shuffle was unregistered, or its commit has begun without this map;
    /// `ResourceExhausted` if the shuffle's summaries would have more than [`SUMMARIES_LEN_MAX`] bytes together.
    pub fn end(&mut self, map: MapId, attempt: AttemptId, summary: &Bytes) -> Result<Ended> {
        self.check()?;
        self.check_map(map)?;
        check_summary(summary)?;
        if !self.begun.contains_key(&(map, attempt)) {
            let text = format!("attempt {attempt} of map {map} has not begun");
            return Err(Error::new(Kind::Conflict, text));
        }
        if let Some(ended) = self.end_of(map) {
            return Ok(ended);
        }
        self.check_writing()?;
        let summaries_len = self.summaries_len + summary.len();
        if summaries_len > SUMMARIES_LEN_MAX {
            let text = format!(
                "the summaries of shuffle {} would have {summaries_len} bytes, expected at most {SUMMARIES_LEN_MAX}",
                self.key
            );
            return Err(Error::new(Kind::ResourceExhausted, text).with_hint("give shorter summaries"));
        }
        self.set_winner(map, attempt);
        self.summaries_len = summaries_len;
        if !summary.is_empty() {
            // A copy: it may be a slice of a larger frame.
            self.summaries.insert(map, Bytes::copy_from_slice(summary));
        }
        Ok(Ended { attempt, summary: summary.clone() })
    }

    fn set_winner(&mut self, map: MapId, attempt: AttemptId) {
        let at = map.0.cast_unsigned() as usize;
        if self.winners.len() <= at {
            assert!(self.maps == Maps::Open, "a fixed number of maps has all places from the beginning");
            self.winners.resize(at + 1, AttemptId::NONE);
        }
        self.winners[at] = attempt;
        let was_running = self.running.remove(&map);
        assert!(was_running, "what ends has begun and not ended before");
    }

    fn check_map(&self, map: MapId) -> Result<()> {
        let maps = match self.maps {
            Maps::Fixed(maps) => maps,
            Maps::Open => OPEN_MAPS_MAX,
        };
        if u32::try_from(map.0).is_ok_and(|map| map < maps) {
            return Ok(());
        }
        Err(Error::new(Kind::Invalid, format!("map {map} is not one of {maps}")))
    }

    /// The attempts of a map that have begun, in order.
    fn attempts_of(&self, map: MapId) -> impl DoubleEndedIterator<Item = AttemptId> {
        let all = (map, AttemptId(i32::MIN))..=(map, AttemptId(i32::MAX));
        self.begun.range(all).map(|((_, attempt), _)| *attempt)
    }

    /// An attempt's number that was not used: the one after the highest.
    fn draw(&self, map: MapId) -> Result<AttemptId> {
        let last = self.attempts_of(map).next_back();
        let next = last.map_or(Some(0), |last| last.0.checked_add(1));
        let used_up = || Error::new(Kind::ResourceExhausted, format!("map {map} has used its last attempt"));
        next.map(AttemptId).ok_or_else(used_up)
    }
}

/// The error of work on a shuffle that was unregistered.
pub(in crate::client) fn ended(key: &ShuffleKey) -> Error {
    Error::new(Kind::Conflict, format!("shuffle {key} was unregistered"))
}

/// Refuses a partition that is none of so many.
///
/// # Errors
/// `Invalid` for one.
pub(in crate::client) fn check_partition(partition: PartitionId, partitions: usize) -> Result<()> {
    if usize::try_from(partition.0).is_ok_and(|at| at < partitions) {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, format!("partition {partition} is not one of {partitions}")))
}

/// Refuses a summary that is too long.
///
/// # Errors
/// `Invalid` for one.
pub(in crate::client) fn check_summary(summary: &Bytes) -> Result<()> {
    if summary.len() <= SUMMARY_LEN_MAX {
        return Ok(());
    }
    let len = summary.len();
    let text = format!("a summary of {len} bytes is too long, expected at most {SUMMARY_LEN_MAX}");
    Err(Error::new(Kind::Invalid, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LocationId, Mode, WorkerId};

    fn state(maps: u32) -> State {
        state_of(Maps::Fixed(maps))
    }

    fn state_of(maps: Maps) -> State {
        let worker =
            WorkerId { host: "h".into(), rpc_port: 1, push_port: 2, fetch_port: 3, replicate_port: 4 };
        let id = LocationId::new(0, 0);
        let primary = Location { id, mode: Mode::Primary, worker: worker.clone(), peer: None };
        let routes = Routes::new(vec![primary], 1, vec![worker], false).unwrap();
        State::new(ShuffleKey::new("app", 7), routes, maps)
    }

    fn kind<T: std::fmt::Debug>(result: Result<T>) -> Kind {
        result.unwrap_err().kind()
    }

    const MAP: MapId = MapId(0);

    #[test]
    fn the_first_attempt_that_ends_wins_and_the_others_learn_what_it_said() {
        let mut state = state(2);
        for (attempt, request) in [(0, 11), (1, 12)] {
            let begun = state.begin(MAP, None, request).unwrap();
            assert_eq!(begun, Beginning::Begun(AttemptId(attempt)));
        }
        assert_eq!(kind(state.end(MAP, AttemptId(2), &Bytes::new())), Kind::Conflict, "it has not begun");
        let said = Bytes::from_static(b"of attempt 1");
        let ended = Ended { attempt: AttemptId(1), summary: said.clone() };
        assert_eq!(state.end(MAP, AttemptId(1), &said).unwrap(), ended);
        for other in [&b"of attempt 0"[..], b""] {
            let heard = state.end(MAP, AttemptId(0), &Bytes::from_static(other)).unwrap();
            assert_eq!(heard, ended, "the second is told who was first");
        }
        assert_eq!(state.end(MAP, AttemptId(1), &Bytes::new()).unwrap(), ended, "it may ask again");
        for attempt in [None, Some(AttemptId(0)), Some(AttemptId(9))] {
            let begun = state.begin(MAP, attempt, 13).unwrap();
            assert_eq!(begun, Beginning::Ended(ended.clone()), "an ended map is looked up");
        }
        state.close().unwrap();
        assert_eq!(state.begin(MAP, None, 14).unwrap(), Beginning::Ended(ended.clone()));
        assert_eq!(state.end(MAP, AttemptId(0), &Bytes::new()).unwrap(), ended);
        assert_eq!(kind(state.begin(MapId(1), None, 15)), Kind::Conflict, "the commit has begun without it");
    }

    #[test]
    fn a_number_of_an_attempt_is_used_once_and_a_repeated_request_is_the_same() {
        let mut state = state(1);
        let four = Some(AttemptId(4));
        assert_eq!(state.begin(MAP, four, 11).unwrap(), Beginning::Begun(AttemptId(4)));
        assert_eq!(state.begin(MAP, four, 11).unwrap(), Beginning::Begun(AttemptId(4)), "it came twice");
        assert_eq!(kind(state.begin(MAP, four, 12)), Kind::Conflict);
        assert_eq!(state.begin(MAP, None, 12).unwrap(), Beginning::Begun(AttemptId(5)), "after the highest");
        state.begin_attempt(MAP, AttemptId(6), 0).unwrap();
        assert_eq!(kind(state.begin_attempt(MAP, AttemptId(6), 0)), Kind::Conflict, "0 names no request");
        state.begin(MAP, Some(AttemptId(i32::MAX)), 13).unwrap();
        assert_eq!(kind(state.begin(MAP, None, 14)), Kind::ResourceExhausted);
        assert_eq!(kind(state.begin(MAP, Some(AttemptId(-1)), 15)), Kind::Invalid);
        for map in [-1, 1, i32::MIN, i32::MAX] {
            assert_eq!(kind(state.begin(MapId(map), None, 16)), Kind::Invalid, "{map}");
            assert_eq!(kind(state.end(MapId(map), AttemptId(0), &Bytes::new())), Kind::Invalid, "{map}");
        }
    }

    #[test]
    fn a_map_has_so_many_attempts_and_no_more() {
        let mut state = state(2);
        for attempt in 0..ATTEMPTS_MAX as i32 {
            state.begun.insert((MAP, AttemptId(attempt)), 1);
        }
        assert_eq!(kind(state.begin(MAP, None, 2)), Kind::ResourceExhausted);
        assert_eq!(state.begin(MapId(1), None, 2).unwrap(), Beginning::Begun(AttemptId(0)));
    }

    #[test]
    fn a_summary_that_is_too_long_ends_nothing() {
        let mut state = state(1);
        state.begin(MAP, None, 1).unwrap();
        let long = Bytes::from(vec![1; SUMMARY_LEN_MAX + 1]);
        assert_eq!(kind(state.end(MAP, AttemptId(0), &long)), Kind::Invalid);
        assert_eq!(state.end_of(MAP), None);
        let longest = long.slice(1..);
        assert_eq!(state.end(MAP, AttemptId(0), &longest).unwrap().summary, longest);
        assert_eq!(state.end_of(MAP).unwrap().summary, longest);
    }

    #[test]
    fn summaries_have_a_limit_together_and_one_above_it_ends_nothing() {
        let whole = (SUMMARIES_LEN_MAX / SUMMARY_LEN_MAX) as i32;
        let mut state = state_of(Maps::Open);
        let longest = Bytes::from(vec![1; SUMMARY_LEN_MAX]);
        for map in 0..=whole {
            state.begin(MapId(map), None, 1).unwrap();
        }
        for map in 0..whole {
            state.end(MapId(map), AttemptId(0), &longest).unwrap();
        }
        let last = MapId(whole);
        let one = Bytes::from_static(b"1");
        assert_eq!(kind(state.end(last, AttemptId(0), &one)), Kind::ResourceExhausted);
        assert_eq!(state.end_of(last), None);
        assert_eq!(kind(state.check_readable()), Kind::Conflict, "it goes on");
        let again = state.end(MAP, AttemptId(0), &longest).unwrap();
        assert_eq!(again.summary, longest, "what has ended may say so again");
        state.end(last, AttemptId(0), &Bytes::new()).unwrap();
        state.check_readable().unwrap();
    }

    #[test]
    fn an_open_number_of_maps_is_read_when_all_that_have_begun_have_ended() {
        let mut state = state_of(Maps::Open);
        state.check_readable().unwrap();
        for map in [7, 2] {
            for _ in 0..2 {
                state.begin(MapId(map), None, 0).unwrap();
            }
        }
        for map in [2, 7] {
            assert_eq!(kind(state.check_readable()), Kind::Conflict, "map {map} has begun");
            state.end(MapId(map), AttemptId(1), &Bytes::new()).unwrap();
            // Its other attempt goes on, and is not waited for.
            state.begin_attempt(MapId(map), AttemptId(9), 0).unwrap();
        }
        state.check_readable().unwrap();
        let none = AttemptId::NONE;
        let winners = [none, none, AttemptId(1), none, none, none, none, AttemptId(1)];
        assert_eq!(state.close().unwrap().1, winners);
        let ended = Ended { attempt: AttemptId(1), summary: Bytes::new() };
        assert_eq!(state.begin(MapId(7), None, 0).unwrap(), Beginning::Ended(ended));
        for map in [3, 8] {
            assert_eq!(kind(state.begin(MapId(map), None, 0)), Kind::Conflict, "the commit has begun");
        }
    }

    #[test]
    fn an_open_number_of_maps_has_a_limit() {
        let mut state = state_of(Maps::Open);
        let last = MapId(OPEN_MAPS_MAX as i32 - 1);
        for map in [MapId(-1), MapId(last.0 + 1), MapId(i32::MAX), MapId(i32::MIN)] {
            assert_eq!(kind(state.begin(map, None, 0)), Kind::Invalid, "{map}");
            assert_eq!(kind(state.end(map, AttemptId(0), &Bytes::new())), Kind::Invalid, "{map}");
        }
        assert_eq!(state.to_commit().1, []);
        state.begin(last, None, 0).unwrap();
        state.end(last, AttemptId(0), &Bytes::new()).unwrap();
        let winners = state.to_commit().1;
        assert_eq!((winners.len(), winners.last()), (OPEN_MAPS_MAX as usize, Some(&AttemptId(0))));
    }

    #[test]
    fn a_shuffle_is_read_when_all_maps_have_ended_or_its_commit_has_begun() {
        let mut state = state(2);
        for map in [1, 0] {
            assert_eq!(kind(state.check_readable()), Kind::Conflict);
            state.begin(MapId(map), None, 1).unwrap();
            state.end(MapId(map), AttemptId(0), &Bytes::new()).unwrap();
        }
        state.check_readable().unwrap();
        let mut half = self::state(2);
        half.close().unwrap();
        half.check_readable().unwrap();
        half.stage = Stage::Ended;
        assert_eq!(kind(half.check_readable()), Kind::Conflict);
        assert_eq!(kind(half.close()), Kind::Conflict);
        assert_eq!(kind(half.begin(MAP, None, 1)), Kind::Conflict);
    }
}
