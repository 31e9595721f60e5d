use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::kept_values::{KeptValues, Place, passing};
use super::{no_single_group, of_all_groups};

/// `collect_list`, which is also `array_agg`, and `collect_set`, Spark's: the values of a group's rows in the order in which they came,
/// each or once. Nulls are left out, and a group without values has an empty list.
pub fn collections() -> [AggregateUDF; 2] {
    let signature = || Signature::any(1, Volatility::Immutable);
    [
        Collect { name: "collect_list", aliases: vec!["array_agg".to_owned()], signature: signature() },
        Collect { name: "collect_set", aliases: Vec::new(), signature: signature() },
    ]
    .map(AggregateUDF::from)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Collect {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Collect {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(arguments[0].clone(), true))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format_state_name(args.name, "values");
        Ok(vec![Arc::new(Field::new(name, args.return_type().clone(), true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        no_single_group(self.name)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && args.order_bys.is_empty()
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.expr_fields[0].data_type();
        Ok(Box::new(Lists::new(data_type, self.name == "collect_set")?))
    }
}

/// Values of many groups.
struct Lists {
    data_type: DataType,
    kept: KeptValues,
    places: Vec<Vec<Place>>,
    sets: Option<Sets>,
}

/// Values of each group, as bytes of which equal ones are the same.
struct Sets {
    converter: RowConverter,
    seen: Vec<HashSet<Box<[u8]>>>,
}

impl Lists {
    fn new(data_type: &DataType, are_sets: bool) -> Result<Self> {
        let sets = || -> Result<Sets> {
            let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
            Ok(Sets { converter, seen: Vec::new() })
        };
        Ok(Self {
            data_type: data_type.clone(),
            kept: KeptValues::new(data_type),
            places: Vec::new(),
            sets: are_sets.then(sets).transpose()?,
        })
    }

    /// Adds the values at some places of a column to groups.
    fn take(
        &mut self,
        values: &ArrayRef,
        added: impl Iterator<Item = (usize, usize)>,
        count: usize,
    ) -> Result<()> {
        self.places.resize(count, Vec::new());
        let column = self.kept.keep(values);
        let nulls = values.logical_nulls();
        let encoded = match &mut self.sets {
            Some(sets) => {
                sets.seen.resize(count, HashSet::new());
                Some(sets.converter.convert_columns(std::slice::from_ref(values))?)
            }
            None => None,
        };
        for (at, group) in added {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            if let (Some(sets), Some(encoded)) = (&mut self.sets, &encoded)
                && !sets.seen[group].insert(encoded.row(at).data().into())
            {
                continue;
            }
            self.places[group].push((column, at));
        }
        Ok(())
    }

    fn lists(&self) -> Result<ArrayRef> {
        let values = self.kept.at(&self.places.concat())?;
        let offsets = OffsetBuffer::from_lengths(self.places.iter().map(Vec::len));
        let field = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
    }
}

impl GroupsAccumulator for Lists {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let added = passing(filter, groups.len()).map(|row| (row, groups[row]));
        self.take(&values[0], added, count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        let offsets = lists.value_offsets();
        let places = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        let with_values = (0..groups.len()).filter(|row| lists.is_valid(*row));
        let added = with_values.flat_map(|row| places(row).map(move |at| (at, groups[row])));
        self.take(lists.values(), added, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        of_all_groups(emit_to)?;
        self.lists()
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self::new(&self.data_type, self.sets.is_some())?;
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        let places: usize = self.places.iter().map(|places| places.capacity() * size_of::<Place>()).sum();
        let bytes_of = |seen: &HashSet<Box<[u8]>>| -> usize {
            seen.iter().map(|value| value.len() + size_of::<Box<[u8]>>()).sum()
        };
        let seen = self.sets.as_ref().map_or(0, |sets| sets.seen.iter().map(bytes_of).sum());
        self.kept.memory_bytes() + places + seen
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn numbers(lists: &ArrayRef) -> Vec<Vec<i64>> {
        let lists = lists.as_list::<i32>();
        assert_eq!(lists.null_count(), 0, "an empty list is no null");
        (0..lists.len()).map(|row| lists.value(row).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    fn collected(are_sets: bool) -> Vec<Vec<i64>> {
        let column = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let mut lists = Lists::new(&DataType::Int64, are_sets).unwrap();
        let values = [column(&[Some(5), None, Some(3), Some(5), Some(9)])];
        let filter = BooleanArray::from(vec![true, true, true, true, false]);
        lists.update_batch(&values, &[0, 0, 1, 0, 0], Some(&filter), 3).unwrap();
        let mut more = Lists::new(&DataType::Int64, are_sets).unwrap();
        more.update_batch(&[column(&[Some(5), Some(4), Some(3)])], &[0, 0, 1], None, 2).unwrap();
        lists.merge_batch(&more.state(EmitTo::All).unwrap(), &[0, 1], 3).unwrap();
        numbers(&lists.evaluate(EmitTo::All).unwrap())
    }

    #[test]
    fn lists_have_each_value_in_its_order_and_sets_have_it_once() {
        assert_eq!(collected(false), [vec![5, 5, 5, 4], vec![3, 3], vec![]]);
        assert_eq!(collected(true), [vec![5, 4], vec![3], vec![]]);
    }
}
