use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::tally::{Kind, Tally};

/// Runs worlds until there were enough faults. In the environment, `YEOUL_FAULTS` asks for at least so many faults,
/// `YEOUL_FAULTS_FROM` begins with another seed than 0, and `YEOUL_FAULT_SEED` runs one seed and prints its tally.
#[derive(Debug, Clone, Copy)]
pub struct Worlds {
    /// The least faults, unless the environment asks for another number.
    pub faults: u64,
    /// What has such worlds, for the messages.
    pub what: &'static str,
}

impl Worlds {
    /// Runs `world` with one seed after the other, and gives the sum of the tallies and the number of worlds to `check`.
    ///
    /// # Panics
    /// If a world panics, with its seed, or `check` does.
    pub fn run<E: Kind>(self, world: impl Fn(u64) -> Tally<E>, check: impl FnOnce(&Tally<E>, u64)) {
        let Self { faults, what } = self;
        if let Some(seed) = setting("YEOUL_FAULT_SEED") {
            println!("{what}, seed {seed}: {}", world(seed));
            return;
        }
        let least = setting("YEOUL_FAULTS").unwrap_or(faults);
        let first = setting("YEOUL_FAULTS_FROM").unwrap_or(0);
        let (mut tally, mut worlds) = (Tally::default(), 0);
        while tally.faults() < least {
            let seed = first + worlds;
            match catch_unwind(AssertUnwindSafe(|| world(seed))) {
                Ok(found) => tally.add(&found),
                Err(_) => {
                    panic!("the world of YEOUL_FAULT_SEED={seed} broke a promise of the {what}, see above")
                }
            }
            worlds += 1;
        }
        println!("{what}: {worlds} worlds, {tally}");
        check(&tally, worlds);
    }
}

fn setting(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::events! {
        faults { Lost, }
        others { Read, }
    }

    #[test]
    fn worlds_run_until_there_were_enough_faults_and_a_broken_one_is_named() {
        let world = |seed| {
            let mut tally = Tally::default();
            (0..seed % 3).for_each(|_| tally.count(Event::Lost));
            tally
        };
        let (mut checked, worlds) = (None, Worlds { faults: 10, what: "store" });
        worlds.run(world, |tally, worlds| checked = Some((tally.of(Event::Lost), worlds)));
        // Of seeds 0, 1 and 2 there are three faults.
        assert_eq!(checked, Some((10, 11)));
        let broken = |seed| if seed < 4 { world(seed) } else { panic!("on purpose") };
        let panic = catch_unwind(|| worlds.run(broken, |_, _| {})).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("YEOUL_FAULT_SEED=4") && text.contains("of the store"), "{text}");
    }
}
