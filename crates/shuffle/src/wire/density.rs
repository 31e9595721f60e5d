//! How much a message may swell when it is decoded.
//!
//! An element of a repeated message takes 100 to 300 bytes in memory and, empty, two on the wire. No client sends an empty
//! worker or an empty location, so elements too short to be real are refused before the message is decoded; then no request
//! takes more than sixteen times its length.

use bytes::Buf;

use super::cursor::{DecodeError, Problem};
use super::message::MessageType;

/// (message, field, least bytes of an element). A real worker or location has at least a host and four ports.
const SHORTEST: &[(MessageType, u64, u64)] = &[
    (MessageType::HEARTBEAT_FROM_APPLICATION, 5, 14),
    (MessageType::REQUEST_SLOTS, 12, 14),
    (MessageType::REPORT_WORKER_FAILURE, 1, 14),
    (MessageType::RESERVE_SLOTS, 3, 14),
    (MessageType::RESERVE_SLOTS, 4, 14),
];

/// Refuses a payload whose elements are too short to be real. What is not protobuf at all is left to its decoder.
pub(super) fn check(kind: MessageType, payload: &[u8]) -> Result<(), DecodeError> {
    let shortest =
        |field: u64| SHORTEST.iter().find(|(message, number, _)| *message == kind && *number == field);
    if !SHORTEST.iter().any(|(message, ..)| *message == kind) {
        return Ok(());
    }
    let mut rest = payload;
    while let Some(key) = varint(&mut rest) {
        let len = match key & 7 {
            0 => varint(&mut rest).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut rest),
            5 => Some(4),
            _ => None,
        };
        let Some(len) = len.filter(|len| *len <= rest.len() as u64) else { return Ok(()) };
        if let Some((_, _, least)) = shortest(key >> 3).filter(|(_, _, least)| key & 7 == 2 && len < *least) {
            let offset = payload.len() - rest.len();
            let problem = Problem::Truncated { needed: *least as usize, found: len as usize };
            return Err(DecodeError { field: "repeated message", offset, problem });
        }
        rest.advance(len as usize);
    }
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.first()?;
        rest.advance(1);
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::ids::WorkerId;
    use crate::wire::message::Message;
    use crate::wire::proto;

    #[test]
    fn real_workers_pass_and_empty_ones_do_not() {
        let worker: WorkerId = "h:1:2:3:4".parse().unwrap();
        let request = |worker| proto::RequestSlots {
            application_id: "app".into(),
            partition_id_list: vec![0, 1, 300],
            excluded_worker_set: vec![worker],
            max_workers: 3,
            ..Default::default()
        };
        let smallest = proto::WorkerInfo { rpc_port: 1024, push_port: 1024, ..(&worker).into() };
        let smallest = proto::WorkerInfo { fetch_port: 1024, replicate_port: 1024, ..smallest };
        let real = request(smallest);
        assert_eq!(Message::of(&real).parse(), Ok(real));
        let error =
            Message::of(&request(proto::WorkerInfo::default())).parse::<proto::RequestSlots>().unwrap_err();
        assert_eq!(error.field, "repeated message");
    }
}
