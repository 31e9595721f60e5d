use super::namespace::User;
use crate::ids::CallerId;

/// The time of a call, by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970. It may jump.
    pub wall_ms: u64,
    /// Milliseconds since some moment before the start. It never jumps.
    pub steady_ms: u64,
}

/// Who calls, when, and by what chance.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Now,
    /// The user.
    pub user: &'a User,
    /// By what the call is known if it comes again.
    pub caller: Option<CallerId>,
    /// The address that the call is from.
    pub ip: Option<&'a str>,
    /// Where chance comes from.
    pub random: &'a mut fastrand::Rng,
}
