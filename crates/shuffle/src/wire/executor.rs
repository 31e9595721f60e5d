//! What the two halves of our own client say to each other: the requests of an executor, and the answers of its application.
//!
//! The layouts are those of `proto/executor.proto`, in the bare form of a [`Message`].

use bytes::Bytes;
use prost::Message as _;

use super::cursor::{DecodeError, Problem};
use super::lists::{Received, Texts, exactly};
use super::message::{Message, MessageType};
use super::packed::Location;
use super::{internal, received};
use crate::error::{Error, Kind};
use crate::ids::{AttemptId, Epoch, FileName, LocationId, MapId, Mode, PartitionId, ShuffleId, WorkerId};

/// The version of these messages. An application answers executors of its own version only.
pub const VERSION: i32 = 2;

/// The longest summary of an attempt, in bytes.
pub const SUMMARY_LEN_MAX: usize = 64 << 10;

/// The most bytes of the summaries of one shuffle together: the application keeps them in its memory.
pub const SUMMARIES_LEN_MAX: usize = 64 << 20;

/// The longest name of a shuffle, in bytes.
pub const NAME_LEN_MAX: usize = 256;

/// The most maps of a shuffle whose number of maps is open: they are numbered from 0.
pub const OPEN_MAPS_MAX: u32 = 1 << 20;

/// The most partitions of a shuffle that is opened by its name.
pub const OPEN_PARTITIONS_MAX: u32 = 1 << 16;

/// The most workers that one request for a new location names as failed: those of one location are two.
pub const AVOID_MAX: usize = 16;

/// The longest answer that is sent, in bytes: executors accept no longer one.
pub const ANSWER_LEN_MAX: usize = super::Limits::ANSWERS.rpc_body_max;

/// The shuffle that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The process of the application that described it.
    pub life: String,
    /// Number of the shuffle.
    pub shuffle: ShuffleId,
}

/// Request of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Question who the application is.
    Hello {
        /// The version that the executor speaks.
        version: i32,
    },
    /// Knowledge that tasks need of a shuffle.
    Describe(Subject),
    /// To begin an attempt of a map.
    Begin {
        /// The shuffle.
        of: Subject,
        /// The map.
        map: MapId,
        /// Attempt of the map; `None` has the application draw one.
        attempt: Option<AttemptId>,
        /// The name of this request, in case that it is repeated.
        request: u64,
    },
    /// For a newer location of a partition.
    Revive {
        /// The shuffle.
        of: Subject,
        /// The partition.
        partition: PartitionId,
        /// That of the location which split or failed.
        epoch: Epoch,
        /// Workers that failed, [`AVOID_MAX`] at most.
        avoid: Vec<WorkerId>,
    },
    /// To end a map with an attempt.
    End {
        /// The shuffle.
        of: Subject,
        /// The map.
        map: MapId,
        /// The attempt, whose batches workers have.
        attempt: AttemptId,
        /// Summary that the attempt gives of itself, [`SUMMARY_LEN_MAX`] bytes at most.
        summary: Bytes,
    },
    /// Files in which a partition can be read.
    Files {
        /// The shuffle.
        of: Subject,
        /// The partition.
        partition: PartitionId,
        /// True if the executor does not have the winners yet.
        winners: bool,
    },
    /// The shuffle of a name, registered if there is none.
    Open {
        /// The process of the application that answered first.
        life: String,
        /// Name of the shuffle, [`NAME_LEN_MAX`] bytes at most.
        name: String,
        /// Number of its partitions.
        partitions: u32,
    },
}

/// Answer of an application.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Name of the application and of its process.
    Welcome {
        /// Name of the application.
        application: String,
        /// The name of this process of it.
        life: String,
    },
    /// Knowledge that tasks need of a shuffle.
    Description(Description),
    /// The attempt has begun.
    Begun(AttemptId),
    /// The map has ended before the attempt began.
    EndedBefore(Ended),
    /// There is a newer location.
    Revived {
        /// The partition's current one.
        location: Location,
        /// True if it was made for this request, and not for one before.
        made: bool,
        /// Workers that batches should move away from.
        shunned: Vec<WorkerId>,
    },
    /// The map has ended.
    Ended(Ended),
    /// Files in which a partition can be read.
    Files {
        /// Locations of the partition that have data.
        files: Vec<Readable>,
        /// By map id: the attempt whose batches count. Empty if it was not asked for.
        winners: Vec<AttemptId>,
    },
    /// The shuffle that has the name.
    Opened {
        /// Number of the shuffle.
        shuffle: ShuffleId,
        /// Knowledge that tasks need of it.
        description: Description,
    },
    /// Why it was not done.
    Refused(Error),
}

