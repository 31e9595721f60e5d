use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use datafusion::arrow::compute::{CastOptions, cast_with_options, filter_record_batch, interleave};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::datasource::{MemTable, TableProvider};
use yeoul_base::ErrorKind;
use yeoul_dialect::syntax::ast::Ident;

use crate::{Error, Result};

/// The column of row numbers. No table has a column of this name: SQL cannot write it.
const NUMBER: &str = "\u{0}number of the row";

/// That column, in SQL.
pub(super) fn column() -> Ident {
    Ident::with_quote('"', NUMBER)
}

/// A place in the batches that a query found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) batch: usize,
    pub(super) row: usize,
}

/// The rows of a table in memory, as they were when a statement began, numbered from 0 in their order: partition by partition.
pub(super) struct NumberedRows {
    table: Arc<dyn TableProvider>,
    schema: SchemaRef,
    /// What was in each partition.
    batches: Vec<Vec<RecordBatch>>,
}

impl NumberedRows {
    /// `None` for a table that is not in memory.
    pub(super) async fn of(table: Arc<dyn TableProvider>) -> Option<Self> {
        let mut batches = Vec::new();
        for partition in &table.downcast_ref::<MemTable>()?.batches {
            batches.push(partition.read().await.clone());
        }
        Some(Self { schema: table.schema(), table, batches })
    }

    /// The columns of the table, without the numbers.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// A table of the rows with their numbers, which shares their memory.
    ///
    /// # Errors
    /// Arrow's, if batches do not fit the table's columns.
    pub(super) fn numbered(&self) -> Result<MemTable> {
        let number = Arc::new(Field::new(NUMBER, DataType::UInt64, false));
        let fields: Vec<_> = self.schema.fields().iter().cloned().chain([number]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut next = 0;
        let mut partitions = Vec::with_capacity(self.batches.len());
        for batches in &self.batches {
            let numbered = batches.iter().map(|batch| {
                let first = next;
                next += batch.num_rows() as u64;
                let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(first..next));
                let columns = batch.columns().iter().cloned().chain([numbers]).collect();
                RecordBatch::try_new(Arc::clone(&schema), columns)
            });
            partitions.push(numbered.collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)?);
        }
        if partitions.is_empty() {
            partitions.push(Vec::new());
        }
        Ok(MemTable::try_new(schema, partitions)?)
    }

    /// The partitions without some rows.
    ///
    /// # Errors
    /// Arrow's.
    pub(super) fn without(&self, rows: &HashMap<u64, Place>) -> Result<Vec<Vec<RecordBatch>>> {
        self.each_batch(|batch, first| {
            let numbers = first..first + batch.num_rows() as u64;
            let stays: BooleanArray = numbers.map(|number| Some(!rows.contains_key(&number))).collect();
            if stays.true_count() == batch.num_rows() {
                return Ok(batch.clone());
            }
            Ok(filter_record_batch(batch, &stays).map_err(DataFusionError::from)?)
        })
    }

    /// The partitions with new values of some columns in some rows: those that `found` has behind the numbers of the rows, in the order
    /// of `columns`, at these places.
    ///
    /// # Errors
    /// `Invalid` for a null in a column that has none.
    pub(super) fn with_values(
        &self,
        columns: &[String],
        found: &[RecordBatch],
        places: &HashMap<u64, Place>,
    ) -> Result<Vec<Vec<RecordBatch>>> {
        self.each_batch(|batch, first| {
            let numbers = first..first + batch.num_rows() as u64;
            // The source of each row: 0 for the batch itself, then those of `found`.
            let sources: Vec<(usize, usize)> = numbers
                .enumerate()
                .map(|(row, number)| {
                    places.get(&number).map_or((0, row), |place| (place.batch + 1, place.row))
                })
                .collect();
            if sources.iter().all(|(source, _)| *source == 0) {
                return Ok(batch.clone());
            }
            let mut values = batch.columns().to_vec();
            for (place, name) in (1..).zip(columns) {
                let column = batch.schema().index_of(name).map_err(DataFusionError::from)?;
                let kind = batch.column(column).data_type();
                let found = found.iter().map(|found| in_type(found.column(place), kind));
                let found = found.collect::<Result<Vec<_>>>()?;
                let mut arrays: Vec<&dyn Array> = vec![batch.column(column).as_ref()];
                arrays.extend(found.iter().map(AsRef::as_ref));
                let changed = interleave(&arrays, &sources).map_err(DataFusionError::from)?;
                check_nulls(batch.schema().field(column), changed.as_ref())?;
                values[column] = changed;
            }
            Ok(RecordBatch::try_new(batch.schema(), values).map_err(DataFusionError::from)?)
        })
    }

    /// The partitions with each batch changed; `change` is given the number of its first row, too. Empty batches are left out.
    fn each_batch(
        &self,
        mut change: impl FnMut(&RecordBatch, u64) -> Result<RecordBatch>,
    ) -> Result<Vec<Vec<RecordBatch>>> {
        let mut first = 0;
        let mut changed = Vec::with_capacity(self.batches.len());
        for batches in &self.batches {
            let mut partition = Vec::with_capacity(batches.len());
            for batch in batches {
                partition.push(change(batch, first)?);
                first += batch.num_rows() as u64;
            }
            partition.retain(|batch| batch.num_rows() > 0);
            changed.push(partition);
        }
        Ok(changed)
    }

    /// Puts partitions in the place of those that there were, all at once.
    ///
    /// # Errors
    /// `Conflict` if other rows are there by now; then nothing is changed.
    pub(super) async fn put(&self, batches: Vec<Vec<RecordBatch>>) -> Result<()> {
        let table = self.table.downcast_ref::<MemTable>().expect("`of` takes a table in memory");
        assert_eq!(batches.len(), table.batches.len(), "a change keeps the partitions of a table");
        let mut places = Vec::with_capacity(batches.len());
        for partition in &table.batches {
            places.push(partition.write().await);
        }
        if !places.iter().zip(&self.batches).all(|(now, then)| are_same(now, then)) {
            let text = "another statement changed the table at the same time";
            return Err(Error::new(ErrorKind::Conflict, text).with_hint("run the statement again"));
        }
        table.sort_order.lock().clear();
        for (mut place, batches) in places.into_iter().zip(batches) {
            *place = batches;
        }
        Ok(())
    }
}

