//! What a check finds of one block, and how it shows it.

use std::fmt::Write;

use super::super::State;
use super::super::statuses::Location;
use super::Check;
use crate::ids::{BlockId, InodeId};
use crate::namenode::blocks::{Block, Fit, Replica};
use crate::namenode::namespace::{Access, User};
use crate::namenode::{AdminState, Now};
use crate::wire::Refusal;

/// What a check finds of a block.
pub(super) struct Looked {
    /// On DataNodes that stay.
    pub live: usize,
    /// Also on those that are to leave.
    pub there: usize,
    pub decommissioned: usize,
    pub decommissioning: usize,
    pub wanted: usize,
    needed: usize,
    pub is_corrupt: bool,
    pub misplaced: Option<String>,
}

impl Looked {
    pub fn is_readable(&self) -> bool {
        self.there >= self.needed
    }

    /// As in HDFS, a block of which only damaged replicas are there is corrupt and not missing.
    pub fn is_missing(&self) -> bool {
        !self.is_readable() && !self.is_corrupt
    }
}

impl State {
    pub(super) fn look_at_block(&self, block: &Block, now: Now) -> Looked {
        let is_there = |replica: &Replica| !self.datanodes.storage(replica.storage).is_missed;
        let is_striped = block.geometry().is_some();
        let admin = |replica: &Replica| self.datanodes.node(replica.datanode).admin;
        let stays = |replica: &Replica| is_there(replica) && !admin(replica).is_leaving();
        let (live, there) = match is_striped {
            true => (block.readable_units(stays).len(), block.readable_units(is_there).len()),
            false => (block.good().filter(stays).count(), block.good().filter(is_there).count()),
        };
        let in_state = |state: AdminState| {
            block.good().filter(|replica| is_there(replica) && admin(replica) == state).count()
        };
        let decommissioned = in_state(AdminState::Decommissioned);
        let decommissioning = in_state(AdminState::Decommissioning);
        let wanted = if is_striped { block.units().len() } else { self.copies(block) };
        let needed = block.units_needed();
        let is_damaged = |replica: &Replica| block.fit(replica) == Fit::Corrupt;
        let is_corrupt =
            there < needed && block.replicas().filter(is_there).any(|replica| is_damaged(&replica));
        let need = self.need(block, now.steady_ms);
        let misplaced = match () {
            () if need.is_on_one_rack => {
                let racks = self.racks_there();
                Some(format!(
                    "Block should be additionally replicated on 1 more rack(s). Total number of racks in the cluster: {racks}"
                ))
            }
            () if !need.crowded.is_empty() => {
                let crowded = need.crowded.len();
                Some(format!("{crowded} of its units are on a DataNode that has another one of the group."))
            }
            () => None,
        };
        Looked { live, there, decommissioned, decommissioning, wanted, needed, is_corrupt, misplaced }
    }

    /// The line of a block with its places, as far as they are to be shown.
    pub(super) fn list_block(
        &self,
        block: &Block,
        number: usize,
        check: &Check,
        now: Now,
        text: &mut String,
    ) {
        let (name, length) = (self.name_of(block), block.length);
        if !block.is_committed {
            let targets = self.written_to(block);
            let _ = write!(
                text,
                "\nUnder Construction Block:\n{number}. {name} len={length} Expected_repl={}",
                targets.len()
            );
            let places = targets.iter().map(|target| (*target, None));
            self.show_places(block, places, check, now, text);
            text.push('\n');
            return;
        }
        let looked = self.look_at_block(block, now);
        let _ = write!(text, "{number}. {name} len={length}");
        if looked.is_missing() {
            *text += " MISSING!";
        }
        if !looked.is_missing() || block.geometry().is_some() {
            let _ = write!(text, " Live_repl={}", looked.live);
            let there = block.replicas().filter(|replica| !self.datanodes.storage(replica.storage).is_missed);
            let place = |replica: Replica| {
                let Replica { index, datanode, storage, .. } = replica;
                (Location { index, datanode, storage }, Some(replica))
            };
            self.show_places(block, there.map(place), check, now, text);
        }
        text.push('\n');
    }

    fn show_places(
        &self,
        block: &Block,
        places: impl Iterator<Item = (Location, Option<Replica>)>,
        check: &Check,
        now: Now,
        text: &mut String,
    ) {
        let shown = check.request.shown;
        if !shown.has_places() {
            return;
        }
        let shown_place = |(place, replica): (Location, Option<Replica>)| {
            let (node, storage) =
                (self.datanodes.node(place.datanode), self.datanodes.storage(place.storage));
            let mut shown_place = String::new();
            if block.geometry().is_some() {
                let _ = write!(shown_place, "{}:", block.id.internal(place.index));
            }
            let _ = match shown.racks {
                true => write!(shown_place, "{}/{}:{}", node.rack, node.ip, node.transfer_port),
                false => write!(
                    shown_place,
                    "DatanodeInfoWithStorage[{}:{},{},{}]",
                    node.ip,
                    node.transfer_port,
                    storage.uuid,
                    storage_type(storage.kind)
                ),
            };
            if shown.upgrade_domains {
                shown_place += "(ud=undefined)";
            }
            if let Some(replica) = replica.filter(|_| shown.replica_details) {
                let _ = write!(shown_place, "({})", self.state_of(block, &replica, shown.maintenance, now));
            }
            shown_place
        };
        let all: Vec<String> = places.map(shown_place).collect();
        let _ = write!(text, "  [{}]", all.join(", "));
    }

