//! Aggregates that make a sketch of the values, or of the sketches, of rows.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_APPROXIMATE;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, ColumnarValue, Documentation, Signature};
use datasketches::kll::KllFloat;
use yeoul_base::ErrorKind;

use super::functions::{out_of_bounds, within};
use super::kll::Of;
use super::{Collected, hll, kll, theta};
use crate::Error;
use crate::signatures::USER_DEFINED;

/// An aggregate whose answer is a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SketchAggregate {
    Theta,
    ThetaUnion,
    ThetaIntersection,
    Hll,
    HllUnion,
    Kll(Of),
    KllMerge(Of),
}

impl SketchAggregate {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of_counts = [Self::Theta, Self::ThetaUnion, Self::ThetaIntersection, Self::Hll, Self::HllUnion];
        of_counts.into_iter().chain(Of::ALL.map(Self::Kll)).chain(Of::ALL.map(Self::KllMerge))
    }

    const fn described(self) -> &'static str {
        match self {
            Self::Theta | Self::Hll => "Sketch of the values, which counts the different ones",
            Self::ThetaUnion | Self::HllUnion => "Sketch of the values of either of the sketches",
            Self::ThetaIntersection => "Sketch of the values of all of the sketches",
            Self::Kll(_) => "Sketch of the values, which tells their quantiles and ranks",
            Self::KllMerge(_) => "Sketch of the values of all of the sketches",
        }
    }

    /// The type in which a value is added; `None` for one that it does not take.
    fn taken(self, kind: &DataType) -> Option<DataType> {
        let is_list = |kind: &DataType| match kind {
            DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                match field.data_type() {
                    DataType::Int32 | DataType::Null => Some(DataType::Int32),
                    DataType::Int64 => Some(DataType::Int64),
                    _ => None,
                }
            }
            _ => None,
        };
        match self {
            Self::Kll(of) => (of.takes(kind) || kind.is_null()).then(|| of.kind()),
            Self::Theta | Self::Hll => match kind {
                kind if kind.is_integer() || kind.is_null() => Some(DataType::Int64),
                kind if kind.is_string() => Some(DataType::Utf8),
                kind if kind.is_binary() => Some(DataType::Binary),
                DataType::Float32 | DataType::Float64 if self == Self::Theta => Some(DataType::Float64),
                kind if self == Self::Theta => is_list(kind)
                    .map(|element| DataType::List(Arc::new(Field::new_list_field(element, true)))),
                _ => None,
            },
            _ => (kind.is_binary() || kind.is_null()).then_some(DataType::Binary),
        }
    }

    fn collected(self, parameter: Option<&ScalarValue>) -> Result<Box<dyn Collected>> {
        let number = |default: i64| match parameter {
            None => Ok(default),
            Some(ScalarValue::Int64(Some(value))) => Ok(*value),
            Some(other) => {
                let text = format!("{} has a parameter of {other}", self.name());
                Err(Error::new(ErrorKind::Invalid, text).with_hint("it is a whole number"))
            }
        };
        Ok(match self {
            Self::Theta => {
                let lg = within(self.name(), number(theta::LG_NOMINAL)?, theta::LG_NOMINAL_RANGE)?;
                Box::new(theta::Values::new(lg)?)
            }
            Self::ThetaUnion => {
                let lg = within(self.name(), number(theta::LG_NOMINAL)?, theta::LG_NOMINAL_RANGE)?;
                Box::new(theta::Union::new(lg)?)
            }
            Self::ThetaIntersection => Box::new(theta::Intersection::new("theta_intersection_agg")),
            Self::Hll => {
                let lg = within(self.name(), number(hll::LG_REGISTERS)?, hll::LG_REGISTERS_RANGE)?;
                Box::new(hll::Values::new(lg)?)
            }
            Self::HllUnion => {
                Box::new(hll::Union::new(matches!(parameter, Some(ScalarValue::Boolean(Some(true))))))
            }
            Self::Kll(of) | Self::KllMerge(of) => {
                let k = number(kll::K)?;
                let fits = (kll::K_RANGE[0]..=kll::K_RANGE[1]).contains(&k);
                let k = fits.then(|| u16::try_from(k).ok()).flatten();
                let k =
                    k.ok_or_else(|| out_of_bounds(self.name(), number(kll::K).unwrap_or(0), kll::K_RANGE))?;
                let takes_sketches = matches!(self, Self::KllMerge(_));
                // Sketches that are merged have the k of the first, if no other is named.
                let k = (parameter.is_some() || !takes_sketches).then_some(k);
                let name = self.name().to_owned();
                match of {
                    Of::Bigint => Box::new(kll::Values::<i64>::new(name, k, takes_sketches)),
                    Of::Float => Box::new(kll::Values::<KllFloat<f32>>::new(name, k, takes_sketches)),
                    Of::Double => Box::new(kll::Values::<KllFloat<f64>>::new(name, k, takes_sketches)),
                }
            }
        })
    }
}

