//! Goal: what one half of a client says is what the other hears. Method: requests and answers with any values, their
//! prefixes, and changed bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wire::{Limits, proto};

const PARTITION: PartitionId = PartitionId(3);

fn worker() -> impl Strategy<Value = WorkerId> {
    ("[a-z0-9.:]{1,12}", any::<[u16; 4]>()).prop_map(|(host, [rpc, push, fetch, replicate])| WorkerId {
        host: host.into(),
        rpc_port: rpc,
        push_port: push,
        fetch_port: fetch,
        replicate_port: replicate,
    })
}

fn subject() -> impl Strategy<Value = Subject> {
    ("[a-z0-9-]{0,30}", any::<i32>())
        .prop_map(|(life, shuffle)| Subject { life, shuffle: ShuffleId(shuffle) })
}

fn summary() -> impl Strategy<Value = Bytes> {
    prop_oneof![vec(any::<u8>(), 0..50), Just(vec![7; SUMMARY_LEN_MAX])].prop_map(Bytes::from)
}

fn location(partition: i32) -> impl Strategy<Value = Location> {
    (0..=i32::MAX, worker(), proptest::option::of(worker())).prop_map(move |(epoch, worker, peer)| Location {
        id: LocationId::new(partition, epoch),
        mode: Mode::Primary,
        worker,
        peer,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let map = || any::<i32>().prop_map(MapId);
    let attempt = || (0..=i32::MAX).prop_map(AttemptId);
    let partition = || any::<i32>().prop_map(PartitionId);
    prop_oneof![
        any::<i32>().prop_map(|version| Request::Hello { version }),
        subject().prop_map(Request::Describe),
        (subject(), map(), proptest::option::of(attempt()), any::<u64>())
            .prop_map(|(of, map, attempt, request)| Request::Begin { of, map, attempt, request }),
        (subject(), partition(), any::<i32>(), vec(worker(), 0..=AVOID_MAX)).prop_map(
            |(of, partition, epoch, avoid)| Request::Revive { of, partition, epoch: Epoch(epoch), avoid }
        ),
        (subject(), map(), attempt(), summary()).prop_map(|(of, map, attempt, summary)| Request::End {
            of,
            map,
            attempt,
            summary
        }),
        (subject(), partition(), any::<bool>()).prop_map(|(of, partition, winners)| Request::Files {
            of,
            partition,
            winners
        }),
        ("[a-z0-9-]{0,30}", prop_oneof![".{0,64}", Just("n".repeat(NAME_LEN_MAX))], any::<u32>())
            .prop_map(|(life, name, partitions)| Request::Open { life, name, partitions }),
    ]
}

fn readable() -> impl Strategy<Value = Readable> {
    let copies = prop_oneof![
        (worker(), worker()).prop_map(|(one, other)| vec![(one, Mode::Primary), (other, Mode::Replica)]),
        worker().prop_map(|worker| vec![(worker, Mode::Primary)]),
        worker().prop_map(|worker| vec![(worker, Mode::Replica)]),
    ];
    (0..=i32::MAX, copies).prop_map(|(epoch, copies)| {
        let location = LocationId { partition: PARTITION, epoch: Epoch(epoch) };
        let name = |mode| FileName { location, mode };
        let copies = copies.into_iter().map(|(worker, mode)| (worker, name(mode))).collect();
        Readable { location, copies }
    })
}

fn description() -> impl Strategy<Value = Description> {
    let maps = prop_oneof![any::<u32>().prop_map(Maps::Fixed), Just(Maps::Open)];
    let parts = (
        (maps, (0..4).prop_flat_map(|count| (0..count).map(location).collect::<Vec<_>>())),
        vec(worker(), 0..3),
        any::<[i64; 4]>(),
    );
    parts.prop_map(|((maps, locations), shunned, [push, window, merge, revives])| Description {
        maps,
        locations,
        shunned,
        push_max_ms: push,
        window,
        merge_len: merge,
        revives_max: revives,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let ended = || {
        ((-1..=i32::MAX).prop_map(AttemptId), summary())
            .prop_map(|(attempt, summary)| Ended { attempt, summary })
    };
    prop_oneof![
        (".{0,20}", ".{0,20}").prop_map(|(application, life)| Answer::Welcome { application, life }),
        description().prop_map(Answer::Description),
        (any::<i32>(), description())
            .prop_map(|(shuffle, description)| Answer::Opened { shuffle: ShuffleId(shuffle), description }),
        (0..=i32::MAX).prop_map(|attempt| Answer::Begun(AttemptId(attempt))),
        ended().prop_map(Answer::EndedBefore),
        (location(3), any::<bool>(), vec(worker(), 0..3))
            .prop_map(|(location, made, shunned)| Answer::Revived { location, made, shunned }),
        ended().prop_map(Answer::Ended),
        (vec(readable(), 0..4), vec((-1..=i32::MAX).prop_map(AttemptId), 0..9))
            .prop_map(|(files, winners)| Answer::Files { files, winners }),
        ".{0,20}".prop_map(|text| Answer::Refused(Error::new(Kind::DataLoss, text).with_hint("hint"))),
    ]
}

fn heard(message: &Message) -> Result<Answer, DecodeError> {
    Answer::of_message(message, PARTITION)
}

/// What encodes, with one byte changed or its end cut off.
fn changed(message: impl Strategy<Value = Message>) -> impl Strategy<Value = Message> {
    (message, any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(
        |(message, at, byte, cut)| {
            let mut payload = message.payload.unwrap_or_default().to_vec();
            let at = at.index(payload.len() + 1);
            match payload.get_mut(at) {
                Some(old) if !cut => *old = byte,
                _ => payload.truncate(at),
            }
            Message { kind: message.kind, payload: Some(payload.into()) }
        },
    )
}

proptest! {
    #[test]
    fn requests_read_back(request in request()) {
        prop_assert_eq!(Request::of_message(&request.to_message()), Ok(request));
    }

    #[test]
    fn answers_read_back(answer in answer()) {
        let back = heard(&answer.to_message()).unwrap();
        prop_assert_eq!(format!("{back:?}"), format!("{answer:?}"));
        if let (Answer::Refused(back), Answer::Refused(error)) = (back, answer) {
            prop_assert_eq!((back.kind(), back.hint()), (error.kind(), error.hint()));
        }
    }

    #[test]
    fn changed_messages_never_panic(
        request in changed(request().prop_map(|request| request.to_message())),
        answer in changed(answer().prop_map(|answer| answer.to_message())),
        kind in 10100..10122_i32,
    ) {
        let _ = Request::of_message(&request);
        let _ = heard(&answer);
        let _ = heard(&Message { kind: MessageType(kind), ..answer });
        let _ = Request::of_message(&Message { kind: MessageType(kind), ..request });
    }
}

#[test]
fn what_is_above_its_limit_is_refused() {
    let of = Subject { life: "life".to_owned(), shuffle: ShuffleId(1) };
    let worker: WorkerId = "h:1:2:3:4".parse().unwrap();
    let avoid = vec![worker; AVOID_MAX + 1];
    let revive = Request::Revive { of: of.clone(), partition: PARTITION, epoch: Epoch(0), avoid };
    let error = Request::of_message(&revive.to_message()).unwrap_err();
    assert_eq!((error.field, error.to_string().contains("limit of 16")), ("workers", true), "{error}");
    let long = Bytes::from(vec![1; SUMMARY_LEN_MAX + 1]);
    let end = Request::End { of, map: MapId(0), attempt: AttemptId(0), summary: long.clone() };
    assert_eq!(Request::of_message(&end.to_message()).unwrap_err().field, "summary");
    let ended = Answer::Ended(Ended { attempt: AttemptId(0), summary: long });
    assert_eq!(heard(&ended.to_message()).unwrap_err().field, "summary");
    let name = "n".repeat(NAME_LEN_MAX + 1);
    let open = Request::Open { life: "life".to_owned(), name, partitions: 1 };
    assert_eq!(Request::of_message(&open.to_message()).unwrap_err().field, "name");
    // A request of the greatest length fits into a frame of the server.
    let longest = Limits::EXECUTORS.rpc_body_max;
    assert!(SUMMARY_LEN_MAX + AVOID_MAX * 300 + 1024 < longest);
}

#[test]
fn an_answer_that_nobody_takes_is_said_to_be_too_long() {
    let winners = vec![AttemptId(-1); ANSWER_LEN_MAX / 10 + 1]; // ten bytes each
    let answer = Answer::Files { files: Vec::new(), winners };
    let Answer::Refused(error) = heard(&answer.to_message()).unwrap() else { panic!("it is too long") };
    assert_eq!(error.kind(), Kind::ResourceExhausted, "{error}");
}

#[test]
fn the_winners_of_the_most_maps_fit_into_messages() {
    let winners = vec![AttemptId::NONE; OPEN_MAPS_MAX as usize]; // the longest number
    let map_attempts = winners.iter().map(|winner| winner.0).collect();
    let commit = proto::CommitFiles { map_attempts, ..Default::default() };
    assert!(commit.encoded_len() < Limits::CONTROL.rpc_body_max * 3 / 4, "there is room for locations");
    let answer = Answer::Files { files: Vec::new(), winners };
    assert!(matches!(heard(&answer.to_message()), Ok(Answer::Files { .. })));
}

#[test]
fn a_location_without_copies_is_no_location() {
    let message = |epoch| {
        let worker = internal::WorkerIdentity { host: "h".to_owned(), ..Default::default() };
        let primary = (epoch < 0).then_some(worker);
        let files = vec![internal::ReadableLocation { epoch, primary, replica: None }];
        Message::of(&internal::ReducerFileGroup { files, winners: Vec::new() })
    };
    assert_eq!(heard(&message(0)).unwrap_err().field, "readable location");
    assert_eq!(heard(&message(-1)).unwrap_err().field, "epoch");
}
