//! Limits of what a cluster takes and keeps.

use std::time::Duration;

/// The most bytes of a message between its processes, such as a plan or a batch of rows.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The most parts of a plan, one below the other. Those who read plans need a stack for that ([`yeoul_sql::STACK_BYTES`]).
pub(crate) const PART_LEVELS_MAX: usize = 128;

/// Seconds between an executor's signs of life.
pub(crate) const HEARTBEAT_EVERY_S: u64 = 2;

/// Seconds without one after which the scheduler takes an executor for dead, and ends the jobs if it was the last.
pub(crate) const EXECUTOR_SILENT_MAX_S: u64 = 20;

/// Seconds between its looks for such executors.
pub(crate) const LOOK_FOR_SILENT_EVERY_S: u64 = 2;

/// Seconds for which an executor that starts waits for its scheduler.
pub(crate) const SCHEDULER_AWAITED_S: u16 = 30;

/// Seconds for which executors keep the rows of a job that has ended.
pub(crate) const RESULT_KEPT_S: u64 = 300;

/// Time between two looks for executors whose processes have ended; they are gone if two find nobody.
pub(crate) const KNOCK_EVERY: Duration = Duration::from_millis(500);

/// Time for an answer to one.
pub(crate) const KNOCK_MAX: Duration = Duration::from_secs(1);

/// Most that are asked at once.
pub(crate) const KNOCKS_AT_ONCE: usize = 64;

/// Most bytes of an answer that a client holds before it gives the first row: until then, what was lost is computed again.
pub(crate) const ANSWER_HELD_BYTES: usize = 8 << 20;

/// Most times that a job is run because its rows were lost before the client had them.
pub(crate) const RUNS_MAX: u32 = 3;

/// Bytes of rows in memory from which on a task pushes those of a partition to a shuffle.
pub(crate) const PAYLOAD_BYTES: usize = 512 << 10;

/// Most bytes of rows that a task holds before it pushes them to a shuffle.
pub(crate) const TASK_BUFFERED_BYTES_MAX: usize = 64 << 20;

/// Payloads of a task on their way to one worker of a shuffle; it encodes up to four times as many ahead.
pub(crate) const PUSHES_AHEAD: usize = 4;

/// Time between looks for jobs that have ended, whose shuffles are deleted.
pub(crate) const LOOK_FOR_ENDED_JOBS_EVERY: Duration = Duration::from_secs(1);

/// Time between looks for jobs whose clients have gone.
pub(crate) const LOOK_FOR_CLIENTS_EVERY: Duration = Duration::from_millis(500);

/// Time for a client to come for the job that it has submitted.
pub(crate) const CLIENT_AWAITED: Duration = Duration::from_secs(5);

/// Time between questions of a task to the scheduler whether its job is still there.
pub(crate) const ASK_FOR_JOB_EVERY: Duration = Duration::from_secs(1);

/// Time between questions to a silent client whether it is there.
pub(crate) const CLIENT_ASKED_EVERY: Duration = Duration::from_secs(20);

/// Time for its answer: a person may have stopped it for a while.
pub(crate) const CLIENT_ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Bytes of one side of a join below which it may be sent to each task.
pub(crate) const BROADCAST_BYTES_MAX: usize = 16 << 20;
