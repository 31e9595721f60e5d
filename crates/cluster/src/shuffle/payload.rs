//! Rows on the wire of a shuffle: one stream of Arrow's for each payload, with its schema.

use std::io::Cursor;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;

use super::corrupt;

/// The payload of some rows of one schema.
///
/// # Errors
/// Arrow's own.
pub(super) fn encoded(rows: &RecordBatch) -> Result<Vec<u8>> {
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options)?;
    writer.write(rows)?;
    Ok(writer.into_inner()?)
}

/// The rows of a payload, as those of `schema`.
///
/// # Errors
/// `Corrupt` for what is no payload of such rows.
pub(super) fn decoded(payload: &[u8], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let unreadable =
        |why: &dyn std::fmt::Display| corrupt(format!("rows of a shuffle cannot be read: {why}"));
    let batches = StreamReader::try_new(Cursor::new(payload), None).map_err(|error| unreadable(&error))?;
    let rows = batches.map(|batch| {
        let batch = batch.map_err(|error| unreadable(&error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options);
        rows.map_err(|error| unreadable(&error))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn schema(kind: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", kind, true), Field::new("b", DataType::Utf8, true)]))
    }

    #[test]
    fn rows_come_back_and_damaged_ones_are_an_error() {
        let numbers = Arc::new(Int64Array::from_iter((0..1000).map(|n| (n % 3 != 0).then_some(n))));
        let texts = Arc::new(StringArray::from_iter_values((0..1000).map(|n| format!("text {n}"))));
        let rows = RecordBatch::try_new(schema(DataType::Int64), vec![numbers, texts]).unwrap();
        let payload = encoded(&rows).unwrap();
        assert_eq!(decoded(&payload, &rows.schema()).unwrap(), std::slice::from_ref(&rows));
        assert!(decoded(&payload, &schema(DataType::Int32)).is_err(), "rows of another schema");
        for cut in [0, 1, payload.len() / 2] {
            let cut = decoded(&payload[..cut], &rows.schema());
            assert!(cut.is_err() || cut.unwrap().is_empty());
        }
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let none = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(5));
        let rows = RecordBatch::try_new_with_options(none.clone(), Vec::new(), &options).unwrap();
        let back = decoded(&encoded(&rows).unwrap(), &none).unwrap();
        assert_eq!(back.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    }
}
