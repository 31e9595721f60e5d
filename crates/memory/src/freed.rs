//! Freed memory that the allocator keeps: it is still the process's, as the system counts it.

use std::sync::OnceLock;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Has processes give freed memory back to the system by this function of their allocator when they come near a promise. The first call
/// counts; without one, freed memory goes back when the allocator likes.
pub fn given_back_by(give_back: fn()) {
    let _ = GIVE_BACK.set(give_back);
}

/// Gives freed memory back to the system.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}
