//! Rules over DataFusion's plans.
//!
//! - [`spilling_joins`]: hash joins become joins that spill, when memory has run out once.

pub(crate) mod spilling_joins;
