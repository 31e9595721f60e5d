use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int8Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::kept_values::{KeptValues, Place, passing};
use super::{no_single_group, of_all_groups};

/// `first` and `last`, Spark's: the value of the row that came first or last, null if it is null, or with `IGNORE NULLS` of the
/// first or last row that has one.
pub fn first_and_last() -> [AggregateUDF; 2] {
    [("first", "first_value"), ("last", "last_value")].map(|(name, alias)| {
        let signature = Signature::any(1, Volatility::Immutable);
        AggregateUDF::from(FirstOrLast { name, aliases: vec![alias.to_owned()], signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstOrLast {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for FirstOrLast {
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
        Ok(arguments[0].clone())
    }

    /// The value, and whether a row gave it.
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let value = Field::new(format_state_name(args.name, "value"), args.return_type().clone(), true);
        let is_set = Field::new(format_state_name(args.name, "is_set"), DataType::Int8, false);
        Ok(vec![Arc::new(value), Arc::new(is_set)])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        no_single_group(self.name)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && args.order_bys.is_empty()
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let (is_first, ignores_nulls) = (self.name == "first", args.ignore_nulls);
        let kept = KeptValues::new(args.return_type());
        Ok(Box::new(FirstsOrLasts { is_first, ignores_nulls, kept, places: Vec::new() }))
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }
}

/// The first or last values of many groups.
struct FirstsOrLasts {
    is_first: bool,
    ignores_nulls: bool,
    kept: KeptValues,
    /// Place of each group's value, if a row gave one.
    places: Vec<Option<Place>>,
}

impl FirstsOrLasts {
    fn take(&mut self, values: &ArrayRef, rows: impl Iterator<Item = usize>, groups: &[usize]) {
        let column = self.kept.keep(values);
        for row in rows {
            let place = &mut self.places[groups[row]];
            if !self.is_first || place.is_none() {
                *place = Some((column, row));
            }
        }
    }

    fn values(&self) -> Result<ArrayRef> {
        let places: Vec<Place> = self.places.iter().map(|place| place.unwrap_or(KeptValues::NULL)).collect();
        self.kept.at(&places)
    }
}

impl GroupsAccumulator for FirstsOrLasts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.places.resize(count, None);
        let nulls = values[0].logical_nulls().filter(|_| self.ignores_nulls);
        let is_wanted = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        self.take(&values[0], passing(filter, groups.len()).filter(is_wanted), groups);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.places.resize(count, None);
        let is_set = states[1].as_primitive::<Int8Type>();
        self.take(&states[0], (0..groups.len()).filter(|row| is_set.value(*row) != 0), groups);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        of_all_groups(emit_to)?;
        self.values()
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        of_all_groups(emit_to)?;
        let is_set = Int8Array::from_iter_values(self.places.iter().map(|place| i8::from(place.is_some())));
        Ok(vec![self.values()?, Arc::new(is_set)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self {
            is_first: self.is_first,
            ignores_nulls: self.ignores_nulls,
            kept: KeptValues::new(values[0].data_type()),
            places: Vec::new(),
        };
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.kept.memory_bytes() + self.places.capacity() * size_of::<Option<Place>>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn groups_of(is_first: bool, ignores_nulls: bool) -> FirstsOrLasts {
        FirstsOrLasts { is_first, ignores_nulls, kept: KeptValues::new(&DataType::Int64), places: Vec::new() }
    }

    /// Values of three groups after two batches, the second of which comes as the states of other groups.
    fn values(is_first: bool, ignores_nulls: bool) -> Vec<Option<i64>> {
        let column = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let mut groups = groups_of(is_first, ignores_nulls);
        let first = [column(&[None, Some(1), Some(2), Some(7)])];
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        groups.update_batch(&first, &[0, 0, 1, 1], Some(&filter), 3).unwrap();
        let mut more = groups_of(is_first, ignores_nulls);
        more.update_batch(&[column(&[Some(3), Some(4), None])], &[1, 0, 1], None, 3).unwrap();
        // Group 2 has no row anywhere.
        groups.merge_batch(&more.state(EmitTo::All).unwrap(), &[0, 1, 2], 3).unwrap();
        let mut nothing = groups_of(is_first, ignores_nulls);
        nothing.update_batch(&[column(&[])], &[], None, 3).unwrap();
        groups.merge_batch(&nothing.state(EmitTo::All).unwrap(), &[0, 1, 2], 3).unwrap();
        let found = groups.evaluate(EmitTo::All).unwrap();
        found.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn the_first_and_last_rows_count_and_without_nulls_the_first_and_last_values() {
        assert_eq!(values(true, false), [None, Some(2), None]);
        assert_eq!(values(true, true), [Some(1), Some(2), None]);
        assert_eq!(values(false, false), [Some(4), None, None], "the last row of the second group is null");
        assert_eq!(values(false, true), [Some(4), Some(3), None]);
    }
}
