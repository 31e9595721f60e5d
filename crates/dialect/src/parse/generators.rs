//! Generators: functions of Spark's that make several rows or columns of a value. They are written as the lists that are unnested beside
//! each other, one for each column.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem, Value, ValueWithSpan,
};

use super::function_call::function_call;
use super::template;
use super::visit::each_expression;

/// The functions.
const NAMES: [&str; 8] = [
    "explode",
    "explode_outer",
    "inline",
    "inline_outer",
    "json_tuple",
    "posexplode",
    "posexplode_outer",
    "stack",
];

/// Functions whose answer is a map, by which `explode` has two columns.
const OF_MAPS: [&str; 9] = [
    "map",
    "map_concat",
    "map_filter",
    "map_from_arrays",
    "map_from_entries",
    "map_zip_with",
    "str_to_map",
    "transform_keys",
    "transform_values",
];

/// True for a generator, by its name in small letters.
pub(super) fn is_generator(name: &str) -> bool {
    NAMES.contains(&name)
}

/// A column that a generator makes.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Name, where a statement gives it none.
    pub name: String,
    /// Expression that a `SELECT` has for it.
    pub expr: Expr,
}

/// The columns of a generator. `named` is the number of columns that the statement gives a name, 0 if it gives none. `None` for arguments
/// of which the columns are not known.
pub(super) fn columns(generator: &str, arguments: &[Expr], named: usize) -> Option<Vec<Column>> {
    let (name, is_outer) = match generator.strip_suffix("_outer") {
        Some(name) => (name, true),
        None => (generator, false),
    };
    let found = match (name, arguments) {
        ("explode", [of]) if named == 2 || named == 0 && is_map(of) => vec![
            unnested("key", "map_keys(x)", of, is_outer),
            unnested("value", "map_values(x)", of, is_outer),
        ],
        ("explode", [of]) => vec![unnested("col", "x", of, is_outer)],
        ("posexplode", [of]) if named == 3 || named == 0 && is_map(of) => vec![
            unnested("pos", "range(spark_size(x))", of, is_outer),
            unnested("key", "map_keys(x)", of, is_outer),
            unnested("value", "map_values(x)", of, is_outer),
        ],
        ("posexplode", [of]) => {
            vec![unnested("pos", "range(spark_size(x))", of, is_outer), unnested("col", "x", of, is_outer)]
        }
        ("inline", [of]) => {
            let names = fields_of(of).or_else(|| (named > 0).then(|| vec![String::new(); named]))?;
            let column = |(place, name): (usize, String)| {
                let mut column = unnested("col", &format!("spark_fields(x, '{place}')"), of, is_outer);
                column.name = name;
                column
            };
            names.into_iter().enumerate().map(column).collect()
        }
        ("stack", [rows, values @ ..]) => stacked(rows, values)?,
        ("json_tuple", [text, names @ ..]) => {
            let column = |(place, name): (usize, &Expr)| {
                let arguments = [text.clone(), name.clone()];
                let expr = function_call(Ident::new("spark_json_member"), arguments);
                Column { name: format!("c{place}"), expr }
            };
            names.iter().enumerate().map(column).collect()
        }
        _ => return None,
    };
    (!found.is_empty() && (named == 0 || found.len() == named)).then_some(found)
}

/// The items of a `SELECT` for columns, with the names of a statement or their own.
pub(super) fn items(columns: Vec<Column>, names: &[Ident]) -> Vec<SelectItem> {
    let item = |(place, Column { name, expr }): (usize, Column)| {
        let alias = names.get(place).cloned().unwrap_or_else(|| Ident::with_quote('"', name));
        SelectItem::ExprWithAlias { expr, alias }
    };
    columns.into_iter().enumerate().map(item).collect()
}

/// The generator that an expression is, and its arguments.
pub(super) fn call_of(expr: &Expr) -> Option<(String, Vec<Expr>)> {
    let Expr::Function(call) = expr else { return None };
    let [part] = call.name.0.as_slice() else { return None };
    let name = part.as_ident()?.value.to_ascii_lowercase();
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.over.is_none() && call.filter.is_none() && list.clauses.is_empty();
    let arguments = values_of(&list.args).filter(|_| is_plain && is_generator(&name))?;
    Some((name, arguments))
}

/// Arguments that are values.
pub(super) fn values_of(arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    arguments.iter().map(value).collect()
}

/// A column of the elements of a list `list` of `x`. An outer one has a row with a null where there is none.
fn unnested(name: &str, list: &str, of: &Expr, is_outer: bool) -> Column {
    let list = if is_outer {
        format!("CASE WHEN spark_size(x) > 0 THEN {list} ELSE make_array(NULL) END")
    } else {
        list.to_owned()
    };
    let text = if name == "pos" { format!("CAST(unnest({list}) AS INT)") } else { format!("unnest({list})") };
    let mut expr = template::expr(&text);
    each_expression(&mut expr, &mut |expr| {
        if matches!(expr, Expr::Identifier(name) if name.value == "x" && name.quote_style.is_none()) {
            *expr = of.clone();
        }
    });
    Column { name: name.to_owned(), expr }
}

/// `stack(2, a, b, c)`: two rows, filled row by row.
fn stacked(rows: &Expr, values: &[Expr]) -> Option<Vec<Column>> {
    let rows: usize = match rows {
        Expr::Value(ValueWithSpan { value: Value::Number(rows, _), .. }) => rows.parse().ok()?,
        _ => return None,
    };
    if rows == 0 || values.is_empty() {
        return None;
    }
    let width = values.len().div_ceil(rows);
    let column = |place: usize| {
        let null = || Expr::value(Value::Null);
        let cell = |row: usize| values.get(row * width + place).cloned().unwrap_or_else(null);
        let list = function_call(Ident::new("make_array"), (0..rows).map(cell));
        Column { name: format!("col{place}"), expr: function_call(Ident::new("unnest"), [list]) }
    };
    Some((0..width).map(column).collect())
}

fn name_of(expr: &Expr) -> Option<(String, &[FunctionArg])> {
    match expr {
        Expr::Nested(inner) => name_of(inner),
        Expr::Function(call) => match &call.args {
            FunctionArguments::List(list) => Some((call.name.to_string().to_ascii_lowercase(), &list.args)),
            _ => None,
        },
        _ => None,
    }
}

fn is_map(expr: &Expr) -> bool {
    name_of(expr).is_some_and(|(name, _)| OF_MAPS.contains(&name.as_str()))
}

/// The names of the fields of the structs in a list that is written out.
fn fields_of(list: &Expr) -> Option<Vec<String>> {
    let (_, elements) = name_of(list).filter(|(name, _)| name == "array" || name == "make_array")?;
    let elements = values_of(elements)?;
    let field = |(place, value): (usize, &Expr)| match value {
        Expr::Identifier(name) => name.value.clone(),
        Expr::Named { name, .. } => name.value.clone(),
        _ => format!("col{}", place + 1),
    };
    match elements.first()? {
        Expr::Struct { values, fields } if fields.is_empty() => {
            Some(values.iter().enumerate().map(field).collect())
        }
        first => match name_of(first)? {
            (name, values) if name == "struct" => {
                Some(values_of(values)?.iter().enumerate().map(field).collect())
            }
            (name, values) if name == "named_struct" => {
                let values = values_of(values)?;
                values.iter().step_by(2).map(|name| text_of(name).map(str::to_owned)).collect()
            }
            _ => None,
        },
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}
