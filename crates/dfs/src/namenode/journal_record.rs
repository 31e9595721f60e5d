//! The records of the NameNode as a journal keeps them.

use bytes::BytesMut;
use prost::Message;

use crate::wire::proto::journal::Record;
use crate::wire::protocol;

impl yeoul_journal::Record for Record {
    const KIND: &'static str = "namenode";
    const LAYOUT_VERSION: u32 = protocol::LAYOUT_VERSION;

    fn encode(&self, dst: &mut BytesMut) {
        self.encode_raw(dst);
    }

    fn decode(_: u32, bytes: &[u8]) -> Option<Self> {
        // One of a later version has a change that is unknown here, which would be lost.
        <Self as Message>::decode(bytes).ok().filter(|record| record.change.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::proto::journal::record::Change;
    use crate::wire::proto::journal::{BeginTerm, Caller};

    #[test]
    fn a_record_comes_back_and_one_without_a_known_change_is_refused() {
        let record = Record {
            time_ms: 5,
            caller: Some(Caller { client_id: vec![1; 16].into(), call_id: -7 }),
            answer: vec![8, 1].into(),
            change: Some(Change::BeginTerm(BeginTerm { term: 3 })),
        };
        let mut bytes = BytesMut::new();
        yeoul_journal::Record::encode(&record, &mut bytes);
        assert_eq!(<Record as yeoul_journal::Record>::decode(1, &bytes), Some(record.clone()));
        // Field 1000, of a version to come.
        let unknown = [&Record { change: None, ..record }.encode_to_vec()[..], &[0xc2, 0x3e, 0x00]].concat();
        assert_eq!(<Record as yeoul_journal::Record>::decode(1, &unknown), None);
        assert_eq!(<Record as yeoul_journal::Record>::decode(1, &[0xff]), None);
    }
}
