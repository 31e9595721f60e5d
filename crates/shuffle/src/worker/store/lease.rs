//! Which shuffles are being deleted: what a new one of the same number would write beside the files of the one before it,
//! a worker that is killed meanwhile could not tell apart from them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::ShuffleKey;

/// The shuffles of which there may be files although they are not here any more.
#[derive(Debug, Clone, Default)]
pub struct Deletions(Arc<Mutex<HashSet<ShuffleKey>>>);

/// Held by whoever writes files of a shuffle, and by whoever deletes them.
#[derive(Debug)]
pub struct Lease {
    key: ShuffleKey,
    deletions: Deletions,
    is_over: AtomicBool,
}

impl Deletions {
    fn keys(&self) -> MutexGuard<'_, HashSet<ShuffleKey>> {
        // No panic leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether files of a shuffle that is not here any more may be left.
    pub fn has(&self, key: &ShuffleKey) -> bool {
        self.keys().contains(key)
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.keys().len()
    }

    /// Which they are.
    pub fn all(&self) -> Vec<ShuffleKey> {
        self.keys().iter().cloned().collect()
    }

    /// For the files of a shuffle that is made.
    pub fn lease(&self, key: &ShuffleKey) -> Arc<Lease> {
        Arc::new(Lease { key: key.clone(), deletions: self.clone(), is_over: AtomicBool::new(false) })
    }

    /// A shuffle goes: until its lease was [ended](Lease::end) and nobody holds it any more. Before that there is no other
    /// one of that number.
    pub fn begin(&self, key: &ShuffleKey) {
        self.keys().insert(key.clone());
    }
}

impl Lease {
    /// The last one to let go of this says that the files are gone.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if *self.is_over.get_mut() {
            self.deletions.keys().remove(&self.key);
        }
    }
}
