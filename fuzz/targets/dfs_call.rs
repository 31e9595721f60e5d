//! Calls of clients and DataNodes with any bytes as their arguments, on a NameNode's state: none ends the process, one that is
//! refused changes nothing, and what was changed comes back from the journal and from an image.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use yeoul_dfs::ids::CallerId;
use yeoul_dfs::namenode::namespace::User;
use yeoul_dfs::namenode::state::State;
use yeoul_dfs::namenode::{Context, Now, Rules};
use yeoul_dfs::wire::proto::cluster::{RegisterRequest, Storage};
use yeoul_dfs::wire::proto::journal::Record;
use yeoul_fuzz::{CALLS_OF_CLIENTS, CALLS_OF_DATANODES};

/// Calls of one input.
const CALLS_MAX: usize = 64;
/// DataNodes, so many that a file of RS-3-2 can be written.
const DATANODES: usize = 5;

struct Namenode {
    state: State,
    journal: Vec<Record>,
    random: fastrand::Rng,
    now: Now,
}

fn rules() -> Rules {
    Rules { superuser: "root".to_owned(), block_size_min: 0, ..Rules::default() }
}

impl Namenode {
    fn new() -> Self {
        let mut state = State::new(rules());
        state.format(1_000_000, "CID-1".to_owned(), "BP-1".to_owned());
        state.begin_term(1_000_000, 0);
        let now = Now { wall_ms: 2_000_000, steady_ms: 1_000 };
        let mut namenode = Self { state, journal: Vec::new(), random: fastrand::Rng::with_seed(7), now };
        for number in 0..DATANODES {
            let storage = Storage {
                uuid: format!("DS-{number}"),
                kind: 1,
                capacity: 1 << 40,
                remaining: 1 << 40,
                ..Storage::default()
            };
            let request = RegisterRequest {
                layout_version: 1,
                uuid: format!("dn-{number}"),
                host: format!("host-{number}"),
                ip: format!("10.0.0.{number}"),
                transfer_port: 1,
                ipc_port: 1,
                storages: vec![storage],
                pool: "BP-1".to_owned(),
                ..RegisterRequest::default()
            };
            assert!(namenode.call("register", true, None, request.encode_to_vec().into()));
        }
        namenode
    }

    /// Carries out a call: true if it was not refused.
    fn call(&mut self, method: &str, is_ours: bool, call: Option<i32>, argument: Bytes) -> bool {
        let user = User { name: "root".to_owned(), groups: Vec::new(), is_superuser: true };
        let caller = call.map(|call| CallerId { client: [3; 16], call });
        let (now, random) = (self.now, &mut self.random);
        let mut context = Context { now, user: &user, caller, ip: Some("10.9.9.9"), random };
        let before = self.state.sequence();
        let result = if is_ours {
            self.state.cluster_call(&mut context, method, argument)
        } else {
            self.state.call(&mut context, method, argument)
        };
        assert!(result.is_ok() || self.state.sequence() == before, "what is refused changes nothing");
        self.journal.extend(self.state.take_records());
        self.state.note_synced(self.state.sequence());
        result.is_ok()
    }

    fn tick(&mut self) {
        self.now.wall_ms += 500;
        self.now.steady_ms += 500;
        self.state.tick(self.now, &mut self.random);
        self.state.check_counts();
    }
}

/// The records, as they come back from a disk.
fn from_disk(records: impl Iterator<Item = Record>) -> Vec<Record> {
    let layout = <Record as yeoul_journal::Record>::LAYOUT_VERSION;
    records
        .map(|record| {
            let mut bytes = BytesMut::new();
            yeoul_journal::Record::encode(&record, &mut bytes);
            <Record as yeoul_journal::Record>::decode(layout, &bytes).expect("it was just written")
        })
        .collect()
}

fn state_of(records: &[Record]) -> State {
    let mut state = State::new(rules());
    records.iter().for_each(|record| state.apply(record));
    state
}

fn image_of(state: &State) -> Vec<Record> {
    state.image().records().collect()
}

fuzz_target!(|data: &[u8]| {
    let mut namenode = Namenode::new();
    let mut left = data;
    // A byte for the method, two for the length of the argument, and the argument.
    for call in 0..CALLS_MAX as i32 {
        let Some((&[method, high, low], rest)) = left.split_first_chunk::<3>() else { break };
        let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        let (argument, rest) = rest.split_at(length);
        left = rest;
        let argument = Bytes::copy_from_slice(argument);
        let method = usize::from(method);
        match CALLS_OF_CLIENTS.get(method) {
            Some(method) => drop(namenode.call(method, false, Some(call), argument)),
            None if method == 255 => namenode.tick(),
            None => {
                let method = CALLS_OF_DATANODES[method % CALLS_OF_DATANODES.len()];
                namenode.call(method, true, None, argument);
            }
        }
    }
    let image = image_of(&namenode.state);
    let journal = from_disk(namenode.journal.drain(..));
    assert_eq!(image_of(&state_of(&journal)), image, "the journal has all that was changed");
    let saved = from_disk(image.iter().cloned());
    assert_eq!(image_of(&state_of(&saved)), image, "the image has all that there is");
});
