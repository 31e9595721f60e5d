//! Goal: who waits for rows of several sources gets them as soon as they come, and asks seldom while none come. Method: sources
//! whose rows another thread gives, which ring or do not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use arrow::array::{ArrayRef, Int64Array};

use super::*;
use crate::connectors::Polled;

/// Rows that a source and its feeder share.
#[derive(Default)]
struct Fed {
    rows: Mutex<VecDeque<i64>>,
    bell: Mutex<Option<Bell>>,
    polls: AtomicU64,
    warning: Mutex<Option<String>>,
}

impl Fed {
    fn feed(&self, value: i64) {
        self.rows.lock().unwrap().push_back(value);
        if let Some(bell) = &*self.bell.lock().unwrap() {
            bell.ring();
        }
    }
}

struct FedSource {
    fed: Arc<Fed>,
    rings: bool,
}

impl Source for FedSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        self.fed.polls.fetch_add(1, Ordering::Relaxed);
        let value = self.fed.rows.lock().unwrap().pop_front();
        if value.is_none() {
            thread::sleep(wait);
        }
        let rows = value.map(|value| {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            RecordBatch::try_from_iter([("value", column)]).unwrap()
        });
        Ok(Polled { rows, is_at_end: false })
    }

    fn ring(&mut self, bell: &Bell) -> bool {
        *self.fed.bell.lock().unwrap() = self.rings.then(|| bell.clone());
        self.rings
    }

    fn position(&self) -> Value {
        Value::Null
    }

    fn stop_at_latest(&mut self) -> Result<()> {
        Ok(())
    }

    fn plan(&mut self, _: Option<u64>) -> Result<u64> {
        Ok(0)
    }

    fn lift_plan(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_warnings(&mut self) -> Vec<String> {
        self.fed.warning.lock().unwrap().take().into_iter().collect()
    }
}

fn two(second_rings: bool) -> (Inputs, [Arc<Fed>; 2]) {
    let fed = [Arc::<Fed>::default(), Arc::default()];
    let input = |(fed, rings): (&Arc<Fed>, bool)| Input {
        description: format!("rings: {rings}"),
        source: Box::new(FedSource { fed: Arc::clone(fed), rings }),
        decoder: Decoder::AsTheyAre,
        dead_letters: None,
        future_rows: None,
        failing_rows: FailingRows::Fail,
    };
    (Inputs::new(fed.iter().zip([true, second_rings]).map(input).collect()), fed)
}

/// The number of the input that gives rows, which come after some time, and how often sources were asked.
fn waited(second_rings: bool) -> (usize, u64) {
    let (mut inputs, fed) = two(second_rings);
    let second = Arc::clone(&fed[1]);
    let feeder = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        second.feed(7);
    });
    let begun = Instant::now();
    let polled = inputs.poll(Duration::from_secs(60)).unwrap();
    feeder.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "the wait ends when rows come");
    let (input, _) = polled.rows.expect("a row came");
    (input, fed.iter().map(|fed| fed.polls.load(Ordering::Relaxed)).sum())
}

#[test]
fn sources_that_ring_are_asked_when_they_do() {
    let (input, polls) = waited(true);
    assert_eq!(input, 1);
    assert!(polls <= 4, "{polls} polls for one row");
}

#[test]
fn a_source_that_does_not_ring_is_asked_again_and_again() {
    let (input, polls) = waited(false);
    assert_eq!(input, 1);
    assert!(polls > 4, "{polls} polls");
}

#[test]
fn a_wait_without_rows_is_over_in_time() {
    for second_rings in [false, true] {
        let (mut inputs, _) = two(second_rings);
        let begun = Instant::now();
        assert!(inputs.poll(Duration::from_millis(30)).unwrap().rows.is_none());
        assert!(begun.elapsed() >= Duration::from_millis(25), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_warning_names_its_source_and_comes_once() {
    let (mut inputs, fed) = two(false);
    *fed[1].warning.lock().unwrap() = Some("gone".into());
    assert_eq!(inputs.take_warnings(), ["rings: false: gone"]);
    assert_eq!(inputs.take_warnings(), [""; 0]);
}
