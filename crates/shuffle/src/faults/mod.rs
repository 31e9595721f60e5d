//! Goal: whatever networks, machines, disks and people do, every batch of a winning attempt that was committed is read
//! exactly once, or the loss is reported; nothing that a living application needs is deleted on the master's order; and in
//! the end nothing is left that nobody needs.
//!
//! Method: the real decision code of master, workers and client, in modelled processes: the master's journal is a queue that
//! dies with it, and files on a disk that forgets, hangs and fills up; a worker's disk is what was spilled and sealed.
//! Drivers, map tasks and readers follow the protocol and know what they wrote, with which reads are compared. Messages are
//! lost, duplicated and reordered; they die with the process that they are sent to, or when nobody waits for them. After
//! some minutes of faults everything is repaired, and what was begun must end.
//!
//! Each seed gives one run. The default test takes a few seconds; for longer ones:
//!
//! ```text
//! YEOUL_FAULTS=1000000 cargo test --release -p yeoul-shuffle --lib faults -- --nocapture    # at least that many faults
//! YEOUL_FAULTS_FROM=20000 YEOUL_FAULTS=1000000 cargo test --release -p yeoul-shuffle --lib faults -- --nocapture    # of later seeds
//! YEOUL_FAULT_SEED=17 cargo test --release -p yeoul-shuffle --lib faults -- --nocapture     # one run again
//! ```
//!
//! - [`world`]: the steps and the end; [`scene`]: time, randomness and the network; [`random`], [`tally`], [`message`].
//! - [`master`] (and [`journal`]), [`worker`] (and [`held`]), [`application`] (and [`job`], [`reader`]): the processes.

mod application;
mod held;
mod job;
mod journal;
mod master;
mod message;
mod random;
mod reader;
mod scene;
mod tally;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tally::{Event, Tally};
use world::World;

/// Faults in the default test.
const FAULTS: u64 = 300_000;
/// Steps before the faults end.
const STEPS: u64 = 5_000;

fn setting(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

fn run(seed: u64) -> Tally {
    let mut world = World::new(seed);
    (0..STEPS).for_each(|_| world.step());
    world.settle();
    world.scene.tally
}

#[test]
fn every_batch_is_read_once_or_its_loss_is_reported_and_nothing_stays() {
    if let Some(seed) = setting("YEOUL_FAULT_SEED") {
        println!("seed {seed}: {}", run(seed));
        return;
    }
    let least = setting("YEOUL_FAULTS").unwrap_or(FAULTS);
    let first = setting("YEOUL_FAULTS_FROM").unwrap_or(0);
    let (mut tally, mut worlds) = (Tally::default(), 0);
    while tally.faults() < least {
        let seed = first + worlds;
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(found) => tally.add(&found),
            Err(_) => panic!("the world of YEOUL_FAULT_SEED={seed} broke a promise, see above"),
        }
        worlds += 1;
    }
    println!("{worlds} worlds, {tally}");
    for event in Event::ALL {
        assert!(
            tally.of(*event) >= worlds / 50,
            "only {} times {event:?} in {worlds} worlds",
            tally.of(*event)
        );
    }
    // Losses are rare, so most reads succeed.
    assert!(tally.of(Event::LossReported) * 2 < tally.of(Event::Read), "{tally}");
}
