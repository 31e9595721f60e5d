//! Functions of sketches, with the names of Spark.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, Int64Array, ListBuilder, PrimitiveArray,
    PrimitiveBuilder, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use datasketches::kll::KllFloat;
use yeoul_base::ErrorKind;

use super::kll::{Item, Of};
use super::{hll, kll, theta};
use crate::Error;
use crate::signatures::USER_DEFINED;
use crate::text::rows::invoke;

/// A function of sketches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    ThetaEstimate,
    ThetaUnion,
    ThetaIntersection,
    ThetaDifference,
    HllEstimate,
    HllUnion,
    KllN(Of),
    KllQuantile(Of),
    KllRank(Of),
    KllMerge(Of),
    KllText(Of),
}

impl Kind {
    /// All of these functions.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of_counts = [
            Self::ThetaEstimate,
            Self::ThetaUnion,
            Self::ThetaIntersection,
            Self::ThetaDifference,
            Self::HllEstimate,
            Self::HllUnion,
        ];
        let of_quantiles = [Self::KllN, Self::KllQuantile, Self::KllRank, Self::KllMerge, Self::KllText];
        of_counts.into_iter().chain(of_quantiles.into_iter().flat_map(|kind| Of::ALL.map(kind)))
    }

    const fn described(self) -> &'static str {
        match self {
            Self::ThetaEstimate | Self::HllEstimate => "Number of different values that a sketch has seen",
            Self::ThetaUnion | Self::HllUnion => "Sketch of the values of either of two",
            Self::ThetaIntersection => "Sketch of the values of both of two",
            Self::ThetaDifference => "Sketch of the values of the first that are not of the second",
            Self::KllN(_) => "Number of values that a sketch has seen",
            Self::KllQuantile(_) => "Value of a rank from 0 to 1, or list of those of a list of ranks",
            Self::KllRank(_) => "Share of the values up to one, or list of those of a list of values",
            Self::KllMerge(_) => "Sketch of the values of both of two",
            Self::KllText(_) => "Summary of a sketch",
        }
    }

    fn run(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let sketches = arrays[0].as_binary::<i32>();
        match self {
            Self::ThetaEstimate => counts(sketches, theta::estimate),
            Self::HllEstimate => counts(sketches, hll::estimate),
            Self::ThetaUnion => {
                let lg = parameter(arrays, theta::LG_NOMINAL);
                pairs(arrays, |left, right, row| {
                    let Some(lg) = lg(row) else { return Ok(None) };
                    theta::union(left, right, within(self.name(), lg, theta::LG_NOMINAL_RANGE)?).map(Some)
                })
            }
            Self::ThetaIntersection => {
                pairs(arrays, |left, right, _| theta::intersection(left, right).map(Some))
            }
            Self::ThetaDifference => pairs(arrays, |left, right, _| theta::difference(left, right).map(Some)),
            Self::HllUnion => {
                let allows = arrays.get(2).map(|values| values.as_boolean());
                pairs(arrays, |left, right, row| {
                    if allows.is_some_and(|allows| allows.is_null(row)) {
                        return Ok(None);
                    }
                    hll::union(left, right, allows.is_some_and(|allows| allows.value(row))).map(Some)
                })
            }
            Self::KllN(of)
            | Self::KllQuantile(of)
            | Self::KllRank(of)
            | Self::KllMerge(of)
            | Self::KllText(of) => match of {
                Of::Bigint => self.of_quantiles::<i64>(arrays),
                Of::Float => self.of_quantiles::<KllFloat<f32>>(arrays),
                Of::Double => self.of_quantiles::<KllFloat<f64>>(arrays),
            },
        }
    }

    fn of_quantiles<T: Item>(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let (name, sketches) = (self.name(), arrays[0].as_binary::<i32>());
        match self {
            Self::KllN(_) => counts(sketches, |bytes| {
                Ok(i64::try_from(kll::sketch_of::<T>(name, bytes)?.n()).unwrap_or(i64::MAX))
            }),
            Self::KllQuantile(_) => asked::<T, Float64Type, T::Column>(name, arrays, |sketch, rank| {
                kll::quantile(name, sketch, rank)
            }),
            Self::KllRank(_) => asked::<T, T::Column, Float64Type>(name, arrays, |sketch, value| {
                let value = T::of(value).ok_or_else(|| {
                    Error::new(ErrorKind::Invalid, format!("{name}: NaN has no rank"))
                        .with_hint("leave it out with WHERE")
                })?;
                kll::rank(name, sketch, value)
            }),
            Self::KllMerge(_) => {
                pairs(arrays, |left, right, _| kll::merged::<T>(name, left, right).map(Some))
            }
            _ => {
                let text = |bytes: Option<&[u8]>| {
                    bytes.map(|bytes| kll::text(name, &kll::sketch_of::<T>(name, bytes)?)).transpose()
                };
                Ok(Arc::new(sketches.iter().map(text).collect::<Result<StringArray>>()?))
            }
        }
    }
}

