use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;

/// A pool of what one operator has reserved for the work that another one does for it, and beyond that of what the pool of
/// both has. Were it given back for the other one to reserve, a third might take it in between.
#[derive(Debug)]
pub(super) struct LentMemory {
    lent: MemoryReservation,
    /// Bytes, which may be more than are lent.
    used: Mutex<usize>,
    beyond: MemoryReservation,
}

impl LentMemory {
    pub(super) fn new(lent: MemoryReservation, context: &TaskContext) -> Arc<Self> {
        let beyond = MemoryConsumer::new(lent.consumer().name()).register(context.memory_pool());
        Arc::new(Self { lent, used: Mutex::new(0), beyond })
    }

    /// The context of the operator that it is lent to.
    pub(super) fn within(self: &Arc<Self>, context: &TaskContext) -> Arc<TaskContext> {
        let pool = Arc::clone(self) as Arc<dyn MemoryPool>;
        let runtime = RuntimeEnv { memory_pool: pool, ..context.runtime_env().as_ref().clone() };
        let within = TaskContext::default().with_session_config(context.session_config().clone());
        Arc::new(within.with_runtime(Arc::new(runtime)))
    }

    /// Gives back what is not used now.
    pub(super) fn give_back(&self) {
        let used = self.used();
        self.lent.shrink(self.lent.size().saturating_sub(*used));
    }

    fn used(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for LentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.used(), self.lent.size())
    }
}

impl MemoryPool for LentMemory {
    fn name(&self) -> &str {
        "lent"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut used = self.used();
        *used += additional;
        self.beyond.resize(used.saturating_sub(self.lent.size()));
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        let mut used = self.used();
        self.beyond.try_resize((*used + additional).saturating_sub(self.lent.size()))?;
        *used += additional;
        Ok(())
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut used = self.used();
        *used -= shrink;
        self.beyond.resize(used.saturating_sub(self.lent.size()));
    }

    fn reserved(&self) -> usize {
        *self.used()
    }
}
