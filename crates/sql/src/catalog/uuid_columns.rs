//! Columns of Parquet's type UUID. They are texts in a table, as `uuid()` makes them: sixteen bytes could not be compared with one.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericStringBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::parquet::basic::LogicalType;
use datafusion::parquet::file::metadata::ParquetMetaData;
use uuid::Uuid;
use yeoul_base::ErrorKind;

use crate::Error;

/// The bytes of a UUID.
const BYTES: DataType = DataType::FixedSizeBinary(16);

/// The key of what is noted about a column of a table that files hold as UUIDs.
const MARK: &str = "yeoul.uuid";

/// The columns of a file, its UUIDs as texts: as views, or plain.
pub(super) fn as_texts(schema: Schema, footer: &ParquetMetaData, views: bool) -> Schema {
    let columns = footer.file_metadata().schema().get_fields();
    let is_uuid = |name: &str| {
        let kind = columns.iter().find(|column| column.name() == name);
        kind.is_some_and(|kind| kind.get_basic_info().logical_type_ref() == Some(&LogicalType::Uuid))
    };
    let text = if views { DataType::Utf8View } else { DataType::Utf8 };
    let field = |field: &FieldRef| {
        if *field.data_type() != BYTES || !is_uuid(field.name()) {
            return Arc::clone(field);
        }
        let mut notes = field.metadata().clone();
        notes.insert(MARK.to_owned(), text.to_string());
        Arc::new(Field::new(field.name(), text.clone(), field.is_nullable()).with_metadata(notes))
    };
    let fields: Fields = schema.fields().iter().map(field).collect();
    Schema::new_with_metadata(fields, schema.metadata)
}

/// True of a column that files hold as UUIDs.
pub(super) fn is_uuid(field: &Field) -> bool {
    field.metadata().contains_key(MARK)
}

/// The columns as files hold them.
pub(super) fn as_stored(columns: &Schema) -> Schema {
    let field = |field: &FieldRef| match is_uuid(field) {
        true => Arc::new(field.as_ref().clone().with_data_type(BYTES)),
        false => Arc::clone(field),
    };
    let fields: Fields = columns.fields().iter().map(field).collect();
    Schema::new_with_metadata(fields, columns.metadata().clone())
}

/// The text of a column that is read as it is stored.
pub(super) fn text_of(column: Expr) -> Expr {
    ScalarUDF::from(UuidText).call(vec![column])
}

/// Refuses to write into files beside others that hold UUIDs: texts would come, and both are no table.
///
/// # Errors
/// `Invalid`, with the column.
pub(super) fn check_insert(columns: &Schema) -> Result<()> {
    let Some(uuid) = columns.fields().iter().find(|field| is_uuid(field)) else { return Ok(()) };
    let what = format!("an INSERT would put texts beside UUIDs, which column '{}' has", uuid.name());
    let hint = "write all rows into new files, where it is a text: COPY (SELECT …) TO …";
    Err(Error::new(ErrorKind::Invalid, what).with_hint(hint).into())
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct UuidText;

impl ScalarUDFImpl for UuidText {
    fn name(&self) -> &str {
        "uuid_text"
    }

    fn signature(&self) -> &Signature {
        static OF_ONE: LazyLock<Signature> = LazyLock::new(|| Signature::any(1, Volatility::Immutable));
        &OF_ONE
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [bytes] = take_function_args(self.name(), arguments.arg_fields)?;
        let is_view = bytes.metadata().get(MARK).is_some_and(|kind| *kind == DataType::Utf8View.to_string());
        let kind = if is_view { DataType::Utf8View } else { DataType::Utf8 };
        Ok(Arc::new(bytes.as_ref().clone().with_data_type(kind)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Beside the scan, so that rows come in the order of the file.
    fn placement(&self, _: &[ExpressionPlacement]) -> ExpressionPlacement {
        ExpressionPlacement::MoveTowardsLeafNodes
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [bytes] = take_function_args(self.name(), arguments.args)?;
        let bytes = bytes.into_array(arguments.number_rows)?;
        let uuids = bytes.as_fixed_size_binary().iter().map(|bytes| bytes.map(Uuid::from_slice).transpose());
        let uuids = uuids.collect::<std::result::Result<Vec<_>, _>>();
        let uuids = uuids.map_err(|error| DataFusionError::External(error.into()))?;
        let texts = uuids.iter().map(|uuid| uuid.map(|uuid| uuid.to_string()));
        let texts: ArrayRef = match arguments.return_field.data_type() {
            DataType::Utf8View => {
                let mut built = StringViewBuilder::with_capacity(bytes.len());
                texts.for_each(|text| built.append_option(text));
                Arc::new(built.finish())
            }
            _ => {
                let mut built = GenericStringBuilder::<i32>::with_capacity(bytes.len(), bytes.len() * 36);
                texts.for_each(|text| built.append_option(text));
                Arc::new(built.finish())
            }
        };
        Ok(ColumnarValue::Array(texts))
    }
}
