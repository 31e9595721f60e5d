//! Simulated DataNodes: replicas, messages on their way, and what they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::wire::proto::cluster::{BlockRef, Held, Notice, Recovery, Repair, Replica, ReplicaState};

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
    /// Replicas without their end: block to stamp and length.
    pub unfinished: BTreeMap<i64, (u64, u64)>,
    /// Those of them that its machine may have lost the end of.
    pub from_disk: BTreeSet<i64>,
    /// What it says of blocks whose writers are gone.
    pub held: BTreeMap<i64, Held>,
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
            unfinished: BTreeMap::new(),
            from_disk: BTreeSet::new(),
            held: BTreeMap::new(),
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
        let whole = self.replicas.iter().map(|(id, kept)| replica(*id, *kept));
        let replicas: Vec<Replica> =
            whole.chain(self.unfinished.iter().map(|(id, kept)| unfinished(*id, *kept))).collect();
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
        self.unfinished.remove(&id);
        self.from_disk.remove(&id);
        self.replicas.insert(id, (stamp, length));
        self.damaged.remove(&id);
        self.tell(replica(id, (stamp, length)), false);
    }

    /// A balancer has it take the place of another node's replica.
    pub fn replace(&mut self, id: i64, kept: (u64, u64), from: String) {
        self.replicas.insert(id, kept);
        let (storage, replica) = (self.storage(), Some(replica(id, kept)));
        let notice = Notice { storage, replica, delete_hint: from, ..Notice::default() };
        self.outbox.push_back(Message::Notices(vec![notice]));
    }

    /// A writer is gone that has written so much of a replica.
    pub fn leave(&mut self, id: i64, stamp: u64, length: u64) {
        self.replicas.remove(&id);
        self.unfinished.insert(id, (stamp, length));
        self.tell(unfinished(id, (stamp, length)), false);
    }

    /// What it has of a block: its stamp and length, whole or not.
    pub fn has(&self, id: i64) -> Option<(u64, u64)> {
        self.replicas
            .get(&id)
            .or_else(|| self.unfinished.get(&id))
            .copied()
            .filter(|_| !self.damaged.contains(&id))
    }

    /// Does what it is told of blocks whose writers are gone, each time that it is told; how many it has ended.
    pub fn recover(&mut self, orders: &[Recovery]) -> u64 {
        self.held.retain(|id, held| orders.iter().any(|order| (order.id, order.stamp) == (*id, held.stamp)));
        let mut ended = 0;
        for order in orders {
            let has = self.has(order.id).filter(|has| has.0 <= order.stamp);
            let Some(length) = order.length else {
                let (replica_stamp, length) = has.unwrap_or_default();
                let (has_replica, is_from_disk) = (has.is_some(), self.from_disk.contains(&order.id));
                let (id, stamp) = (order.id, order.stamp);
                let held = Held { id, stamp, has_replica, replica_stamp, length, is_from_disk };
                self.held.insert(id, held);
                continue;
            };
            // It may have lost its end since it said what it has.
            let is_from_disk = self.from_disk.contains(&order.id);
            if let Some(has) = has.filter(|has| has.1 >= length || !is_from_disk) {
                assert!(has.1 >= length, "node {}: {order:?}, and it has {has:?}", self.number);
                assert!(has.0 < order.stamp || has.1 == length, "a stamp has one length: {order:?}, {has:?}");
                self.finish(order.id, order.stamp, length);
                ended += 1;
            }
        }
        ended
    }

    /// Its process ends; the end of a replica that is not whole may be lost with its machine.
    pub fn crash(&mut self, mut lost: impl FnMut(i64, u64) -> u64) {
        self.is_up = false;
        self.outbox.clear();
        self.work.clear();
        self.held.clear();
        for (id, has) in &mut self.unfinished {
            has.1 = lost(*id, has.1);
            self.from_disk.insert(*id);
        }
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
            is_corrupt: true,
            ..Notice::default()
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
            if let Some(kept) = self.unfinished.get(&order.id).copied().filter(|kept| kept.0 <= order.stamp) {
                self.unfinished.remove(&order.id);
                self.from_disk.remove(&order.id);
                self.tell(unfinished(order.id, kept), true);
            }
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
            Notice { storage: self.storage(), replica: Some(replica), is_deleted, ..Notice::default() };
        self.outbox.push_back(Message::Notices(vec![notice]));
    }
}

fn replica(id: i64, (stamp, length): (u64, u64)) -> Replica {
    Replica { id, stamp, length, state: 0 }
}

fn unfinished(id: i64, (stamp, length): (u64, u64)) -> Replica {
    Replica { id, stamp, length, state: ReplicaState::WaitingForRecovery.into() }
}
