//! `skewness_pop`, `skewness_samp`, `kurtosis_pop`, `kurtosis_samp` and `product`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature};

use super::moments::Moments;
use super::refuse_distinct;
use crate::signatures::USER_DEFINED;

static DOCUMENTATION: LazyLock<[Documentation; 5]> = LazyLock::new(|| {
    [
        ("Skewness of all values, which is Spark's skewness.", "skewness_pop(x)"),
        ("Skewness of a sample, which is DuckDB's skewness.", "skewness_samp(x)"),
        ("Excess kurtosis of all values, which is Spark's kurtosis.", "kurtosis_pop(x)"),
        ("Excess kurtosis of a sample, which is DuckDB's kurtosis.", "kurtosis_samp(x)"),
        ("Product of all values, a DOUBLE.", "product(x)"),
    ]
    .map(|(text, call)| Documentation::builder(DOC_SECTION_STATISTICAL, text, call).build())
});

/// A function of all numbers, which are taken for a DOUBLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MomentFunction {
    SkewnessPop,
    SkewnessSamp,
    KurtosisPop,
    KurtosisSamp,
    Product,
}

impl MomentFunction {
    pub const ALL: [Self; 5] =
        [Self::SkewnessPop, Self::SkewnessSamp, Self::KurtosisPop, Self::KurtosisSamp, Self::Product];
}

impl AggregateUDFImpl for MomentFunction {
    fn name(&self) -> &str {
        match self {
            Self::SkewnessPop => "skewness_pop",
            Self::SkewnessSamp => "skewness_samp",
            Self::KurtosisPop => "kurtosis_pop",
            Self::KurtosisSamp => "kurtosis_samp",
            Self::Product => "product",
        }
    }

    fn signature(&self) -> &Signature {
        &USER_DEFINED
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        match kinds {
            [kind] if kind.is_numeric() || kind.is_null() => Ok(vec![DataType::Float64]),
            _ => plan_err!("{} takes numbers", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let names = ["count", "mean", "second", "third", "fourth"];
        let count = if *self == Self::Product { 1 } else { names.len() };
        let field = |name| Field::new(format_state_name(args.name, name), DataType::Float64, true);
        Ok(names[..count].iter().map(|name| Arc::new(field(name))).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        refuse_distinct(self.name(), &args)?;
        Ok(match self {
            Self::Product => Box::new(Product::default()),
            of => Box::new(OfMoments { of: *of, moments: Moments::default() }),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION[*self as usize])
    }
}

#[derive(Debug)]
struct OfMoments {
    of: MomentFunction,
    moments: Moments,
}

impl Accumulator for OfMoments {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.moments.add(value));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(match self.of {
            MomentFunction::SkewnessPop => self.moments.skewness_pop(),
            MomentFunction::SkewnessSamp => self.moments.skewness_samp(),
            MomentFunction::KurtosisPop => self.moments.kurtosis_pop(),
            MomentFunction::KurtosisSamp => self.moments.kurtosis_samp(),
            MomentFunction::Product => unreachable!("it has an accumulator of its own"),
        }))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { count, mean, second, third, fourth } = self.moments;
        Ok([count, mean, second, third, fourth].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let columns: Vec<&Float64Array> = states.iter().map(|column| column.as_primitive()).collect();
        for row in 0..columns[0].len() {
            let [count, mean, second, third, fourth] =
                [0, 1, 2, 3, 4].map(|at: usize| columns[at].value(row));
            self.moments.merge(&Moments { count, mean, second, third, fourth });
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Product {
    product: Option<f64>,
}

impl Accumulator for Product {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.product = Some(self.product.unwrap_or(1.0) * value);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.product))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
