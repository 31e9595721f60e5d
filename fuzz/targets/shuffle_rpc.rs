//! Request envelopes on the rpc ports, Java and native.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::rpc::Request;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    yeoul_fuzz::bounded(data.len(), || {
        let _ = Request::decode(bytes);
    });
});
