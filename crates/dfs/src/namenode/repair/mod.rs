//! What blocks lack, what they have too much of, and who is told to mend it. All of it is soft: none is in the journal.
//!
//! - [`Need`]: what one block lacks, found from where its replicas are; [`surplus`]: which of them may go.
//! - [`Queue`]: the blocks that lack something, the most endangered first.
//! - [`Hints`]: whose replicas are to go, as a balancer has moved them.
//! - [`Orders`]: the repairs that DataNodes have been told to do, or will be with their next heartbeats.
//!
//! `state/repairing.rs` puts them together: blocks that changed are looked at again, orders are planned with each tick, and
//! given with heartbeats once it has been looked at again whether they still make sense.

mod hints;
mod need;
mod orders;
mod queue;
mod surplus;

pub use hints::Hints;
pub use need::{Need, Standing};
pub use orders::{Order, Orders, Place};
pub use queue::{Queue, Urgency};
pub use surplus::surplus;
