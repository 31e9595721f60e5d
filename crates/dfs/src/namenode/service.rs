use yeoul_net::supervise::DecisionLock;

use super::Context;
use super::clock::Clock;
use super::namespace::User;
use super::state::{Kind, State, kind_of};
use crate::rpc::{Answer, Calls, Incoming};
use crate::wire::exception::Exception;
use crate::wire::{Refusal, protocol};

/// What one lock is around: the state, and the chance that its decisions take.
#[derive(Debug)]
pub struct Decisions {
    /// The state.
    pub state: State,
    /// Where chance comes from.
    pub random: fastrand::Rng,
}

/// The calls of clients and DataNodes: each is decided under the lock, and answered once the journal has what it changed.
pub struct Service {
    decisions: DecisionLock<Decisions>,
    clock: Clock,
}

impl Service {
    /// A service of this state.
    pub fn new(decisions: DecisionLock<Decisions>, clock: Clock) -> Self {
        Self { decisions, clock }
    }

    /// Looks at the clock.
    pub fn tick(&self) {
        let now = self.clock.now();
        self.decisions.lock().state.tick(now.steady_ms);
    }
}

impl Calls for Service {
    fn call(&self, call: Incoming) -> Answer {
        let is_ours = call.protocol == protocol::CLUSTER;
        if let Err(refusal) = check_protocol(&call, is_ours) {
            return Answer::Now(Err(refusal));
        }
        let now = self.clock.now();
        let mut decisions = self.decisions.lock();
        let Decisions { state, random } = &mut *decisions;
        let user = User {
            name: call.user.to_string(),
            groups: call.groups.to_vec(),
            is_superuser: state.is_superuser(&call.user, &call.groups),
        };
        let (caller, ip) = (call.caller, Some(&*call.ip));
        let mut context = Context { now, user: &user, caller, ip, random };
        let outcome = if is_ours {
            state.cluster_call(&mut context, &call.method, call.argument)
        } else {
            state.call(&mut context, &call.method, call.argument)
        };
        let _waits = !is_ours && !matches!(kind_of(&call.method), Some(Kind::Read));
        let records = state.take_records();
        let sequence = state.sequence();
        drop(records);
        state.note_synced(sequence);
        Answer::Now(outcome)
    }
}

fn check_protocol(call: &Incoming, is_ours: bool) -> Result<(), Refusal> {
    if !is_ours && call.protocol != protocol::CLIENT {
        let message = format!("Unknown protocol: {}", call.protocol);
        return Err(Refusal::new(Exception::NoSuchProtocol, message));
    }
    if call.version != protocol::VERSION {
        let message =
            format!("{} has version 1 here, and the client speaks version {}", call.protocol, call.version);
        return Err(Refusal::new(Exception::VersionMismatch, message));
    }
    Ok(())
}
