use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::FieldRef;
use arrow::row::{RowConverter, SortField};
use datafusion::physical_expr::PhysicalExpr;

use super::event_time::key_columns;
use crate::error::{Result, computing};
use crate::plan::PlanNode;
use crate::state::{KeyHash, PartitionSet};

/// Division of a step's rows among the shards that have its state: by the virtual partition of the key by which state is looked up,
/// so that rows of one key are all in one shard.
pub(super) struct Division {
    inputs: Vec<InputKey>,
    shards: usize,
}

/// Key of the rows of an input.
struct InputKey {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    converter: RowConverter,
}

/// Keys of an input with their fields.
type KeyPlan<'a> = (&'a [Arc<dyn PhysicalExpr>], &'a [FieldRef]);

impl Division {
    /// Number of shards that have the state of a step: as many as the query's parallelism says, or one if it cannot be divided,
    /// since it has no key.
    pub fn shards_of(step: &PlanNode, parallelism: usize) -> usize {
        let has_keys = |(keys, _): &KeyPlan<'_>| !keys.is_empty();
        if key_plans(step).iter().all(has_keys) { parallelism } else { 1 }
    }

    /// Sets of partitions of the shards that have the state of a step.
    pub fn partitions_of(step: &PlanNode, parallelism: usize) -> Vec<PartitionSet> {
        PartitionSet::of_shards(Self::shards_of(step, parallelism))
    }

    /// The division of the rows of a step.
    ///
    /// # Errors
    /// `Invalid` for keys of a type that has no order.
    pub fn new(step: &PlanNode, parallelism: usize) -> Result<Self> {
        let input = |(keys, fields): KeyPlan<'_>| -> Result<InputKey> {
            let fields = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
            let converter = RowConverter::new(fields).map_err(computing)?;
            Ok(InputKey { keys: keys.to_vec(), converter })
        };
        let inputs: Result<Vec<_>> = key_plans(step).into_iter().map(input).collect();
        Ok(Self { inputs: inputs?, shards: Self::shards_of(step, parallelism) })
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Rows of an input, for each shard those that are its own, in their order. Shards without rows are not named.
    ///
    /// # Errors
    /// `Invalid` for values that cannot be computed.
    pub fn divide(&self, input: usize, rows: RecordBatch) -> Result<Vec<(usize, RecordBatch)>> {
        if rows.num_rows() == 0 {
            return Ok(Vec::new());
        }
        if self.shards == 1 {
            return Ok(vec![(0, rows)]);
        }
        let InputKey { keys, converter } = &self.inputs[input];
        let encoded = converter.convert_columns(&key_columns(keys, &rows)?).map_err(computing)?;
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); self.shards];
        for (row, key) in (0_u32..).zip(encoded.iter()) {
            places[KeyHash::of(key.data()).partition().shard(self.shards)].push(row);
        }
        if let Some(only) = places.iter().position(|places| places.len() == rows.num_rows()) {
            return Ok(vec![(only, rows)]);
        }
        let own = |(shard, places): (usize, Vec<u32>)| {
            let taken = take_record_batch(&rows, &UInt32Array::from(places)).map_err(computing)?;
            Ok((shard, taken))
        };
        places.into_iter().enumerate().filter(|(_, places)| !places.is_empty()).map(own).collect()
    }
}

/// Keys of each input of a step, as its [`Layout`](crate::state::Layout) has them in what `partition_hash` looks at.
fn key_plans(step: &PlanNode) -> Vec<KeyPlan<'_>> {
    match step {
        PlanNode::Aggregate { plan, .. } => vec![(&plan.keys, &plan.schema.fields()[..plan.keys.len()])],
        PlanNode::Deduplicate { plan, .. } => vec![(&plan.keys, &plan.key_fields)],
        PlanNode::Keyed { plan, .. } => vec![(&plan.keys, &plan.key_fields)],
        PlanNode::Join { plan, .. } => {
            plan.sides.iter().map(|side| (side.keys.as_slice(), side.key_fields.as_slice())).collect()
        }
        PlanNode::Scan(_)
        | PlanNode::Calc { .. }
        | PlanNode::Windows { .. }
        | PlanNode::Lookup { .. }
        | PlanNode::Union { .. } => unreachable!("rows of a step without state are not divided"),
    }
}
