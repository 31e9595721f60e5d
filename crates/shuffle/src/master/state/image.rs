//! The durable part of a state at one moment, for a snapshot that is written while the state goes on.

use imbl::OrdMap;

use super::slot_ledger::SlotLedger;
use super::{Application, Departure, State};
use crate::ids::{ApplicationId, ShuffleKey, WorkerId};
use crate::master::record::{LISTED_IN_RECORD_MAX, Record};

/// The durable part of a state at one moment. Applications and shuffles, which are many, are copies that share what has not
/// changed since; their records are made one by one.
#[derive(Debug)]
pub struct Image {
    applications: OrdMap<ApplicationId, Application>,
    slots: SlotLedger,
    /// Of what was let go: before the known applications, one of which may be back under its name.
    before: Vec<Record>,
    /// Of workers and removals.
    behind: Vec<Record>,
}

impl State {
    /// The durable state as it is now.
    pub fn image(&self) -> Image {
        Image {
            applications: self.applications.clone(),
            slots: self.slots,
            before: self.removals.records_of_let_go().collect(),
            behind: self.records_of_workers().chain(self.removals.records()).collect(),
        }
    }

    fn records_of_workers(&self) -> impl Iterator<Item = Record> {
        let workers = self.workers.iter().map(|(worker, held)| Record::WorkerRegistered {
            worker: worker.clone(),
            http_port: held.http_port,
            network_location: held.network_location.clone(),
        });
        let departed = self.departed.iter().flat_map(|(worker, departure)| {
            // Only a worker that was registered can depart.
            let (http_port, network_location) = (0, String::new());
            let registered = Record::WorkerRegistered { worker: worker.clone(), http_port, network_location };
            let Departure { at_unix_ms, left, .. } = *departure;
            [registered, Record::WorkerRemoved { worker: worker.clone(), at_unix_ms, left }]
        });
        let excluded = self.excluded_by_hand.iter();
        let excluded = excluded.map(|worker| Record::WorkerExcluded { worker: worker.clone() });
        let leaving = self.leaving_by_hand.iter();
        let leaving = leaving.map(|worker| Record::WorkerDecommissioned { worker: worker.clone() });
        let staying = self.staying_by_hand.iter();
        let staying = staying.map(|worker| Record::WorkerRecommissioned { worker: worker.clone() });
        workers.chain(departed).chain(excluded).chain(leaving).chain(staying)
    }
}

impl Image {
    /// The records that rebuild the state from nothing: the content of a snapshot.
    ///
    /// # Panics
    /// If slots that were granted are not those that the shuffles have.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.slots.assert_equals(&self.applications);
        let applications = self.applications.iter().flat_map(|(application, held)| {
            let registered = Record::ApplicationRegistered {
                application: application.clone(),
                user: held.user.clone(),
                properties: held.properties.clone(),
                lives: held.lives.clone(),
                at_unix_ms: held.registered_unix_ms,
            };
            std::iter::once(registered).chain(records_of_shuffles(application, held))
        });
        self.before.iter().cloned().chain(applications).chain(self.behind.iter().cloned())
    }
}

fn records_of_shuffles(application: &ApplicationId, held: &Application) -> impl Iterator<Item = Record> {
    held.shuffles.iter().flat_map(move |(id, shuffle)| {
        // Only what was removed can be registered again.
        let removed = shuffle.is_again.then(|| Record::ShufflesRemoved {
            application: application.clone(),
            runs: vec![(*id).into()],
            at_unix_ms: 0,
        });
        let key = ShuffleKey { application: application.clone(), shuffle: *id };
        let listed: Vec<WorkerId> =
            if shuffle.is_again { shuffle.listed.iter().cloned().collect() } else { Vec::new() };
        removed.into_iter().chain(registrations(&key, shuffle.registered_unix_ms, &listed))
    })
}

/// The records of a shuffle for which these workers are listed: one at least, and as many as the list needs.
pub(super) fn registrations(shuffle: &ShuffleKey, at_unix_ms: u64, listed: &[WorkerId]) -> Vec<Record> {
    let (first, rest) = listed.split_at(listed.len().min(LISTED_IN_RECORD_MAX));
    let parts = std::iter::once(first).chain(rest.chunks(LISTED_IN_RECORD_MAX));
    let record = |listed: &[WorkerId]| Record::ShuffleRegistered {
        shuffle: shuffle.clone(),
        at_unix_ms,
        listed: listed.to_vec(),
    };
    parts.map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scene::{at, grant, state_of};
    use super::*;

    impl State {
        /// All records of the image of this moment.
        pub fn records(&self) -> Vec<Record> {
            self.image().records().collect()
        }
    }

    #[test]
    fn an_image_stays_what_it_was_while_the_state_goes_on() {
        let mut state = state_of(3);
        grant(&mut state, Default::default()).unwrap();
        let (image, then) = (state.image(), state.records());
        let application = super::super::scene::pulse().application;
        drop(state.unregister_shuffles(at(1), &application, &[crate::ids::ShuffleId(0)]));
        assert_ne!(state.records(), then);
        assert_eq!(image.records().collect::<Vec<_>>(), then);
    }
}
