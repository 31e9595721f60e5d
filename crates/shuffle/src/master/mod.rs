//! The master knows all applications, shuffles and workers, and decides which workers get which partitions.
//!
//! It keeps no shuffle data, and does not remember the locations that it grants: the driver of each application does. So its
//! state is small, and most of it can be restored from the workers' reports.
//!
//! | module | kind | subject |
//! | --- | --- | --- |
//! | [`slots`] | decision | assigns partitions and their replicas to workers |
//! | [`state`] | decision | what each message means; expiry; which data may go |
//! | [`record`], [`report`](crate::report) | data | a change that outlives the process; what workers report |
//! | [`messages`] | codec | protobuf to inputs, replies to protobuf |
//! | `record_layout` | codec | records in the journal's files |
//! | `authentication` | driver | refuses it, and says of whom |
//! | `pages`, `view` | driver, data | HTTP and metrics |
//! | [`server`] | driver | listeners, timers, watches |

mod authentication;
mod console;
pub(crate) mod memory;
pub(crate) mod messages;
mod options;
mod pages;
pub mod record;
mod record_layout;
mod relay;
pub(crate) mod server;
mod service;
pub(crate) mod slots;
pub(crate) mod state;
mod view;

pub use memory::MEMORY_BYTES_MIN;
pub use options::Options;
pub use server::{Handle, Server};
