use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef};

use crate::error::{Result, computing};
use crate::plan::Stage;

/// Filters and projections, by DataFusion's expressions.
#[derive(Debug)]
pub struct Calc {
    stages: Vec<Stage>,
}

impl Calc {
    /// These stages, one after another.
    pub fn new(stages: impl IntoIterator<Item = Stage>) -> Self {
        Self { stages: stages.into_iter().collect() }
    }

    /// What comes of these rows.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be computed, such as a sum that overflows.
    pub fn push(&self, rows: RecordBatch) -> Result<RecordBatch> {
        self.stages.iter().try_fold(rows, |rows, stage| match stage {
            Stage::Filter(predicate) => {
                let kept = predicate.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows()));
                let kept = kept.map_err(computing)?;
                if *kept.data_type() == DataType::Null {
                    // Null is not true.
                    return Ok(rows.slice(0, 0));
                }
                filter_record_batch(&rows, kept.as_boolean()).map_err(computing)
            }
            Stage::Project { expressions, schema } => {
                let columns: Result<Vec<_>, _> = expressions
                    .iter()
                    .map(|expression| expression.evaluate(&rows)?.into_array(rows.num_rows()))
                    .collect();
                with_columns(schema, columns.map_err(computing)?, rows.num_rows())
            }
        })
    }
}

fn with_columns(
    schema: &SchemaRef,
    columns: Vec<arrow::array::ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(computing)
}