fn counts(sketches: &BinaryArray, count: impl Fn(&[u8]) -> Result<i64>) -> Result<ArrayRef> {
    let counts = sketches.iter().map(|bytes| bytes.map(&count).transpose());
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

/// Sketches of two others; null if one of them is.
fn pairs(
    arrays: &[ArrayRef],
    of: impl Fn(&[u8], &[u8], usize) -> Result<Option<Vec<u8>>>,
) -> Result<ArrayRef> {
    let pairs = arrays[0].as_binary::<i32>().iter().zip(arrays[1].as_binary::<i32>());
    let found = pairs.enumerate().map(|(row, pair)| match pair {
        (Some(left), Some(right)) => of(left, right, row),
        _ => Ok(None),
    });
    Ok(Arc::new(
        found
            .collect::<Result<Vec<Option<Vec<u8>>>>>()?
            .iter()
            .map(Option::as_deref)
            .collect::<BinaryArray>(),
    ))
}

/// The third argument of a row, or its default.
fn parameter(arrays: &[ArrayRef], default: i64) -> impl Fn(usize) -> Option<i64> {
    let given = arrays.get(2).map(|values| values.as_primitive::<Int64Type>().clone());
    move |row| match &given {
        Some(values) => values.is_valid(row).then(|| values.value(row)),
        None => Some(default),
    }
}

/// A parameter of a sketch.
///
/// # Errors
/// `Invalid` for one out of its bounds.
pub(super) fn within(function: &str, value: i64, [least, most]: [i64; 2]) -> Result<u8> {
    let fits = (least..=most).contains(&value).then(|| u8::try_from(value).ok()).flatten();
    fits.ok_or_else(|| out_of_bounds(function, value, [least, most]))
}

/// The error of a parameter that is out of its bounds.
pub(super) fn out_of_bounds(
    function: &str,
    value: i64,
    [least, most]: [i64; 2],
) -> datafusion::common::DataFusionError {
    let text = format!("{function} has a parameter of {value}");
    Error::new(ErrorKind::Invalid, text).with_hint(format!("it is {least} to {most}")).into()
}

/// Answers to questions about sketches, or lists of answers to lists.
fn asked<T: Item, Q: ArrowPrimitiveType, A: ArrowPrimitiveType>(
    name: &str,
    arrays: &[ArrayRef],
    answer: impl Fn(&datasketches::kll::KllSketch<T>, Q::Native) -> Result<A::Native>,
) -> Result<ArrayRef> {
    let sketches = arrays[0].as_binary::<i32>();
    let sketch = |row: usize| kll::sketch_of::<T>(name, sketches.value(row));
    if let DataType::List(_) = arrays[1].data_type() {
        let lists = arrays[1].as_list::<i32>();
        let mut found = ListBuilder::new(PrimitiveBuilder::<A>::new());
        for row in 0..sketches.len() {
            let is_valid = sketches.is_valid(row) && lists.is_valid(row);
            if is_valid {
                let sketch = sketch(row)?;
                for question in lists.value(row).as_primitive::<Q>() {
                    found.values().append_option(question.map(|of| answer(&sketch, of)).transpose()?);
                }
            }
            found.append(is_valid);
        }
        return Ok(Arc::new(found.finish()));
    }
    let questions = arrays[1].as_primitive::<Q>();
    let found = (0..sketches.len()).map(|row| {
        let is_valid = sketches.is_valid(row) && questions.is_valid(row);
        is_valid.then(|| answer(&sketch(row)?, questions.value(row))).transpose()
    });
    Ok(Arc::new(found.collect::<Result<PrimitiveArray<A>>>()?))
}

fn list_of(kind: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(kind, true)))
}

