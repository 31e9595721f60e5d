//! Variables of a session: `SET VARIABLE a = 1` gives `getvariable('a')` its value, as in DuckDB.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, EmptyRelation, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDFImpl, Signature, Volatility,
};
use yeoul_base::ErrorKind;

use crate::settings::System;
use crate::types::spark_values::Kind;
use crate::{Error, Result as OwnResult};

/// Variables that one session may have.
const VARIABLES_MAX: usize = 1_000;

/// Bytes of the value of one.
const VALUE_BYTES_MAX: usize = 1 << 20;

static SIGNATURE: LazyLock<Signature> = LazyLock::new(|| Signature::user_defined(Volatility::Stable));

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    let text = "Value of a variable that SET VARIABLE has set; null if none has.";
    Documentation::builder(DOC_SECTION_OTHER, text, "getvariable('name')").build()
});

/// The variables of a session, by their names in small letters. They are an extension of its configuration.
#[derive(Debug, Default)]
pub(crate) struct Variables(Mutex<BTreeMap<String, ScalarValue>>);

impl Variables {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ScalarValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of one; null if there is none.
    fn get(&self, name: Option<&str>) -> ScalarValue {
        let value = name.and_then(|name| self.lock().get(&name.to_lowercase()).cloned());
        value.unwrap_or(ScalarValue::Null)
    }

    /// Their names.
    pub fn names(&self) -> BTreeSet<String> {
        self.lock().keys().cloned().collect()
    }

    fn set(&self, name: String, value: ScalarValue) -> OwnResult<()> {
        let mut variables = self.lock();
        // A null with a type is a value.
        if value == ScalarValue::Null {
            variables.remove(&name);
            return Ok(());
        }
        if value.size() > VALUE_BYTES_MAX {
            let text = format!("the value of the variable {name} has more than {VALUE_BYTES_MAX} bytes");
            return Err(
                Error::new(ErrorKind::ResourceExhausted, text).with_hint("CREATE TABLE … AS keeps it")
            );
        }
        if variables.len() >= VARIABLES_MAX && !variables.contains_key(&name) {
            let text = format!("a session has at most {VARIABLES_MAX} variables");
            return Err(Error::new(ErrorKind::ResourceExhausted, text).with_hint("RESET VARIABLE name"));
        }
        variables.insert(name, value);
        Ok(())
    }
}

/// Gives a variable of a session the only value of a plan.
///
/// # Errors
/// `Invalid` for a plan that reads tables, or has a subquery; `ResourceExhausted` for too many variables or too large a value; that of the
/// value.
pub(crate) fn assign(name: String, plan: &LogicalPlan, state: &SessionState) -> OwnResult<()> {
    let variables = state.config().get_extension::<Variables>().ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "not supported: variables of a session, where there is no session")
    })?;
    let refused = || {
        Error::new(ErrorKind::Invalid, "not supported: SET VARIABLE to the answer of a query")
            .with_hint("a constant expression, or CREATE TABLE … AS with the query")
    };
    if has_subquery(plan) {
        return Err(refused());
    }
    let optimized = state.optimize(plan)?;
    let value = match &optimized {
        LogicalPlan::Projection(projection) => {
            match (projection.expr.as_slice(), projection.input.as_ref()) {
                ([expr], LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })) => {
                    let options = RecordBatchOptions::new().with_row_count(Some(1));
                    let row =
                        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
                    let row = row.map_err(datafusion::common::DataFusionError::from)?;
                    let value = state.create_physical_expr(expr.clone(), schema)?.evaluate(&row)?;
                    Some(ScalarValue::try_from_array(value.into_array(1)?.as_ref(), 0)?)
                }
                _ => None,
            }
        }
        _ => None,
    };
    let value = value.ok_or_else(refused)?;
    if System::of(state.config_options()) == System::Spark {
        let known = variables.get(Some(&name));
        return variables.set(name.clone(), assignable(&name, plan, &known, value)?);
    }
    variables.set(name, value)
}

/// The value that a variable of Spark's gets: an assignment keeps the type of its declaration.
fn assignable(
    name: &str,
    plan: &LogicalPlan,
    known: &ScalarValue,
    value: ScalarValue,
) -> OwnResult<ScalarValue> {
    let expressions = plan.expressions();
    let declares = |kind: Kind| {
        expressions.first().is_some_and(
            |expr| matches!(expr.clone().unalias(), Expr::ScalarFunction(call) if call.name() == kind.name()),
        )
    };
    let is_known = *known != ScalarValue::Null;
    if declares(Kind::Replaced) || declares(Kind::Declared) && !is_known {
        return Ok(value);
    }
    if declares(Kind::Declared) {
        let text = format!("there is a variable {name} already");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("write DECLARE OR REPLACE, or SET VAR"));
    }
    if !declares(Kind::Assigned) {
        return Ok(value);
    }
    if !is_known {
        let text = format!("there is no variable {name}");
        return Err(Error::new(ErrorKind::NotFound, text).with_hint(format!("write DECLARE {name} = …")));
    }
    Ok(value.cast_to(&known.data_type())?)
}

/// True if an expression of a plan's outermost node has a subquery.
fn has_subquery(plan: &LogicalPlan) -> bool {
    let is_one =
        |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)));
    plan.expressions().iter().any(|expr| expr.exists(is_one).unwrap_or(false))
}

/// The function `getvariable`, which is the value when a statement is planned.
#[derive(Debug)]
pub(crate) struct GetVariable {
    variables: Arc<Variables>,
}

impl GetVariable {
    /// That of a session.
    pub fn of(variables: Arc<Variables>) -> Self {
        Self { variables }
    }
}

impl PartialEq for GetVariable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for GetVariable {}

impl Hash for GetVariable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.variables).hash(state);
    }
}

impl ScalarUDFImpl for GetVariable {
    fn name(&self) -> &str {
        "getvariable"
    }

    fn signature(&self) -> &Signature {
        &SIGNATURE
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            // As they are: a cast would be no constant when the type is asked for.
            [name] if name.is_string() || name.is_null() => Ok(kinds.to_vec()),
            _ => plan_err!("getvariable takes the name of a variable: getvariable('name')"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let [Some(name)] = arguments.scalar_arguments else {
            return plan_err!("getvariable takes the name of a variable between quotes: getvariable('name')");
        };
        let value = self.variables.get(name.try_as_str().flatten());
        Ok(Arc::new(Field::new(self.name(), value.data_type(), true)))
    }

    /// Makes it a constant: another process has no variables.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match arguments.as_slice() {
            [Expr::Literal(name, _)] => {
                let value = self.variables.get(name.try_as_str().flatten());
                ExprSimplifyResult::Simplified(Expr::Literal(value, None))
            }
            _ => ExprSimplifyResult::Original(arguments),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Scalar(name)] => {
                Ok(ColumnarValue::Scalar(self.variables.get(name.try_as_str().flatten())))
            }
            _ => plan_err!("getvariable takes the name of a variable between quotes: getvariable('name')"),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}
