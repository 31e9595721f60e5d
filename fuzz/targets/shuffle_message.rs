//! Every protobuf message by its number, in the bare form, with every list that a server or a client reads from it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use yeoul_shuffle::wire::executor::Request;
use yeoul_shuffle::wire::lists::{Messages, Numbers, Texts};
use yeoul_shuffle::wire::message::{Message, MessageType as Type, Receivable};
use yeoul_shuffle::wire::packed::Location;
use yeoul_shuffle::wire::received::{self, *};
use yeoul_shuffle::wire::{DecodeError, Received};

/// One message at a time, its boxes, and the texts of errors.
const SLACK: u64 = 2 * 1024;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    yeoul_fuzz::bounded_by(SLACK, data.len(), || {
        let _ = Message::decode_bare(bytes).and_then(|message| read(&message));
    });
});

fn read(message: &Message) -> Result<(), DecodeError> {
    match message.kind {
        Type::REQUEST_SLOTS => {
            let request = message.parse::<RequestSlots>()?;
            numbers(&request, RequestSlots::PARTITION_ID_LIST);
            workers(&request, RequestSlots::EXCLUDED_WORKER_SET);
        }
        Type::HEARTBEAT_FROM_APPLICATION => {
            workers(&message.parse()?, HeartbeatFromApplication::NEED_CHECKED_WORKER_LIST);
        }
        Type::REPORT_WORKER_FAILURE => workers(&message.parse()?, ReportWorkerUnavailable::UNAVAILABLE),
        Type::BATCH_UNREGISTER_SHUFFLES => numbers(&message.parse()?, BatchUnregisterShuffles::SHUFFLE_IDS),
        Type::REVISE_LOST_SHUFFLES => numbers(&message.parse()?, ReviseLostShuffles::LOST_SHUFFLES),
        Type::REGISTER_APPLICATION_INFO => messages(&message.parse()?, RegisterApplicationInfo::EXTRA_INFO),
        Type::RESERVE_SLOTS => {
            let request = message.parse::<ReserveSlots>()?;
            request.location_count()?;
            request.locations(drop)?;
        }
        Type::COMMIT_FILES => {
            let request = message.parse::<CommitFiles>()?;
            texts(&request, CommitFiles::PRIMARY_IDS);
            texts(&request, CommitFiles::REPLICA_IDS);
            numbers(&request, CommitFiles::MAP_ATTEMPTS);
        }
        Type::DESTROY => {
            let request = message.parse::<DestroyWorkerSlots>()?;
            texts(&request, DestroyWorkerSlots::PRIMARY_LOCATIONS);
            texts(&request, DestroyWorkerSlots::REPLICA_LOCATION);
        }
        Type::BATCH_OPEN_STREAM => {
            let request = message.parse::<OpenStreamList>()?;
            texts(&request, OpenStreamList::FILE_NAME);
            numbers(&request, OpenStreamList::START_INDEX);
            numbers(&request, OpenStreamList::END_INDEX);
        }
        Type::WORKER_REGISTER => report(message.parse::<WorkerRegister>()?.part(WorkerRegister::REPORT)?),
        Type::WORKER_HEARTBEAT => report(message.parse::<WorkerHeartbeat>()?.part(WorkerHeartbeat::REPORT)?),
        Type::WORKER_ORDERS => messages(&message.parse()?, WorkerOrders::EXPIRED),
        Type::EXECUTOR_HELLO
        | Type::DESCRIBE_SHUFFLE
        | Type::BEGIN_ATTEMPT
        | Type::REVIVE
        | Type::MAPPER_END
        | Type::OPEN_SHUFFLE
        | Type::GET_REDUCER_FILE_GROUP => drop(Request::of_message(message)?),
        Type::SHUFFLE_DESCRIPTION => description(&message.parse()?)?,
        Type::SHUFFLE_OPENED => {
            let answer = message.parse::<ShuffleOpened>()?;
            description(&answer.part(ShuffleOpened::DESCRIPTION)?.unwrap_or_default())?;
        }
        Type::REVIVED => texts(&message.parse()?, Revived::SHUNNED),
        Type::REDUCER_FILE_GROUP => {
            let answer = message.parse::<ReducerFileGroup>()?;
            messages(&answer, ReducerFileGroup::FILES);
            numbers(&answer, ReducerFileGroup::WINNERS);
        }
        Type::EXECUTOR_WELCOME => fields::<ExecutorWelcome>(message)?,
        Type::ATTEMPT_BEGUN => fields::<AttemptBegun>(message)?,
        Type::MAPPER_ENDED => fields::<MapperEnded>(message)?,
        Type::EXECUTOR_REFUSAL => fields::<ExecutorRefusal>(message)?,
        Type::REQUEST_SLOTS_RESPONSE => {
            let answer = message.parse::<RequestSlotsResponse>()?;
            for entry in answer.messages(RequestSlotsResponse::PACKED_WORKER_RESOURCE) {
                use received::request_slots_response::PackedWorkerResourceEntry as Entry;
                let resource = entry?.part(Entry::VALUE)?.unwrap_or_default();
                let pair = resource.part(PackedWorkerResource::LOCATION_PAIRS)?.unwrap_or_default();
                Location::unpack(&pair, drop)?;
            }
        }
        Type::COMMIT_FILES_RESPONSE => {
            let answer = message.parse::<CommitFilesResponse>()?;
            texts(&answer, CommitFilesResponse::COMMITTED_PRIMARY_IDS);
            texts(&answer, CommitFilesResponse::FAILED_REPLICA_IDS);
        }
        Type::HEARTBEAT_FROM_APPLICATION_RESPONSE => fields::<HeartbeatFromApplicationResponse>(message)?,
        Type::OPEN_STREAM => fields::<OpenStream>(message)?,
        Type::STREAM_HANDLER => fields::<StreamHandler>(message)?,
        Type::CHUNK_FETCH_REQUEST => fields::<ChunkFetchRequest>(message)?,
        Type::BUFFER_STREAM_END => fields::<BufferStreamEnd>(message)?,
        Type::UNREGISTER_SHUFFLE => fields::<UnregisterShuffle>(message)?,
        Type::APPLICATION_LOST => fields::<ApplicationLost>(message)?,
        Type::CHECK_QUOTA => fields::<CheckQuota>(message)?,
        Type::WORKER_REGISTERED => fields::<WorkerRegistered>(message)?,
        Type::WORKER_HEARTBEAT_REPLY => fields::<WorkerHeartbeatReply>(message)?,
        Type::WORKER_WATCH => fields::<WorkerWatch>(message)?,
        Type::WORKER_LEAVE => fields::<WorkerLeave>(message)?,
        Type::RESERVE_SLOTS_RESPONSE => fields::<ReserveSlotsResponse>(message)?,
        _ => {}
    }
    Ok(())
}

