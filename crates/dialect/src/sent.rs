//! Functions and operators that rules put into plans, as texts. SQL does not name them, so that a plan which goes to another process of
//! the same version says so what they are.

use std::sync::{Arc, LazyLock};

use datafusion::common::Result;
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, ScalarUDF, ScalarUDFImpl};
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;

use crate::Error;
use crate::numbers::checked_integers::CheckedInteger;
use crate::numbers::checked_results::CheckedResult;
use crate::numbers::decimal_arithmetic::DecimalArithmetic;
use crate::numbers::float_extremes::FloatExtreme;
use crate::rules::filter_ranges::AnyRange;
use crate::rules::grouping_sets::Unordered;
use crate::rules::hiding::{Hidden, HidingExec};
use crate::subqueries::scalar_subqueries::OnlyValue;
use crate::time::interval_extremes::IntervalExtreme;
use crate::time::interval_part::IntervalPart;
use crate::time::interval_products::IntervalProduct;
use crate::time::interval_span::NormalInterval;
use crate::time::strftime_functions::ParseTime;
use crate::time::time_casts::TimeCast;
use crate::time::time_zone::TimeZoneFunction;
use crate::types::Identity;

#[derive(Debug, Serialize, Deserialize)]
enum Scalar {
    AnyRange,
    CheckedInteger(CheckedInteger),
    CheckedResult(CheckedResult),
    DecimalArithmetic(DecimalArithmetic),
    Identity(Identity),
    IntervalPart(IntervalPart),
    IntervalProduct(IntervalProduct),
    NormalInterval,
    OnlyValue,
    ParseTime(ParseTime),
    /// DataFusion's own of this name, which a function of ours may stand for.
    Stock(String),
    TimeCast(TimeCast),
    /// The zone of the session.
    TimeZone(String),
    Unordered(Unordered),
}

impl Scalar {
    fn of(function: &dyn ScalarUDFImpl) -> Option<Self> {
        fn copy<T: ScalarUDFImpl + Clone, S>(
            function: &dyn ScalarUDFImpl,
            made: impl Fn(T) -> S,
        ) -> Option<S> {
            function.downcast_ref::<T>().cloned().map(made)
        }
        if let Some(zone) = function.downcast_ref::<TimeZoneFunction>() {
            return Some(Self::TimeZone(zone.session().to_owned()));
        }
        let simple = [
            (function.is::<AnyRange>(), Self::AnyRange),
            (function.is::<NormalInterval>(), Self::NormalInterval),
            (function.is::<OnlyValue>(), Self::OnlyValue),
        ];
        let simple = simple.into_iter().find_map(|(is_it, scalar)| is_it.then_some(scalar));
        simple
            .or_else(|| copy(function, Self::CheckedInteger))
            .or_else(|| copy(function, Self::CheckedResult))
            .or_else(|| copy(function, Self::DecimalArithmetic))
            .or_else(|| copy(function, Self::Identity))
            .or_else(|| copy(function, Self::IntervalPart))
            .or_else(|| copy(function, Self::IntervalProduct))
            .or_else(|| copy(function, Self::ParseTime))
            .or_else(|| copy(function, Self::TimeCast))
            .or_else(|| copy(function, Self::Unordered))
            .or_else(|| {
                let stock = stock_scalar(function.name())?;
                stock.inner().dyn_eq(function).then(|| Self::Stock(function.name().to_owned()))
            })
    }

