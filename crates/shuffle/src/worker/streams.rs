//! The streams that readers have open. Their numbers are known to the whole worker, because a client may go on with a
//! stream over another connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::{Charge, Memory};
use super::store::read::Stream;
use crate::error::{Error, Kind, Result};
use crate::ids::ShuffleKey;

/// Streams open at once; a client opens one for each location that it reads.
const STREAMS_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Open {
    stream: Arc<Stream>,
    used_ms: u64,
    _cost: Charge,
}

#[derive(Debug)]
struct Table {
    open: HashMap<i64, Open>,
    next: i64,
}

impl Table {
    /// A number that no stream has had.
    fn number(&mut self) -> i64 {
        let number = self.next;
        self.next = number.wrapping_add(1) & i64::MAX;
        number
    }
}

/// The open streams.
#[derive(Debug)]
pub struct Streams(Mutex<Table>);

impl Streams {
    /// No streams. Numbers begin at one that is drawn at random for each process, so that a number from before a restart
    /// does not reach another stream.
    pub fn new(incarnation: u64) -> Self {
        let next = (incarnation >> 1).cast_signed();
        Self(Mutex::new(Table { open: HashMap::new(), next }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a stream and numbers it. One without chunks is not kept: a client that knows from a location's maps that it
    /// has none for it never closes the stream that it has opened all the same.
    ///
    /// # Errors
    /// `ResourceExhausted` when there are too many.
    pub fn insert(&self, stream: Stream, memory: &Memory, now_ms: u64) -> Result<i64> {
        if stream.chunks().is_empty() {
            return Ok(self.table().number());
        }
        let cost = memory.charge_fixed(stream.cost());
        let mut table = self.table();
        if table.open.len() >= STREAMS_MAX {
            let text = format!("{STREAMS_MAX} streams are open");
            return Err(Error::new(Kind::ResourceExhausted, text));
        }
        let number = table.number();
        table.open.insert(number, Open { stream: Arc::new(stream), used_ms: now_ms, _cost: cost });
        Ok(number)
    }

    /// A stream that is read now.
    ///
    /// # Errors
    /// `NotFound` if it is not open.
    pub fn get(&self, number: i64, now_ms: u64) -> Result<Arc<Stream>> {
        let mut table = self.table();
        match table.open.get_mut(&number) {
            Some(open) => {
                open.used_ms = now_ms;
                Ok(Arc::clone(&open.stream))
            }
            None => Err(Error::new(Kind::NotFound, format!("stream {number} is not open"))),
        }
    }

    /// Closes a stream.
    pub fn remove(&self, number: i64) {
        let removed = self.table().open.remove(&number);
        drop(removed); // outside the lock
    }

    /// Closes the streams of a shuffle that goes.
    pub fn remove_shuffle(&self, key: &ShuffleKey) {
        self.retain(|open| open.stream.shuffle().key() != key);
    }

    /// Closes the streams that nobody used since `before_ms`.
    pub fn remove_idle(&self, before_ms: u64) {
        self.retain(|open| open.used_ms >= before_ms);
    }

    fn retain(&self, keep: impl Fn(&Open) -> bool) {
        let removed: Vec<Open> =
            self.table().open.extract_if(|_, open| !keep(open)).map(|(_, open)| open).collect();
        drop(removed);
    }

    /// Streams open now.
    pub fn len(&self) -> usize {
        self.table().open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
