//! The records of a segment file: the layout on disk of batches of many locations, one run after the other.
//!
//! ```text
//! offset  width      meaning (all numbers big-endian)
//! 0       4          magic "YSR1"
//! 4       1          kind: 1 run, 2 seal, 3 winners
//! 5       1          mode of the location: 0 primary, 1 replica
//! 6       1          byte order of the batch headers, for a seal: 1 little-endian, 2 big-endian, 0 not known
//! 7       1          whether the location has another copy, for a seal: 1 if so
//! 8       4          partition
//! 12      4          epoch
//! 16      4          first: number of the run's first batch within the location (0 for other kinds)
//! 20      4          count: batches of the run; batches of the whole location for a seal; maps for winners
//! 24      8          bytes of the run's batches; of the whole location for a seal; for winners the number of the driver whose
//!                    shuffle it is, 0 if that is not known
//! 32      8          life: distinguishes a location from an earlier one of the same name; for winners the birth of the
//!                    shuffle, which distinguishes it from an earlier one of its number: its locations have later lives
//! 40      4          CRC-32 of the table
//! 44      4          CRC-32 of the 44 bytes before
//! 48      20·count   table of a run: length, map, attempt, batch, CRC-32 of the batch, for each batch
//!         4·count    table of winners: the attempt of each map; a seal has no table
//! then    bytes      the batches of a run, as the client sent them
//! ```
//! A file describes itself: a killed worker finds what it had committed by reading the heads. Runs of a location may come in
//! any order (`first` gives the place); a location without a seal, or whose runs do not add up to it, was not completely on
//! disk and is not offered. Bytes 6 and 7 are zero for other kinds. If there are winners with several births, the latest
//! counts, and locations with lower lives belong to an earlier shuffle.

use std::io;

use bytes::{Buf, BufMut};

use crate::ids::{AttemptId, BatchId, DriverId, FileName, LocationId, MapId, Mode};
use crate::wire::batch::ByteOrder;

/// Bytes of a record before its table.
pub const HEAD_LEN: usize = 48;
/// Bytes of a run's table for each batch.
pub const RUN_ROW_LEN: usize = 20;
/// Bytes of the table of winners for each map.
const WINNER_ROW_LEN: usize = 4;
/// The most rows of a table; a file that declares more is damaged.
const ROWS_MAX: u32 = 1 << 26;

const MAGIC: [u8; 4] = *b"YSR1";

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Batches of one location.
    Run,
    /// A location is committed and completely on disk.
    Seal,
    /// The attempts that won.
    Winners,
}

/// The first 48 bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// What it is.
    pub kind: RecordKind,
    /// The location, and which of its copies.
    pub file: FileName,
    /// The byte order of the batch headers, if a seal knows it.
    pub order: Option<ByteOrder>,
    /// Whether a seal is for a location that has another copy.
    pub replicated: bool,
    /// Number of the first batch.
    pub first: u32,
    /// Rows of the table, or the number of batches in a seal's location.
    pub count: u32,
    /// Bytes of the batches that follow the table, or of a seal's location; for winners the number of the driver.
    pub bytes: u64,
    /// Distinguishes locations that had this name one after the other, in the order of their creation; for winners the birth
    /// of the shuffle.
    pub life: u64,
    /// CRC-32 of the table.
    pub table_checksum: u32,
}

/// A row of a run's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunRow {
    /// Bytes of the batch.
    pub len: u32,
    /// The map task that wrote it.
    pub map: MapId,
    /// The attempt of that task.
    pub attempt: AttemptId,
    /// The batch's number within (map, attempt).
    pub batch: BatchId,
    /// CRC-32 of the batch.
    pub checksum: u32,
}

/// What is wrong with a record; nothing after it in its file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The head was not written by us.
    #[error("not a record head")]
    Head,
    /// The table does not match its checksum or its head.
    #[error("the table does not match its checksum")]
    Table,
}

