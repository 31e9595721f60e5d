//! Batch headers in both byte orders.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::batch::{BATCH_HEADER_LEN, Batches, ByteOrder};

/// For the count of a `Bytes` that is shared.
const SLACK: u64 = 512;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let read = Batches::new(bytes.clone(), order).map_while(Result::ok);
            let len: usize = read.map(|batch| BATCH_HEADER_LEN + batch.payload.len()).sum();
            assert!(len <= data.len());
        }
        let _ = ByteOrder::of_batch(&bytes, bytes.len());
    });
});
