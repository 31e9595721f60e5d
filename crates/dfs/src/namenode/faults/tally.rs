//! Counts of what happens in a world.

/// What happened, so that a run without faults proves nothing.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub namenode_crashes: u64,
    pub records_lost: u64,
    pub images: u64,
    pub node_crashes: u64,
    pub connections_lost: u64,
    pub messages_doubled: u64,
    pub answers_lost: u64,
    pub answers_repeated: u64,
    pub pipelines_broken: u64,
    pub pipelines_resumed: u64,
    pub full_nodes: u64,
    pub deletions: u64,
    pub files_closed: u64,
    pub safe_mode_refusals: u64,
    pub replicas_damaged: u64,
    pub replicas_gone: u64,
    pub units_rebuilt: u64,
    pub replicas_copied: u64,
    pub repairs_failed: u64,
    pub repairs_dropped: u64,
    pub needless_deleted: u64,
    pub writers_gone: u64,
    pub files_recovered: u64,
    pub replicas_ended: u64,
    pub orders_lost: u64,
    pub files_truncated: u64,
    pub files_cut: u64,
    pub files_joined: u64,
    pub files_appended: u64,
    pub nodes_left: u64,
    pub nodes_away: u64,
    pub replicas_moved: u64,
}

impl Tally {
    fn each(&mut self) -> [&mut u64; 32] {
        [
            &mut self.namenode_crashes,
            &mut self.records_lost,
            &mut self.images,
            &mut self.node_crashes,
            &mut self.connections_lost,
            &mut self.messages_doubled,
            &mut self.answers_lost,
            &mut self.answers_repeated,
            &mut self.pipelines_broken,
            &mut self.pipelines_resumed,
            &mut self.full_nodes,
            &mut self.deletions,
            &mut self.files_closed,
            &mut self.safe_mode_refusals,
            &mut self.replicas_damaged,
            &mut self.replicas_gone,
            &mut self.units_rebuilt,
            &mut self.replicas_copied,
            &mut self.repairs_failed,
            &mut self.repairs_dropped,
            &mut self.needless_deleted,
            &mut self.writers_gone,
            &mut self.files_recovered,
            &mut self.replicas_ended,
            &mut self.orders_lost,
            &mut self.files_truncated,
            &mut self.files_cut,
            &mut self.files_joined,
            &mut self.files_appended,
            &mut self.nodes_left,
            &mut self.nodes_away,
            &mut self.replicas_moved,
        ]
    }

    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (own, more) in self.each().into_iter().zip(other.each()) {
            *own += *more;
        }
    }

    pub fn faults(&self) -> u64 {
        self.namenode_crashes
            + self.node_crashes
            + self.connections_lost
            + self.messages_doubled
            + self.answers_lost
            + self.full_nodes
            + self.replicas_damaged
            + self.replicas_gone
            + self.writers_gone
    }

    pub fn assert_all_happened(&mut self) {
        let text = format!("{self:?}");
        assert!(self.each().into_iter().all(|count| *count > 100), "each has to happen: {text}");
    }
}
