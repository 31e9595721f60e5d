//! What applications, workers and the master send each other, as far as decisions depend on it.

use crate::ids::{ApplicationId, DriverId, FileName, LocationId, Mode, ShuffleId, ShuffleKey, WorkerId};
use crate::master::state::{
    ApplicationHealth, ApplicationPulse, ApplicationRegistration, OrderBatch, SlotGrant, SlotRefusal,
    SlotRequest, Unregistered,
};
use crate::report::{Phase, Registration, Report};
use crate::wire::Status;
use crate::worker::state::{Commit, CommitOutcome, PushKind, Reservation, ReserveRefusal};

/// A process that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    Application(usize),
    Worker(usize),
}

/// The driver that reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Who it says that it is.
    pub id: Option<DriverId>,
    /// Whether it may meet a shuffle of an earlier life, which the worker has to refuse: its client does not register, or
    /// the master has forgotten something.
    pub may_meet_earlier: bool,
}

/// A batch: its writer and its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch {
    pub map: i32,
    pub attempt: i32,
    pub number: i32,
    pub partition: i32,
}

/// A call carries the life of the process that it is sent to, since a connection does not outlive it. An answer carries its
/// call's number, which a caller that has given up no longer knows.
#[derive(Debug, Clone)]
pub enum Message {
    ToMaster {
        life: u64,
        call: u64,
        from: Party,
        what: MasterCall,
    },
    FromMaster {
        call: u64,
        to: Party,
        answer: MasterAnswer,
    },
    ToWorker {
        to: usize,
        life: u64,
        call: u64,
        from: Party,
        what: WorkerCall,
    },
    FromWorker {
        call: u64,
        to: Party,
        answer: WorkerAnswer,
    },
    /// The master's system notices that a worker's connection has ended.
    LinkLost {
        life: u64,
        connection: u64,
    },
}

impl Message {
    /// Whether a driver or one of its tasks sent it, or a worker passes on what they sent.
    pub fn is_of(&self, party: Party, application: &ApplicationId) -> bool {
        match self {
            Self::ToMaster { from, .. } => *from == party,
            Self::ToWorker { what, .. } => {
                let (WorkerCall::Reserve { key, .. }
                | WorkerCall::Destroy { key, .. }
                | WorkerCall::Commit { key, .. }
                | WorkerCall::Push(Push { key, .. })) = what;
                key.application == *application
            }
            _ => false,
        }
    }

    /// Whether a driver or one of its tasks names the shuffle in it, or a worker passes that on.
    pub fn names(&self, key: &ShuffleKey) -> bool {
        match self {
            Self::ToMaster { what: MasterCall::Slots(request), .. } => {
                (&request.application, request.shuffle) == (&key.application, key.shuffle)
            }
            Self::ToMaster { what: MasterCall::Unregister(named), .. } => named == key,
            Self::ToMaster { what: MasterCall::Revise(application, shuffles), .. } => {
                *application == key.application && shuffles.contains(&key.shuffle)
            }
            Self::ToWorker { what, .. } => match what {
                WorkerCall::Reserve { key: named, .. }
                | WorkerCall::Destroy { key: named, .. }
                | WorkerCall::Commit { key: named, .. } => named == key,
                WorkerCall::Push(push) => push.key == *key,
            },
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub enum MasterCall {
    Pulse(ApplicationPulse),
    Slots(SlotRequest),
    Unregister(ShuffleKey),
    Revise(ApplicationId, Vec<ShuffleId>),
    Stop(ApplicationId),
    RegisterApplication(ApplicationRegistration),
    Unreachable(Vec<WorkerId>),
    Register { connection: u64, registration: Registration },
    Beat { connection: u64, worker: WorkerId, incarnation: u64, report: Report },
    Watch { connection: u64, worker: WorkerId, incarnation: u64, seen: u64 },
    Leave { worker: WorkerId, incarnation: u64, phase: Phase, gone: bool },
}

#[derive(Debug, Clone)]
pub enum MasterAnswer {
    Health(ApplicationHealth),
    Slots(Result<SlotGrant, SlotRefusal>),
    Done,
    /// The answer to a registration or a heartbeat.
    Heard(Result<(), Unregistered>),
    Orders(Result<Option<OrderBatch>, Unregistered>),
}

#[derive(Debug, Clone)]
pub enum WorkerCall {
    /// `job` distinguishes shuffles that have the same number one after the other; only the model knows it.
    Reserve {
        key: ShuffleKey,
        job: u64,
        driver: Driver,
        reservations: Vec<Reservation>,
    },
    Destroy {
        key: ShuffleKey,
        files: Vec<FileName>,
    },
    Push(Push),
    Commit {
        key: ShuffleKey,
        commit: Commit,
    },
}

/// Batches that are accepted together or not at all.
#[derive(Debug, Clone)]
pub struct Push {
    pub key: ShuffleKey,
    pub mode: Mode,
    pub kind: PushKind,
    pub batches: Vec<(Batch, LocationId)>,
}

#[derive(Debug, Clone)]
pub enum WorkerAnswer {
    Reserved(Result<(), ReserveRefusal>),
    /// A status, or a failure as a client receives it.
    Pushed(Result<Status, (Status, String)>),
    /// `None` if the worker does not know the shuffle.
    Committed(Option<CommitOutcome>),
    Destroyed,
    /// Nothing listens at that address.
    Unreachable,
}