impl RecordHead {
    /// Appends the head to `dst`.
    pub fn encode(&self, dst: &mut Vec<u8>) {
        let start = dst.len();
        dst.put_slice(&MAGIC);
        dst.put_u8(match self.kind {
            RecordKind::Run => 1,
            RecordKind::Seal => 2,
            RecordKind::Winners => 3,
        });
        dst.put_u8(self.file.mode.to_wire());
        dst.put_u8(match self.order {
            None => 0,
            Some(ByteOrder::Little) => 1,
            Some(ByteOrder::Big) => 2,
        });
        dst.put_u8(self.replicated.into());
        dst.put_i32(self.file.location.partition.0);
        dst.put_i32(self.file.location.epoch.0);
        dst.put_u32(self.first);
        dst.put_u32(self.count);
        dst.put_u64(self.bytes);
        dst.put_u64(self.life);
        dst.put_u32(self.table_checksum);
        let checksum = crc32fast::hash(&dst[start..]);
        dst.put_u32(checksum);
    }

    /// Reads a head from 48 bytes.
    ///
    /// # Errors
    /// The bytes are not a head written by [`RecordHead::encode`].
    pub fn decode(src: &[u8; HEAD_LEN]) -> Result<Self, RecordError> {
        let (fields, mut checksum) = src.split_at(HEAD_LEN - 4);
        if crc32fast::hash(fields) != checksum.get_u32() || fields[..4] != MAGIC {
            return Err(RecordError::Head);
        }
        let mut src = &fields[4..];
        let kind = match src.get_u8() {
            1 => RecordKind::Run,
            2 => RecordKind::Seal,
            3 => RecordKind::Winners,
            _ => return Err(RecordError::Head),
        };
        let mode = Mode::from_wire(src.get_u8().into()).ok_or(RecordError::Head)?;
        let (order, replicated) = match (src.get_u8(), src.get_u8()) {
            _ if kind != RecordKind::Seal => (None, false),
            (0, replicated) => (None, replicated == 1),
            (1, replicated) => (Some(ByteOrder::Little), replicated == 1),
            (2, replicated) => (Some(ByteOrder::Big), replicated == 1),
            _ => return Err(RecordError::Head),
        };
        let location = LocationId::new(src.get_i32(), src.get_i32());
        let (first, count, bytes, life) = (src.get_u32(), src.get_u32(), src.get_u64(), src.get_u64());
        if count > ROWS_MAX && kind != RecordKind::Seal {
            return Err(RecordError::Head);
        }
        let file = FileName { location, mode };
        let table_checksum = src.get_u32();
        Ok(Self { kind, file, order, replicated, first, count, bytes, life, table_checksum })
    }

    /// Bytes of the table after the head.
    pub fn table_len(&self) -> u64 {
        match self.kind {
            RecordKind::Run => u64::from(self.count) * RUN_ROW_LEN as u64,
            RecordKind::Seal => 0,
            RecordKind::Winners => u64::from(self.count) * WINNER_ROW_LEN as u64,
        }
    }

    /// Bytes of the batches after the table.
    pub fn data_len(&self) -> u64 {
        if self.kind == RecordKind::Run { self.bytes } else { 0 }
    }
}

/// Appends a run's head and table to `dst`; the batches follow.
pub fn encode_run(file: FileName, life: u64, first: u32, rows: &[RunRow], dst: &mut Vec<u8>) {
    let mut table = Vec::with_capacity(rows.len() * RUN_ROW_LEN);
    let mut bytes = 0;
    for row in rows {
        bytes += u64::from(row.len);
        table.put_u32(row.len);
        table.put_i32(row.map.0);
        table.put_i32(row.attempt.0);
        table.put_i32(row.batch.0);
        table.put_u32(row.checksum);
    }
    let table_checksum = crc32fast::hash(&table);
    let count = rows.len() as u32;
    let kind = RecordKind::Run;
    RecordHead { kind, file, order: None, replicated: false, first, count, bytes, life, table_checksum }
        .encode(dst);
    dst.put_slice(&table);
}

/// Reads a run's table.
///
/// # Errors
/// It is not the table that belongs to the head.
pub fn decode_run(head: &RecordHead, mut table: &[u8]) -> Result<Vec<RunRow>, RecordError> {
    if crc32fast::hash(table) != head.table_checksum || table.len() as u64 != head.table_len() {
        return Err(RecordError::Table);
    }
    let mut rows = Vec::with_capacity(table.len() / RUN_ROW_LEN);
    while table.len() >= RUN_ROW_LEN {
        rows.push(RunRow {
            len: table.get_u32(),
            map: MapId(table.get_i32()),
            attempt: AttemptId(table.get_i32()),
            batch: BatchId(table.get_i32()),
            checksum: table.get_u32(),
        });
    }
    let bytes: u64 = rows.iter().map(|row| u64::from(row.len)).sum();
    if bytes == head.bytes { Ok(rows) } else { Err(RecordError::Table) }
}

