//! Records of a NameNode's journal and image: a short one does not swell in memory, and what is read is written again as it was.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_dfs::wire::proto::journal::Record;
use yeoul_journal::Record as _;

/// For the texts of errors.
const SLACK: u64 = 8192;
/// A list of empty parts takes so much more in memory than in the journal, which only the NameNode itself writes.
const FACTOR: u64 = 100;

fuzz_target!(|data: &[u8]| {
    let mut read = None;
    yeoul_fuzz::bounded_times(FACTOR, SLACK, data.len(), || {
        read = <Record as yeoul_journal::Record>::decode(Record::LAYOUT_VERSION, data);
    });
    if let Some(record) = read {
        let mut again = BytesMut::new();
        yeoul_journal::Record::encode(&record, &mut again);
        let again = <Record as yeoul_journal::Record>::decode(Record::LAYOUT_VERSION, &again);
        assert_eq!(again, Some(record));
    }
});