impl ScalarUDFImpl for Kind {
    fn name(&self) -> &str {
        match self {
            Self::ThetaEstimate => "theta_sketch_estimate",
            Self::ThetaUnion => "theta_union",
            Self::ThetaIntersection => "theta_intersection",
            Self::ThetaDifference => "theta_difference",
            Self::HllEstimate => "hll_sketch_estimate",
            Self::HllUnion => "hll_union",
            Self::KllN(Of::Bigint) => "kll_sketch_get_n_bigint",
            Self::KllN(Of::Float) => "kll_sketch_get_n_float",
            Self::KllN(Of::Double) => "kll_sketch_get_n_double",
            Self::KllQuantile(Of::Bigint) => "kll_sketch_get_quantile_bigint",
            Self::KllQuantile(Of::Float) => "kll_sketch_get_quantile_float",
            Self::KllQuantile(Of::Double) => "kll_sketch_get_quantile_double",
            Self::KllRank(Of::Bigint) => "kll_sketch_get_rank_bigint",
            Self::KllRank(Of::Float) => "kll_sketch_get_rank_float",
            Self::KllRank(Of::Double) => "kll_sketch_get_rank_double",
            Self::KllMerge(Of::Bigint) => "kll_sketch_merge_bigint",
            Self::KllMerge(Of::Float) => "kll_sketch_merge_float",
            Self::KllMerge(Of::Double) => "kll_sketch_merge_double",
            Self::KllText(Of::Bigint) => "kll_sketch_to_string_bigint",
            Self::KllText(Of::Float) => "kll_sketch_to_string_float",
            Self::KllText(Of::Double) => "kll_sketch_to_string_double",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        let is_sketch = |kind: &DataType| kind.is_binary() || kind.is_null();
        let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null();
        let fits = match (self, kinds) {
            (Self::ThetaUnion, [left, right, lg]) => {
                is_sketch(left) && is_sketch(right) && (lg.is_integer() || lg.is_null())
            }
            (Self::HllUnion, [left, right, allows]) => {
                is_sketch(left) && is_sketch(right) && matches!(allows, DataType::Boolean | DataType::Null)
            }
            (Self::KllQuantile(_) | Self::KllRank(_), [sketch, DataType::List(field)]) => {
                is_sketch(sketch) && is_number(field.data_type())
            }
            (Self::KllQuantile(_) | Self::KllRank(_), [sketch, question]) => {
                is_sketch(sketch) && is_number(question)
            }
            (
                Self::ThetaUnion
                | Self::ThetaIntersection
                | Self::ThetaDifference
                | Self::HllUnion
                | Self::KllMerge(_),
                [left, right],
            ) => is_sketch(left) && is_sketch(right),
            (Self::ThetaEstimate | Self::HllEstimate | Self::KllN(_) | Self::KllText(_), [sketch]) => {
                is_sketch(sketch)
            }
            _ => false,
        };
        if !fits {
            return plan_err!("{} takes sketches, which are BINARY", self.name());
        }
        let mut coerced = vec![DataType::Binary; kinds.len()];
        match self {
            Self::ThetaUnion if kinds.len() == 3 => coerced[2] = DataType::Int64,
            Self::HllUnion if kinds.len() == 3 => coerced[2] = DataType::Boolean,
            Self::KllQuantile(of) | Self::KllRank(of) => {
                let one = if matches!(self, Self::KllRank(_)) { of.kind() } else { DataType::Float64 };
                coerced[1] = if matches!(kinds[1], DataType::List(_)) { list_of(one) } else { one };
            }
            _ => {}
        }
        Ok(coerced)
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        let is_list = matches!(kinds.get(1), Some(DataType::List(_)));
        let of_each = |kind: DataType| if is_list { list_of(kind) } else { kind };
        Ok(match self {
            Self::ThetaEstimate | Self::HllEstimate | Self::KllN(_) => DataType::Int64,
            Self::KllQuantile(of) => of_each(of.kind()),
            Self::KllRank(_) => of_each(DataType::Float64),
            Self::KllText(_) => DataType::Utf8,
            _ => DataType::Binary,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&arguments, |arrays| self.run(arrays))
    }

    fn documentation(&self) -> Option<&Documentation> {
        static DOCUMENTATION: LazyLock<Vec<(String, Documentation)>> = LazyLock::new(|| {
            let one = |kind: Kind| {
                let call = format!("{}(…)", kind.name());
                let text = format!("{}.", kind.described());
                (kind.name().to_owned(), Documentation::builder(DOC_SECTION_OTHER, text, call).build())
            };
            Kind::all().map(one).collect()
        });
        DOCUMENTATION.iter().find(|(name, _)| name == self.name()).map(|(_, documentation)| documentation)
    }
}
