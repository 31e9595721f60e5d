//! Dates, times, intervals and zones, where Arrow and DataFusion mean something else than SQL.
//!
//! - [`calendar`]: arithmetic of the calendar; [`calendar_functions`]: the functions that have it;
//! - [`clock_functions`]: Spark's functions of times of day; [`time_units`]: its times and units;
//! - [`date_arithmetic`]: a date and an interval;
//! - [`date_format`]: with Spark's patterns; [`patterns`]: refuses patterns of `to_char` that are those of another system;
//! - [`date_parse`]: texts read by Spark's patterns; [`parse_functions`]: the functions that do so;
//! - [`dates_as_timestamps`]: dates compared with timestamps; [`finer_literals`]: columns compared with literals of a finer unit;
//! - [`interval_order`]: intervals compared, sorted and grouped by their length; [`interval_frames`]: windows ordered by one;
//! - [`interval_extremes`]: `min` and `max` of intervals; [`interval_span`]: the length of one; [`interval_part`]: `extract` from one;
//! - [`interval_products`]: intervals times numbers; [`interval_units`]: intervals as numbers of a unit; [`interval_literals`]: as texts;
//! - [`spark_intervals`]: the same in Spark;
//! - [`spark_moments`]: texts that are dates and times in Spark;
//! - [`spark_zones`]: names of zones as in Spark;
//! - [`interval_text`]: intervals as they are written; [`time_text`]: times as they are shown;
//! - [`strftime`]: DuckDB's patterns of times; [`strftime_functions`]: the functions that have them;
//! - [`time_casts`]: between times and texts, and times with and without a zone; [`time_values`] puts them into plans;
//! - [`time_functions`]: `now`, `to_timestamp`, `date_trunc` and `date_bin` in microseconds; [`time_bins`] has the last two;
//! - [`time_series`]: `generate_series` of timestamps in a `FROM`;
//! - [`time_zone`]: `AT TIME ZONE`.

mod calendar;
pub(crate) mod calendar_functions;
pub(crate) mod clock_functions;
pub(crate) mod date_arithmetic;
pub(crate) mod date_format;
mod date_parse;
pub(crate) mod dates_as_timestamps;
pub(crate) mod finer_literals;
pub(crate) mod interval_extremes;
pub(crate) mod interval_frames;
pub(crate) mod interval_literals;
pub(crate) mod interval_order;
pub(crate) mod interval_part;
pub(crate) mod interval_products;
pub(crate) mod interval_span;
pub(crate) mod interval_text;
pub(crate) mod interval_units;
pub(crate) mod parse_functions;
pub(crate) mod patterns;
pub(crate) mod spark_intervals;
pub(crate) mod spark_moments;
pub(crate) mod spark_zones;
mod strftime;
pub(crate) mod strftime_functions;
mod time_bins;
pub(crate) mod time_casts;
pub(crate) mod time_functions;
pub(crate) mod time_series;
pub(crate) mod time_text;
pub(crate) mod time_units;
pub(crate) mod time_values;
pub(crate) mod time_zone;

pub use interval_span::contains_interval;
pub use time_text::{formatter, text_options};
