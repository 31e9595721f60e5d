use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bell that sources ring when rows come, so that who reads several of them need not wait for each in its turn.
#[derive(Debug, Clone, Default)]
pub struct Bell(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    /// Ends the wait, or the next one if nobody waits now.
    pub fn ring(&self) {
        *self.0.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.rings.notify_one();
    }

    /// Waits for a ring since the last wait, at most so long.
    pub fn wait(&self, time: Duration) {
        let has_rung = self.0.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.rings.wait_timeout_while(has_rung, time, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *has_rung = false;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_ring_ends_one_wait_also_if_it_came_before() {
        let bell = Bell::default();
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(20));
        bell.ring();
        let begun = Instant::now();
        bell.wait(long);
        assert!(begun.elapsed() < long);
        bell.wait(short);
        assert!(begun.elapsed() >= short, "one ring ends one wait");
        let other = bell.clone();
        let ringing = thread::spawn(move || {
            thread::sleep(short);
            other.ring();
        });
        bell.wait(long);
        ringing.join().unwrap();
        assert!(begun.elapsed() < long);
    }
}
