use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use super::{Arguments, RunningCount, Sessions, StateFunction};
use crate::error::{Result, invalid};

/// A call of a state function in a job.
#[derive(Debug)]
pub struct StateCall {
    /// Name of the function.
    pub(crate) name: String,
    /// Columns by which rows are grouped.
    pub(crate) keys: Vec<FieldRef>,
    /// Schema of the rows.
    pub(crate) rows: SchemaRef,
    /// Arguments.
    pub(crate) arguments: Arguments,
}

impl StateCall {
    /// Columns by which rows are grouped.
    pub fn keys(&self) -> &[FieldRef] {
        &self.keys
    }

    /// Schema of the rows, the columns of the keys among them.
    pub fn rows(&self) -> &SchemaRef {
        &self.rows
    }

    /// Arguments: those that the function does not take are refused.
    pub fn arguments(&mut self) -> &mut Arguments {
        &mut self.arguments
    }

    /// Place of a column of times among those of the rows.
    ///
    /// # Errors
    /// `Invalid` if it is not there, or is no TIMESTAMP.
    pub fn time_column(&self, name: &str) -> Result<usize> {
        match self.rows.column_with_name(name) {
            Some((place, field)) if matches!(field.data_type(), DataType::Timestamp(..)) => Ok(place),
            Some((_, field)) => Err(invalid(format!(
                "{}: DESCRIPTOR({name}) is {}, expected a TIMESTAMP",
                self.name,
                field.data_type()
            ))),
            None => Err(invalid(format!("{}: DESCRIPTOR({name}) names no column", self.name))),
        }
    }
}

type Make = dyn Fn(&mut StateCall) -> Result<Arc<dyn StateFunction>> + Send + Sync;

/// State functions by name. Names are matched without regard to case.
#[derive(Clone)]
pub struct StateFunctions {
    functions: BTreeMap<String, Arc<Make>>,
}

impl Default for StateFunctions {
    /// Those that are always there: `running_count` and `sessions`.
    fn default() -> Self {
        let mut functions = Self { functions: BTreeMap::new() };
        functions.register("running_count", |call| Ok(Arc::new(RunningCount::of(call)?)));
        functions.register("sessions", |call| Ok(Arc::new(Sessions::of(call)?)));
        functions
    }
}

impl StateFunctions {
    /// Adds a function, in the place of one with the same name; `make` checks a call and gives the function for it.
    pub fn register(
        &mut self,
        name: &str,
        make: impl Fn(&mut StateCall) -> Result<Arc<dyn StateFunction>> + Send + Sync + 'static,
    ) {
        self.functions.insert(name.to_lowercase(), Arc::new(make));
    }

    /// The function of a call.
    ///
    /// # Errors
    /// `Invalid` for a name that is unknown, for arguments that are not honoured, and as the function.
    pub(crate) fn make(&self, mut call: StateCall) -> Result<Arc<dyn StateFunction>> {
        let Some(make) = self.functions.get(&call.name.to_lowercase()) else {
            let known: Vec<&str> = self.functions.keys().map(String::as_str).collect();
            return Err(invalid(format!("there is no state function '{}'", call.name))
                .with_hint(format!("{} are there", known.join(", "))));
        };
        let function = make(&mut call)?;
        call.arguments.finish()?;
        Ok(function)
    }
}

impl fmt::Debug for StateFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}
