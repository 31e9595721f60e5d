use std::sync::{Arc, LazyLock};

use crate::rewrite::TreeWalk;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use serde::{Deserialize, Serialize};

/// Lets the keys of `ROLLUP`, `CUBE` and `GROUPING SETS` have no order.
///
/// Each of them is null in some of the rows that come of one. DataFusion forgets that: a key that is constant before it (`WHERE region
/// = 'EU' GROUP BY CUBE (region, city)`) or sorted is so behind it, too, it believes, gives a group out whenever the next key is
/// another, and leaves out sorts (datafusion#24421, mended after 55.2).
#[derive(Debug)]
pub(super) struct GroupingSets;

impl PhysicalOptimizerRule for GroupingSets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = Arc::new(options.clone());
        let plan = plan.rewrite_up(&mut |node| {
            let aggregate = node.downcast_ref::<AggregateExec>().filter(|aggregate| {
                aggregate.group_expr().has_grouping_set()
                    && aggregate.mode().input_mode() == AggregateInputMode::Raw
            });
            match aggregate {
                Some(aggregate) => Ok(Transformed::yes(Arc::new(without_order(aggregate, &options)?) as _)),
                None => Ok(Transformed::no(node)),
            }
        });
        plan.data()
    }

    fn name(&self) -> &str {
        "GroupingSets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn without_order(aggregate: &AggregateExec, options: &Arc<ConfigOptions>) -> Result<AggregateExec> {
    let schema = aggregate.input().schema();
    let groups = aggregate.group_expr();
    let keys = groups.expr().iter().enumerate().map(|(number, (key, name))| {
        Ok((Arc::new(unordered(number, key, &schema, options)?) as Arc<dyn PhysicalExpr>, name.clone()))
    });
    let groups = PhysicalGroupBy::new(
        keys.collect::<Result<_>>()?,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    AggregateExec::try_new(
        *aggregate.mode(),
        groups,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )
}

fn unordered(
    number: usize,
    key: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> Result<ScalarFunctionExpr> {
    let call = |function: Unordered, arguments| {
        ScalarFunctionExpr::try_new(
            Arc::new(ScalarUDF::from(function)),
            arguments,
            schema,
            Arc::clone(options),
        )
    };
    let anything = call(Unordered::Anything, Vec::new())?;
    call(Unordered::Key(number), vec![Arc::clone(key), Arc::new(anything)])
}

/// What hides an order: it is of arguments one of which may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Unordered {
    /// Its first argument, the key of that number: two keys that a join made equal are not equal any more.
    Key(usize),
    /// Null, of which only this knows.
    Anything,
}

impl ScalarUDFImpl for Unordered {
    fn name(&self) -> &str {
        match self {
            Self::Key(_) => "unordered",
            Self::Anything => "anything",
        }
    }

    fn signature(&self) -> &Signature {
        static OF_TWO: LazyLock<Signature> = LazyLock::new(|| Signature::any(2, Volatility::Immutable));
        static OF_NONE: LazyLock<Signature> = LazyLock::new(|| Signature::nullary(Volatility::Volatile));
        match self {
            Self::Key(_) => &OF_TWO,
            Self::Anything => &OF_NONE,
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let key = arguments.args.into_iter().next();
        Ok(key.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
