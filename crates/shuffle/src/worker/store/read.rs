//! Opens committed locations and reads their chunks, from memory and from segments.
//!
//! A chunk is read in pieces, each when its reader is ready for it, so that a slow reader holds one piece rather than a
//! whole chunk. Bytes from a segment are compared with their checksums before they are sent.

use std::collections::HashSet;
use std::fmt;
use std::future;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use yeoul_disk::Turn;

use super::Store;
use super::copy::Place;
use super::directory::Directory;
use super::segment::{Segment, Wait};
use super::shuffle::{Contents, Shuffle};
use crate::error::{Error, Kind, Result};
use crate::ids::{FileName, Mode};
use crate::wire::batch::ByteOrder;
use crate::worker::index::{Chunk, MapRange, Selection};
use crate::worker::memory::{Buffer, Buffers, Memory, Party};
use crate::worker::state::Slot;

/// Bytes that are read and sent at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// Bytes after a piece that came from disk which the system is asked to read ahead.
const AHEAD_BYTES: u64 = 2 << 20;

/// In-memory batches smaller than this are joined before sending, if there are many.
const SMALL_BATCH_BYTES: usize = 4 << 10;

/// How many of them count as many.
const SMALL_BATCHES_MIN: usize = 8;

/// A batch on disk larger than this, or than an eighth of the memory for reads, is sent while it is read rather than held.
/// Its checksum is compared before its last part is sent.
const WHOLE_BATCH_BYTES_MAX: u64 = 4 << 20;

/// An opened location: the batches that a reader gets, cut into chunks. Whoever knows its number may read it, over any
/// connection.
#[derive(Debug)]
pub struct Stream {
    shuffle: Arc<Shuffle>,
    slot: Slot,
    selection: Selection,
    chunks: Vec<Chunk>,
    /// Why a chunk could not be sent completely, for later requests.
    broken: OnceLock<(Kind, String)>,
}

impl Store {
    /// Opens a committed location for a range of maps.
    ///
    /// # Errors
    /// `NotFound` if it is not on this worker, `Unavailable` if the next start may still find it, `Conflict` if it is not
    /// committed yet.
    pub fn open_stream(
        &self,
        shuffle: &Arc<Shuffle>,
        file: FileName,
        range: MapRange,
        chunk_bytes: u64,
    ) -> Result<Stream> {
        let mut contents = shuffle.lock();
        if contents.gone {
            return Err(not_here(format_args!("location {file}"), false));
        }
        let lost = || not_here(format_args!("location {file}"), contents.has_unseen_files);
        let slot = contents.state.find(file).ok_or_else(lost)?;
        if !contents.state.is_sealed(file) {
            let text = format!("location {file} of {} is not committed yet", shuffle.key());
            return Err(Error::new(Kind::Conflict, text));
        }
        let repeated = contents.repeated(slot, file);
        let contents = &*contents;
        let (selection, chunks) = match contents.copies.get(&slot) {
            None => (Selection::All, Vec::new()), // reserved, but nothing was pushed
            Some(copy) => {
                let selection = copy.index().select(range, contents.state.winners(), &repeated);
                let chunks = copy.index().cut(&selection, chunk_bytes);
                (selection, chunks)
            }
        };
        Ok(Stream { shuffle: Arc::clone(shuffle), slot, selection, chunks, broken: OnceLock::new() })
    }
}

impl Contents {
    /// The entries that duplicate others in this location, or in an earlier location of the partition.
    ///
    /// Earlier locations are checked only for readers that do not do so themselves (Sail), and only without replicas:
    /// otherwise the reader may take the earlier location from its other copy, which need not have the batch.
    fn repeated(&mut self, slot: Slot, file: FileName) -> Arc<[u32]> {
        let Some(copy) = self.copies.get_mut(&slot) else { return Arc::from([]) };
        let own = copy.repeated();
        let concerned = self.order == Some(ByteOrder::Big) && file.mode == Mode::Primary;
        if !concerned || self.state.has_peer(file) {
            return own;
        }
        let earlier = |(other, slot): (FileName, Slot)| {
            let is_earlier = other.mode == Mode::Primary
                && other.location.partition == file.location.partition
                && other.location.epoch < file.location.epoch;
            (is_earlier && self.state.is_sealed(other) && !self.state.has_peer(other)).then_some(slot)
        };
        let earlier: Vec<Slot> = self.state.slots().filter_map(earlier).collect();
        let batches =
            earlier.iter().filter_map(|slot| self.copies.get(slot)).flat_map(|copy| copy.index().entries());
        let seen: HashSet<_> = batches.map(|entry| (entry.map, entry.attempt, entry.batch)).collect();
        let Some(copy) = self.copies.get(&slot).filter(|_| !seen.is_empty()) else { return own };
        let elsewhere = copy.index().entries().enumerate().filter_map(|(number, entry)| {
            seen.contains(&(entry.map, entry.attempt, entry.batch)).then_some(number as u32)
        });
        let mut all: Vec<u32> = own.iter().copied().chain(elsewhere).collect();
        all.sort_unstable();
        all.dedup();
        all.into()
    }
}

