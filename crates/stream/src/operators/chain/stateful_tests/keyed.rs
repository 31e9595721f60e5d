//! State functions beside a model of Spark's `flatMapGroupsWithState`, and beside batch computations.

use arrow::array::RecordBatchOptions;
use arrow::datatypes::{FieldRef, SchemaRef};

use super::*;
use crate::error::{ErrorKind, invalid};
use crate::state_function::{Changes, FunctionMode, KeyGroups, StateFunction, StateFunctions, Timeout};

/// A sum of values and a number of calls.
type State = (i64, i64);

/// Change of a state, and milliseconds to its timeout.
#[derive(Debug, PartialEq)]
enum Decision {
    Keep(Option<i64>),
    Update(State, Option<i64>),
    Remove(Option<i64>),
}

/// Decision about a key: everything that a function may say, by what it is called with.
fn decide(state: Option<State>, values: &[i64], has_timed_out: bool) -> Decision {
    let (sum, calls) = state.unwrap_or((0, 0));
    let state = (sum + values.iter().sum::<i64>(), calls + 1);
    let timeout = Some(5 + state.0.rem_euclid(40));
    if has_timed_out {
        return match state.1 % 3 {
            0 => Decision::Remove(None),
            1 => Decision::Update(state, timeout),
            _ => Decision::Keep(None),
        };
    }
    match (state.0 + state.1).rem_euclid(8) {
        0 => Decision::Keep(None),
        1 => Decision::Keep(timeout),
        2 => Decision::Remove(None),
        3 => Decision::Remove(timeout),
        4 => Decision::Update(state, None),
        _ => Decision::Update(state, timeout),
    }
}

/// A function that does all of that; with a value of 13 it fails.
#[derive(Debug)]
struct Probe {
    timeout: Timeout,
}

impl StateFunction for Probe {
    fn state(&self) -> Vec<FieldRef> {
        ["sum", "calls"].map(|name| Arc::new(Field::new(name, DataType::Int64, true)) as _).to_vec()
    }

    fn output(&self) -> SchemaRef {
        let field = |name: &&str| Field::new(*name, DataType::Int64, true);
        let names = ["k", "sum", "calls", "rows", "timed_out"];
        Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
    }

    fn mode(&self) -> FunctionMode {
        FunctionMode::Update
    }

    fn timeout(&self) -> Timeout {
        self.timeout
    }

    fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch> {
        let number = |column: &ArrayRef, at| column.as_primitive::<Int64Type>().value(at);
        let [mut sums, mut calls] = [Vec::new(), Vec::new()];
        let mut out: [Vec<Option<i64>>; 5] = Default::default();
        for group in 0..groups.len() {
            let rows = groups.rows_of(group);
            let values: Vec<i64> = rows.map(|row| number(groups.rows().column(1), row)).collect();
            if values.contains(&13) {
                // Too late to take anything back.
                return Err(invalid("a value of 13"));
            }
            let states = groups.states();
            let state =
                groups.has_state(group).then(|| (number(&states[0], group), number(&states[1], group)));
            let decision = decide(state, &values, groups.have_timed_out());
            let (after, timeout) = match decision {
                Decision::Keep(timeout) => (state, timeout),
                Decision::Update(state, timeout) => {
                    changes.update(group);
                    (Some(state), timeout)
                }
                Decision::Remove(timeout) => {
                    changes.remove(group);
                    (None, timeout)
                }
            };
            match (self.timeout, timeout) {
                (Timeout::EventTime, Some(ms)) => {
                    changes.set_timeout_timestamp_ms(group, groups.watermark_ms().unwrap() + ms)?;
                }
                (Timeout::ProcessingTime, Some(ms)) => changes.set_timeout_duration_ms(group, ms)?,
                _ => {}
            }
            sums.push(after.map(|(sum, _)| sum));
            calls.push(after.map(|(_, calls)| calls));
            let keys = groups.keys()[0].as_primitive::<Int64Type>();
            let key = keys.is_valid(group).then(|| keys.value(group));
            let row = [
                key,
                after.map(|(sum, _)| sum),
                after.map(|(_, calls)| calls),
                Some(values.len() as i64),
                Some(i64::from(groups.have_timed_out())),
            ];
            out.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        changes.set_states(vec![Arc::new(Int64Array::from(sums)), Arc::new(Int64Array::from(calls))]);
        let columns = out.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef).to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
        RecordBatch::try_new_with_options(self.output(), columns, &options).map_err(computing)
    }
}

/// Functions that jobs of these tests may call.
pub(super) fn functions() -> StateFunctions {
    let mut functions = StateFunctions::default();
    functions.register("probe", |call| {
        let timeout = match call.arguments().take_text("clock")?.as_deref() {
            Some("event") => Timeout::EventTime,
            Some("machine") => Timeout::ProcessingTime,
            _ => Timeout::None,
        };
        Ok(Arc::new(Probe { timeout }))
    });
    functions
}

