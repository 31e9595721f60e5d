//! Hadoop RPC as a server reads it: the beginning of a connection, frames that are cut anywhere, the headers of requests, and
//! the connection context; and answers, as a client reads them.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use yeoul_dfs::wire::proto::rpc::{ConnectionContext, Sasl};
use yeoul_dfs::wire::rpc_frame::{
    PREAMBLE_BYTES, Preamble, Request, decode_response, failure, success, take_frame,
};
use yeoul_dfs::wire::{DecodeError, delimited, limits};

/// For the texts of errors, and for a `Bytes` that is shared.
const SLACK: u64 = 1024;
/// The stream, which may have doubled, and a copy of each text.
const FACTOR: u64 = 3;

/// The frames in front of the first error, from a stream that comes in pieces.
fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Bytes)) -> usize {
    let (mut source, mut count) = (BytesMut::new(), 0);
    for piece in pieces {
        source.extend_from_slice(piece);
        loop {
            let before = source.len();
            match take_frame(&mut source, limits::CALL_BYTES_MAX) {
                Ok(Some(frame)) => {
                    assert_eq!(source.len() + 4 + frame.len(), before);
                    each(frame);
                    count += 1;
                }
                Ok(None) => break assert_eq!(source.len(), before, "an incomplete frame was taken"),
                Err(_) => return count,
            }
        }
    }
    count
}

fn read(frame: Bytes) -> Result<(), DecodeError> {
    let request = Request::decode(frame)?;
    let _: Result<ConnectionContext, _> =
        delimited::take_message(&mut request.rest.clone(), "the connection context");
    let _: Result<Sasl, _> = delimited::take_message(&mut request.rest.clone(), "a negotiation");
    request.call().map(drop)
}

/// Anything that decodes encodes to what decodes alike.
fn comes_back(frame: &Bytes) {
    if let Ok(request) = Request::decode(frame.clone())
        && let Ok(call) = request.call()
    {
        let mut again = BytesMut::new();
        delimited::put(&request.header, &mut again);
        delimited::put(&call.header, &mut again);
        delimited::put_bytes(&call.argument, &mut again);
        let again = Request::decode(again.freeze()).expect("it is what was decoded");
        assert_eq!(again.header, request.header);
        let again = again.call().expect("it is what was decoded");
        assert_eq!((again.header, again.argument), (call.header, call.argument));
        let answer = success(&request.header, frame).split_off(4).freeze();
        let (header, result) = decode_response(answer).expect("it is an answer");
        assert_eq!((header.call_id.cast_signed(), &result), (request.header.call_id, frame));
    }
    if let Ok((header, _)) = decode_response(frame.clone()) {
        let failed = yeoul_dfs::wire::proto::rpc::ResponseHeader { status: 1, ..header };
        let (again, _) = decode_response(failure(&failed).split_off(4).freeze()).expect("it is an answer");
        assert_eq!(again.encode_to_vec(), failed.encode_to_vec());
    }
}

fuzz_target!(|data: &[u8]| {
    if let Some(beginning) = data.first_chunk::<PREAMBLE_BYTES>() {
        let _ = Preamble::decode(*beginning);
    }
    let Some((cut, data)) = data.split_first() else { return };
    yeoul_fuzz::bounded_times(FACTOR, SLACK, data.len(), || {
        let whole = frames([data].into_iter(), |frame| drop(read(frame)));
        let in_pieces = frames(data.chunks(usize::from(*cut) + 1), |frame| drop(decode_response(frame)));
        assert_eq!(whole, in_pieces);
    });
    let frame = Bytes::copy_from_slice(data);
    comes_back(&frame);
    // Every strict prefix of a frame says that more is to come.
    let mut sent = BytesMut::new();
    sent.extend_from_slice(&(data.len() as u32).to_be_bytes());
    sent.extend_from_slice(data);
    for length in (0..sent.len()).step_by(1 + sent.len() / 16) {
        let mut prefix = BytesMut::from(&sent[..length]);
        assert!(take_frame(&mut prefix, limits::CALL_BYTES_MAX).is_ok_and(|frame| frame.is_none()));
    }
    assert_eq!(take_frame(&mut sent, data.len()).expect("it is within the limit"), Some(frame));
});
