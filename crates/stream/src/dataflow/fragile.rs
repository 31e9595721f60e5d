use std::sync::{Arc, Condvar, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};

use crate::error::{Result, computing, invalid};
use crate::state_function::{Changes, FunctionMode, KeyGroups, StateFunction, StateFunctions};

/// Count of the rows of each key by a state function `fragile`, which waits, fails or breaks when a test tells it to.
#[derive(Debug, Clone)]
pub(super) struct Fragile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Rows of a key after which the fault shows.
    sound_rows: i64,
    told: Mutex<Told>,
    let_go: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    fault: Option<Fault>,
    is_held: bool,
    last_count: i64,
}

/// Defect of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Error,
    Panic,
}

impl Fragile {
    /// A sound function; a fault that it gets shows after so many rows of a key.
    pub fn new(sound_rows: i64) -> Self {
        Self(Arc::new(Inner { sound_rows, told: Mutex::default(), let_go: Condvar::new() }))
    }

    /// Functions of which this is one.
    pub fn registered(&self) -> StateFunctions {
        let (mut functions, function) = (StateFunctions::default(), self.clone());
        functions.register("fragile", move |_| Ok(Arc::new(function.clone())));
        functions
    }

    /// Gives it a fault, or takes it away.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.0.told.lock().unwrap().fault = fault;
    }

    /// Lets calls wait, or go on.
    pub fn set_held(&self, is_held: bool) {
        self.0.told.lock().unwrap().is_held = is_held;
        self.0.let_go.notify_all();
    }

    /// Count that it gave last.
    pub fn last_count(&self) -> i64 {
        self.0.told.lock().unwrap().last_count
    }

    /// Number of those that have it.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl StateFunction for Fragile {
    fn state(&self) -> Vec<FieldRef> {
        vec![Arc::new(Field::new("n", DataType::Int64, true))]
    }

    fn output(&self) -> SchemaRef {
        Arc::new(Schema::new(self.state()))
    }

    fn mode(&self) -> FunctionMode {
        FunctionMode::Update
    }

    fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch> {
        let told = self.0.told.lock().unwrap();
        let fault = self.0.let_go.wait_while(told, |told| told.is_held).unwrap().fault;
        let known = groups.states()[0].as_primitive::<Int64Type>();
        let count = |group| {
            let known = if groups.has_state(group) { known.value(group) } else { 0 };
            known + groups.rows_of(group).len() as i64
        };
        let counts: Vec<i64> = (0..groups.len()).map(count).collect();
        let is_over = counts.iter().any(|count| *count > self.0.sound_rows);
        match fault.filter(|_| is_over) {
            Some(Fault::Error) => return Err(invalid(format!("more than {} rows", self.0.sound_rows))),
            Some(Fault::Panic) => panic!("a function with a defect"),
            None => {}
        }
        self.0.told.lock().unwrap().last_count = counts.last().copied().unwrap_or(0);
        (0..groups.len()).for_each(|group| changes.update(group));
        let counts: ArrayRef = Arc::new(Int64Array::from(counts));
        changes.set_states(vec![Arc::clone(&counts)]);
        RecordBatch::try_new(self.output(), vec![counts]).map_err(computing)
    }
}
