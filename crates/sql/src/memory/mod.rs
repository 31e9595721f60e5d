//! The memory promise: a limit on the process, kept by a pool that asks [the process](yeoul_memory::ProcessMemory) how
//! much is really in use.
//!
//! - [`growing_state`]: aggregate functions whose state grows with the rows, charged with what handing it out takes;
//! - [`measured_concat`]: `||` as such a function;
//! - [`measured_function`]: functions that make large values of small ones, and ask first;
//! - [`policy`]: who may have how much (decides, no I/O);
//! - [`pool`]: that policy as DataFusion's `MemoryPool`;
//! - [`spill_dir`]: where spilled data lies, and who removes it.

pub(crate) mod growing_state;
pub(crate) mod measured_concat;
pub(crate) mod measured_function;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod spill_dir;
