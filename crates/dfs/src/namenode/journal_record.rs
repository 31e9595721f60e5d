//! The records of the NameNode as a journal keeps them.

use bytes::BytesMut;
use prost::Message as _;

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
        Self::decode(bytes).ok().filter(|record| record.change.is_some())
    }
}
