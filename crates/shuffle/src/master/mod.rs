//! The master: which applications, shuffles and workers there are, and who gets which partitions.
//!
//! It keeps no shuffle data and knows no locations beyond the moment in which it grants them: the driver of each
//! application does. That makes its state small, and most of it can be learnt again from the workers' reports.
//!
//! | module | kind | subject |
//! | --- | --- | --- |
//! | [`slots`] | decision | partitions to workers |
//! | [`state`] | decision | what each message means; expiry; which data may go |
//! | [`record`] | data | a change that outlives the process |
//! | [`journal`] | driver | records in files |

pub mod journal;
pub mod record;
pub mod report;
pub mod slots;
pub mod state;

pub use record::Record;
pub use state::State;
