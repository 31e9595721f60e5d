//! Functions of lists whose values meet the elements of a list: both have one type.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, as_boolean_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::{list_ndims, take_function_args};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::numbers::float_decimals::beside;

/// The function that `x = ANY(list)` becomes.
pub(crate) const ANY_EQUALS: &str = "any_equals";

/// DataFusion's functions of a list and values that may be its elements, each with the places of these values.
const OF_ELEMENTS: [(&str, &[usize]); 12] = [
    ("array_append", &[1]),
    ("array_has", &[1]),
    ("array_position", &[1]),
    ("array_positions", &[1]),
    ("array_prepend", &[0]),
    ("array_remove", &[1]),
    ("array_remove_all", &[1]),
    ("array_remove_n", &[1]),
    ("array_replace", &[1, 2]),
    ("array_replace_all", &[1, 2]),
    ("array_replace_n", &[1, 2]),
    ("array_resize", &[2]),
];

/// Puts these functions in place of DataFusion's.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let any = ListFunction::new(state.udf("array_has")?, &[1], Meaning::AnyEquals);
    state.register_udf(Arc::new(any.into()))?;
    for (name, elements) in OF_ELEMENTS {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ListFunction::new(inner, elements, Meaning::AsNamed).into()))?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meaning {
    AsNamed,
    /// `array_has` with three values: null if no element is equal, and one of them or the value is null.
    AnyEquals,
}

/// A function of DataFusion's that has values of other types than its own check lets pass: DECIMAL(2, 1) in a list of DECIMAL(3, 2), or
/// of DOUBLE.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListFunction {
    inner: Arc<ScalarUDF>,
    elements: &'static [usize],
    meaning: Meaning,
    signature: Signature,
}

impl ListFunction {
    fn new(inner: Arc<ScalarUDF>, elements: &'static [usize], meaning: Meaning) -> Self {
        let signature = Signature::user_defined(inner.signature().volatility);
        Self { inner, elements, meaning, signature }
    }

    /// The types of arguments once the numbers among elements have one.
    fn alike(&self, kinds: &[DataType]) -> Vec<DataType> {
        let mut kinds = kinds.to_vec();
        let Some(list) = kinds.iter().position(|kind| list_ndims(kind) > 0) else { return kinds };
        let Some(element) = element_of(&kinds[list]).cloned() else { return kinds };
        let values = self.elements.iter().filter_map(|place| kinds.get(*place)).cloned();
        let common = values.filter(DataType::is_numeric).try_fold(element.clone(), |common, kind| {
            if !common.is_numeric() {
                return None;
            }
            match (beside(&common, &kind), beside(&kind, &common)) {
                (Some(float), _) | (None, Some(float)) => Some(float),
                (None, None) => type_union_coercion(&common, &kind),
            }
        });
        let Some(common) = common.filter(DataType::is_numeric) else { return kinds };
        for place in self.elements {
            if let Some(kind) = kinds.get_mut(*place).filter(|kind| kind.is_numeric()) {
                *kind = common.clone();
            }
        }
        kinds[list] = with_elements(&kinds[list], common);
        kinds
    }
}

impl ScalarUDFImpl for ListFunction {
    fn name(&self) -> &str {
        match self.meaning {
            Meaning::AsNamed => self.inner.name(),
            Meaning::AnyEquals => ANY_EQUALS,
        }
    }

    fn aliases(&self) -> &[String] {
        match self.meaning {
            Meaning::AsNamed => self.inner.aliases(),
            Meaning::AnyEquals => &[],
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> =
            self.alike(kinds).into_iter().map(|kind| Arc::new(Field::new("", kind, true))).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.inner.return_type(kinds)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        match self.meaning {
            Meaning::AsNamed => self.inner.return_field_from_args(arguments),
            Meaning::AnyEquals => Ok(Arc::new(Field::new(self.name(), DataType::Boolean, true))),
        }
    }

    /// DataFusion's `array_has` becomes an `IN` of a list that is written out, which is null where the function is false.
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.inner.name() {
            "array_has" => Ok(ExprSimplifyResult::Original(arguments)),
            _ => self.inner.inner().simplify(arguments, context),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.meaning == Meaning::AsNamed {
            return self.inner.invoke_with_args(arguments);
        }
        let rows = arguments.number_rows;
        let [list, value] = take_function_args(self.name(), &arguments.args)?;
        let (lists, values) = (list.to_array(rows)?, value.to_array(rows)?);
        let found = self.inner.invoke_with_args(arguments)?.into_array(rows)?;
        let found = as_boolean_array(&found);
        let answer = |row: usize| {
            let elements = elements_at(&lists, row)?;
            match found.is_valid(row) && found.value(row) {
                true => Some(true),
                false if elements.is_empty() => Some(false),
                false => (values.is_valid(row) && elements.logical_null_count() == 0).then_some(false),
            }
        };
        let answers: BooleanArray = (0..rows).map(answer).collect();
        Ok(ColumnarValue::Array(Arc::new(answers)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        match self.meaning {
            Meaning::AsNamed => self.inner.documentation(),
            Meaning::AnyEquals => None,
        }
    }
}

/// The elements of a list in a row; `None` if there is no list.
fn elements_at(lists: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if lists.is_null(row) {
        return None;
    }
    match lists.data_type() {
        DataType::List(_) => Some(lists.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(lists.as_fixed_size_list().value(row)),
        _ => None,
    }
}

/// Plans `list || value` and `value || list` with these functions.
#[derive(Debug)]
pub(crate) struct Appends {
    append: Arc<ScalarUDF>,
    prepend: Arc<ScalarUDF>,
}

impl Appends {
    /// The functions of a state in which they are.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn of(state: &SessionState) -> Result<Self> {
        Ok(Self { append: state.udf("array_append")?, prepend: state.udf("array_prepend")? })
    }
}

impl ExprPlanner for Appends {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if raw.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(raw));
        }
        let depths = [&raw.left, &raw.right].map(|side| side.get_type(schema).map(|kind| list_ndims(&kind)));
        let [Ok(left), Ok(right)] = depths else { return Ok(PlannerResult::Original(raw)) };
        Ok(match left.cmp(&right) {
            Ordering::Greater => PlannerResult::Planned(self.append.call(vec![raw.left, raw.right])),
            Ordering::Less => PlannerResult::Planned(self.prepend.call(vec![raw.left, raw.right])),
            Ordering::Equal => PlannerResult::Original(raw),
        })
    }
}

fn element_of(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

fn with_elements(list: &DataType, element: DataType) -> DataType {
    let of = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(element));
    match list {
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(of(field), *len),
        other => other.clone(),
    }
}
