//! A record for tests, and the state that it is of.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};

use crate::Record;

/// Puts a value, which is unique, under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    pub key: u16,
    pub value: u64,
}

/// The state: the last value of each key.
pub type Table = BTreeMap<u16, u64>;

impl Put {
    pub fn new(value: u64) -> Self {
        Self { key: (value * 7 % 50) as u16, value }
    }

    pub fn apply(self, table: &mut Table) {
        table.insert(self.key, self.value);
    }
}

impl Record for Put {
    const KIND: &'static str = "put";
    const LAYOUT_VERSION: u32 = 2;

    fn encode(&self, dst: &mut BytesMut) {
        dst.put_u16(self.key);
        dst.put_u64(self.value);
    }

    fn decode(layout_version: u32, bytes: &[u8]) -> Option<Self> {
        let (key, value) = bytes.split_at_checked(2)?;
        let key = u16::from_be_bytes(key.try_into().ok()?);
        // The first layout had smaller values.
        let value = match layout_version {
            1 => u32::from_be_bytes(value.try_into().ok()?).into(),
            _ => u64::from_be_bytes(value.try_into().ok()?),
        };
        Some(Self { key, value })
    }
}
