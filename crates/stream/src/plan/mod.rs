//! From the text of a job to queries as values.
//!
//! - [`Script`]: the statements of a job file: streams, sinks, settings, and the queries between them
//! - [`Query`]: one query, which any front can build; [`Pipeline`]: its rows' way through it
//! - [`OptionMap`]: the options of a connector, of which none is ignored

mod column_type;
mod duration_text;
mod group_columns;
mod meaning;
mod options;
mod pipeline;
mod planner;
mod query;
mod script;
mod secrecy;
mod settings;
mod state_call;
mod tokens;
mod window_function;

pub use column_type::{TIMESTAMP, column_type, type_name};
pub use duration_text::{duration_text, parse_duration_ms};
pub use group_columns::GroupColumns;
pub use options::OptionMap;
pub use pipeline::{
    AggregateCall, AggregatePlan, DeduplicatePlan, JoinKind, JoinPlan, JoinSidePlan, KeptKeys, KeyedPlan,
    LookupKind, LookupPlan, Pipeline, PlanNode, RangeBound, ScanPlan, Stage, StateBound, TimeColumn,
    WatermarkPlan, WindowKey,
};
pub use planner::{plan, plan_with};
pub use query::{
    OutputMode, Query, SinkDefinition, StreamColumn, StreamDefinition, TableDefinition, WatermarkClock,
    WatermarkDefinition,
};
pub use script::Script;
pub(crate) use secrecy::{is_secret, is_secret_setting};
pub use settings::{SETTINGS, SettingEntry, Settings, Trigger, WatermarkPolicy};
pub use window_function::WindowFunction;
