//! Records of a master's journal: a short one does not swell in memory, and what is read is written again as it was.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_journal::Record as _;
use yeoul_shuffle::master::record::Record;

/// For 64 properties, and the texts of errors.
const SLACK: u64 = 8192;

fuzz_target!(|data: &[u8]| {
    let mut read = None;
    yeoul_fuzz::bounded_by(SLACK, data.len(), || read = Record::decode(Record::LAYOUT_VERSION, data));
    if let Some(record) = read {
        let mut again = BytesMut::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(Record::LAYOUT_VERSION, &again), Some(record));
    }
});
