//! Goal: no acknowledged byte is lost, each call is carried out once, and what nobody needs goes, whatever fails. Method: a
//! NameNode, DataNodes and clients go through thousands of random steps, with crashes of each, power failures that take what
//! the journal had not synced, lost and doubled messages, nodes that flap and nodes that are full; a simple model knows what
//! clients were told, and is compared with what is there.
//!
//! `YEOUL_FAULTS=N` runs at least that many steps with faults, `YEOUL_FAULT_SEED=N` one run again.

mod clients;
mod ending;
mod mending;
mod nodes;
mod operators;
mod tally;
mod world;
mod writing;

use tally::Tally;
use world::World;

/// Steps of one run.
const STEPS: usize = 1_500;
/// Faults that a run of `make test` has at least.
const FAULTS_MIN: u64 = 70_000;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_whatever_fails() {
    let one = number_of("YEOUL_FAULT_SEED");
    let faults_min = number_of("YEOUL_FAULTS").unwrap_or(FAULTS_MIN);
    let (mut seed, mut tally) = (one.unwrap_or(0), Tally::default());
    while tally.faults() < faults_min {
        // So that a failure names its run.
        println!("YEOUL_FAULT_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        tally.add(&world.tally);
        if one.is_some() {
            return;
        }
        seed += 1;
    }
    println!("{tally:?}");
    tally.assert_all_happened();
}
