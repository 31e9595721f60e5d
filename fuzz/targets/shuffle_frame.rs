//! Frames as a stream, cut at places that the input chooses, whole and as a connection reads them: each head before its
//! body, and of a push that is too long its number only. What decodes encodes back to the same bytes.
#![no_main]

use std::slice::Chunks;

use bytes::{Buf, BytesMut};
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::{Frame, Head, Header, Incoming, Limits};

const LIMITS: Limits = Limits {
    head_len_max: 512 << 10,
    rpc_body_max: 1 << 20,
    push_body_max: 1 << 20,
    chunk_body_max: 1 << 20,
};

/// So low that what stands behind a push that is too long fits into an input.
const NARROW: Limits = Limits { head_len_max: 64, push_body_max: 32, ..LIMITS };

/// For the texts of errors, and for a `Bytes` that is shared.
const SLACK: u64 = 1024;

/// How many whole frames there are in front of the first error.
fn frames(pieces: Chunks<'_, u8>, len: usize, limits: &Limits) -> usize {
    let mut source = BytesMut::with_capacity(len);
    let mut count = 0;
    for piece in pieces {
        source.extend_from_slice(piece);
        loop {
            let before = source.len();
            match Frame::decode(&mut source, limits) {
                Ok(Some(frame)) => assert!(source.len() < before, "{frame:?} took nothing"),
                Ok(None) => break assert_eq!(source.len(), before, "an incomplete frame was taken"),
                Err(_) => return count,
            }
            count += 1;
        }
    }
    count
}

/// The same by the way of a connection, which knows each head before its body has come, and goes on behind a push that is
/// too long. Frames behind one do not count.
fn frames_by_heads(pieces: Chunks<'_, u8>, len: usize, limits: &Limits) -> usize {
    let mut source = BytesMut::with_capacity(len);
    let (mut count, mut is_error, mut left) = (0, false, None);
    for piece in pieces {
        source.extend_from_slice(piece);
        loop {
            if let Some(rest) = left {
                let here = source.len().min(rest);
                source.advance(here);
                left = Some(rest - here);
                if here < rest {
                    break;
                }
                left = None;
                count += usize::from(!is_error);
            }
            let before = source.len();
            match Incoming::decode(&mut source, limits) {
                Ok(Some(incoming)) => {
                    assert!(source.len() < before, "{incoming:?} took nothing");
                    left = Some(match incoming {
                        Incoming::Frame(Head { body_len, .. }) => body_len,
                        Incoming::LongPush { rest_len, .. } => {
                            is_error = true;
                            rest_len
                        }
                    });
                }
                Ok(None) => break assert_eq!(source.len(), before, "an incomplete head was taken"),
                Err(_) => return count,
            }
        }
    }
    count
}

/// What is within wide limits ends at the same place for narrow ones.
fn long_pushes_are_passed_over(data: &[u8]) {
    let (mut wide, mut narrow) = (BytesMut::from(data), BytesMut::from(data));
    while let Ok(Some(frame)) = Frame::decode(&mut wide, &LIMITS) {
        let is_push = matches!(frame.header, Header::PushData { .. } | Header::PushMergedData { .. });
        match Incoming::decode(&mut narrow, &NARROW) {
            Ok(Some(Incoming::Frame(head))) => {
                assert_eq!((&head.header, head.body_len), (&frame.header, frame.body.len()));
                narrow.advance(head.body_len);
            }
            Ok(Some(Incoming::LongPush { request_id, rest_len, .. })) => {
                assert!(is_push);
                assert_eq!(Some(request_id), frame.header.request_id());
                narrow.advance(rest_len);
            }
            Ok(None) => panic!("{frame:?} is all there"),
            Err(_) => return assert!(!is_push, "{frame:?} has a number"),
        }
        assert_eq!(narrow, wide);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first() else { return };
    let pieces = data.chunks(usize::from(*cut) + 1);
    for limits in [&LIMITS, &NARROW] {
        yeoul_fuzz::bounded_by(SLACK, data.len(), || {
            let whole = frames(pieces.clone(), data.len(), limits);
            assert_eq!(whole, frames_by_heads(pieces.clone(), data.len(), limits));
        });
    }
    long_pushes_are_passed_over(data);
    // Shuffle keys and locations have one spelling on our side only, so compare values and not bytes.
    if let Ok(Some(frame)) = Frame::decode(&mut BytesMut::from(data), &LIMITS) {
        let mut again = BytesMut::new();
        frame.encode(&mut again);
        assert_eq!(Frame::decode(&mut again, &LIMITS), Ok(Some(frame)));
    }
});
