//! Which shuffles are being deleted. A worker killed while it deletes one and writes another of the same number could not
//! tell their files apart.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::ShuffleKey;

/// Removed shuffles that may still have files.
#[derive(Debug, Clone, Default)]
pub struct Deletions(Arc<Mutex<HashSet<ShuffleKey>>>);

/// Held by everything that writes or deletes files of a shuffle.
#[derive(Debug)]
pub struct Lease {
    key: ShuffleKey,
    deletions: Deletions,
    is_over: AtomicBool,
}

impl Deletions {
    fn keys(&self) -> MutexGuard<'_, HashSet<ShuffleKey>> {
        // A panic cannot leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a removed shuffle may still have files.
    pub fn has(&self, key: &ShuffleKey) -> bool {
        self.keys().contains(key)
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.keys().len()
    }

    /// Their keys.
    pub fn all(&self) -> Vec<ShuffleKey> {
        self.keys().iter().cloned().collect()
    }

    /// A lease for writing the files of a new shuffle.
    pub fn lease(&self, key: &ShuffleKey) -> Arc<Lease> {
        Arc::new(Lease { key: key.clone(), deletions: self.clone(), is_over: AtomicBool::new(false) })
    }

    /// Begins a deletion. It ends when the lease was [ended](Lease::end) and nobody holds it; until then no new shuffle
    /// takes the number.
    pub fn begin(&self, key: &ShuffleKey) {
        self.keys().insert(key.clone());
    }
}

impl Lease {
    /// Marks the files as gone; takes effect when the last holder drops the lease.
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
