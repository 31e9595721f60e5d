//! CSV columns whose values begin with zeros, such as `00005`: ids and postal codes, which are texts. As numbers they would lose the
//! zeros.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::datasource::file_format::csv::CsvFormat;
use object_store::{ObjectMeta, ObjectStore};

use super::csv_columns;

/// Everything but numbers with a zero before their first other digit.
const OTHERS: &str = r"(?s)^(?:[+-]?(?:|[^0+-].*|0|0[^0-9].*)|[+-]{2}.*)$";

/// Whether a number is written with a zero before its first other digit.
pub(super) fn has_leading_zero(number: &str) -> bool {
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number).as_bytes();
    matches!(digits, [b'0', second, ..] if second.is_ascii_digit())
}

/// The columns that were inferred for some files, with those of such numbers as texts.
///
/// # Errors
/// The store's own, and the format's for what it finds in a file.
pub(super) async fn as_text(
    format: &CsvFormat,
    told: SchemaRef,
    skipped_lines: usize,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    if !told.fields().iter().any(|field| is_number(field.data_type())) {
        return Ok(told);
    }
    // With everything else as null, a column is inferred to be of numbers if it has one of these.
    let others = match &format.options().null_regex {
        Some(null) => format!("(?:{OTHERS})|(?:{null})"),
        None => OTHERS.to_owned(),
    };
    let format = CsvFormat::default().with_options(format.options().clone()).with_null_regex(Some(others));
    let zeros = csv_columns::infer(&format, skipped_lines, state, store, files).await?;
    let field = |(told, zeros): (&FieldRef, &FieldRef)| {
        if is_number(told.data_type()) && is_number(zeros.data_type()) {
            return Arc::new(told.as_ref().clone().with_data_type(DataType::Utf8));
        }
        Arc::clone(told)
    };
    let fields: Fields = told.fields().iter().zip(zeros.fields()).map(field).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, told.metadata().clone())))
}

fn is_number(of: &DataType) -> bool {
    matches!(of, DataType::Int64 | DataType::Float64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_before_another_digit_leads() {
        for (number, leads) in [
            ("00005", true),
            ("-05", true),
            ("+007.5", true),
            ("00", true),
            ("0", false),
            ("-0", false),
            ("0.5", false),
            ("0e3", false),
            ("10", false),
            ("-", false),
            ("", false),
            ("--05", false),
            ("a05", false),
        ] {
            assert_eq!(has_leading_zero(number), leads, "{number}");
        }
    }
}
