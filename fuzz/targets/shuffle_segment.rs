//! Records of a worker's segment files, as recovery walks through them, and with the checksums that they should have.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::worker::store::record::{
    HEAD_LEN, Record, RunRow, Seal, encode_run, encode_seal, encode_winners, read,
};

/// For the error of a damaged record.
const SLACK: u64 = 1024;

fuzz_target!(|data: &[u8]| {
    let mut file = data.to_vec();
    mend(&mut file);
    for file in [data, &file] {
        yeoul_fuzz::bounded_by(SLACK, file.len(), || walk(file, drop));
        walk(file, |record| again(&record));
    }
});

/// Reads every record up to the first that is torn or damaged.
fn walk(file: &[u8], mut each: impl FnMut(Record)) {
    let (mut at, len) = (0, file.len() as u64);
    while let Ok((record, next)) = read(at, len, |at, len| piece(file, at, len)) {
        assert!(next > at && next <= len);
        at = next;
        each(record);
    }
}

fn piece(file: &[u8], at: u64, len: usize) -> io::Result<Vec<u8>> {
    let at = usize::try_from(at).expect("within the file");
    Ok(file[at..at + len].to_vec())
}

/// What was read, once encoded, reads as the same.
fn again(record: &Record) {
    let mut bytes = Vec::new();
    let data = match record {
        Record::Run { file, life, first, rows, .. } => {
            encode_run(*file, *life, *first, rows, &mut bytes);
            rows.iter().map(|row: &RunRow| u64::from(row.len)).sum()
        }
        Record::Seal(seal) => {
            let seal: &Seal = seal;
            encode_seal(seal, &mut bytes);
            0
        }
        Record::Winners { birth, attempts, driver } => {
            encode_winners(*birth, attempts, *driver, &mut bytes);
            0
        }
    };
    // The batches are not read, so they need not be there.
    let len = bytes.len() as u64 + data;
    let (mut back, next) = read(0, len, |at, len| piece(&bytes, at, len)).expect("what was encoded decodes");
    assert_eq!(next, len);
    if let (Record::Run { at, .. }, Record::Run { at: found, .. }) = (record, &mut back) {
        *found = *at;
    }
    assert_eq!(&back, record);
}

/// Gives the records of a file the checksums that they should have, as far as there are records.
fn mend(file: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = file.get(at..at + HEAD_LEN) {
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (count, bytes) = (number(20) as usize, number(28) as usize);
        let (table_len, data_len) = match head[4] {
            1 => (count.saturating_mul(20), bytes),
            3 => (count.saturating_mul(4), 0),
            _ => (0, 0),
        };
        let table_at = at + HEAD_LEN;
        let Some(table) = file.get(table_at..table_at.saturating_add(table_len)) else { return };
        // A run's bytes are the sum of its rows, too.
        let (rows, _) = table.as_chunks::<20>();
        let sum: u64 =
            rows.iter().map(|row| u64::from(u32::from_be_bytes([row[0], row[1], row[2], row[3]]))).sum();
        let table_checksum = crc32fast::hash(table);
        let is_run = file[at + 4] == 1;
        file[at..at + 4].copy_from_slice(b"YSR1");
        if is_run {
            file[at + 24..at + 32].copy_from_slice(&sum.to_be_bytes());
        }
        file[at + 40..at + 44].copy_from_slice(&table_checksum.to_be_bytes());
        let checksum = crc32fast::hash(&file[at..at + 44]);
        file[at + 44..at + 48].copy_from_slice(&checksum.to_be_bytes());
        let data_len = if is_run { usize::try_from(sum).unwrap_or(usize::MAX) } else { data_len };
        at = table_at.saturating_add(table_len).saturating_add(data_len);
        if at > file.len() {
            return;
        }
    }
}
