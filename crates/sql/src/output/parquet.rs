use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;

use crate::copy::written_times::{TimestampUnit, as_written};

use super::answer::{BatchWriter, WriteFailure, distinct_names};

/// Rows of a row group, which is what readers process at a time; the same as DuckDB's default.
const ROW_GROUP_ROWS_MAX: usize = 122_880;
/// Encoded bytes that a row group may hold in memory before it is written.
const ROW_GROUP_BYTES_MAX: usize = 32 << 20;

/// One Parquet file, compressed with zstd. Row groups are written as they fill, so only one is in memory at a time.
pub(super) struct ParquetFileWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
}

impl<W: Write + Send> ParquetFileWriter<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Result<Self, WriteFailure> {
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .zip(distinct_names(schema))
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect();
        let schema = Schema::new(fields);
        let schema = TimestampUnit::default()
            .written_schema(&schema)
            .map_err(|error| WriteFailure::Encode(ArrowError::ExternalError(Box::new(error))))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(failure)?;
        Ok(Self { writer, schema })
    }
}

impl<W: Write + Send> BatchWriter for ParquetFileWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        let batch = as_written(batch, &self.schema)?;
        self.writer.write(&batch).map_err(failure)?;
        if self.writer.in_progress_size() > ROW_GROUP_BYTES_MAX {
            self.writer.flush().map_err(failure)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        self.writer.finish().map_err(failure)?;
        Ok(self.writer.inner_mut().flush()?)
    }
}

fn failure(error: ParquetError) -> WriteFailure {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => WriteFailure::Io(*error),
            Err(source) => WriteFailure::Encode(ArrowError::ExternalError(source)),
        },
        error => WriteFailure::Encode(ArrowError::ExternalError(Box::new(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Int64Type};
    use bytes::Bytes;
    use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn written(schema: SchemaRef, batches: &[RecordBatch]) -> Bytes {
        let mut out = Vec::new();
        let mut writer = ParquetFileWriter::new(&mut out, &schema).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        out.into()
    }

    #[test]
    fn what_is_written_reads_back_with_distinct_names() {
        let field = || Field::new("id", DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field(), field(), Field::new("t", DataType::Utf8, true)]));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(Int64Array::from(vec![3, 4])),
            Arc::new(StringArray::from(vec![Some("여울"), None])),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.clone()).unwrap();
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(written(schema, &[batch])).unwrap().build().unwrap();
        let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let names: Vec<String> = read[0].schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["id", "id_1", "t"]);
        assert_eq!(read[0].columns(), columns);
    }

    #[test]
    fn row_groups_are_bounded_and_lose_nothing() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batches: Vec<RecordBatch> = (0..40)
            .map(|index| {
                let values =
                    Int64Array::from_iter_values((0..8192).map(|at| (index * 8192 + at) * 7919 % 1_000_003));
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).unwrap()
            })
            .collect();
        let reader = ParquetRecordBatchReaderBuilder::try_new(written(schema, &batches)).unwrap();
        let groups = reader.metadata().row_groups();
        assert!(
            groups.len() == 3 && groups.iter().all(|group| group.num_rows() <= ROW_GROUP_ROWS_MAX as i64)
        );
        let read = reader
            .build()
            .unwrap()
            .map(Result::unwrap)
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(read.eq((0..40 * 8192).map(|at| at * 7919 % 1_000_003)));
    }

    #[test]
    fn an_empty_answer_is_a_file_with_its_columns() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let reader = ParquetRecordBatchReaderBuilder::try_new(written(Arc::clone(&schema), &[])).unwrap();
        assert_eq!(reader.schema().fields(), schema.fields());
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}
