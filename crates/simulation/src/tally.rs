use std::fmt::{self, Debug};

/// Something that happens to a world; [`events!`](crate::events) declares all of them.
pub trait Kind: Debug + Copy + Eq + 'static {
    /// All of them, in order.
    const ALL: &'static [Self];

    /// The place in [`Kind::ALL`].
    fn index(self) -> usize;

    /// Whether it counts as a fault: what is done to a world, and not what comes of it.
    fn is_fault(self) -> bool;
}

/// Declares `enum Event`: the faults of a world, and what else happens there.
#[macro_export]
macro_rules! events {
    (
        faults { $($(#[$fault_doc:meta])* $fault:ident,)* }
        others { $($(#[$other_doc:meta])* $other:ident,)* }
    ) => {
        /// Something that happens to a world.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Event {
            $($(#[$fault_doc])* $fault,)*
            $($(#[$other_doc])* $other,)*
        }

        impl $crate::Kind for Event {
            const ALL: &'static [Self] = &[$(Self::$fault,)* $(Self::$other,)*];

            fn index(self) -> usize {
                self as usize
            }

            fn is_fault(self) -> bool {
                const FAULTS: usize = [$(stringify!($fault)),*].len();
                (self as usize) < FAULTS
            }
        }
    };
}

/// How often each event happened.
#[derive(Clone)]
pub struct Tally<E> {
    counts: Vec<u64>,
    kind: std::marker::PhantomData<E>,
}

impl<E: Kind> Default for Tally<E> {
    fn default() -> Self {
        Self { counts: vec![0; E::ALL.len()], kind: std::marker::PhantomData }
    }
}

impl<E: Kind> Tally<E> {
    /// Counts an event.
    pub fn count(&mut self, event: E) {
        self.counts[event.index()] += 1;
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
    }

    /// How often it happened.
    pub fn of(&self, event: E) -> u64 {
        self.counts[event.index()]
    }

    /// All faults together.
    pub fn faults(&self) -> u64 {
        E::ALL.iter().filter(|event| event.is_fault()).map(|event| self.of(*event)).sum()
    }

    /// Checks that each event happened at least so often: one that does not is not tested.
    ///
    /// # Panics
    /// If one did not.
    pub fn assert_each(&self, least: u64) {
        for event in E::ALL {
            let found = self.of(*event);
            assert!(found >= least, "only {found} times {event:?}, of at least {least}: {self}");
        }
    }
}

impl<E: Kind> fmt::Display for Tally<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults:", self.faults())?;
        E::ALL.iter().try_for_each(|event| write!(f, " {event:?} {}", self.of(*event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::events! {
        faults { Killed, Lost, }
        others { Read, }
    }

    #[test]
    fn faults_are_told_from_what_comes_of_them() {
        let mut tally = Tally::default();
        [Event::Lost, Event::Read, Event::Lost].into_iter().for_each(|event| tally.count(event));
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.of(Event::Lost), sum.of(Event::Read), sum.faults()), (4, 2, 4));
        assert_eq!(tally.to_string(), "2 faults: Killed 0 Lost 2 Read 1");
        let least = std::panic::catch_unwind(|| tally.assert_each(1)).unwrap_err();
        assert!(least.downcast_ref::<String>().unwrap().starts_with("only 0 times Killed, of at least 1"));
    }
}
