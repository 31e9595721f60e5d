//! Children of a null: what lies in the fields of a null struct, or between the ends of a null list. Arrow lets it be anything, and
//! functions of fields and of maps look at it alone.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt64Array, make_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Fields};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::Identity;
use crate::rewrite::rewrite_plan;

/// Makes children null where `CASE` and `nullif` make their parent null: DataFusion marks the parent and leaves what lies under it.
#[derive(Debug)]
pub(crate) struct NullParents;

impl AnalyzerRule for NullParents {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_plan(plan, &|expr, columns| {
            let marks_parents = match &expr {
                Expr::Case(_) => true,
                Expr::ScalarFunction(call) => call.func.name() == "nullif",
                _ => false,
            };
            if marks_parents && has_children(&expr.get_type(columns)?) {
                return Ok(Transformed::yes(Identity::NullThroughout.call(expr)));
            }
            Ok(Transformed::no(expr))
        })
    }

    fn name(&self) -> &str {
        "null_parents"
    }
}

/// True if a value of this type has others within it.
pub fn has_children(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => has_children(values),
        kind => kind.is_nested(),
    }
}

/// The same values, with null children under each null.
pub(crate) fn null_throughout(array: &ArrayRef) -> Result<ArrayRef> {
    let parents = array.nulls().filter(|nulls| nulls.null_count() > 0);
    Ok(match array.data_type() {
        DataType::Struct(fields) if fields.is_empty() => Arc::clone(array),
        DataType::Struct(fields) => {
            let children = array.as_struct().columns().iter();
            let children = children.map(|child| null_throughout(&under(child, parents)?));
            let children = children.collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(Fields::clone(fields), children, array.nulls().cloned())?)
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
        | DataType::Map(..) => {
            let Some(parents) = parents else { return with_values(array) };
            let places = UInt64Array::new((0..array.len() as u64).collect(), Some(parents.clone()));
            with_values(&take(array, &places, None)?)?
        }
        DataType::Dictionary(_, values) if has_children(values) => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(null_throughout(dictionary.values())?)
        }
        _ => Arc::clone(array),
    })
}

/// A list or map with null children under each null among its elements.
fn with_values(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data();
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        children.push(null_throughout(&make_array(child.clone()))?.to_data());
    }
    Ok(make_array(data.into_builder().child_data(children).build()?))
}

/// A child that is null where its parent is, too.
fn under(child: &ArrayRef, parents: Option<&NullBuffer>) -> Result<ArrayRef> {
    // These have no marks of their own.
    let has_marks =
        !matches!(child.data_type(), DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
    let Some(parents) = parents.filter(|_| has_marks) else { return Ok(Arc::clone(child)) };
    let nulls = NullBuffer::union(Some(parents), child.nulls());
    Ok(make_array(child.to_data().into_builder().nulls(nulls).build()?))
}
