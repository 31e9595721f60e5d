//! Celeborn's status codes.

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal,)*) => {
        /// The outcome of a request, as a number in a message, as the one byte of a push's answer, or as the name that a
        /// failure's text begins with. Only codes that a 0.5.4 client knows: it fails on any other.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Status {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Status {
            /// The status of a number.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name that clients look for at the start of a failure's text.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The status whose name a failure's text begins with; the longest match wins.
            pub fn from_text(text: &str) -> Option<Self> {
                const ALL: &[Status] = &[$(Status::$variant,)*];
                let matching = ALL.iter().copied().filter(|status| text.starts_with(status.name()));
                matching.max_by_key(|status| status.name().len())
            }
        }
    };
}

statuses! {
    /// Done.
    Success = 0 "SUCCESS",
    /// Done for some of the ids.
    PartialSuccess = 1 "PARTIAL_SUCCESS",
    /// Not done.
    RequestFailed = 2 "REQUEST_FAILED",
    /// The worker does not know the shuffle.
    ShuffleNotRegistered = 4 "SHUFFLE_NOT_REGISTERED",
    /// The worker did not take the locations.
    ReserveSlotsFailed = 5 "RESERVE_SLOTS_FAILED",
    /// The master found no place.
    SlotNotAvailable = 6 "SLOT_NOT_AVAILABLE",
    /// The worker is not registered.
    WorkerNotFound = 7 "WORKER_NOT_FOUND",
    /// The location is not reserved here.
    PartitionNotFound = 8 "PARTITION_NOT_FOUND",
    /// Push: not taken, because the map has ended elsewhere.
    MapEnded = 15 "MAP_ENDED",
    /// Push: failed at the primary for a reason that does not condemn the worker.
    PushDataFailNonCriticalCausePrimary = 17 "PUSH_DATA_FAIL_NON_CRITICAL_CAUSE_PRIMARY",
    /// Push: the replica could not store it.
    PushDataWriteFailReplica = 18 "PUSH_DATA_WRITE_FAIL_REPLICA",
    /// Push: the primary could not store it.
    PushDataWriteFailPrimary = 19 "PUSH_DATA_WRITE_FAIL_PRIMARY",
    /// Push: the location is not reserved here.
    PushDataFailPartitionNotFound = 20 "PUSH_DATA_FAIL_PARTITION_NOT_FOUND",
    /// Push: not taken; push again to a new location.
    HardSplit = 21 "HARD_SPLIT",
    /// Push: taken; use a new location from now on.
    SoftSplit = 22 "SOFT_SPLIT",
    /// The worker is stopping.
    WorkerShutdown = 25 "WORKER_SHUTDOWN",
    /// No directory can be written.
    NoAvailableWorkingDir = 26 "NO_AVAILABLE_WORKING_DIR",
    /// All workers are excluded.
    WorkerExcluded = 27 "WORKER_EXCLUDED",
    /// The worker is not registered with this master.
    WorkerUnknown = 28 "WORKER_UNKNOWN",
    /// The commit failed.
    CommitFileException = 29 "COMMIT_FILE_EXCEPTION",
    /// Push: taken; the primary asks to slow down.
    PushDataSuccessPrimaryCongested = 30 "PUSH_DATA_SUCCESS_PRIMARY_CONGESTED",
    /// Push: taken; the replica asks to slow down.
    PushDataSuccessReplicaCongested = 31 "PUSH_DATA_SUCCESS_REPLICA_CONGESTED",
    /// Push: no connection to the primary.
    PushDataCreateConnectionFailPrimary = 38 "PUSH_DATA_CREATE_CONNECTION_FAIL_PRIMARY",
    /// Push: no connection to the replica.
    PushDataCreateConnectionFailReplica = 39 "PUSH_DATA_CREATE_CONNECTION_FAIL_REPLICA",
    /// Push: the connection to the primary broke.
    PushDataConnectionExceptionPrimary = 40 "PUSH_DATA_CONNECTION_EXCEPTION_PRIMARY",
    /// Push: the connection to the replica broke.
    PushDataConnectionExceptionReplica = 41 "PUSH_DATA_CONNECTION_EXCEPTION_REPLICA",
    /// Push: the primary did not answer in time.
    PushDataTimeoutPrimary = 42 "PUSH_DATA_TIMEOUT_PRIMARY",
    /// Push: the replica did not answer in time.
    PushDataTimeoutReplica = 43 "PUSH_DATA_TIMEOUT_REPLICA",
    /// Push: failed at the replica for a reason that does not condemn the worker.
    PushDataFailNonCriticalCauseReplica = 50 "PUSH_DATA_FAIL_NON_CRITICAL_CAUSE_REPLICA",
    /// The stream could not be opened.
    OpenStreamFailed = 51 "OPEN_STREAM_FAILED",
}

impl Status {
    /// The number in a message.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The one byte of a push's answer.
    pub fn byte(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_text_is_recognised_by_its_longest_name() {
        let text = "PUSH_DATA_FAIL_NON_CRITICAL_CAUSE_REPLICA: broken pipe";
        assert_eq!(Status::from_text(text), Some(Status::PushDataFailNonCriticalCauseReplica));
        assert_eq!(Status::from_text("something else"), None);
    }

    #[test]
    fn codes_and_statuses_agree() {
        let known = (0..=255).filter_map(Status::from_code).inspect(|status| {
            assert_eq!(Status::from_code(status.code()), Some(*status));
            assert_eq!(i32::from(status.byte()), status.code());
            assert_eq!(Status::from_text(status.name()), Some(*status));
        });
        assert_eq!(known.count(), 30);
        assert_eq!(Status::from_code(52), None, "codes of 0.6 break a 0.5.4 client");
    }
}
