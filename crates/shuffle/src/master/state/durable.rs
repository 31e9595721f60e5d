//! The durable state: what a record changes, and the records that describe all of it.

use std::collections::{BTreeMap, BTreeSet};

use imbl::OrdMap;

use super::ShuffleRun;
use super::orders::Orders;
use super::{Application, Departure, LISTED_MAX, Link, Now, Shuffle, State, Worker};
use crate::ids::{ApplicationId, ShuffleId, ShuffleKey, WorkerId};
use crate::master::record::{Record, User};
use crate::report::Report;

/// The workers that an application is assumed to need before its first request for slots to this process: two, for replicas.
const WORKERS_MIN_UNKNOWN: usize = 2;

impl State {
    /// Makes one durable change. Idempotent and total: a record that makes no sense (a shuffle of a removed application)
    /// changes nothing.
    pub fn apply(&mut self, now: Now, record: &Record) {
        match record {
            Record::ApplicationRegistered { application, user, properties, lives, at_unix_ms } => {
                self.application_registered(now, application, user, properties, *at_unix_ms);
                self.applications.get_mut(application).expect("registered above").lives.clone_from(lives);
            }
            Record::ApplicationRemoved { application, silent, .. } => {
                self.application_removed(now, application, *silent);
            }
            Record::ShuffleRegistered { shuffle, at_unix_ms, listed } => {
                self.shuffle_registered(shuffle, *at_unix_ms, listed);
            }
            Record::ShufflesRemoved { application, runs, .. } => {
                self.shuffles_removed(now, application, runs);
            }
            Record::WorkerRegistered { worker, http_port, network_location } => {
                self.worker_registered(now, worker, *http_port, network_location);
            }
            Record::WorkerRemoved { worker, at_unix_ms, left } => {
                self.worker_removed(now, worker, *at_unix_ms, *left);
            }
            Record::WorkerExcluded { worker } => {
                if self.excluded_by_hand.len() < LISTED_MAX {
                    self.excluded_by_hand.insert(worker.clone());
                }
            }
            Record::WorkerIncluded { worker } => {
                self.excluded_by_hand.remove(worker);
            }
            Record::WorkerDecommissioned { worker } => {
                self.staying_by_hand.remove(worker);
                if self.leaving_by_hand.len() < LISTED_MAX {
                    self.leaving_by_hand.insert(worker.clone());
                }
            }
            Record::WorkerRecommissioned { worker } => {
                self.leaving_by_hand.remove(worker);
                if self.staying_by_hand.len() < LISTED_MAX {
                    self.staying_by_hand.insert(worker.clone());
                }
            }
            Record::WorkerStayed { worker } => {
                self.staying_by_hand.remove(worker);
            }
            Record::WorkerForgotten { worker } => {
                self.departed.remove(worker);
            }
        }
    }

    fn application_registered(
        &mut self,
        now: Now,
        application: &ApplicationId,
        user: &User,
        properties: &[(String, String)],
        at_unix_ms: u64,
    ) {
        self.removals.revive(application);
        let heard = self.listened_by(now);
        let entry = self.applications.entry(application.clone()).or_insert_with(|| Application {
            user: user.clone(),
            properties: Vec::new(),
            lives: Vec::new(),
            registered_unix_ms: at_unix_ms,
            heartbeat_unix_ms: 0,
            shuffles: OrdMap::new(),
            heard,
            location_bytes: None,
            workers_min: WORKERS_MIN_UNKNOWN,
        });
        entry.user = user.clone();
        entry.properties = properties.to_vec();
    }

    fn application_removed(&mut self, now: Now, application: &ApplicationId, silent: bool) {
        let removed = self.applications.remove(application).map(|removed| removed.shuffles);
        let removed = removed.unwrap_or_default();
        removed.values().for_each(|shuffle| self.slots.remove(shuffle));
        self.removals.let_shuffles_expire(now.monotonic, application);
        // Silence is not an end: this master may have been cut off, and what workers report later waits for the
        // application, like everything unknown.
        if silent {
            self.removals.let_go(now.monotonic, application, removed.keys().copied());
        } else {
            self.removals.remove_application(now.monotonic, application);
        }
    }

    fn shuffle_registered(&mut self, shuffle: &ShuffleKey, at_unix_ms: u64, listed: &[WorkerId]) {
        let Some(application) = self.applications.get_mut(&shuffle.application) else { return };
        let is_again = self.removals.has_shuffle(shuffle);
        self.removals.restore(shuffle);
        let entry = application.shuffles.entry(shuffle.shuffle).or_insert_with(|| {
            self.slots.register();
            Shuffle {
                registered_unix_ms: at_unix_ms,
                driver: None,
                connection: None,
                listed: BTreeSet::new(),
                is_list_whole: false,
                is_again,
                slots_granted: 0,
            }
        });
        entry.listed.extend(listed.iter().cloned());
    }

    fn shuffles_removed(&mut self, now: Now, application: &ApplicationId, runs: &[ShuffleRun]) {
        let mut known = self.applications.get_mut(application);
        let lives = known.is_some();
        for run in runs {
            if let Some(known) = &mut known {
                let removed = known.shuffles.range(run.first()..=run.last());
                let removed: Vec<ShuffleId> = removed.map(|(id, _)| *id).collect();
                let removed = removed.iter().filter_map(|id| known.shuffles.remove(id));
                removed.for_each(|shuffle| self.slots.remove(&shuffle));
            }
            self.removals.remove_shuffles(now.monotonic, application, *run, lives);
        }
    }

    fn worker_registered(&mut self, now: Now, worker: &WorkerId, http_port: u16, network_location: &str) {
        self.departed.remove(worker);
        self.lost.remove(&worker.host);
        let entry = self.workers.entry(worker.clone()).or_insert_with(|| Worker {
            http_port,
            network_location: String::new(),
            version: String::new(),
            report: Report::default(),
            heartbeat_unix_ms: 0,
            link: Link::Unconfirmed,
            locations_granted: 0,
            push_ports: Vec::new(),
            incarnation: None,
            heard: now.monotonic,
            orders: Orders::default(),
            unknown: BTreeMap::new(),
            held: BTreeMap::new(),
        });
        entry.http_port = http_port;
        entry.network_location = network_location.to_owned();
    }

    fn worker_removed(&mut self, now: Now, worker: &WorkerId, at_unix_ms: u64, left: bool) {
        if left {
            self.leaving_by_hand.remove(worker);
            self.staying_by_hand.remove(worker);
        }
        if self.workers.remove(worker).is_none() {
            return;
        }
        if !left && self.lost.len() < LISTED_MAX {
            self.lost.insert(worker.host.clone(), now.monotonic);
        }
        if self.departed.len() < LISTED_MAX {
            let departure = Departure { at_unix_ms, left, seen: now.monotonic };
            self.departed.insert(worker.clone(), departure);
        }
    }
}