    /// The state of a replica in HDFS's words.
    fn state_of(&self, block: &Block, replica: &Replica, shows_maintenance: bool, now: Now) -> &'static str {
        match self.datanodes.node(replica.datanode).admin {
            AdminState::Decommissioned => return "DECOMMISSIONED",
            AdminState::Decommissioning => return "DECOMMISSIONING",
            AdminState::EnteringMaintenance { .. } if shows_maintenance => return "ENTERING MAINTENANCE",
            AdminState::InMaintenance { .. } if shows_maintenance => return "IN MAINTENANCE",
            _ => {}
        }
        let is_silent = !self.datanodes.is_live(replica.datanode, now.steady_ms, self.rules.silent_ms_max);
        match block.fit(replica) {
            Fit::Corrupt | Fit::Stale => "CORRUPT",
            Fit::Leaving => "EXCESS",
            _ if is_silent => "STALE_NODE",
            _ if !self.datanodes.storage(replica.storage).has_reported => "STALE_BLOCK_CONTENT",
            _ => "LIVE",
        }
    }

    /// The report of a single block (`-blockId`).
    pub(super) fn check_block(&self, name: &str, check: &Check, now: Now, text: &mut String) {
        let Some(id) = block_number(name) else {
            let _ = writeln!(text, "Incorrect blockId format: {name:.100}");
            return;
        };
        text.push('\n');
        let Some(block) = self.blocks.get(id.group()) else {
            let _ = writeln!(text, "Block {name} does not exist");
            return;
        };
        if let Err(refusal) = self.check_way_to(block.file, &check.user) {
            let _ = writeln!(text, "{}", refusal.message);
            return;
        }
        let looked = self.look_at_block(block, now);
        let of_fit =
            |wanted: &[Fit]| block.replicas().filter(|known| wanted.contains(&block.fit(known))).count();
        let is_silent = |replica: &Replica| {
            !self.datanodes.is_live(replica.datanode, now.steady_ms, self.rules.silent_ms_max)
        };
        for (what, value) in [
            ("Block Id", name.to_owned()),
            ("Block belongs to", self.tree.path_of(block.file)),
            ("No. of Expected Replica", looked.wanted.to_string()),
            ("No. of live Replica", looked.live.to_string()),
            ("No. of excess Replica", of_fit(&[Fit::Leaving]).to_string()),
            ("No. of stale Replica", block.good().filter(is_silent).count().to_string()),
            ("No. of decommissioned Replica", looked.decommissioned.to_string()),
            ("No. of decommissioning Replica", looked.decommissioning.to_string()),
            ("No. of corrupted Replica", of_fit(&[Fit::Corrupt, Fit::Stale]).to_string()),
        ] {
            let _ = writeln!(text, "{what}: {value}");
        }
        for replica in block.replicas().filter(|known| !self.datanodes.storage(known.storage).is_missed) {
            let node = self.datanodes.node(replica.datanode);
            let state = match block.fit(&replica) {
                Fit::Stale => "is CORRUPT\t ReasonCode: GENSTAMP_MISMATCH",
                Fit::Corrupt if replica.is_corrupt => "is CORRUPT\t ReasonCode: CORRUPTION_REPORTED",
                Fit::Corrupt => "is CORRUPT\t ReasonCode: SIZE_MISMATCH",
                Fit::Unfinished if block.is_committed => "is CORRUPT\t ReasonCode: INVALID_STATE",
                Fit::Good | Fit::Leaving | Fit::Unfinished => match node.admin {
                    AdminState::Decommissioned => "is DECOMMISSIONED",
                    AdminState::Decommissioning => "is DECOMMISSIONING",
                    AdminState::EnteringMaintenance { .. } if check.request.shown.maintenance => {
                        "is ENTERING MAINTENANCE"
                    }
                    AdminState::InMaintenance { .. } if check.request.shown.maintenance => {
                        "is IN MAINTENANCE"
                    }
                    _ if is_silent(&replica) => "is STALE",
                    _ => "is HEALTHY",
                },
            };
            let _ = writeln!(text, "Block replica on datanode/rack: {}{} {state}", node.host, node.rack);
        }
    }

    /// Checks that a user may go to a file: a block tells its path.
    fn check_way_to(&self, file: InodeId, user: &User) -> Result<(), Refusal> {
        let mut at = file;
        while at != InodeId::ROOT {
            at = self.tree.inode(at).parent;
            user.check(self.tree.inode(at), &self.tree, Access::Execute)?;
        }
        Ok(())
    }

    /// A block as HDFS prints it: `BP-…:blk_N_S`.
    pub(super) fn name_of(&self, block: &Block) -> String {
        format!("{}:{}_{}", self.pool, block.id, block.stamp.0)
    }
}

/// The number of a block that is named as its files are: `blk_N`, `blk_N_S` or `blk_N_S.meta`.
fn block_number(name: &str) -> Option<BlockId> {
    let rest = name.strip_prefix("blk_")?;
    let number = rest.split(['_', '.']).next()?;
    number.parse().ok().map(BlockId)
}

/// The name of a storage's type, by HDFS's number.
pub(super) fn storage_type(kind: i32) -> &'static str {
    match kind {
        2 => "SSD",
        3 => "ARCHIVE",
        4 => "RAM_DISK",
        5 => "PROVIDED",
        6 => "NVDIMM",
        _ => "DISK",
    }
}