/// Number of a shuffle's maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maps {
    /// As many as were registered: it is read when each of them has ended.
    Fixed(u32),
    /// As many as begin an attempt, [`OPEN_MAPS_MAX`] at most: it is read when each of those has ended.
    Open,
}

/// Knowledge that tasks need of a shuffle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Number of map tasks.
    pub maps: Maps,
    /// Of each partition the location that its next batch goes to.
    pub locations: Vec<Location>,
    /// Workers that batches should move away from.
    pub shunned: Vec<WorkerId>,
    /// Time that a push may take, in milliseconds.
    pub push_max_ms: i64,
    /// Batches on their way to one worker.
    pub window: i64,
    /// Bytes below which batches are pushed together.
    pub merge_len: i64,
    /// Times that one batch turns to a new location.
    pub revives_max: i64,
}

/// The end of a map: the attempt that is read, and what it said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The attempt that ended first. Only its batches are read.
    pub attempt: AttemptId,
    /// The summary that it gave, [`SUMMARY_LEN_MAX`] bytes at most.
    pub summary: Bytes,
}

/// A location with data, and where its copies can be read, the primary first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// The location.
    pub location: LocationId,
    /// One of its copies at least.
    pub copies: Vec<(WorkerId, FileName)>,
}

impl Request {
    /// The request as it travels.
    pub fn to_message(&self) -> Message {
        let life = |of: &Subject| of.life.clone();
        match self {
            Self::Hello { version } => Message::of(&internal::ExecutorHello { version: *version }),
            Self::Describe(of) => {
                Message::of(&internal::DescribeShuffle { life: life(of), shuffle: of.shuffle.0 })
            }
            Self::Begin { of, map, attempt, request } => Message::of(&internal::BeginAttempt {
                life: life(of),
                shuffle: of.shuffle.0,
                map: map.0,
                attempt: attempt.unwrap_or(AttemptId::NONE).0,
                request: *request,
            }),
            Self::Revive { of, partition, epoch, avoid } => Message::of(&internal::Revive {
                life: life(of),
                shuffle: of.shuffle.0,
                partition: partition.0,
                epoch: epoch.0,
                avoid: avoid.iter().map(WorkerId::to_string).collect(),
            }),
            Self::End { of, map, attempt, summary } => Message::of(&internal::MapperEnd {
                life: life(of),
                shuffle: of.shuffle.0,
                map: map.0,
                attempt: attempt.0,
                summary: summary.clone(),
            }),
            Self::Files { of, partition, winners } => Message::of(&internal::GetReducerFileGroup {
                life: life(of),
                shuffle: of.shuffle.0,
                partition: partition.0,
                winners: *winners,
            }),
            Self::Open { life, name, partitions } => Message::of(&internal::OpenShuffle {
                life: life.clone(),
                name: name.clone(),
                partitions: *partitions,
            }),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// It is malformed, above a limit, or none that an executor sends.
    pub fn of_message(message: &Message) -> Result<Self, DecodeError> {
        let subject = |life: &str, shuffle| Subject { life: life.to_owned(), shuffle: ShuffleId(shuffle) };
        Ok(match message.kind {
            MessageType::EXECUTOR_HELLO => {
                Self::Hello { version: message.parse::<received::ExecutorHello>()?.version }
            }
            MessageType::DESCRIBE_SHUFFLE => {
                let request = message.parse::<received::DescribeShuffle>()?;
                Self::Describe(subject(&request.life, request.shuffle))
            }
            MessageType::BEGIN_ATTEMPT => {
                let request = message.parse::<received::BeginAttempt>()?;
                Self::Begin {
                    of: subject(&request.life, request.shuffle),
                    map: MapId(request.map),
                    attempt: Some(AttemptId(request.attempt)).filter(|attempt| *attempt != AttemptId::NONE),
                    request: request.request,
                }
            }
            MessageType::REVIVE => {
                let request = message.parse::<received::Revive>()?;
                Self::Revive {
                    of: subject(&request.life, request.shuffle),
                    partition: PartitionId(request.partition),
                    epoch: Epoch(request.epoch),
                    avoid: workers(&request, received::Revive::AVOID, AVOID_MAX)?,
                }
            }
            MessageType::MAPPER_END => {
                let request = message.parse::<received::MapperEnd>()?;
                Self::End {
                    of: subject(&request.life, request.shuffle),
                    map: MapId(request.map),
                    attempt: AttemptId(request.attempt),
                    summary: summary(&request.summary)?,
                }
            }
            MessageType::GET_REDUCER_FILE_GROUP => {
                let request = message.parse::<received::GetReducerFileGroup>()?;
                Self::Files {
                    of: subject(&request.life, request.shuffle),
                    partition: PartitionId(request.partition),
                    winners: request.winners,
                }
            }
            MessageType::OPEN_SHUFFLE => {
                let request = message.parse::<received::OpenShuffle>()?;
                check_len("name", request.name.len(), NAME_LEN_MAX)?;
                let (life, name) = (request.life.clone(), request.name.clone());
                Self::Open { life, name, partitions: request.partitions }
            }
            other => return Err(unexpected("message type", other.0.into())),
        })
    }
}

impl Answer {
    /// The answer as it travels. One that is longer than executors accept is the refusal that says so.
    pub fn to_message(&self) -> Message {
        let message = self.encode();
        let len = message.payload.as_ref().map_or(0, Bytes::len);
        if len + 8 <= ANSWER_LEN_MAX {
            return message;
        }
        let text = format!("an answer of {len} bytes is too long, expected at most {ANSWER_LEN_MAX}");
        let error = Error::new(Kind::ResourceExhausted, text).with_hint("use fewer partitions");
        Self::Refused(error).encode()
    }

    fn encode(&self) -> Message {
        match self {
            Self::Welcome { application, life } => Message::of(&internal::ExecutorWelcome {
                application: application.clone(),
                life: life.clone(),
            }),
            Self::Description(description) => Message::of(&description.to_proto()),
            Self::Begun(attempt) => {
                Message::of(&internal::AttemptBegun { attempt: attempt.0, ..Default::default() })
            }
            Self::EndedBefore(ended) => Message::of(&internal::AttemptBegun {
                attempt: ended.attempt.0,
                ended: true,
                summary: ended.summary.clone(),
            }),
            Self::Revived { location, made, shunned } => Message::of(&internal::Revived {
                location: Location::pack(std::slice::from_ref(location)).encode_to_vec().into(),
                made: *made,
                shunned: shunned.iter().map(WorkerId::to_string).collect(),
            }),
            Self::Ended(ended) => Message::of(&internal::MapperEnded {
                attempt: ended.attempt.0,
                summary: ended.summary.clone(),
            }),
            Self::Files { files, winners } => Message::of(&internal::ReducerFileGroup {
                files: files.iter().map(readable_to_proto).collect(),
                winners: winners.iter().map(|winner| winner.0).collect(),
            }),
            Self::Opened { shuffle, description } => Message::of(&internal::ShuffleOpened {
                shuffle: shuffle.0,
                description: Some(description.to_proto()),
            }),
            Self::Refused(error) => Message::of(&internal::ExecutorRefusal {
                kind: error.kind().as_str().to_owned(),
                text: error.to_string(),
                hint: error.hint().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Reads an answer to a request for `partition`, or for none.
    ///
    /// # Errors
    /// It is malformed, or none that an application sends.
    pub fn of_message(message: &Message, partition: PartitionId) -> Result<Self, DecodeError> {
        Ok(match message.kind {
            MessageType::EXECUTOR_WELCOME => {
                let answer = message.parse::<received::ExecutorWelcome>()?;
                Self::Welcome { application: answer.application.clone(), life: answer.life.clone() }
            }
            MessageType::SHUFFLE_DESCRIPTION => {
                Self::Description(Description::of_received(&message.parse()?)?)
            }
            MessageType::ATTEMPT_BEGUN => {
                let answer = message.parse::<received::AttemptBegun>()?;
                let attempt = AttemptId(answer.attempt);
                match answer.ended {
                    false => Self::Begun(attempt),
                    true => Self::EndedBefore(Ended { attempt, summary: summary(&answer.summary)? }),
                }
            }
            MessageType::REVIVED => {
                let answer = message.parse::<received::Revived>()?;
                let [location] = <[_; 1]>::try_from(locations(&answer.location)?)
                    .map_err(|found| unexpected("locations", found.len() as i64))?;
                let shunned = workers(&answer, received::Revived::SHUNNED, usize::MAX)?;
                Self::Revived { location, made: answer.made, shunned }
            }
            MessageType::MAPPER_ENDED => {
                let answer = message.parse::<received::MapperEnded>()?;
                let summary = summary(&answer.summary)?;
                Self::Ended(Ended { attempt: AttemptId(answer.attempt), summary })
            }
            MessageType::REDUCER_FILE_GROUP => {
                let answer = message.parse::<received::ReducerFileGroup>()?;
                let mut files = Vec::new();
                for file in answer.messages(received::ReducerFileGroup::FILES) {
                    let file = file?;
                    files.push(readable(partition, &file)?);
                }
                let winners = || answer.numbers(received::ReducerFileGroup::WINNERS);
                let winners = exactly(winners().count(), winners().map(|winner| winner.map(AttemptId)))?;
                Self::Files { files, winners }
            }
            MessageType::SHUFFLE_OPENED => {
                let answer = message.parse::<received::ShuffleOpened>()?;
                let description = answer.part(received::ShuffleOpened::DESCRIPTION)?.unwrap_or_default();
                let description = Description::of_received(&description)?;
                Self::Opened { shuffle: ShuffleId(answer.shuffle), description }
            }
            MessageType::EXECUTOR_REFUSAL => {
                let answer = message.parse::<received::ExecutorRefusal>()?;
                let kind = Kind::named(&answer.kind).unwrap_or(Kind::Internal);
                let error = Error::new(kind, answer.text.clone());
                Self::Refused(match answer.hint.as_str() {
                    "" => error,
                    hint => error.with_hint(hint),
                })
            }
            other => return Err(unexpected("message type", other.0.into())),
        })
    }
}

impl Description {
    fn to_proto(&self) -> internal::ShuffleDescription {
        let (maps, open) = match self.maps {
            Maps::Fixed(maps) => (maps, false),
            Maps::Open => (0, true),
        };
        internal::ShuffleDescription {
            maps,
            locations: Location::pack(&self.locations).encode_to_vec().into(),
            shunned: self.shunned.iter().map(WorkerId::to_string).collect(),
            push_max_ms: self.push_max_ms,
            window: self.window,
            merge_len: self.merge_len,
            revives_max: self.revives_max,
            open,
        }
    }

    fn of_received(received: &Received<received::ShuffleDescription>) -> Result<Self, DecodeError> {
        Ok(Self {
            maps: if received.open { Maps::Open } else { Maps::Fixed(received.maps) },
            locations: locations(&received.locations)?,
            shunned: workers(received, received::ShuffleDescription::SHUNNED, usize::MAX)?,
            push_max_ms: received.push_max_ms,
            window: received.window,
            merge_len: received.merge_len,
            revives_max: received.revives_max,
        })
    }
}

/// The name of the request or answer for errors.
pub fn kind_of(message: &Message) -> String {
    super::rpc::describe(message.kind)
}

fn summary(bytes: &Bytes) -> Result<Bytes, DecodeError> {
    check_len("summary", bytes.len(), SUMMARY_LEN_MAX)?;
    Ok(bytes.clone())
}

fn check_len(field: &'static str, len: usize, len_max: usize) -> Result<(), DecodeError> {
    if len <= len_max {
        return Ok(());
    }
    let problem = Problem::TooLong { found: len as u64, max: len_max as u64 };
    Err(DecodeError { field, offset: 0, problem })
}

fn locations(bytes: &Bytes) -> Result<Vec<Location>, DecodeError> {
    let pair = Received::<received::PackedPartitionLocationsPair>::decode(bytes.clone())?;
    let mut locations = Vec::new();
    Location::unpack(&pair, |location| locations.push(location))?;
    Ok(locations)
}

fn workers<M>(
    message: &Received<M>,
    list: Texts<M>,
    workers_max: usize,
) -> Result<Vec<WorkerId>, DecodeError> {
    let mut workers = Vec::new();
    for text in message.texts(list) {
        if workers.len() == workers_max {
            let (found, max) = (workers.len() as u64 + 1, workers_max as u64);
            return Err(DecodeError {
                field: "workers",
                offset: 0,
                problem: Problem::TooLong { found, max },
            });
        }
        let malformed = || DecodeError {
            field: "worker id",
            offset: 0,
            problem: Problem::Malformed("`host:rpc:push:fetch:replicate`"),
        };
        workers.push(text?.parse().map_err(|_| malformed())?);
    }
    Ok(workers)
}

fn readable_to_proto(readable: &Readable) -> internal::ReadableLocation {
    let copy = |mode| {
        let mut copies = readable.copies.iter();
        copies.find(|(_, name)| name.mode == mode).map(|(worker, _)| internal::WorkerIdentity::from(worker))
    };
    internal::ReadableLocation {
        epoch: readable.location.epoch.0,
        primary: copy(Mode::Primary),
        replica: copy(Mode::Replica),
    }
}

fn readable(partition: PartitionId, message: &received::ReadableLocation) -> Result<Readable, DecodeError> {
    if message.epoch < 0 {
        return Err(unexpected("epoch", message.epoch.into()));
    }
    let location = LocationId { partition, epoch: Epoch(message.epoch) };
    let mut copies = Vec::with_capacity(2);
    for (identity, mode) in [(&message.primary, Mode::Primary), (&message.replica, Mode::Replica)] {
        if let Some(identity) = identity {
            copies.push((WorkerId::try_from(identity)?, FileName { location, mode }));
        }
    }
    if copies.is_empty() {
        let problem = Problem::Malformed("a copy of the location");
        return Err(DecodeError { field: "readable location", offset: 0, problem });
    }
    Ok(Readable { location, copies })
}

fn unexpected(field: &'static str, found: i64) -> DecodeError {
    DecodeError { field, offset: 0, problem: Problem::Unexpected(found) }
}

#[cfg(test)]
mod tests;
