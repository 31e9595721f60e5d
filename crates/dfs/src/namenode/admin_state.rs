use super::hosts::Duty;

/// What a DataNode does for the cluster, in HDFS's states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminState {
    /// It serves.
    #[default]
    InService,
    /// It is to leave: what it has is being made anew on others, and it takes nothing new.
    Decommissioning,
    /// It may be taken away: what it has is on others, too.
    Decommissioned,
    /// It is to be away for a while: what would be nowhere else is being made on others.
    EnteringMaintenance {
        /// Milliseconds since 1970 at which it serves again.
        until_ms: u64,
    },
    /// It may be away: what it has is not missed.
    InMaintenance {
        /// Milliseconds since 1970 at which it serves again.
        until_ms: u64,
    },
}

impl AdminState {
    /// The state of a DataNode that gets a duty, at a time in milliseconds since 1970. One that is on its way goes on.
    #[must_use]
    pub fn with_duty(self, duty: Duty, wall_ms: u64) -> Self {
        match (duty, self) {
            (Duty::Leave, Self::Decommissioning | Self::Decommissioned) => self,
            (Duty::Leave, _) => Self::Decommissioning,
            (Duty::Pause { until_ms }, _) if until_ms <= wall_ms => Self::InService,
            (Duty::Pause { until_ms }, Self::InMaintenance { .. }) => Self::InMaintenance { until_ms },
            (Duty::Pause { until_ms }, _) => Self::EnteringMaintenance { until_ms },
            (Duty::Serve, _) => Self::InService,
        }
    }

    /// The state once all that a DataNode has is where it is to be.
    #[must_use]
    pub fn completed(self) -> Self {
        match self {
            Self::Decommissioning => Self::Decommissioned,
            Self::EnteringMaintenance { until_ms } => Self::InMaintenance { until_ms },
            Self::InService | Self::Decommissioned | Self::InMaintenance { .. } => self,
        }
    }

    /// True while others get what the DataNode has.
    pub fn is_on_its_way(self) -> bool {
        self != self.completed()
    }

    /// When maintenance is over, in milliseconds since 1970.
    pub fn until_ms(self) -> Option<u64> {
        match self {
            Self::EnteringMaintenance { until_ms } | Self::InMaintenance { until_ms } => Some(until_ms),
            Self::InService | Self::Decommissioning | Self::Decommissioned => None,
        }
    }

    /// True for a DataNode that takes new blocks.
    pub fn is_in_service(self) -> bool {
        self == Self::InService
    }

    /// True for a DataNode that leaves or has left.
    pub fn is_leaving(self) -> bool {
        matches!(self, Self::Decommissioning | Self::Decommissioned)
    }

    /// True for a DataNode that may be away.
    pub fn is_in_maintenance(self) -> bool {
        matches!(self, Self::InMaintenance { .. })
    }

    /// HDFS's number.
    pub fn to_wire(self) -> i32 {
        match self {
            Self::InService => 0,
            Self::Decommissioning => 1,
            Self::Decommissioned => 2,
            Self::EnteringMaintenance { .. } => 3,
            Self::InMaintenance { .. } => 4,
        }
    }

    /// HDFS's words for its number; of an unknown one those for a DataNode that serves.
    pub fn words_of(number: i32) -> &'static str {
        let until_ms = 0;
        match number {
            1 => Self::Decommissioning.words(),
            2 => Self::Decommissioned.words(),
            3 => Self::EnteringMaintenance { until_ms }.words(),
            4 => Self::InMaintenance { until_ms }.words(),
            _ => Self::InService.words(),
        }
    }

    /// HDFS's words.
    pub fn words(self) -> &'static str {
        match self {
            Self::InService => "In Service",
            Self::Decommissioning => "Decommission In Progress",
            Self::Decommissioned => "Decommissioned",
            Self::EnteringMaintenance { .. } => "Entering Maintenance",
            Self::InMaintenance { .. } => "In Maintenance",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_known_by_its_number() {
        let until_ms = 5;
        let (entering, away) =
            (AdminState::EnteringMaintenance { until_ms }, AdminState::InMaintenance { until_ms });
        let of_leaving = [AdminState::InService, AdminState::Decommissioning, AdminState::Decommissioned];
        for state in of_leaving.into_iter().chain([entering, away]) {
            assert_eq!(AdminState::words_of(state.to_wire()), state.words());
        }
    }

    #[test]
    fn a_duty_begins_a_way_and_does_not_begin_it_again() {
        let (pause, until_ms) = (|until_ms| Duty::Pause { until_ms }, 50);
        let started = AdminState::InService.with_duty(Duty::Leave, 10);
        assert_eq!(started, AdminState::Decommissioning);
        assert_eq!(started.completed().with_duty(Duty::Leave, 10), AdminState::Decommissioned);
        assert_eq!(started.completed().with_duty(Duty::Serve, 10), AdminState::InService);
        let away = started.with_duty(pause(until_ms), 10);
        assert_eq!(away, AdminState::EnteringMaintenance { until_ms });
        assert_eq!(away.completed().with_duty(pause(60), 10), AdminState::InMaintenance { until_ms: 60 });
        assert_eq!(
            away.completed().with_duty(pause(until_ms), 50),
            AdminState::InService,
            "the time is over"
        );
        assert_eq!(away.completed().with_duty(Duty::Leave, 10), AdminState::Decommissioning);
    }
}
