//! Goal: freed memory goes back to the system when a process comes near its promise, and not before. Method: a function that counts instead
//! of giving back, and processes that say how large they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use yeoul_memory::{ProcessMemory, Resident, freed};

static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

const PROMISE: usize = 100 << 20;

#[derive(Debug)]
struct Steady(u64);

impl Resident for Steady {
    fn bytes(&self) -> Option<u64> {
        Some(self.0)
    }
}

#[test]
fn freed_memory_goes_back_near_the_promise() {
    freed::given_back_by(|| {
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
    });
    let of = |bytes| ProcessMemory::watch_by(Some(PROMISE), Some(Box::new(Steady(bytes)))).unwrap();
    let far = of(60 << 20);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 0);
    // What is refused is looked at once more.
    far.claim(60 << 20).unwrap_err();
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
    let near = of(80 << 20);
    while GIVEN_BACK.load(Ordering::Relaxed) < 3 {
        thread::sleep(Duration::from_millis(1));
    }
    drop((far, near));
}
