//! A master's journal as it lies in its file: bytes, whose end may be torn.

use bytes::BytesMut;

use super::random::Random;
use crate::master::Record;
use crate::master::journal::layout::{Entry, Frame, decode, encode, holds_frame_later};

/// See the [module](self).
#[derive(Default)]
pub struct Journal {
    bytes: BytesMut,
    /// Where each record begins.
    starts: Vec<usize>,
}

impl Journal {
    pub fn append(&mut self, records: &[Record]) {
        for record in records {
            self.starts.push(self.bytes.len());
            encode(self.starts.len() as u64 - 1, &Entry::Record(record.clone()), &mut self.bytes);
        }
    }

    /// Cuts the last `whole` records off, and some bytes of the one before them.
    pub fn tear(&mut self, random: &mut Random, whole: usize) {
        let kept = self.starts.len().saturating_sub(whole);
        let end = self.starts.get(kept).copied().unwrap_or(self.bytes.len());
        let begin = kept.checked_sub(1).map_or(0, |last| self.starts[last]);
        self.bytes.truncate(begin + random.below(end - begin));
        self.starts.truncate(kept.saturating_sub(1));
    }

    /// The records that a restarted master finds; a torn end goes.
    pub fn replay(&mut self) -> Vec<Record> {
        let (mut records, mut at) = (Vec::new(), 0);
        while at < self.bytes.len() {
            match decode(&self.bytes[at..]) {
                Frame::Whole { sequence, entry: Entry::Record(record), len } => {
                    assert_eq!(sequence, records.len() as u64);
                    records.push(record);
                    at += len;
                }
                torn => {
                    assert_eq!(torn, Frame::Broken);
                    assert!(!holds_frame_later(&self.bytes[at..]), "damaged before its end");
                    self.bytes.truncate(at);
                }
            }
        }
        assert_eq!(records.len(), self.starts.len(), "not every whole record was found");
        records
    }

    /// Begins anew with a snapshot's records.
    pub fn replace(&mut self, records: &[Record]) {
        *self = Self::default();
        self.append(records);
    }
}