fn fields<M: Receivable>(message: &Message) -> Result<(), DecodeError> {
    message.parse::<M>().map(drop)
}

fn description(description: &Received<ShuffleDescription>) -> Result<(), DecodeError> {
    texts(description, ShuffleDescription::SHUNNED);
    let pair = Received::<PackedPartitionLocationsPair>::decode(description.locations.clone())?;
    Location::unpack(&pair, drop)
}

fn report(report: Option<Received<WorkerReport>>) {
    let report = report.unwrap_or_default();
    messages(&report, WorkerReport::DIRECTORIES);
    messages(&report, WorkerReport::SHUFFLES);
}

fn workers<M>(message: &Received<M>, list: Messages<M, WorkerInfo>) {
    use yeoul_shuffle::ids::WorkerId;
    message.messages(list).flatten().for_each(|info| drop(WorkerId::try_from(&info)));
}

fn messages<M, T: prost::Message + Default>(message: &Received<M>, list: Messages<M, T>) {
    message.messages(list).for_each(drop);
}

fn texts<M>(message: &Received<M>, list: Texts<M>) {
    message.texts(list).flatten().for_each(|text| drop(text.parse::<yeoul_shuffle::ids::LocationId>()));
}

fn numbers<M>(message: &Received<M>, list: Numbers<M, i32>) {
    message.numbers(list).for_each(drop);
}