    fn function(self) -> Result<ScalarUDF> {
        Ok(match self {
            Self::AnyRange => AnyRange.into(),
            Self::CheckedInteger(function) => function.into(),
            Self::CheckedResult(function) => function.into(),
            Self::DecimalArithmetic(function) => function.into(),
            Self::Identity(function) => function.into(),
            Self::IntervalPart(function) => function.into(),
            Self::IntervalProduct(function) => function.into(),
            Self::NormalInterval => NormalInterval.into(),
            Self::OnlyValue => OnlyValue.into(),
            Self::ParseTime(function) => function.into(),
            Self::Stock(name) => stock_scalar(&name).ok_or_else(|| missing(&name))?.as_ref().clone(),
            Self::TimeCast(function) => function.into(),
            Self::TimeZone(zone) => TimeZoneFunction::of(&zone).into(),
            Self::Unordered(function) => function.into(),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Aggregate {
    /// By the name of the function that it stands for.
    FloatExtreme(String),
    IntervalExtreme(IntervalExtreme),
    /// DataFusion's own of this name, which a function of ours may stand for.
    Stock(String),
}

impl Aggregate {
    fn of(function: &AggregateUDF) -> Option<Self> {
        let inner: &dyn AggregateUDFImpl = function.inner().as_ref();
        if let Some(extreme) = inner.downcast_ref::<FloatExtreme>() {
            return Some(Self::FloatExtreme(extreme.stock().name().to_owned()));
        }
        if let Some(extreme) = inner.downcast_ref::<IntervalExtreme>() {
            return Some(Self::IntervalExtreme(*extreme));
        }
        let name = function.name();
        stock_aggregate(name).is_some_and(|stock| *stock == *function).then(|| Self::Stock(name.to_owned()))
    }

    fn function(self, named: &dyn Fn(&str) -> Result<Arc<AggregateUDF>>) -> Result<Arc<AggregateUDF>> {
        Ok(match self {
            Self::FloatExtreme(name) => Arc::new(FloatExtreme::of(named(&name)?).into()),
            Self::IntervalExtreme(function) => Arc::new(function.into()),
            Self::Stock(name) => stock_aggregate(&name).ok_or_else(|| missing(&name))?,
        })
    }
}

fn stock_scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(SessionStateDefaults::default_scalar_functions);
    ALL.iter().find(|function| function.name() == name).cloned()
}

fn stock_aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    static ALL: LazyLock<Vec<Arc<AggregateUDF>>> =
        LazyLock::new(SessionStateDefaults::default_aggregate_functions);
    ALL.iter().find(|function| function.name() == name).cloned()
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("a plan has the function {name}, which is not there"))
}

/// Text of a function that a rule put into a plan; `None` for one that SQL names.
pub fn scalar_text(function: &ScalarUDF) -> Option<String> {
    Some(text(&Scalar::of(function.inner().as_ref())?))
}

/// The function of a text.
///
/// # Errors
/// `Invalid` for a text of another version.
pub fn scalar(text: &str) -> Result<ScalarUDF> {
    let scalar: Scalar = serde_json::from_str(text).map_err(unknown)?;
    scalar.function()
}

/// Text of an aggregate function that a rule put into a plan; `None` for one that SQL names.
pub fn aggregate_text(function: &AggregateUDF) -> Option<String> {
    Some(text(&Aggregate::of(function)?))
}

/// The aggregate function of a text; `named` finds those that SQL names.
///
/// # Errors
/// `Invalid` for a text of another version; that of `named`.
pub fn aggregate(text: &str, named: &dyn Fn(&str) -> Result<Arc<AggregateUDF>>) -> Result<Arc<AggregateUDF>> {
    let aggregate: Aggregate = serde_json::from_str(text).map_err(unknown)?;
    aggregate.function(named)
}

/// Of the one operator that rules put into plans, what it hides, as a text.
pub fn hidden_text(node: &dyn ExecutionPlan) -> Option<String> {
    node.downcast_ref::<HidingExec>().map(|hiding| text(&hiding.hidden()))
}

/// That operator over an input, of a text.
///
/// # Errors
/// `Invalid` for a text of another version.
pub fn hiding(input: Arc<dyn ExecutionPlan>, text: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden: Hidden = serde_json::from_str(text).map_err(unknown)?;
    Ok(Arc::new(HidingExec::new(input, hidden)?))
}

fn text(function: &impl Serialize) -> String {
    serde_json::to_string(function).expect("names and types are texts")
}

fn unknown(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, "a plan has a function of another version").with_source(error)
}

/// A type as Arrow writes it.
pub mod data_type {
    use datafusion::arrow::datatypes::DataType;
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Writes it.
    ///
    /// # Errors
    /// Those of what it is written to.
    pub fn serialize<S: Serializer>(kind: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(kind)
    }

    /// Reads it.
    ///
    /// # Errors
    /// For a text that is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::common::config::ConfigOptions;
    use datafusion::logical_expr::Operator;

    use super::*;

    #[test]
    fn a_function_arrives_as_it_left() {
        let list = DataType::new_list(DataType::Decimal128(9, 2), true);
        let mut settings = ConfigOptions::default();
        settings.execution.time_zone = Some("Asia/Seoul".to_owned());
        let functions: [ScalarUDF; 11] = [
            AnyRange.into(),
            CheckedInteger::in_place_of(Operator::Plus, &DataType::Int32).unwrap().into(),
            CheckedResult::OneNan.into(),
            DecimalArithmetic::Divide.into(),
            Identity::Cut.into(),
            IntervalPart::Epoch.into(),
            OnlyValue.into(),
            ParseTime::new(&settings, true).into(),
            TimeCast::between(&DataType::Utf8, &"Timestamp(µs, \"Asia/Seoul\")".parse().unwrap(), true)
                .unwrap()
                .into(),
            TimeZoneFunction::of("Asia/Seoul").into(),
            Unordered::Key(3).into(),
        ];
        for function in functions {
            let text = scalar_text(&function).unwrap();
            assert_eq!(scalar(&text).unwrap(), function, "{text}");
        }
        assert_eq!(list.to_string().parse::<DataType>().unwrap(), list);
        let substr = stock_scalar("substr").unwrap();
        assert_eq!(scalar(&scalar_text(&substr).unwrap()).unwrap(), *substr);
        assert!(scalar(r#""NoSuch""#).is_err());
    }

    #[test]
    fn an_aggregate_arrives_as_it_left() {
        let named = |name: &str| Ok(stock_aggregate(name).unwrap());
        let max = stock_aggregate("max").unwrap();
        for function in [
            AggregateUDF::from(FloatExtreme::of(Arc::clone(&max))),
            AggregateUDF::from(IntervalExtreme::Min),
            max.as_ref().clone(),
        ] {
            let text = aggregate_text(&function).unwrap();
            assert_eq!(*aggregate(&text, &named).unwrap(), function, "{text}");
        }
    }
}
