//! The master: which applications, shuffles and workers there are, and who gets which partitions.
//!
//! It keeps no shuffle data and knows no locations beyond the moment in which it grants them: the driver of each
//! application does. That makes its state small, and most of it can be learnt again from the workers' reports.
//!
//! | module | kind | subject |
//! | --- | --- | --- |
//! | [`slots`] | decision | partitions and their copies to workers |
//! | [`state`] | decision | what each message means; expiry; which data may go |
//! | [`record`], [`report`](crate::report) | data | a change that outlives the process; what workers say of themselves |
//! | [`messages`] | codec | protobuf to inputs, replies to protobuf |
//! | [`journal`] | driver | records in files |
//! | `pages`, `view` | driver, data | HTTP and metrics |
//! | [`server`] | driver | listeners, timers, watches |

pub mod journal;
pub(crate) mod messages;
mod options;
mod pages;
pub mod record;
mod relay;
pub(crate) mod server;
mod service;
pub(crate) mod slots;
pub(crate) mod state;
mod view;

pub use options::Options;
pub use server::{Handle, Server};