impl Stream {
    /// The chunks of the stream.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Remembers why a chunk could not be sent completely.
    pub fn broke(&self, error: &Error) {
        // The first reason stays.
        let _ = self.broken.set((error.kind(), error.to_string()));
    }

    /// Checks that every chunk so far could be sent completely.
    ///
    /// # Errors
    /// The error given to [`Stream::broke`].
    pub fn check(&self) -> Result<()> {
        match self.broken.get() {
            None => Ok(()),
            Some((kind, text)) => Err(Error::new(*kind, text.as_str())),
        }
    }

    /// Marks the batches at these positions of the selection as damaged, for all later readers.
    fn suspect(&self, positions: Range<u32>) {
        let mut contents = self.shuffle.lock();
        let entries = positions.map(|position| self.selection.entry(position));
        if let Some(copy) = contents.copies.get_mut(&self.slot) {
            copy.suspect(entries);
        }
    }

    /// The batches of a chunk that another reader found damaged.
    fn suspects(&self, chunk: &Chunk) -> Vec<(Place, u64)> {
        let contents = self.shuffle.lock();
        let copy = contents.copies.get(&self.slot).filter(|copy| !copy.suspects().is_empty());
        let Some(copy) = copy else { return Vec::new() };
        let entries = (chunk.first..chunk.end).map(|position| self.selection.entry(position));
        let suspects = entries.filter(|entry| copy.suspects().contains(entry));
        suspects.map(|entry| (copy.place(entry), copy.index().entry(entry).len.into())).collect()
    }

    /// The shuffle that the batches belong to.
    pub fn shuffle(&self) -> &Arc<Shuffle> {
        &self.shuffle
    }

    /// Memory that the stream needs besides the batches, in bytes.
    pub fn cost(&self) -> u64 {
        let selected = match &self.selection {
            Selection::All => 0,
            Selection::Some(entries) => entries.len() * size_of::<u32>(),
        };
        (size_of::<Self>() + selected + self.chunks.len() * size_of::<Chunk>()) as u64
    }
}

/// A batch that is sent in parts.
#[derive(Debug)]
struct Large {
    segment: Arc<Segment>,
    at: u64,
    left: u64,
    checksum: u32,
    seen: crc32fast::Hasher,
}

/// Batches that follow each other in a segment.
#[derive(Debug)]
struct Run {
    segment: Arc<Segment>,
    at: u64,
    len: u64,
}

impl Run {
    fn continues(&self, segment: &Arc<Segment>, at: u64) -> bool {
        Arc::ptr_eq(&self.segment, segment) && self.at + self.len == at
    }
}

/// Reads a chunk, or a part of one, piece by piece.
#[derive(Debug)]
pub struct ChunkReader {
    stream: Arc<Stream>,
    memory: Memory,
    buffers: Buffers,
    position: u32,
    end: u32,
    large: Option<Large>,
    /// Batches that another reader found damaged: compared first, while an error can still be answered.
    suspects: Vec<(Place, u64)>,
    /// Bytes to skip before the first one that is sent.
    skip: u64,
    /// Bytes still to send.
    left: u64,
    /// Whether some of the batches were on disk.
    from_disk: bool,
}

impl ChunkReader {
    /// A reader of `len` bytes (or as many as there are) from `offset` in a chunk.
    ///
    /// # Errors
    /// `Invalid` if the stream has no such chunk, or the offset is beyond its end.
    pub fn new(stream: &Arc<Stream>, store: &Store, chunk: u32, offset: u64, len: u64) -> Result<Self> {
        let Some(found) = stream.chunks.get(chunk as usize) else {
            let text = format!("chunk {chunk} of a stream of {} chunks", stream.chunks.len());
            return Err(Error::new(Kind::Invalid, text));
        };
        let Some(rest) = found.bytes.checked_sub(offset) else {
            let text = format!("offset {offset} of a chunk of {} bytes", found.bytes);
            return Err(Error::new(Kind::Invalid, text));
        };
        Ok(Self {
            stream: Arc::clone(stream),
            memory: store.read_memory().clone(),
            buffers: store.buffers().clone(),
            position: found.first,
            end: found.end,
            large: None,
            suspects: stream.suspects(found),
            skip: offset,
            left: rest.min(len),
            from_disk: false,
        })
    }

