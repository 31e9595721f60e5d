//! Limits of what a cluster takes and keeps.

/// The most bytes of a message between its processes, such as a plan or a batch of rows.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

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
