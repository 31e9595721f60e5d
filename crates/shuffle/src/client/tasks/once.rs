//! Which batches of a partition a reader returns: decisions, without I/O.

use std::collections::HashSet;

use crate::ids::{AttemptId, BatchId, MapId};

/// The batches returned so far.
#[derive(Debug, Default)]
pub(crate) struct Once(HashSet<(MapId, BatchId)>);

impl Once {
    /// True if a batch is to be returned: its attempt is the winner of its map, and it was not returned before, from any copy
    /// of any location. `winners` are by map id.
    pub fn admits(&mut self, winners: &[AttemptId], map: MapId, attempt: AttemptId, batch: BatchId) -> bool {
        let winner = usize::try_from(map.0).ok().and_then(|map| winners.get(map));
        winner == Some(&attempt) && self.0.insert((map, batch))
    }
}
