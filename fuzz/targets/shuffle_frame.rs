//! Frames as a stream, cut at places that the input chooses; what decodes encodes back to the same bytes.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::{Frame, Limits};

const LIMITS: Limits = Limits {
    head_len_max: 512 << 10,
    rpc_body_max: 1 << 20,
    push_body_max: 1 << 20,
    chunk_body_max: 1 << 20,
};

/// For the texts of errors, and for a `Bytes` that is shared.
const SLACK: u64 = 1024;

fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first() else { return };
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let mut source = BytesMut::with_capacity(data.len());
        for piece in data.chunks(usize::from(*cut) + 1) {
            source.extend_from_slice(piece);
            loop {
                let before = source.len();
                match Frame::decode(&mut source, &LIMITS) {
                    Ok(Some(frame)) => assert!(source.len() < before, "{frame:?} took nothing"),
                    Ok(None) => break assert_eq!(source.len(), before, "an incomplete frame was taken"),
                    Err(_) => return,
                }
            }
        }
    });
    // Shuffle keys and locations have one spelling on our side only, so compare values and not bytes.
    if let Ok(Some(frame)) = Frame::decode(&mut BytesMut::from(data), &LIMITS) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        assert_eq!(Frame::decode(&mut again, &LIMITS), Ok(Some(frame)));
    }
});
