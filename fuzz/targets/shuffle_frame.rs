//! Frames as a stream, cut at places that the input chooses, whole and as a connection reads them: each head before its
//! body. What decodes encodes back to the same bytes.
#![no_main]

use bytes::{Buf, BytesMut};
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::{Frame, Head, Limits};

const LIMITS: Limits = Limits {
    head_len_max: 512 << 10,
    rpc_body_max: 1 << 20,
    push_body_max: 1 << 20,
    chunk_body_max: 1 << 20,
};

/// For the texts of errors, and for a `Bytes` that is shared.
const SLACK: u64 = 1024;

/// How many whole frames there are in front of the first error.
fn frames(pieces: std::slice::Chunks<'_, u8>, len: usize) -> usize {
    let mut source = BytesMut::with_capacity(len);
    let mut count = 0;
    for piece in pieces {
        source.extend_from_slice(piece);
        loop {
            let before = source.len();
            match Frame::decode(&mut source, &LIMITS) {
                Ok(Some(frame)) => assert!(source.len() < before, "{frame:?} took nothing"),
                Ok(None) => break assert_eq!(source.len(), before, "an incomplete frame was taken"),
                Err(_) => return count,
            }
            count += 1;
        }
    }
    count
}

/// The same by the way of a connection, which knows each head before its body has come.
fn frames_by_heads(pieces: std::slice::Chunks<'_, u8>, len: usize) -> usize {
    let mut source = BytesMut::with_capacity(len);
    let (mut count, mut body) = (0, None);
    for piece in pieces {
        source.extend_from_slice(piece);
        loop {
            if let Some(left) = body {
                let here = source.len().min(left);
                source.advance(here);
                body = Some(left - here);
                if here < left {
                    break;
                }
                body = None;
                count += 1;
            }
            let before = source.len();
            match Head::decode(&mut source, &LIMITS) {
                Ok(Some(head)) => {
                    assert!(source.len() < before, "{head:?} took nothing");
                    body = Some(head.body_len);
                }
                Ok(None) => break assert_eq!(source.len(), before, "an incomplete head was taken"),
                Err(_) => return count,
            }
        }
    }
    count
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first() else { return };
    let pieces = data.chunks(usize::from(*cut) + 1);
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let whole = frames(pieces.clone(), data.len());
        assert_eq!(whole, frames_by_heads(pieces, data.len()));
    });
    // Shuffle keys and locations have one spelling on our side only, so compare values and not bytes.
    if let Ok(Some(frame)) = Frame::decode(&mut BytesMut::from(data), &LIMITS) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        assert_eq!(Frame::decode(&mut again, &LIMITS), Ok(Some(frame)));
    }
});