    /// Whether some of the batches were on disk, of those that were read.
    pub fn is_from_disk(&self) -> bool {
        self.from_disk
    }

    /// Bytes still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` if a batch does not match its checksum, `NotFound` if the shuffle was deleted meanwhile, else as the file
    /// system reports. Nothing of the batch in question has been returned, unless it is too large to be held: then the piece
    /// before the error was the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        for (place, len) in std::mem::take(&mut self.suspects) {
            if let Place::Disk { segment, at, checksum } = place {
                self.check(segment, at, len, checksum).await?;
            }
        }
        while self.left > 0 {
            let begin = self.position;
            let parts = match &mut self.large {
                Some(_) => self.next_of_large().await,
                None => self.next_batches().await,
            };
            if let Err(error) = &parts
                && error.kind() == Kind::Corrupt
            {
                // The position of a large batch has been passed when its parts are read.
                self.stream.suspect(begin.min(self.position - 1)..self.position);
            }
            let parts = self.clip(parts?);
            if !parts.is_empty() {
                return Ok(Some(parts));
            }
        }
        Ok(None)
    }

    /// Removes what the reader did not ask for.
    fn clip(&mut self, parts: Vec<Bytes>) -> Vec<Bytes> {
        let clipped = parts.into_iter().filter_map(|mut part| {
            let skipped = self.skip.min(part.len() as u64);
            self.skip -= skipped;
            let part = part.split_off(skipped as usize);
            let wanted = self.left.min(part.len() as u64);
            self.left -= wanted;
            (wanted > 0).then(|| part.slice(..wanted as usize))
        });
        clipped.collect()
    }

    async fn next_batches(&mut self) -> Result<Vec<Bytes>> {
        let whole_bytes_max = WHOLE_BATCH_BYTES_MAX.min(self.memory.limit() / 8);
        let batches = self.locate(whole_bytes_max)?;
        self.from_disk |= batches.iter().any(|(place, _)| matches!(place, Place::Disk { .. }));
        if let [(Place::Disk { segment, at, checksum }, len)] = batches.as_slice()
            && *len > whole_bytes_max
        {
            let large = Large {
                segment: Arc::clone(segment),
                at: *at,
                left: *len,
                checksum: *checksum,
                seen: crc32fast::Hasher::new(),
            };
            if self.skip + self.left < *len {
                // The end of this batch was not asked for, so it would never be compared.
                self.check(Arc::clone(segment), *at, *len, *checksum).await?;
            }
            self.large = Some(large);
            return Ok(Vec::new());
        }
        if batches.iter().all(|(place, _)| matches!(place, Place::Memory(_))) {
            let parts = batches.into_iter().filter_map(|(place, _)| match place {
                Place::Memory(batch) => Some(batch),
                Place::Disk { .. } => None,
            });
            return Ok(self.join_small(parts.collect()).await);
        }
        let from_disk = |(place, len): &(Place, u64)| matches!(place, Place::Disk { .. }).then_some(*len);
        let len: u64 = batches.iter().filter_map(from_disk).sum();
        // A single buffer and a single wait for it: two waiters with half of what each needs would wait for ever.
        let mut buffer = self.buffer(len as usize).await;
        let stream = Arc::clone(&self.stream);
        // Data that the system has cached, by reading ahead or from the write, needs no other thread.
        if fill(&batches, &mut buffer, Wait::Never).is_ok() {
            return split_checked(&batches, buffer).map_err(|error| about(&stream, error));
        }
        let Some(directory) = batches.iter().find_map(|(place, _)| place.directory()).cloned() else {
            return Err(Error::new(Kind::Internal, "a batch is neither in memory nor on disk"));
        };
        let (turn, mut buffer) = self.turn_and_buffer(&directory, buffer).await;
        let ahead = self.ahead(&directory);
        let read = turn.work(move || {
            ahead.iter().for_each(|run| run.segment.fetch(run.at, run.len));
            fill(&batches, &mut buffer, Wait::ForTheDisk)?;
            split_checked(&batches, buffer)
        });
        read.await.map_err(|error| about(&stream, error))
    }

    /// A turn to read from a directory, once a buffer is there; returns both.
    ///
    /// Nobody holds one while it waits for the other: a disk that hangs would keep all readers' memory, and slow clients a
    /// disk's turns.
    async fn turn_and_buffer(&self, directory: &Directory, mut buffer: Buffer) -> (Turn, Buffer) {
        let len = buffer.bytes_mut().capacity();
        loop {
            if let Some(turn) = directory.reads.try_take() {
                return (turn, buffer);
            }
            drop(buffer);
            let turn = directory.reads.take().await;
            tokio::select! {
                biased;
                buffer = self.buffer(len) => return (turn, buffer),
                () = future::ready(()) => drop(turn), // there is none at once
            }
            buffer = self.buffer(len).await;
        }
    }

    /// Waits for a buffer; slow readers of other applications do not hold it up.
    async fn buffer(&self, len: usize) -> Buffer {
        self.buffers.take(len, &self.memory, &Party::reads(&self.stream.shuffle.key().application)).await
    }

    /// Copies small neighbours into one part: a system call for each of them would cost more than the copy.
    async fn join_small(&self, parts: Vec<Bytes>) -> Vec<Bytes> {
        let is_small = |part: &&Bytes| part.len() < SMALL_BATCH_BYTES;
        if parts.iter().filter(is_small).count() < SMALL_BATCHES_MIN {
            return parts;
        }
        let len = parts.iter().filter(is_small).map(Bytes::len).sum();
        let mut buffer = self.buffer(len).await;
        parts.iter().filter(is_small).for_each(|part| buffer.bytes_mut().extend_from_slice(part));
        let mut small = buffer.share();
        let mut joined: Vec<Bytes> = Vec::new();
        let mut run = 0;
        for part in parts {
            if is_small(&&part) {
                run += part.len();
                continue;
            }
            if run > 0 {
                joined.push(small.split_to(std::mem::take(&mut run)));
            }
            joined.push(part);
        }
        if run > 0 {
            joined.push(small);
        }
        joined
    }

    /// Where the next batches are: as many as make a piece, or one above `whole_bytes_max`.
    fn locate(&mut self, whole_bytes_max: u64) -> Result<Vec<(Place, u64)>> {
        let contents = self.stream.shuffle.lock();
        let Some(copy) = contents.copies.get(&self.stream.slot) else {
            let text = format!("shuffle {} was deleted while it was read", self.stream.shuffle.key());
            return Err(Error::new(Kind::NotFound, text));
        };
        let (mut batches, mut bytes) = (Vec::new(), 0);
        let mut directory = None;
        while self.position < self.end && (batches.is_empty() || bytes < PIECE_BYTES) {
            let entry = self.stream.selection.entry(self.position);
            let len = u64::from(copy.index().entry(entry).len);
            if len > whole_bytes_max && !batches.is_empty() {
                break;
            }
            let place = copy.place(entry);
            // What is read in one directory's turn must not wait for another directory.
            match (&directory, place.directory()) {
                (None, Some(first)) => directory = Some(Arc::clone(first)),
                (Some(first), Some(next)) if !Arc::ptr_eq(first, next) => break,
                _ => {}
            }
            batches.push((place, len));
            bytes += len;
            self.position += 1;
            if len > whole_bytes_max {
                break;
            }
        }
        Ok(batches)
    }

    /// The batches after those that were located, as far as they are in a directory: to be read ahead.
    fn ahead(&self, directory: &Arc<Directory>) -> Vec<Run> {
        let contents = self.stream.shuffle.lock();
        let Some(copy) = contents.copies.get(&self.stream.slot) else { return Vec::new() };
        let (mut runs, mut bytes): (Vec<Run>, u64) = (Vec::new(), 0);
        for position in self.position..self.end {
            let entry = self.stream.selection.entry(position);
            let len = u64::from(copy.index().entry(entry).len);
            match (copy.place(entry), runs.last_mut()) {
                (Place::Disk { segment, at, .. }, Some(run)) if run.continues(&segment, at) => run.len += len,
                (Place::Disk { segment, at, .. }, _) if Arc::ptr_eq(segment.directory(), directory) => {
                    runs.push(Run { segment, at, len });
                }
                _ => {}
            }
            bytes += len;
            if bytes >= AHEAD_BYTES {
                break;
            }
        }
        runs
    }

    /// Compares a batch on disk with its checksum before any of it is sent, without holding it.
    async fn check(&self, segment: Arc<Segment>, mut at: u64, len: u64, checksum: u32) -> Result<()> {
        let end = at + len;
        let directory = Arc::clone(segment.directory());
        let turn = directory.reads.take().await;
        let checked = turn.work(move || {
            let mut seen = crc32fast::Hasher::new();
            while at < end {
                let bytes = segment.read(at, PIECE_BYTES.min(end - at) as usize)?;
                at += bytes.len() as u64;
                seen.update(&bytes);
            }
            if seen.finalize() == checksum { Ok(()) } else { Err(rotten(&segment, at)) }
        });
        checked.await.map_err(|error| about(&self.stream, error))
    }

    async fn next_of_large(&mut self) -> Result<Vec<Bytes>> {
        let Some(large) = &self.large else { return Ok(Vec::new()) };
        let (segment, at) = (Arc::clone(&large.segment), large.at);
        let len = PIECE_BYTES.min(large.left);
        let directory = Arc::clone(segment.directory());
        let buffer = self.buffer(len as usize).await;
        let (turn, mut buffer) = self.turn_and_buffer(&directory, buffer).await;
        let read = turn.work(move || {
            buffer.bytes_mut().resize(len as usize, 0);
            segment.read_into(at, buffer.bytes_mut()).map(|()| buffer)
        });
        let buffer = read.await.map_err(|error| about(&self.stream, error))?;
        let Some(large) = &mut self.large else { return Ok(Vec::new()) };
        large.seen.update(buffer.as_ref());
        large.at += len;
        large.left -= len;
        if large.left == 0
            && let Some(large) = self.large.take()
            && large.seen.finalize() != large.checksum
        {
            return Err(about(&self.stream, rotten(&large.segment, at)));
        }
        Ok(vec![buffer.share()])
    }
}

