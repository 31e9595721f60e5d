use serde::{Serialize, Serializer};

use super::steps::Steps;
use crate::connectors::SinkConnector;
use crate::connectors::option_table::{Direction, fixed_defaults};
use crate::error::Result;
use crate::operators::Operators;
use crate::plan::{OptionMap, OutputMode, Query};

/// A query as people look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryOutline {
    /// Name, also of the folder of its checkpoint.
    pub name: String,
    /// Output mode, by Spark's name: `append`, `update` or `complete`.
    pub output_mode: &'static str,
    /// Delivery guarantee: times that a row comes out, whatever fails.
    pub guarantee: &'static str,
    /// All settings.
    pub settings: Pairs,
    /// The sink, with all that comes before it.
    pub sink: StepOutline,
}

/// A step of a query, with those before it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepOutline {
    /// Kind.
    pub operator: &'static str,
    /// Name of the stream, the sink or the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Details, as names with values.
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub details: Pairs,
    /// Options of a connector, as they were given.
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub options: Pairs,
    /// Options that were not given, with what they are then.
    #[serde(skip_serializing_if = "Pairs::is_empty")]
    pub defaults: Pairs,
    /// Tables of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateOutline>,
    /// Steps before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<StepOutline>,
}

/// A table of state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateOutline {
    /// Name in the checkpoint.
    pub table: String,
    /// Columns of its keys, with their types.
    pub keys: Pairs,
    /// Columns of its values, with their types.
    pub values: Pairs,
    /// Time for which a key is kept.
    pub kept: String,
}

/// Texts by name, in an order that means something: a map in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs(pub Vec<(String, String)>);

/// Outline of a query. It starts nothing and opens nothing.
///
/// # Errors
/// As [`check`](crate::dataflow::check).
pub fn outline(query: &Query) -> Result<QueryOutline> {
    let connector = SinkConnector::of(query)?;
    let layouts = Operators::layouts_of_steps(query)?;
    let input = Steps::new(query, layouts).outline(&query.pipeline.root)?;
    let mut sink =
        StepOutline { operator: "sink", name: Some(query.sink.name.clone()), ..Default::default() };
    sink.tell("writes to", connector.description());
    if let Some(key) = connector.key_columns().filter(|key| !key.is_empty()) {
        sink.tell("key of records", key.join(", "));
    }
    sink.set_options(&query.sink.options, Direction::Sink);
    sink.inputs.push(input);
    Ok(QueryOutline {
        name: query.name.clone(),
        output_mode: match query.output_mode {
            OutputMode::Append => "append",
            OutputMode::Update => "update",
            OutputMode::Complete => "complete",
        },
        guarantee: connector.guarantee(),
        settings: Pairs(query.settings.shown()),
        sink,
    })
}

impl StepOutline {
    /// Sets the options of a connector, and those that were not given.
    pub(super) fn set_options(&mut self, options: &OptionMap, direction: Direction) {
        let shown = options.shown();
        let given = |name: &str| {
            let found = shown.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        let defaults = fixed_defaults(given("connector").unwrap_or_default(), direction);
        let defaults = defaults.filter(|(name, _)| given(name).is_none());
        self.defaults = Pairs(defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        self.options = Pairs(shown);
    }

    /// Adds a line on what it does.
    pub(super) fn tell(&mut self, name: &str, value: impl Into<String>) {
        self.details.0.push((name.to_owned(), value.into()));
    }
}

impl Pairs {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
