//! Geometries of Spark. There is no such type here: functions of a geometry that is made beside them are those of its bytes.

use datafusion::sql::sqlparser::ast::{Expr, Function, Ident, Value, ValueWithSpan};
use yeoul_base::ErrorKind;

use super::calls::{filled, values_of};
use crate::parse::function_call::function_call;
use crate::text::well_known_bytes::CHECKED;
use crate::{Error, Result};

/// The reference system of geographies.
const OF_GEOGRAPHIES: &str = "4326";

/// Reference systems of geometries: none, and two of the whole earth.
const OF_GEOMETRIES: [&str; 3] = ["0", "3857", "4326"];

/// What a call of such a function stands for; `None` for other functions, and for those that make a geometry.
///
/// # Errors
/// `Invalid` for another geometry than one that is made there.
pub(super) fn own(name: &str, call: &mut Function) -> Result<Option<Expr>> {
    if !matches!(name, "st_asbinary" | "st_srid") {
        return Ok(None);
    }
    let refused = || {
        let error = Error::new(ErrorKind::Invalid, format!("not supported: {name} of such a value"));
        error.with_hint("write st_geogfromwkb(bytes) or st_geomfromwkb(bytes) within it")
    };
    let Some([mut value]) = values_of(call).and_then(|values| <[Expr; 1]>::try_from(values).ok()) else {
        return Err(refused());
    };
    let of = |name: &str, value: &mut Expr| match value {
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case(name) => values_of(call),
        _ => None,
    };
    if name == "st_srid" && matches!(value, Expr::Value(ValueWithSpan { value: Value::Null, .. })) {
        return Ok(Some(filled("CAST(x AS INT)", [("x", value)])));
    }
    let given = match of("st_setsrid", &mut value) {
        Some(values) => {
            let [geometry, system] = <[Expr; 2]>::try_from(values).map_err(|_| refused())?;
            value = geometry;
            Some(number_of(&system).ok_or_else(refused)?)
        }
        None => None,
    };
    let (bytes, own, others) = if let Some(values) = of("st_geogfromwkb", &mut value) {
        (values, OF_GEOGRAPHIES, [OF_GEOGRAPHIES].as_slice())
    } else if let Some(values) = of("st_geomfromwkb", &mut value) {
        (values, OF_GEOMETRIES[0], OF_GEOMETRIES.as_slice())
    } else {
        return Err(refused());
    };
    let [bytes] = <[Expr; 1]>::try_from(bytes).map_err(|_| refused())?;
    let system = given.unwrap_or_else(|| own.to_owned());
    if !others.contains(&system.as_str()) {
        let error = Error::new(ErrorKind::Invalid, format!("not supported: the reference system {system}"));
        return Err(error.with_hint(format!("there are {}", others.join(", "))));
    }
    let bytes = function_call(Ident::new(CHECKED), [bytes]);
    Ok(Some(match name {
        "st_asbinary" => bytes,
        _ => filled(&format!("CASE WHEN x IS NOT NULL THEN CAST({system} AS INT) END"), [("x", bytes)]),
    }))
}

/// The digits of a number that is written, or was given its type.
fn number_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => number_of(inner),
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some(digits.to_string()),
        _ => None,
    }
}