impl AggregateUDFImpl for SketchAggregate {
    fn name(&self) -> &str {
        match self {
            Self::Theta => "theta_sketch_agg",
            Self::ThetaUnion => "theta_union_agg",
            Self::ThetaIntersection => "theta_intersection_agg",
            Self::Hll => "hll_sketch_agg",
            Self::HllUnion => "hll_union_agg",
            Self::Kll(Of::Bigint) => "kll_sketch_agg_bigint",
            Self::Kll(Of::Float) => "kll_sketch_agg_float",
            Self::Kll(Of::Double) => "kll_sketch_agg_double",
            Self::KllMerge(Of::Bigint) => "kll_merge_agg_bigint",
            Self::KllMerge(Of::Float) => "kll_merge_agg_float",
            Self::KllMerge(Of::Double) => "kll_merge_agg_double",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let (value, parameter) = match kinds {
            [value] => (value, None),
            [value, parameter] if *self != Self::ThetaIntersection => (value, Some(parameter)),
            _ => return plan_err!("{} takes a value and a parameter", self.name()),
        };
        let Some(taken) = self.taken(value) else {
            return plan_err!("{} takes no {}", self.name(), crate::types::type_name(value));
        };
        let of_parameter = match (self, parameter) {
            (_, None) => return Ok(vec![taken]),
            (Self::HllUnion, Some(DataType::Boolean)) => DataType::Boolean,
            (Self::HllUnion, _) => return plan_err!("{} takes sketches and true or false", self.name()),
            (_, Some(kind)) if kind.is_integer() => DataType::Int64,
            _ => return plan_err!("the parameter of {} is a whole number", self.name()),
        };
        Ok(vec![taken, of_parameter])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sketch"), DataType::Binary, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let parameter = match args.exprs.get(1) {
            Some(expr) => match expr.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())))? {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => {
                    return plan_err!("the parameter of {} must be a constant", self.name());
                }
            },
            None => None,
        };
        Ok(Box::new(Sketched { is_new: true, of: self.collected(parameter.as_ref())? }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Vec<(String, Documentation)>> = LazyLock::new(|| {
            let one = |of: SketchAggregate| {
                let (call, text) = (format!("{}(x)", of.name()), format!("{}.", of.described()));
                (of.name().to_owned(), Documentation::builder(DOC_SECTION_APPROXIMATE, text, call).build())
            };
            SketchAggregate::all().map(one).collect()
        });
        DOCUMENTATION.iter().find(|(name, _)| name == self.name()).map(|(_, documentation)| documentation)
    }
}

/// The accumulator of these functions.
#[derive(Debug)]
struct Sketched {
    /// True until something was added: the state of nothing is null.
    is_new: bool,
    of: Box<dyn Collected>,
}

impl Accumulator for Sketched {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values[0].null_count() < values[0].len() {
            self.is_new = false;
            self.of.add(&values[0])?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for sketch in states[0].as_binary::<i32>().iter().flatten() {
            self.is_new = false;
            self.of.merge(sketch)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sketch = if self.is_new { None } else { Some(self.of.bytes()?) };
        Ok(vec![ScalarValue::Binary(sketch)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(Some(self.of.bytes()?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.of.size()
    }
}
