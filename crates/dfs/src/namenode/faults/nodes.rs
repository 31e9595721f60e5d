//! Simulated DataNodes: replicas, messages on their way, and what they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::wire::proto::cluster::{BlockRef, Notice, Repair, Replica};

/// A message on its way to the NameNode. They arrive in order, or not at all.
#[derive(Clone, Debug)]
pub enum Message {
    Register,
    ReportBegins,
    ReportPart(Vec<Replica>),
    ReportEnds,
    Notices(Vec<Notice>),
}

/// A DataNode with one storage.
#[derive(Debug)]
pub struct Node {
    pub number: usize,
    /// Its process runs.
    pub is_up: bool,
    /// It has no room for more.
    pub is_full: bool,
    /// Whole replicas: block to stamp and length. They outlive a crash.
    pub replicas: BTreeMap<i64, (u64, u64)>,
    /// Those of them whose bytes are not those that were written.
    pub damaged: BTreeSet<i64>,
    /// The repairs that it works at.
    pub work: BTreeMap<u64, Repair>,
    pub outbox: VecDeque<Message>,
}

impl Node {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            is_up: true,
            is_full: false,
            replicas: BTreeMap::new(),
            damaged: BTreeSet::new(),
            work: BTreeMap::new(),
            outbox: VecDeque::new(),
        }
    }

    pub fn uuid(&self) -> String {
        format!("dn-{}", self.number)
    }

    pub fn storage(&self) -> String {
        format!("DS-{}", self.number)
    }

    /// The connection breaks: what was on its way is lost, and the node begins anew.
    pub fn reconnect(&mut self) {
        self.outbox.clear();
        self.outbox.push_back(Message::Register);
        self.report();
    }

    /// Sends a whole report: the replicas are looked at after it has begun. What is damaged is said again
    /// before it ends: from then on the NameNode relies on it.
    pub fn report(&mut self) {
        let replicas: Vec<Replica> = self.replicas.iter().map(|(id, kept)| replica(*id, *kept)).collect();
        self.outbox.push_back(Message::ReportBegins);
        for part in replicas.chunks(3) {
            self.outbox.push_back(Message::ReportPart(part.to_vec()));
        }
        for id in self.damaged.clone() {
            self.tell_damaged(id);
        }
        self.outbox.push_back(Message::ReportEnds);
    }

    /// A writer ends a replica here.
    pub fn finish(&mut self, id: i64, stamp: u64, length: u64) {
        self.replicas.insert(id, (stamp, length));
        self.damaged.remove(&id);
        self.tell(replica(id, (stamp, length)), false);
    }

    /// Finds that a replica is damaged.
    pub fn damage(&mut self, id: i64) {
        self.damaged.insert(id);
        self.tell_damaged(id);
    }

    fn tell_damaged(&mut self, id: i64) {
        let kept = self.replicas[&id];
        let notice = Notice {
            storage: self.storage(),
            replica: Some(replica(id, kept)),
            is_deleted: false,
            is_corrupt: true,
        };
        self.outbox.push_back(Message::Notices(vec![notice]));
    }

    /// True if it has a replica of this stamp that is what was written.
    pub fn has_good(&self, id: i64, stamp: u64) -> bool {
        self.replicas.get(&id).is_some_and(|kept| kept.0 == stamp) && !self.damaged.contains(&id)
    }

    /// Deletes what it is told to; the blocks that are gone with their stamps, and whether they were damaged.
    pub fn delete(&mut self, orders: &[BlockRef]) -> Vec<(i64, u64, bool)> {
        let mut gone = Vec::new();
        for order in orders {
            assert_eq!(order.storage, self.storage(), "an order goes to the node that has the storage");
            if let Some(kept) = self.replicas.get(&order.id).copied().filter(|kept| kept.0 <= order.stamp) {
                self.replicas.remove(&order.id);
                let was_damaged = self.damaged.remove(&order.id);
                self.tell(replica(order.id, kept), true);
                gone.push((order.id, kept.0, was_damaged));
            }
        }
        gone
    }

    fn tell(&mut self, replica: Replica, is_deleted: bool) {
        let notice =
            Notice { storage: self.storage(), replica: Some(replica), is_deleted, is_corrupt: false };
        self.outbox.push_back(Message::Notices(vec![notice]));
    }
}

fn replica(id: i64, (stamp, length): (u64, u64)) -> Replica {
    Replica { id, stamp, length, state: 0 }
}
