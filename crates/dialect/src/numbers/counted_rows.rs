use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;

/// The rows that pass a filter: those for which it is true.
pub(super) fn passed(filter: &BooleanArray) -> BooleanBuffer {
    match filter.null_count() {
        0 => filter.values().clone(),
        _ => prep_null_mask_filter(filter).values().clone(),
    }
}

/// The rows whose values are not null and that pass the filter; `None` for all.
pub(super) fn counted(values: &dyn Array, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let valid = values.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone());
    match (valid, filter.map(passed)) {
        (Some(valid), Some(passed)) => Some(&valid & &passed),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;

    use super::*;

    #[test]
    fn a_row_counts_if_it_has_a_value_and_its_filter_is_true() {
        let values = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
        let whole = Int64Array::from(vec![1, 2, 3, 4]);
        let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(false)]);
        let rows =
            |counted: Option<BooleanBuffer>| counted.map(|counted| counted.set_indices().collect::<Vec<_>>());
        assert_eq!(rows(counted(&whole, None)), None);
        assert_eq!(rows(counted(&values, None)), Some(vec![0, 2, 3]));
        assert_eq!(rows(counted(&whole, Some(&filter))), Some(vec![0, 1]));
        assert_eq!(rows(counted(&values, Some(&filter))), Some(vec![0]));
    }
}
