use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use super::planning;
use super::walk::Built;
use crate::error::{Result, invalid};
use crate::plan::state_call::KeyedTable;
use crate::plan::{KeyedPlan, PlanNode};
use crate::state_function::{StateCall, StateFunction, StateFunctions, Timeout};

/// A call of a state function with the function that it is of.
#[derive(Debug, Clone)]
pub(super) struct KeyedCall {
    name: String,
    function: Arc<dyn StateFunction>,
    /// Places of the keys among the columns of the rows.
    keys: Vec<usize>,
}

impl KeyedCall {
    /// The call of a table, over rows of this schema.
    pub fn new(functions: &StateFunctions, table: &KeyedTable, rows: &SchemaRef) -> Result<Self> {
        let mut keys = Vec::new();
        for name in &table.keys {
            let Some((place, _)) = rows.column_with_name(name) else {
                return Err(invalid(format!("{}: PARTITION BY {name} names no column", table.function)));
            };
            keys.push(place);
        }
        let call = StateCall {
            name: table.function.clone(),
            keys: fields(&keys, rows),
            rows: Arc::clone(rows),
            arguments: table.arguments.clone(),
        };
        Ok(Self { name: table.function.clone(), function: functions.make(call)?, keys })
    }

    /// Schema of the rows that come out.
    pub fn schema(&self) -> SchemaRef {
        self.function.output()
    }
}

fn fields(places: &[usize], rows: &SchemaRef) -> Vec<FieldRef> {
    places.iter().map(|place| Arc::clone(&rows.fields()[*place])).collect()
}

/// Adds a state function over rows of this schema.
pub(super) fn plan(built: Built, call: &KeyedCall, rows: &SchemaRef) -> Result<Built> {
    if built.at_rest.is_some() {
        return Err(invalid(format!("{}: its rows are at rest", call.name)));
    }
    let mut time = None;
    if call.function.timeout() == Timeout::EventTime {
        let schema = DFSchema::try_from(rows.as_ref().clone()).map_err(planning)?;
        time = built.late_time(&schema)?;
        if time.is_none() {
            let text = format!("{}: timeouts by event time are not supported without a watermark", call.name);
            return Err(invalid(text)
                .with_hint("give the stream a WATERMARK, and let its column come to the function"));
        }
    }
    let key =
        |place: &usize| Arc::new(Column::new(rows.field(*place).name(), *place)) as Arc<dyn PhysicalExpr>;
    let plan = KeyedPlan {
        name: call.name.clone(),
        function: Arc::clone(&call.function),
        keys: call.keys.iter().map(key).collect(),
        key_fields: fields(&call.keys, rows),
        input: Arc::clone(rows),
        time,
        schema: call.schema(),
    };
    // What a function gives carries no event time, as in Spark.
    Ok(Built {
        node: PlanNode::Keyed { input: Box::new(built.node), plan },
        times: Vec::new(),
        at_rest: None,
    })
}