fn probe(timeout: Timeout) -> Life {
    let clock = match timeout {
        Timeout::None => "",
        Timeout::ProcessingTime => ", clock => 'machine'",
        Timeout::EventTime => ", clock => 'event'",
    };
    Life::new(&format!("INSERT INTO out SELECT * FROM probe(TABLE l PARTITION BY k{clock}) EMIT UPDATES"))
}

/// Spark's `flatMapGroupsWithState`, key by key.
struct Model {
    timeout: Timeout,
    times: Times,
    now_ms: i64,
    keys: BTreeMap<Option<i64>, (Option<State>, Option<i64>)>,
    timed_out: usize,
    late: u64,
}

impl Model {
    fn call(&mut self, key: Option<i64>, values: &[i64], has_timed_out: bool) -> Given {
        let (state, _) = self.keys.remove(&key).unwrap_or((None, None));
        let (after, timeout) = match decide(state, values, has_timed_out) {
            Decision::Keep(timeout) => (state, timeout),
            Decision::Update(state, timeout) => (Some(state), timeout),
            Decision::Remove(timeout) => (None, timeout),
        };
        let at = match self.timeout {
            Timeout::None => None,
            Timeout::ProcessingTime => timeout.map(|ms| self.now_ms + ms),
            Timeout::EventTime => timeout.map(|ms| self.times.current_ms + ms),
        };
        if after.is_some() || at.is_some() {
            self.keys.insert(key, (after, at));
        }
        let (rows, timed_out) = (values.len() as i64, i64::from(has_timed_out));
        vec![key, after.map(|(sum, _)| sum), after.map(|(_, calls)| calls), Some(rows), Some(timed_out)]
    }

    fn batch(&mut self, rows: &[Row]) -> Vec<Given> {
        self.times.observe(0, rows);
        let mut groups: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
        for (key, value, time) in rows {
            if self.timeout == Timeout::EventTime && self.times.is_late(*time) {
                self.late += 1;
            } else {
                groups.entry(*key).or_default().push(*value);
            }
        }
        let mut out: Vec<Given> =
            groups.into_iter().map(|(key, values)| self.call(key, &values, false)).collect();
        let until = if self.timeout == Timeout::EventTime { self.times.current_ms } else { self.now_ms };
        let is_due = |(_, at): &(Option<State>, Option<i64>)| at.is_some_and(|at| at < until);
        let due: Vec<_> = self.keys.iter().filter(|(_, key)| is_due(key)).map(|(key, _)| *key).collect();
        self.timed_out += due.len();
        out.extend(due.into_iter().map(|key| self.call(key, &[], true)));
        self.times.end(1);
        out.sort();
        out
    }
}

#[test]
fn states_and_timeouts_are_those_of_spark_whatever_restarts() {
    let (mut timed_out, mut late, mut removed, mut restarts) = (0, 0, 0, 0);
    for seed in 0..90_u64 {
        let mut random = Random::new(seed);
        let timeout = [Timeout::None, Timeout::ProcessingTime, Timeout::EventTime][seed as usize % 3];
        let mut life = probe(timeout);
        let (times, keys) = (Times::default(), BTreeMap::new());
        let mut model = Model { timeout, times, now_ms: 0, keys, timed_out: 0, late: 0 };
        let (mut numbers, mut late_ours) = (100, 0);
        for step in 0..80 {
            let mut rows = random_rows(&mut random, 40 + step * 6, &mut numbers);
            // More keys than a batch has.
            rows.iter_mut().for_each(|row| row.0 = row.0.map(|key| key * 10 + random.below(10) as i64));
            model.now_ms += random.below(20) as i64;
            life.operators.set_now_ms(model.now_ms);
            let risen = timeout == Timeout::EventTime && model.times.current_ms > model.times.late_ms;
            let is_due = |(_, at): &(Option<State>, Option<i64>)| at.is_some_and(|at| at < model.now_ms);
            let due = timeout == Timeout::ProcessingTime && model.keys.values().any(is_due);
            assert_eq!(life.operators.wants_empty_batch(), risen || due, "seed {seed}, step {step}");
            let ours = life.batch(&mut random, [&rows, &[]]);
            assert_eq!(ours, model.batch(&rows), "seed {seed}, {timeout:?}, step {step}");
            let (name, usage, counts) = life.operators.take_usages()[0];
            assert_eq!((name, usage.keys), ("flatMapGroupsWithState", model.keys.len() as u64));
            late_ours += counts.late;
            removed += counts.removed;
            if random.once_in(8) {
                life.restart();
                model.times.greatest_ms = [None, None];
                restarts += 1;
            }
        }
        assert_eq!(late_ours, model.late, "seed {seed}, {timeout:?}");
        late += model.late;
        timed_out += model.timed_out;
    }
    assert!(
        timed_out > 2_000 && late > 500 && removed > 2_000 && restarts > 300,
        "{timed_out} timed out, {late} late, {removed} removed, {restarts} restarts"
    );
}

