use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::FieldRef;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::join::truths;
use crate::error::{Result, computing};
use crate::plan::AggregateCall;

/// Aggregate functions of many groups at once. What a function knows of a group is some columns, its states, which are merged.
#[derive(Debug)]
pub(super) struct Accumulation {
    calls: Vec<AggregateCall>,
    /// How many columns the states of each call are.
    widths: Vec<usize>,
}

impl Accumulation {
    pub fn new(calls: Vec<AggregateCall>) -> Result<Self> {
        let widths: Result<Vec<_>> = calls.iter().map(|call| Ok(states_of(call)?.len())).collect();
        Ok(Self { widths: widths?, calls })
    }

    /// Columns of all states.
    pub fn state_fields(&self) -> Result<Vec<FieldRef>> {
        let fields: Result<Vec<_>> = self.calls.iter().map(states_of).collect();
        Ok(fields?.into_iter().flatten().collect())
    }

    /// States of the groups of some rows.
    pub fn states(&self, rows: &RecordBatch, group_of_row: &[usize], groups: usize) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::new();
        for call in &self.calls {
            let evaluated = |argument: &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
                argument.evaluate(rows)?.into_array(rows.num_rows())
            };
            let arguments: Result<Vec<_>, _> = call.function.expressions().iter().map(evaluated).collect();
            let arguments = arguments.map_err(computing)?;
            let mut filter = call.filter.as_ref().map(|filter| truths(filter, rows)).transpose()?;
            if rows.num_rows() == 0 {
                // Without a filter DataFusion's functions take each group to have had a row.
                filter = Some(BooleanArray::from(Vec::<bool>::new()));
            }
            let mut accumulator = accumulator(call)?;
            accumulator.update_batch(&arguments, group_of_row, filter.as_ref(), groups).map_err(computing)?;
            states.extend(accumulator.state(EmitTo::All).map_err(computing)?);
        }
        Ok(states)
    }

    /// States of groups to which more came: the earlier ones are of the groups at these places, in ascending order.
    pub fn merged(&self, earlier: &[ArrayRef], places: &[usize], more: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let groups = more.first().map_or(0, |column| column.len());
        // DataFusion's functions take a first batch to have each group that they know of: those with earlier states are the first.
        let numbers = numbered_first(places, groups);
        let first: Vec<usize> = (0..places.len()).collect();
        let back = UInt64Array::from_iter_values(numbers.iter().map(|number| *number as u64));
        let (mut states, mut begin) = (Vec::new(), 0);
        for (call, width) in self.calls.iter().zip(&self.widths) {
            let columns = begin..begin + width;
            let mut accumulator = accumulator(call)?;
            accumulator.merge_batch(&earlier[columns.clone()], &first, places.len()).map_err(computing)?;
            accumulator.merge_batch(&more[columns], &numbers, groups).map_err(computing)?;
            for state in accumulator.state(EmitTo::All).map_err(computing)? {
                let has_moved = places.len() < groups;
                states.push(if has_moved { take(&state, &back, None).map_err(computing)? } else { state });
            }
            begin += width;
        }
        Ok(states)
    }

    /// Results of groups.
    pub fn results(&self, states: &[ArrayRef], groups: usize) -> Result<Vec<ArrayRef>> {
        let all: Vec<usize> = (0..groups).collect();
        let (mut results, mut begin) = (Vec::new(), 0);
        for (call, width) in self.calls.iter().zip(&self.widths) {
            let mut accumulator = accumulator(call)?;
            accumulator.merge_batch(&states[begin..begin + width], &all, groups).map_err(computing)?;
            let result = accumulator.evaluate(EmitTo::All).map_err(computing)?;
            results.push(result);
            begin += width;
        }
        Ok(results)
    }
}

/// Numbers of groups, so that those at these places come first.
fn numbered_first(places: &[usize], groups: usize) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(groups);
    let (mut next_place, mut next_other) = (0, places.len());
    for group in 0..groups {
        let is_first = places.get(next_place) == Some(&group);
        let counter = if is_first { &mut next_place } else { &mut next_other };
        numbers.push(*counter);
        *counter += 1;
    }
    numbers
}

fn accumulator(call: &AggregateCall) -> Result<Box<dyn GroupsAccumulator>> {
    call.function.create_groups_accumulator().map_err(computing)
}

fn states_of(call: &AggregateCall) -> Result<Vec<FieldRef>> {
    call.function.state_fields().map_err(computing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_at_some_places_come_first() {
        assert_eq!(numbered_first(&[1, 3], 5), [2, 0, 3, 1, 4]);
        assert_eq!(numbered_first(&[0, 1, 2], 3), [0, 1, 2]);
    }
}
