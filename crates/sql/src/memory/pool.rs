use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use yeoul_base::ByteSize;
use yeoul_memory::ProcessMemory;

use super::policy::{Bounds, Holding, Ledger, Refusal};

/// How many holders an error message names.
const HOLDERS_NAMED: usize = 3;

/// DataFusion's memory pool, bounded by the process's promise. See [`policy`](super::policy) for the rules.
#[derive(Debug)]
pub(crate) struct PromisePool {
    ledger: Mutex<Ledger>,
    process: Arc<ProcessMemory>,
    /// How large the pool would have had to be to grant what it refused last, bytes.
    wanted_capacity: AtomicUsize,
}

/// A refusal with what a person needs to know about it.
#[derive(Clone, Debug)]
pub(crate) struct OutOfMemory {
    /// The operator that asked.
    pub operator: String,
    /// What it held then.
    pub held: usize,
    /// What it asked for on top.
    pub wanted: usize,
    pub reason: Refusal,
    pub largest: Vec<Holding>,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: usize| ByteSize::from_bytes(bytes as u64);
        let Self { operator, held, wanted, .. } = self;
        write!(f, "{operator} holds {} and needs {} more, but ", size(*held), size(*wanted))?;
        match self.reason {
            Refusal::Capacity { free } => write!(f, "only {} of the query memory is free", size(free))?,
            Refusal::Share { share } => write!(f, "its share of the query memory is {}", size(share))?,
            Refusal::Process { free } => {
                write!(f, "the process has only {} left under its limit", size(free))?
            }
        }
        let largest: Vec<String> =
            self.largest.iter().map(|h| format!("{} {}", h.name, size(h.bytes))).collect();
        if !largest.is_empty() {
            write!(f, " (largest holders: {})", largest.join(", "))?;
        }
        Ok(())
    }
}

impl PromisePool {
    pub(crate) fn new(ledger: Ledger, process: Arc<ProcessMemory>) -> Self {
        Self { ledger: Mutex::new(ledger), process, wanted_capacity: AtomicUsize::new(0) }
    }

    /// The process that the queries of a pool run in, if it has a limit.
    pub(crate) fn process_of(pool: &Arc<dyn MemoryPool>) -> Option<&Arc<ProcessMemory>> {
        let pool: &dyn Any = pool.as_ref();
        pool.downcast_ref::<Self>().map(|pool| &pool.process)
    }

    /// The promise under which the last refusal would have been granted; 0 if there was none since this was asked last.
    pub(crate) fn enough_for_last_refusal(&self) -> usize {
        match self.wanted_capacity.swap(0, Ordering::Relaxed) {
            0 => 0,
            wanted => Bounds::promise_for(wanted),
        }
    }

    /// A panic elsewhere leaves the books whole: every change of them is a single call that does not unwind.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, reservation: &MemoryReservation, wanted: usize, reason: Refusal) -> DataFusionError {
        self.wanted_capacity.store(self.ledger().total().saturating_add(wanted), Ordering::Relaxed);
        if matches!(reason, Refusal::Process { .. }) {
            self.process.refused(wanted);
        }
        let error = OutOfMemory {
            operator: reservation.consumer().name().to_owned(),
            held: reservation.size(),
            wanted,
            reason,
            largest: self.ledger().largest(HOLDERS_NAMED),
        };
        DataFusionError::ResourcesExhausted(error.to_string())
    }
}

impl fmt::Display for PromisePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ledger = self.ledger();
        write!(
            f,
            "{} of {}",
            ByteSize::from_bytes(ledger.total() as u64),
            ByteSize::from_bytes(ledger.capacity() as u64)
        )
    }
}

impl MemoryPool for PromisePool {
    fn name(&self) -> &str {
        "promise"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.ledger().register(consumer.id(), consumer.name(), consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.ledger().unregister(consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.ledger().grow(reservation.consumer().id(), additional);
        self.process.granted(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.ledger().shrink(reservation.consumer().id(), shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.process.free() < additional {
            // The sum of grants since the last reading overstates what is resident: look before refusing.
            self.process.sample();
        }
        if self.process.free() < additional {
            self.process.reclaim();
        }
        let granted = self.ledger().try_grow(reservation.consumer().id(), additional, self.process.free());
        match granted {
            Ok(()) => {
                self.process.granted(additional);
                Ok(())
            }
            Err(reason) => Err(self.refuse(reservation, additional, reason)),
        }
    }

    fn reserved(&self) -> usize {
        self.ledger().total()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.ledger().capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_operator_what_it_held_and_who_holds_the_rest() {
        let bounds = Bounds { capacity: 100 << 20, headroom: 20 << 20, floor: 1 << 20 };
        let pool: Arc<dyn MemoryPool> =
            Arc::new(PromisePool::new(Ledger::new(bounds), ProcessMemory::watch(None).unwrap()));
        let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
        let join = MemoryConsumer::new("HashJoinInput[1]").register(&pool);
        sort.try_grow(70 << 20).unwrap();
        join.try_grow(10 << 20).unwrap();
        let error = join.try_grow(30 << 20).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)));
        let text = error.to_string();
        for part in
            ["HashJoinInput[1] holds 10 MiB and needs 30 MiB more", "only 20 MiB", "ExternalSorter[0] 70 MiB"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        drop((sort, join));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_would_be_enough_is_not_rounded_down() {
        let bounds = Bounds::for_promise(256 << 20);
        let pool = Arc::new(PromisePool::new(Ledger::new(bounds), ProcessMemory::watch(None).unwrap()));
        let shared: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
        assert_eq!(pool.enough_for_last_refusal(), 0);
        let wanted = bounds.capacity + 1;
        MemoryConsumer::new("HashJoinInput[0]").register(&shared).try_grow(wanted).unwrap_err();
        let enough = pool.enough_for_last_refusal();
        assert!(Bounds::for_promise(enough).capacity >= wanted && enough < 257 << 20, "{enough}");
        assert_eq!(pool.enough_for_last_refusal(), 0, "it is told once");
    }
}