/// Values in the type of their column. The planned query has it already, but simplifying it may leave `CASE` with a branch's type.
fn in_type(values: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    if values.data_type() == kind {
        return Ok(Arc::clone(values));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(values, kind, &options).map_err(DataFusionError::from)?)
}

/// Whether batches are the very ones.
fn are_same(now: &[RecordBatch], then: &[RecordBatch]) -> bool {
    let is_same = |(now, then): (&RecordBatch, &RecordBatch)| {
        now.num_rows() == then.num_rows()
            && now.columns().iter().zip(then.columns()).all(|(now, then)| Arc::ptr_eq(now, then))
    };
    now.len() == then.len() && now.iter().zip(then).all(is_same)
}

fn check_nulls(field: &Field, values: &dyn Array) -> Result<()> {
    if field.is_nullable() || values.null_count() == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!("column '{}' is NOT NULL, and would have a null", field.name()),
    ))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;

    use super::*;

    fn table() -> Arc<dyn TableProvider> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |numbers: Vec<i64>| {
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(numbers))]).unwrap()
        };
        let partitions = vec![vec![batch(vec![10, 11]), batch(vec![12])], vec![batch(vec![13, 14])]];
        Arc::new(MemTable::try_new(Arc::clone(&schema), partitions).unwrap())
    }

    fn numbers(batches: &[Vec<RecordBatch>]) -> Vec<Vec<i64>> {
        let of = |batch: &RecordBatch| {
            batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
        };
        batches.iter().map(|partition| partition.iter().flat_map(of).collect()).collect()
    }

    #[tokio::test]
    async fn rows_are_numbered_across_batches_and_partitions() {
        let rows = NumberedRows::of(table()).await.unwrap();
        let place = Place { batch: 0, row: 0 };
        let without = rows.without(&HashMap::from([(1, place), (2, place), (3, place)])).unwrap();
        assert_eq!(numbers(&without), [vec![10], vec![14]]);
        let found = RecordBatch::try_from_iter([
            ("number", Arc::new(UInt64Array::from(vec![4, 0])) as ArrayRef),
            ("value", Arc::new(Int64Array::from(vec![40, 0])) as ArrayRef),
        ])
        .unwrap();
        let places = HashMap::from([(4, Place { batch: 0, row: 0 }), (0, Place { batch: 0, row: 1 })]);
        let changed = rows.with_values(&["n".to_owned()], &[found], &places).unwrap();
        assert_eq!(numbers(&changed), [vec![0, 11, 12], vec![13, 40]]);
        rows.put(changed).await.unwrap();
        let rows = NumberedRows::of(Arc::clone(&rows.table)).await.unwrap();
        assert_eq!(numbers(&rows.batches), [vec![0, 11, 12], vec![13, 40]]);
    }

    #[tokio::test]
    async fn rows_that_came_meanwhile_are_not_lost() {
        let table = table();
        let rows = NumberedRows::of(Arc::clone(&table)).await.unwrap();
        let more = rows.batches[0][1].clone();
        table.downcast_ref::<MemTable>().unwrap().batches[1].write().await.push(more);
        let error = rows.put(vec![Vec::new(), Vec::new()]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let now = NumberedRows::of(table).await.unwrap();
        assert_eq!(numbers(&now.batches), [vec![10, 11, 12], vec![13, 14, 12]]);
    }
}
