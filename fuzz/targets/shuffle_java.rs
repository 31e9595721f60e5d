//! Java-serialised objects behind a valid stream header.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::java::Object;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::from([&[0xac, 0xed, 0, 5, 0x73], data].concat());
    yeoul_fuzz::bounded(data.len(), || {
        let _ = Object::decode(bytes);
    });
});