/// A record as recovery reads it: without the batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Batches of one location.
    Run {
        /// The location, and which of its copies.
        file: FileName,
        /// Distinguishes locations that had this name one after the other.
        life: u64,
        /// The number of the first batch within the location.
        first: u32,
        /// The file offset of the first batch.
        at: u64,
        /// The table: a row for each batch.
        rows: Vec<RunRow>,
    },
    /// A location is committed and completely on disk.
    Seal(Seal),
    /// The attempts that won.
    Winners {
        /// Distinguishes shuffles that had this number one after the other, in the order of their creation.
        birth: u64,
        /// The attempt of each map.
        attempts: Vec<AttemptId>,
        /// The driver whose shuffle it is, if it was known.
        driver: Option<DriverId>,
    },
}

/// Reads the record at offset `at` of a file of `len` bytes, through `read`, which returns the given number of bytes from an
/// offset. Returns the offset of the next record, too.
///
/// # Errors
/// Those of `read`; `UnexpectedEof` for a record that extends past the end of the file, `InvalidData` for a damaged one.
pub fn read(
    at: u64,
    len: u64,
    mut read: impl FnMut(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<(Record, u64)> {
    let torn = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let damaged = |error: RecordError| io::Error::new(io::ErrorKind::InvalidData, error);
    let table_at = at.checked_add(HEAD_LEN as u64).filter(|table_at| *table_at <= len).ok_or_else(torn)?;
    let head = read(at, HEAD_LEN)?;
    let head = RecordHead::decode(head.first_chunk().ok_or_else(torn)?).map_err(damaged)?;
    let data_at = table_at + head.table_len();
    let end = data_at.checked_add(head.data_len()).filter(|end| *end <= len).ok_or_else(torn)?;
    // The file is at least as long as the table, so the table's length may size an allocation.
    let table = read(table_at, head.table_len() as usize)?;
    let RecordHead { file, order, replicated, first, count, bytes, life, .. } = head;
    let record = match head.kind {
        RecordKind::Run => {
            let rows = decode_run(&head, &table).map_err(damaged)?;
            Record::Run { file, life, first, at: data_at, rows }
        }
        RecordKind::Seal => Record::Seal(Seal { file, life, count, bytes, order, replicated }),
        RecordKind::Winners => {
            let attempts = decode_winners(&head, &table).map_err(damaged)?;
            Record::Winners { birth: life, attempts, driver: DriverId::from_number(bytes) }
        }
    };
    Ok((record, end))
}

/// A location that is committed and completely on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The location, and which of its copies.
    pub file: FileName,
    /// Distinguishes locations that had this name one after the other.
    pub life: u64,
    /// The number of its batches.
    pub count: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The byte order of its batch headers, needed to find repeated batches; `None` if no batch has shown it.
    pub order: Option<ByteOrder>,
    /// Whether there is another copy, which need not hold the same batches.
    pub replicated: bool,
}

/// Appends a seal.
pub fn encode_seal(seal: &Seal, dst: &mut Vec<u8>) {
    let Seal { file, life, count, bytes, order, replicated } = *seal;
    let (kind, table_checksum) = (RecordKind::Seal, crc32fast::hash(&[]));
    RecordHead { kind, file, order, replicated, first: 0, count, bytes, life, table_checksum }.encode(dst);
}

/// Appends the winners of the shuffle with this birth.
pub fn encode_winners(birth: u64, attempts: &[AttemptId], driver: Option<DriverId>, dst: &mut Vec<u8>) {
    let table: Vec<u8> = attempts.iter().flat_map(|attempt| attempt.0.to_be_bytes()).collect();
    RecordHead {
        kind: RecordKind::Winners,
        file: FileName { location: LocationId::default(), mode: Mode::Primary },
        order: None,
        replicated: false,
        first: 0,
        count: attempts.len() as u32,
        bytes: driver.map_or(0, DriverId::number),
        life: birth,
        table_checksum: crc32fast::hash(&table),
    }
    .encode(dst);
    dst.put_slice(&table);
}

/// Reads a table of winners.
///
/// # Errors
/// It is not the table that belongs to the head.
pub fn decode_winners(head: &RecordHead, table: &[u8]) -> Result<Vec<AttemptId>, RecordError> {
    if crc32fast::hash(table) != head.table_checksum || table.len() as u64 != head.table_len() {
        return Err(RecordError::Table);
    }
    let (rows, _) = table.as_chunks::<WINNER_ROW_LEN>();
    Ok(rows.iter().map(|row| AttemptId(i32::from_be_bytes(*row))).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row() -> impl Strategy<Value = RunRow> {
        (0..1000u32, any::<(i32, i32, i32, u32)>()).prop_map(|(len, (map, attempt, batch, checksum))| {
            RunRow { len, map: MapId(map), attempt: AttemptId(attempt), batch: BatchId(batch), checksum }
        })
    }

    /// All records up to the first one that is torn or damaged, and where that begins.
    fn read_all(file: &[u8]) -> (Vec<Record>, usize) {
        let (mut records, mut at) = (Vec::new(), 0);
        while let Ok((record, next)) = read(at, file.len() as u64, |at, len| {
            let at = at as usize;
            Ok(file[at..at + len].to_vec())
        }) {
            records.push(record);
            at = next;
        }
        (records, at as usize)
    }

    proptest! {
        #[test]
        fn records_read_back_and_torn_ones_do_not(
            rows in prop::collection::vec(row(), 0..20),
            attempts in prop::collection::vec(any::<i32>(), 0..20),
            (partition, epoch, first, life) in any::<(i32, i32, u32, u64)>(),
            order in prop::sample::select(vec![None, Some(ByteOrder::Little), Some(ByteOrder::Big)]),
            replicated in any::<bool>(),
            end in any::<prop::sample::Index>(),
        ) {
            let file = FileName { location: LocationId::new(partition, epoch), mode: Mode::Replica };
            let attempts: Vec<_> = attempts.into_iter().map(AttemptId).collect();
            let seal = Seal { file, life, count: first, bytes: life, order, replicated };
            let mut bytes = Vec::new();
            encode_run(file, life, first, &rows, &mut bytes);
            let at = bytes.len() as u64;
            bytes.extend(rows.iter().flat_map(|row| (0..row.len).map(|at| at as u8)));
            let driver = DriverId::from_number(life);
            encode_winners(life, &attempts, driver, &mut bytes);
            encode_seal(&seal, &mut bytes);
            let winners = Record::Winners { birth: life, attempts, driver };
            let expected = [Record::Run { file, life, first, at, rows }, winners, Record::Seal(seal)];
            prop_assert_eq!(read_all(&bytes), (expected.to_vec(), bytes.len()));

            // A file that was cut ends with a torn record, and the records before it are read.
            let len = end.index(bytes.len());
            let (read, whole) = read_all(&bytes[..len]);
            prop_assert_eq!(&read[..], &expected[..read.len()]);
            prop_assert!(whole <= len && read.len() < expected.len());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4u8) {
            let (records, whole) = read_all(&bytes);
            prop_assert!(records.is_empty() && whole == 0, "nothing has a checksum by chance");
            // The same for what the checksum protects.
            let Some(bytes) = bytes.first_chunk::<{ HEAD_LEN - 8 }>() else { return Ok(()) };
            let mut head = bytes.to_vec();
            head[..5].copy_from_slice(&[b'Y', b'S', b'R', b'1', kind]);
            head.put_u32(crc32fast::hash(&[]));
            head.put_u32(crc32fast::hash(&head));
            read_all(&head);
        }

        /// Any flipped bit of a head or a table is noticed.
        #[test]
        fn a_flipped_bit_is_noticed(rows in prop::collection::vec(row(), 1..5), at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let mut bytes = Vec::new();
            encode_run(FileName { location: LocationId::new(1, 2), mode: Mode::Primary }, 9, 0, &rows, &mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let read = RecordHead::decode(bytes.first_chunk().unwrap())
                .and_then(|head| decode_run(&head, &bytes[HEAD_LEN..]));
            prop_assert!(read.is_err());
        }
    }
}
