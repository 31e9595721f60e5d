//! The operator `||`, which asks for the memory of large values as functions do.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinary, Column};
use datafusion::physical_plan::PhysicalExpr;
use yeoul_memory::ProcessMemory;

use super::measured_function::joining;

/// Puts a function that asks first in the place of each `||` once other rules are done with it. It has the operator's name, so that
/// columns keep theirs.
#[derive(Debug)]
pub(crate) struct MeasuredConcats {
    operator: Arc<ScalarUDF>,
}

impl MeasuredConcats {
    pub(crate) fn new(process: &Arc<ProcessMemory>) -> Self {
        let stock = ScalarUDF::from(Concat { signature: Signature::any(2, Volatility::Immutable) });
        Self { operator: Arc::new(joining(stock, process)) }
    }

    fn measured(&self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                Transformed::yes(self.operator.call(vec![*left, *right]))
            }
            other => Transformed::no(other),
        }
    }
}

impl OptimizerRule for MeasuredConcats {
    fn name(&self) -> &str {
        "MeasuredConcats"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(self.measured(expr))))
    }
}

/// The operator as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concat {
    signature: Signature,
}

impl ScalarUDFImpl for Concat {
    fn name(&self) -> &str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let texts: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(texts.join(" || "))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        BinaryTypeCoercer::new(&types[0], &Operator::StringConcat, &types[1]).get_result_type()
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let side = |place: usize| Arc::new(Column::new("", place)) as Arc<dyn PhysicalExpr>;
        let joined = PhysicalBinary::new(side(0), Operator::StringConcat, side(1)).evaluate(&batch)?;
        let ColumnarValue::Array(array) = joined else { return Ok(joined) };
        if is_constant {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}
