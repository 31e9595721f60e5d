//! Outputs of tasks that have run twice.
//!
//! If an executor dies that has rows for a stage which runs, Ballista has all tasks of that stage run again, and leaves those who read it with
//! what the first run had given on the executors that live: its rows would be read twice. So readers take the last output of each
//! task. Which task it is of says the partition, where each task gives one; else the number of the map, which the number of the file has.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;

use crate::shuffle::map_of;

/// The plan of a task, in which each output of another stage is read once.
///
/// # Errors
/// None but for a fault of ours.
pub(crate) fn once(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let once = plan.transform_up(|node| {
        let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() else { return Ok(Transformed::no(node)) };
        let mut once = reader.clone();
        for locations in &mut once.partition {
            *locations = last_of_each(std::mem::take(locations), output_of);
        }
        Ok(Transformed::yes(Arc::new(once) as Arc<dyn ExecutionPlan>))
    });
    once.data()
}

/// The last of all that have the same key, in their order.
pub(crate) fn last_of_each<T, K: Hash + Eq>(all: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let last: HashMap<K, usize> = all.iter().enumerate().map(|(at, one)| (key(one), at)).collect();
    let numbered = all.into_iter().enumerate();
    numbered.filter(|(at, one)| last[&key(one)] == *at).map(|(_, one)| one).collect()
}

/// The partition of an output, and its map if several maps write to one.
fn output_of(location: &PartitionLocation) -> (usize, Option<u64>) {
    let map = location.is_sort_shuffle.then(|| location.file_id.map(map_of)).flatten();
    (location.partition_id.partition_id, map)
}

#[cfg(test)]
mod tests {
    use ballista_core::JobId;
    use ballista_core::serde::scheduler::{
        ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification, PartitionId,
        PartitionStats,
    };
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_expr::Partitioning;

    use super::*;
    use crate::shuffle::local_number;

    fn location(partition: usize, file: u64, is_sort_shuffle: bool) -> PartitionLocation {
        PartitionLocation {
            map_partition_id: 0,
            partition_id: PartitionId::new(&JobId::from("job".to_owned()), 1, partition),
            executor_meta: ExecutorMetadata {
                id: "e".to_owned(),
                host: "h".to_owned(),
                port: 1,
                grpc_port: 2,
                specification: ExecutorSpecification::default(),
                os_info: ExecutorOperatingSystemSpecification::default(),
            },
            partition_stats: PartitionStats::default(),
            file_id: Some(file),
            is_sort_shuffle,
        }
    }

    /// Numbers of the files that are read of one partition.
    fn read(locations: Vec<PartitionLocation>) -> Vec<u64> {
        let schema = Arc::new(Schema::empty());
        let by = Partitioning::UnknownPartitioning(1);
        let reader = ShuffleReaderExec::try_new(1, vec![locations], schema, by).unwrap();
        let once = once(Arc::new(reader)).unwrap();
        let read = once.downcast_ref::<ShuffleReaderExec>().unwrap();
        read.partition[0].iter().filter_map(|location| location.file_id).collect()
    }

    #[test]
    fn a_task_that_has_run_twice_is_read_once() {
        assert_eq!(read(vec![location(0, 3, false), location(0, 5, false)]), [5], "the same partition");
        assert_eq!(read(vec![location(0, 3, false), location(1, 3, false)]), [3, 3], "all of a stage");
        let [first, second, again] =
            [(0, 0), (1, 1), (2, 0)].map(|(task, map)| local_number(task, map).unwrap());
        let maps = [first, second, again].map(|file| location(0, file, true));
        assert_eq!(read(maps.to_vec()), [second, again]);
    }
}
