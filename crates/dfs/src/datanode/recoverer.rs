//! Ends replicas whose writers are gone, as a NameNode says.
//!
//! Each answer to a heartbeat names all recoveries that the DataNode takes part in, until they are done: what is said twice is done
//! once, and what is not named any more is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

use super::receiver::WRITER_ENDS_MAX;
use super::store::StoreError;
use super::transfer::Transfers;
use crate::ids::{BlockId, GenerationStamp};
use crate::wire::proto::cluster::{Held, Recovery};

/// The recoveries that a DataNode takes part in.
#[derive(Debug)]
pub struct Recoverer {
    transfers: Arc<Transfers>,
    known: Mutex<BTreeMap<BlockId, Known>>,
}

/// A recovery of a block.
#[derive(Debug)]
struct Known {
    stamp: u64,
    /// The replicas that the DataNode has, once it has looked.
    held: Option<Held>,
    is_working: bool,
}

impl Recoverer {
    /// Takes part in none yet.
    pub fn new(transfers: Arc<Transfers>) -> Self {
        Self { transfers, known: Mutex::default() }
    }

    /// The replicas of the blocks that are asked for.
    pub fn held(&self) -> Vec<Held> {
        self.known().values().filter_map(|known| known.held).collect()
    }

    /// Does what the NameNode that leads says.
    pub fn obey(self: &Arc<Self>, orders: Vec<Recovery>) {
        let mut known = self.known();
        known.retain(|id, known| {
            let is_named = orders.iter().any(|order| (order.id, order.stamp) == (id.0, known.stamp));
            if !is_named && !known.is_working {
                self.transfers.store.release(*id);
            }
            is_named || known.is_working
        });
        for order in orders {
            let new = Known { stamp: order.stamp, held: None, is_working: false };
            let known = known.entry(BlockId(order.id)).or_insert(new);
            let is_done = order.length.is_none() && known.held.is_some();
            if known.is_working || known.stamp != order.stamp || is_done {
                continue;
            }
            known.is_working = true;
            let own = Arc::clone(self);
            tokio::task::spawn_blocking(move || {
                let held = own.carry_out(&order);
                if let Some(known) = own.known().get_mut(&BlockId(order.id)) {
                    known.is_working = false;
                    known.held = held.or(known.held);
                }
            });
        }
    }

    /// Ends the writer, and says what there is; or ends the replica. Nothing is said of what could not be done: it is told again.
    fn carry_out(&self, order: &Recovery) -> Option<Held> {
        let (id, stamp) = (BlockId(order.id), GenerationStamp(order.stamp));
        if !self.transfers.writers.stop(id, WRITER_ENDS_MAX) {
            warn!(%id, "a writer that is to be ended does not end");
            return None;
        }
        let store = &self.transfers.store;
        let Some(length) = order.length else {
            let nothing = Held { id: id.0, stamp: stamp.0, ..Held::default() };
            return match store.left(id, stamp) {
                Ok(None) => Some(nothing),
                Ok(Some(left)) => Some(Held {
                    has_replica: true,
                    replica_stamp: left.stamp.0,
                    length: left.length,
                    is_from_disk: left.is_from_disk,
                    ..nothing
                }),
                // Its writer has just begun, or another attempt came first.
                Err(StoreError::NotUnfinished(_) | StoreError::Newer { .. }) => None,
                Err(error) => {
                    warn!(%id, %error, "a replica without a writer cannot be used");
                    Some(nothing)
                }
            };
        };
        match store.end_left(id, stamp, length) {
            Ok((storage, whole)) => {
                info!(%id, length, stamp = stamp.0, "a replica without a writer is ended");
                self.transfers.tell(&storage, whole);
            }
            Err(error) => warn!(%id, %error, "a replica without a writer cannot be ended"),
        }
        None
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<BlockId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