/// The error that a reader gets for what is not here: whether it may be in files that this start of the worker could not
/// read, or on a disk that it left out.
pub fn not_here(what: impl fmt::Display, may_be_unseen: bool) -> Error {
    if may_be_unseen {
        let text =
            format!("{what} was not found, but the worker could not read all of its files when it started");
        return Error::new(Kind::Unavailable, text);
    }
    Error::new(Kind::NotFound, format!("{what} is not here"))
}

/// Reads the batches that are on disk into the buffer, neighbours in one read. The buffer may contain their first bytes
/// already, as it does after an error: what was read is not read again.
fn fill(batches: &[(Place, u64)], buffer: &mut Buffer, wait: Wait) -> io::Result<()> {
    let buffer = buffer.bytes_mut();
    let mut begin = 0;
    let mut rest = batches;
    while let Some((place, len)) = rest.first() {
        let Place::Disk { segment, at, .. } = place else {
            rest = &rest[1..];
            continue;
        };
        let (mut count, mut end) = (1, at + len);
        while let Some((Place::Disk { segment: next, at, .. }, len)) = rest.get(count) {
            if !Arc::ptr_eq(segment, next) || *at != end {
                break;
            }
            end += len;
            count += 1;
        }
        let len = (end - at) as usize;
        while buffer.len() < begin + len {
            let from = buffer.len();
            buffer.resize(begin + len, 0);
            let read = segment.read_some(at + (from - begin) as u64, &mut buffer[from..], wait);
            buffer.truncate(from + read.as_ref().copied().unwrap_or(0));
            match read {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        begin += len;
        rest = &rest[count..];
    }
    Ok(())
}

/// Splits a filled buffer into batches, inserts those from memory, and compares each one with its checksum.
fn split_checked(batches: &[(Place, u64)], buffer: Buffer) -> io::Result<Vec<Bytes>> {
    let mut parts: Vec<Bytes> = Vec::with_capacity(batches.len());
    let mut bytes = buffer.share();
    let mut run = 0;
    for (place, len) in batches {
        match place {
            Place::Disk { segment, at, checksum } => {
                let from = run;
                run += *len as usize;
                if crc32fast::hash(&bytes[from..run]) != *checksum {
                    return Err(rotten(segment, *at));
                }
            }
            Place::Memory(batch) => {
                if run > 0 {
                    parts.push(bytes.split_to(std::mem::take(&mut run)));
                }
                parts.push(batch.clone());
            }
        }
    }
    if run > 0 {
        parts.push(bytes);
    }
    Ok(parts)
}

fn rotten(segment: &Segment, at: u64) -> io::Error {
    let text = format!("the batch at {at} of {} does not match its checksum", segment.path().display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn about(stream: &Stream, error: io::Error) -> Error {
    let text = format!("cannot read shuffle {}: {error}", stream.shuffle.key());
    let kind = match error.kind() {
        // A file that is shorter than its records has lost them.
        io::ErrorKind::UnexpectedEof => Kind::Corrupt,
        _ => Kind::of_io(&error),
    };
    Error::new(kind, text).with_source(error)
}