#[test]
fn a_function_that_fails_leaves_states_as_they_were() {
    let mut random = Random::new(7);
    let mut life = probe(Timeout::ProcessingTime);
    let at = Some(1_000_000);
    let first = [(Some(1), 3, at), (Some(2), 4, at), (Some(3), 6, at)];
    life.batch(&mut random, [&first, &[]]);
    let before = life.operators.take_usages()[0].1;
    assert!(before.keys > 0);
    let failing = batch(&[(Some(1), 3, at), (Some(9), 13, at)]);
    life.operators.push(failing).unwrap();
    let error = life.operators.end_batch().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "the state function 'probe' failed: a value of 13");
    assert_eq!(life.operators.take_usages()[0].1, before);
    assert!(life.operators.versions().unwrap().is_empty(), "a checkpoint would have nothing of it");
}

#[test]
fn without_a_plan_rows_come_out_at_once_and_timeouts_at_the_end_of_a_batch() {
    let mut life = probe(Timeout::ProcessingTime);
    life.operators.set_gathering(false);
    life.operators.set_now_ms(1000);
    let rows = |out: Vec<RecordBatch>| out.iter().flat_map(given).collect::<Vec<_>>();
    // 4 + 1 is 5: the state is kept, and times out after 5 + 4 ms.
    let out = rows(life.operators.push(batch(&[(Some(7), 4, None)])).unwrap());
    assert_eq!(out, [vec![Some(7), Some(4), Some(1), Some(1), Some(0)]]);
    for (now_ms, expected) in [(1009, 0), (1010, 1)] {
        life.operators.set_now_ms(now_ms);
        assert_eq!(life.operators.wants_empty_batch(), expected == 1);
        let out = rows(life.operators.end_batch().unwrap());
        assert_eq!(out.len(), expected, "strictly after the timeout");
    }
}

#[test]
fn a_running_count_begins_anew_once_its_key_has_timed_out() {
    let mut random = Random::new(8);
    let call = "running_count(TABLE l PARTITION BY k, time => DESCRIPTOR(ts), timeout => INTERVAL '50 ms')";
    let mut life = Life::new(&format!("INSERT INTO out SELECT k, count, last_time FROM {call} EMIT UPDATES"));
    let at = |ms: i64| Some(ms * 1000);
    let row = |key, count, ms| vec![Some(key), Some(count), at(ms)];
    let rows = [(Some(1), 0, at(100)), (Some(1), 0, at(95)), (Some(2), 0, at(110))];
    assert_eq!(life.batch(&mut random, [&rows, &[]]), [row(1, 2, 100), row(2, 1, 110)]);
    life.restart();
    // The watermark is 90 in this batch and 151 in the next one.
    assert_eq!(life.batch(&mut random, [&[(Some(3), 0, at(171))], &[]]), [row(3, 1, 171)]);
    assert_eq!(life.batch(&mut random, [&[(Some(2), 0, at(160))], &[]]), [row(2, 2, 160)]);
    assert_eq!(life.state_keys(), 2, "key 1 timed out at 150");
    assert_eq!(life.batch(&mut random, [&[(Some(1), 0, at(170))], &[]]), [row(1, 1, 170)]);
}

#[test]
fn sessions_are_those_of_a_batch_computation_of_rows_that_are_not_late() {
    const GAP_US: i64 = 15_000;
    let (mut sessions, mut late) = (0, 0);
    for seed in 0..40_u64 {
        let mut random = Random::new(seed);
        let call = "sessions(TABLE l PARTITION BY k, time => DESCRIPTOR(ts), gap => INTERVAL '15 ms')";
        let text = format!("INSERT INTO out SELECT k, session_start, session_end, count FROM {call}");
        let mut life = Life::new(&text);
        let (mut times, mut numbers, mut out) = (Times::default(), 0, Vec::new());
        let mut kept: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
        for step in 0..60 {
            let mut rows = random_rows(&mut random, 60 + step * 5, &mut numbers);
            if step == 58 {
                rows = vec![(Some(-1), 0, Some(1_000_000_000))];
            } else if step == 59 {
                rows.clear();
            }
            times.observe(0, &rows);
            for (key, _, time) in &rows {
                let is_late = times.is_late(*time);
                late += usize::from(is_late);
                if let Some(us) = time.filter(|_| !is_late) {
                    kept.entry(*key).or_default().push(us);
                }
            }
            times.end(1);
            out.extend(life.batch(&mut random, [&rows, &[]]));
            if random.once_in(8) {
                life.restart();
                times.greatest_ms = [None, None];
            }
        }
        kept.remove(&Some(-1));
        let mut expected: Vec<Given> = Vec::new();
        for (key, mut all) in kept {
            all.sort_unstable();
            for part in all.chunk_by(|earlier, later| later - earlier <= GAP_US) {
                let (first, last) = (part[0], part[part.len() - 1]);
                expected.push(vec![key, Some(first), Some(last + GAP_US), Some(part.len() as i64)]);
            }
        }
        sessions += expected.len();
        expected.sort();
        out.sort();
        assert_eq!(out, expected, "seed {seed}");
    }
    assert!(sessions > 1_000 && late > 300, "{sessions} sessions, {late} late");
}
