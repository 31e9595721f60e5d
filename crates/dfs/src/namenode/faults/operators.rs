//! What operators do: they tell nodes to leave or to be away for a while, and take those away that may go.

use super::world::{NODES, World};
use crate::ids::BlockId;
use crate::namenode::AdminState;
use crate::namenode::hosts::Hosts;

impl World {
    /// An operator changes the files of hosts: a node is to leave, to be away for a while, or neither.
    pub fn change_hosts(&mut self) {
        let at = self.random.usize(..NODES);
        let name = self.nodes[at].uuid();
        // One that has been emptied is not said to be back soon with what it had.
        let may_pause = self.nodes[at].is_up && self.nodes[at].outbox.is_empty();
        self.hosts = match self.random.u8(..5) {
            0 | 1 => Hosts::of_lists("", &name).expect("it is a host"),
            2 | 3 if may_pause => {
                let until_ms = self.now.wall_ms + self.random.u64(..60_000);
                let text = format!(
                    r#"{{"hostName": "{name}", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": {until_ms}}}"#
                );
                Hosts::of_json(&text).expect("it is one")
            }
            _ => Hosts::default(),
        };
        self.state.set_hosts(self.hosts.clone(), self.now);
    }

    /// A node that may go is taken away, and an empty one comes in its place.
    pub fn take_away(&mut self) {
        for known in self.state.datanode_infos(self.now.wall_ms, self.now.steady_ms) {
            let at: usize = known.info.id.uuid[3..].parse().expect("a number");
            let is_away = known.admin.is_in_maintenance() && self.nodes[at].is_up;
            if is_away && self.random.u8(..8) > 0 && self.nodes[at].unfinished.is_empty() {
                self.tally.nodes_away += 1;
                self.nodes[at].crash(|_, length| length);
            }
            let may_go = known.admin == AdminState::Decommissioned && self.nodes[at].unfinished.is_empty();
            if may_go && self.random.u8(..4) == 0 && self.check_leaving(at, &self.state.metasave(self.now)) {
                self.tally.nodes_left += 1;
                self.nodes[at].crash(|_, length| length);
                // If it is to serve again at once, the NameNode takes it for the one that was there.
                for id in std::mem::take(&mut self.nodes[at].replicas).into_keys() {
                    self.lost_in.insert(BlockId(id).group().0, self.steps);
                }
                self.nodes[at].damaged.clear();
                self.check_promised();
            }
        }
    }
}
