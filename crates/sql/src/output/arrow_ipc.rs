use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::{FileWriter, StreamWriter};

use super::answer::{BatchWriter, WriteFailure};

/// One Arrow IPC stream, as `pyarrow.ipc.open_stream` and DuckDB's `arrow` extension read it, or one Arrow file, as `COPY` writes it and
/// `pyarrow.ipc.open_file` reads it.
pub(super) enum ArrowWriter<W: Write> {
    Stream(StreamWriter<W>),
    File(FileWriter<W>),
}

impl<W: Write> ArrowWriter<W> {
    pub(super) fn new(out: W, schema: &SchemaRef) -> Result<Self, WriteFailure> {
        Ok(Self::Stream(StreamWriter::try_new(out, schema)?))
    }

    pub(super) fn new_file(out: W, schema: &SchemaRef) -> Result<Self, WriteFailure> {
        Ok(Self::File(FileWriter::try_new(out, schema)?))
    }
}

impl<W: Write> BatchWriter for ArrowWriter<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteFailure> {
        match self {
            Self::Stream(writer) => {
                writer.write(batch)?;
                Ok(writer.get_mut().flush()?)
            }
            Self::File(writer) => Ok(writer.write(batch)?),
        }
    }

    fn finish(&mut self) -> Result<(), WriteFailure> {
        match self {
            Self::Stream(writer) => {
                writer.finish()?;
                Ok(writer.get_mut().flush()?)
            }
            Self::File(writer) => {
                writer.finish()?;
                Ok(writer.get_mut().flush()?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;
    use arrow::ipc::reader::StreamReader;
    use std::sync::Arc;

    #[test]
    fn what_is_written_reads_back() {
        let texts = |texts: Vec<Option<&str>>| {
            RecordBatch::try_from_iter_with_nullable([("t", Arc::new(StringArray::from(texts)) as _, true)])
                .unwrap()
        };
        let batches = [texts(vec![Some("a"), None]), texts(vec![]), texts(vec![Some("여울")])];
        let mut out = Vec::new();
        let mut writer = ArrowWriter::new(&mut out, &batches[0].schema()).unwrap();
        for batch in &batches {
            writer.write(batch).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        let read: Vec<RecordBatch> =
            StreamReader::try_new(out.as_slice(), None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, batches);
    }
}
