//! Functions of texts that DataFusion has not, or has otherwise.
//!
//! - [`brace_pattern`], [`percent_pattern`]: patterns of texts of values; [`printf`]: the functions that have them;
//! - [`grouped_numbers`]: numbers with commas;
//! - [`hex`]: `hex` and `unhex`;
//! - [`number_format`]: formats of numbers; [`number_texts`]: the functions that have them;
//! - [`regexp_extract`]: parts of a text that match a regular expression;
//! - [`pads`]: `lpad` and `rpad`;
//! - [`rows`]: functions that are computed row by row;
//! - [`spark_texts`], [`spark_codes`]: functions that only Spark has; [`charset`]: the charsets of `encode`;
//! - [`spark_pads`]: functions of the ends of texts and bytes;
//! - [`split`]: parts of a text between separators; [`url_parts`]: parts of a URL;
//! - [`well_known_bytes`]: geometries as bytes.

mod brace_pattern;
mod charset;
mod grouped_numbers;
mod hex;
mod number_format;
mod number_texts;
mod pads;
mod percent_pattern;
mod printf;
mod regexp_extract;
pub(crate) mod rows;
mod spark_codes;
mod spark_pads;
mod spark_texts;
mod split;
mod url_parts;
pub(crate) mod well_known_bytes;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;

/// Adds these functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    pads::register(state)?;
    for function in spark_texts::Kind::all()
        .chain(spark_codes::Kind::all())
        .chain(number_texts::NumberText::all())
        .chain(url_parts::UrlPart::all())
        .chain(spark_pads::Ends::all())
    {
        state.register_udf(Arc::new(function))?;
    }
    for function in [
        grouped_numbers::FormatNumber::shared(),
        ScalarUDF::from(hex::Hex::default()),
        ScalarUDF::from(hex::Unhex::default()),
        ScalarUDF::from(printf::Printf::Both),
        ScalarUDF::from(printf::Printf::FormatString),
        ScalarUDF::from(printf::Printf::Format),
        ScalarUDF::from(regexp_extract::RegexpExtract::one()),
        ScalarUDF::from(regexp_extract::RegexpExtract::all()),
        ScalarUDF::from(split::Split::by_either()),
        ScalarUDF::from(split::Split::by_regex()),
        ScalarUDF::from(well_known_bytes::WellKnownBytes),
    ] {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}
