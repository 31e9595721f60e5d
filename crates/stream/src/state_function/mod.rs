//! Functions of a query's own over the rows of each key and the key's state (`flatMapGroupsWithState` of Spark).
//!
//! - [`StateFunction`]: a function, which gets all keys of a batch in one call
//! - [`KeyGroups`], [`Changes`]: rows, keys and states that it gets, and what becomes of the states
//! - [`StateFunctions`]: functions by the names under which jobs call them; [`StateCall`]: such a call
//! - [`RunningCount`], [`Sessions`]: those that are always there
//!
//! A program gives its queries functions of its own:
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
//! use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
//! use yeoul_stream::error::{Result, computing};
//! use yeoul_stream::state::MemoryShare;
//! use yeoul_stream::state_function::{Changes, FunctionMode, KeyGroups, StateFunction, StateFunctions};
//! use yeoul_stream::{dataflow, parse_job_with};
//!
//! /// The greatest value of each key so far, whenever it rises.
//! #[derive(Debug)]
//! struct Greatest;
//!
//! impl StateFunction for Greatest {
//!     fn state(&self) -> Vec<FieldRef> {
//!         vec![Arc::new(Field::new("greatest", DataType::Int64, true))]
//!     }
//!
//!     fn output(&self) -> SchemaRef {
//!         Arc::new(Schema::new(vec![Field::new("greatest", DataType::Int64, true)]))
//!     }
//!
//!     fn mode(&self) -> FunctionMode {
//!         FunctionMode::Update
//!     }
//!
//!     fn call(&self, groups: &KeyGroups<'_>, changes: &mut Changes) -> Result<RecordBatch> {
//!         let values = groups.rows().column_by_name("value").expect("the planner checked it").as_primitive::<Int64Type>();
//!         let before = groups.states()[0].as_primitive::<Int64Type>();
//!         let (mut states, mut risen) = (Vec::new(), Vec::new());
//!         for group in 0..groups.len() {
//!             let greatest = groups.rows_of(group).map(|row| values.value(row)).max();
//!             let was = groups.has_state(group).then(|| before.value(group));
//!             if greatest > was {
//!                 changes.update(group);
//!                 risen.extend(greatest);
//!             }
//!             states.push(greatest.max(was));
//!         }
//!         changes.set_states(vec![Arc::new(Int64Array::from(states)) as ArrayRef]);
//!         RecordBatch::try_new(self.output(), vec![Arc::new(Int64Array::from(risen))]).map_err(computing)
//!     }
//! }
//!
//! let mut functions = StateFunctions::default();
//! functions.register("greatest", |call| {
//!     call.rows().index_of("value").map_err(computing)?;
//!     Ok(Arc::new(Greatest))
//! });
//! let job = "CREATE STREAM r WITH ('connector' = 'rate', 'rowsPerSecond' = '1000');
//!            CREATE SINK nowhere WITH ('connector' = 'noop');
//!            SET trigger = 'available now';
//!            INSERT INTO nowhere SELECT greatest FROM greatest(TABLE r PARTITION BY timestamp) EMIT UPDATES;";
//! # let place = tempfile::tempdir()?;
//! # let checkpoint = place.path();
//! for query in parse_job_with(job, &functions)? {
//!     dataflow::start(query, checkpoint, MemoryShare::default(), |event| println!("{event:?}"))?.wait()?;
//! }
//! # Ok::<(), yeoul_base::Error>(())
//! ```

mod arguments;
mod changes;
mod function;
mod groups;
mod registry;
mod running_count;
mod sessions;

pub use arguments::{Argument, Arguments};
pub use changes::Changes;
pub(crate) use changes::StateChange;
pub use function::{FunctionMode, StateFunction, Timeout};
pub use groups::KeyGroups;
pub use registry::{StateCall, StateFunctions};
pub use running_count::RunningCount;
pub use sessions::Sessions;
