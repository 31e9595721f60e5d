//! Calls of functions whose meaning in Spark needs more than a line of the table.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Value, ValueWithSpan,
};
use yeoul_base::ErrorKind;

use super::expressions::{plain, taken};
use super::quantified_likes::distinct_rows;
use super::{geometries, lambdas};
use crate::json::spark_documents::{schema_of_csv, schema_of_json};
use crate::numbers::spark_ceilings::CeilingAt;
use crate::numbers::spark_operators::SparkOperator;
use crate::parse::function_call::function_call;
use crate::parse::template;
use crate::parse::visit::each_expression;
use crate::time::time_units::{InUnits, is_unit};
use crate::types::spark_element::ELEMENT;
use crate::types::spark_values::Kind;
use crate::{Error, Result};

/// Expression that a call stands for; `None` if the table has it, or it means the same.
///
/// # Errors
/// `Invalid` for arguments that have no meaning here.
pub(super) fn own(name: &str, call: &mut Function) -> Result<Option<Expr>> {
    if let Some(own) = lambdas::own(name, call) {
        return Ok(Some(own));
    }
    if let Some(own) = geometries::own(name, call)? {
        return Ok(Some(own));
    }
    Ok(match name {
        "rank" | "dense_rank" | "percent_rank" => {
            // Their arguments are those of the order, and decide nothing.
            if let FunctionArguments::List(list) = &mut call.args {
                list.args.clear();
            }
            None
        }
        "ceil" | "ceiling" | "floor" if number_of_values(call) == 2 => {
            let to = if name == "floor" { CeilingAt::Below } else { CeilingAt::Above };
            let values: Option<[Expr; 2]> = values_of(call).and_then(|values| values.try_into().ok());
            values.map(|[value, digit]| rounded_at(to, value, digit))
        }
        "arrays_zip" => values_of(call).map(|lists| {
            let named = lists.into_iter().enumerate().flat_map(|(place, list)| {
                let name = match &list {
                    Expr::Identifier(name) => name.value.clone(),
                    Expr::CompoundIdentifier(parts) => {
                        parts.last().map_or_else(|| place.to_string(), |part| part.value.clone())
                    }
                    _ => place.to_string(),
                };
                [Expr::value(Value::SingleQuotedString(name)), list]
            });
            function_call(Ident::new("spark_arrays_zip"), named)
        }),
        "concat" => values_of(call).map(concat),
        "concat_ws" => values_of(call).map(|values| {
            let parts = values
                .into_iter()
                .enumerate()
                .map(|(place, value)| if place == 0 { value } else { part(value) });
            function_call(Ident::new("concat_ws"), parts)
        }),
        "date_part" | "datepart" => match two(call) {
            Some([Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(field), .. }), _]) => {
                let field = field.to_uppercase();
                if !field.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') || field.is_empty() {
                    return Err(Error::new(ErrorKind::Invalid, format!("'{field}' is no part of a time")));
                }
                let mut time =
                    values_of(call).and_then(|mut values| values.pop()).unwrap_or(Expr::value(Value::Null));
                extracted(&field, &mut time)
                    .or_else(|| Some(filled(&format!("extract({field} FROM x)"), [("x", time)])))
            }
            _ => None,
        },
        "try_add" | "try_subtract" | "try_multiply" => {
            let operator = SparkOperator::of_function(name);
            let values: Option<[Expr; 2]> = values_of(call).and_then(|values| values.try_into().ok());
            operator.zip(values).map(|(op, values)| {
                let [left, right] = values.map(|side| Box::new(Expr::Nested(Box::new(side))));
                Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }))
            })
        }
        "mod" => of_operator(call, &BinaryOperator::Modulo),
        "pmod" if has_text(call) => {
            let values: Option<[Expr; 2]> = values_of(call).and_then(|values| values.try_into().ok());
            values.map(|[number, by]| {
                let rest = binary(number, &BinaryOperator::Modulo, by.clone());
                let next = binary(rest.clone(), &BinaryOperator::Plus, by.clone());
                let next = binary(next, &BinaryOperator::Modulo, by);
                filled("CASE WHEN r < 0 THEN n ELSE r END", [("r", rest), ("n", next)])
            })
        }
        "div" => of_operator(call, &BinaryOperator::MyIntegerDivide),
        "elt" => values_of(call).and_then(element_of_values),
        "decode" => match values_of(call) {
            Some(values) if values.len() > 2 => decoded(values),
            Some(values) => Some(function_call(Ident::new("spark_decode"), values)),
            None => None,
        },
        "timestampadd" | "dateadd" | "date_add" => in_units(call, InUnits::Add),
        "timestampdiff" | "timediff" | "datediff" | "date_diff" => in_units(call, InUnits::Difference),
        "to_date" | "to_timestamp" | "to_timestamp_ntz" => {
            let kind = if name == "to_date" { "DATE" } else { "TIMESTAMP" };
            let Some(values) = values_of(call) else { return Ok(None) };
            let mut values = values.into_iter();
            match (values.next(), values.next(), values.next()) {
                (Some(text), None, None) => {
                    let text = function_call(Ident::new(Kind::Time.name()), [text]);
                    Some(filled(&format!("CAST(x AS {kind})"), [("x", text)]))
                }
                (Some(text), Some(pattern), None) => {
                    let read = function_call(Ident::new("spark_parse_time"), [text, pattern]);
                    Some(filled(&format!("CAST(x AS {kind})"), [("x", read)]))
                }
                _ => None,
            }
        }
        "from_json" | "from_csv" | "to_json" | "to_csv" => values_of(call).and_then(|v| document(name, v)),
        "schema_of_json" => match values_of(call).as_deref() {
            Some([Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })]) => {
                Some(Expr::value(Value::SingleQuotedString(schema_of_json(text)?)))
            }
            _ => {
                let error = Error::new(
                    ErrorKind::Invalid,
                    "not supported: schema_of_json with options, or of no constant",
                );
                return Err(error.with_hint("write the schema as a text"));
            }
        },
        "schema_of_csv" => values_of(call).map(csv_schema).transpose()?,
        "try_divide" | "try_mod" => match values_of(call) {
            Some(values) if values.len() == 2 => {
                let [left, right]: [Expr; 2] = values.try_into().expect("two values");
                let op = if name == "try_mod" { BinaryOperator::Modulo } else { BinaryOperator::Divide };
                let quotient = binary(left, &op, right.clone());
                Some(filled("CASE WHEN y = 0 THEN NULL ELSE x END", [("y", right), ("x", quotient)]))
            }
            _ => None,
        },
        "regexp_replace" => {
            let Some(values) = values_of(call) else { return Ok(None) };
            let mut values = values.into_iter();
            let (Some(text), Some(pattern), Some(replacement), at, None) =
                (values.next(), values.next(), values.next(), values.next(), values.next())
            else {
                let error = Error::new(ErrorKind::Invalid, "regexp_replace takes three or four arguments");
                return Err(error.with_hint("write regexp_replace(text, pattern, replacement)"));
            };
            let replacement = replacement_of(replacement)?;
            Some(match at {
                Some(at) => {
                    let body = crate::functions::spark::body("regexp_replace", 4);
                    filled(body, [("s", text), ("p", pattern), ("r", replacement), ("at", at)])
                }
                None => {
                    let global = Expr::value(Value::SingleQuotedString("g".to_owned()));
                    function_call(Ident::new("regexp_replace"), [text, pattern, replacement, global])
                }
            })
        }
        _ => None,
    })
}

/// A number rounded up or down at a digit, which is a constant.
pub(super) fn rounded_at(to: CeilingAt, value: Expr, mut digit: Expr) -> Expr {
    plain(&mut digit);
    function_call(Ident::new(to.function()), [value, digit])
}

/// A function of documents whose options, a map of constants, are arguments behind the others. `None` for other options.
fn document(name: &str, mut values: Vec<Expr>) -> Option<Expr> {
    let own = if name.starts_with("to_") { 1 } else { 2 };
    let options = match values.len().checked_sub(own)? {
        0 => Vec::new(),
        1 => options_of(values.pop()?)?,
        _ => return None,
    };
    Some(function_call(Ident::new(format!("spark_{name}")), values.into_iter().chain(options)))
}

/// The schema of a constant line of CSV.
fn csv_schema(mut values: Vec<Expr>) -> Result<Expr> {
    let text = |expr: &Expr| match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text.clone()),
        _ => None,
    };
    let options = match values.len() {
        2 => values.pop().and_then(options_of),
        _ => Some(Vec::new()),
    };
    let delimiter = match options.as_deref() {
        Some([]) => Some(','),
        Some([key, value]) if text(key).is_some_and(|key| key == "sep" || key == "delimiter") => {
            text(value).and_then(|value| value.parse().ok())
        }
        _ => None,
    };
    let (Some(delimiter), [line]) = (delimiter, values.as_slice()) else {
        let error = Error::new(ErrorKind::Invalid, "not supported: schema_of_csv with such options");
        return Err(error.with_hint("write the schema as a text"));
    };
    let line = text(line).ok_or_else(|| {
        let error = Error::new(ErrorKind::Invalid, "not supported: schema_of_csv of no constant");
        error.with_hint("write the schema as a text")
    })?;
    Ok(Expr::value(Value::SingleQuotedString(schema_of_csv(&line, delimiter)?)))
}

/// The keys and values, by turns, of `map(keys, values)`.
fn options_of(map: Expr) -> Option<Vec<Expr>> {
    let lists = |expr: Expr, function: &str| match expr {
        Expr::Function(mut call) if call.name.to_string() == function => values_of(&mut call),
        _ => None,
    };
    let [keys, values]: [Expr; 2] = lists(map, "map")?.try_into().ok()?;
    let pairs = lists(keys, "make_array")?.into_iter().zip(lists(values, "make_array")?);
    Some(pairs.flat_map(|(key, value)| [key, value]).collect())
}

/// `elt(n, a, b)`: the value at a place from 1 on.
fn element_of_values(values: Vec<Expr>) -> Option<Expr> {
    let mut values = values.into_iter();
    let place = values.next()?;
    let values: Vec<Expr> = values.map(part).collect();
    if values.is_empty() {
        return None;
    }
    let list = function_call(Ident::new("make_array"), values);
    Some(function_call(Ident::new(ELEMENT), [list, filled("n - 1", [("n", place)])]))
}

/// `decode(x, a, 1, b, 2, 3)`: the value behind the one that is equal, nulls among them; else the last one, or null.
fn decoded(values: Vec<Expr>) -> Option<Expr> {
    let mut values = values.into_iter();
    let compared = values.next()?;
    let mut case = template::expr("CASE WHEN x IS NOT DISTINCT FROM y THEN z ELSE NULL END");
    let Expr::Case { conditions, else_result, .. } = &mut case else { return None };
    let when = conditions.pop()?;
    loop {
        match (values.next(), values.next()) {
            (Some(sought), Some(result)) => {
                let mut when = when.clone();
                if let Expr::IsNotDistinctFrom(left, right) = &mut when.condition {
                    **left = Expr::Nested(Box::new(compared.clone()));
                    **right = Expr::Nested(Box::new(sought));
                }
                when.result = result;
                conditions.push(when);
            }
            (missing, _) => {
                *else_result = missing.map(Box::new);
                return Some(Expr::Nested(Box::new(case)));
            }
        }
    }
}

/// A call with a unit first, `dateadd(MONTH, 1, t)`; one without it is another function.
fn in_units(call: &mut Function, function: InUnits) -> Option<Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(unit))), _, _] = list.args.as_slice()
    else {
        return None;
    };
    if !is_unit(&unit.value) {
        return None;
    }
    let unit = Expr::value(Value::SingleQuotedString(unit.value.clone()));
    let mut values = values_of(call)?;
    values[0] = unit;
    Some(function_call(Ident::new(function.function()), values))
}

/// `mode() WITHIN GROUP (ORDER BY x)` is `mode(x)`: of values that are equally frequent the first one.
pub(super) fn take_order(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    if let [order] = call.within_group.as_slice()
        && list.args.is_empty()
        && order.options.asc != Some(false)
        && order.options.nulls_first.is_none()
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone())));
        call.within_group.clear();
    }
}

/// `count(DISTINCT a, b)` counts rows that have no null.
pub(super) fn count_rows(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct) || list.args.len() < 2 {
        return;
    }
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    if let Some(values) = list.args.iter().map(value).collect::<Option<Vec<Expr>>>() {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(distinct_rows(values)))];
    }
}

/// The values that a call of nothing but values has.
pub(super) fn values_of(call: &mut Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &mut call.args else { return None };
    let is_plain = call.over.is_none()
        && call.filter.is_none()
        && list.clauses.is_empty()
        && list.duplicate_treatment.is_none();
    let are_values =
        list.args.iter().all(|argument| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(_))));
    if !is_plain || !are_values {
        return None;
    }
    let value = |argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => expr,
        _ => unreachable!("all arguments are values"),
    };
    Some(mem::take(&mut list.args).into_iter().map(value).collect())
}

/// True for a call with a text that is written, or cast to one.
fn has_text(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    list.args.iter().any(|argument| {
        matches!(
            argument,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(
                Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })
                    | Expr::Cast { data_type: DataType::String(_), .. }
            ))
        )
    }) && list.args.iter().all(|argument| {
        matches!(
            argument,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(
                Expr::Value(_) | Expr::Cast { .. } | Expr::Identifier(_)
            ))
        )
    })
}

fn number_of_values(call: &Function) -> usize {
    match &call.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    }
}

fn two(call: &Function) -> Option<[&Expr; 2]> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(first)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(second)),
        ] => Some([first, second]),
        _ => None,
    }
}

/// A part of a text that is put together: a float is written as Java writes it.
pub(super) fn part(value: Expr) -> Expr {
    match value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => value,
        value => function_call(Ident::new(Kind::Part.name()), [value]),
    }
}

/// `concat(a, b)` is null if one of them is: `a || b`.
fn concat(values: Vec<Expr>) -> Expr {
    let empty = || Expr::value(Value::SingleQuotedString(String::new()));
    let mut values = values.into_iter().map(part);
    let Some(first) = values.next() else { return empty() };
    let mut rest = values.peekable();
    if rest.peek().is_none() {
        return function_call(Ident::new(Kind::Text.name()), [first]);
    }
    let joined = rest.fold(first, |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::StringConcat,
        right: Box::new(right),
    });
    Expr::Nested(Box::new(joined))
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    let op = SparkOperator::of(op).unwrap_or_else(|| op.clone());
    let [left, right] = [left, right].map(|side| Box::new(Expr::Nested(Box::new(side))));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }))
}

fn of_operator(call: &mut Function, op: &BinaryOperator) -> Option<Expr> {
    let [left, right]: [Expr; 2] = values_of(call)?.try_into().ok()?;
    Some(binary(left, op, right))
}

/// A template in which names stand for expressions.
pub(super) fn filled<const N: usize>(text: &str, mut values: [(&str, Expr); N]) -> Expr {
    let mut expr = template::expr(text);
    each_expression(&mut expr, &mut |expr| {
        let Expr::Identifier(name) = expr else { return };
        if let Some((_, value)) = values.iter_mut().find(|(found, _)| *found == name.value) {
            *expr = Expr::Nested(Box::new(value.clone()));
        }
    });
    Expr::Nested(Box::new(expr))
}

/// A part of a time that means something else than in own words.
pub(super) fn extracted(field: &str, time: &mut Expr) -> Option<Expr> {
    let own = match field.to_ascii_uppercase().as_str() {
        "DOW" | "DAYOFWEEK" => "extract(dow FROM x) + 1",
        "DOW_ISO" | "DAYOFWEEK_ISO" => "extract(isodow FROM x)",
        "YEAROFWEEK" => "extract(isoyear FROM x)",
        "S" | "SEC" | "SECS" | "SECOND" | "SECONDS" => {
            "CAST(CAST(CAST(extract(microsecond FROM x) AS DECIMAL(14, 0)) / 1000000 AS DECIMAL(14, 6)) AS DECIMAL(8, 6))"
        }
        _ => return None,
    };
    Some(filled(own, [("x", taken(time))]))
}

/// The first character of a text is at 1, and at 0, too.
pub(super) fn count_from_one(from: &mut Expr) {
    let place = taken(from);
    *from = filled("CASE WHEN n = 0 THEN 1 ELSE n END", [("n", place)]);
}

/// The replacement of a regular expression: `$1` is a group, and a backslash escapes the next letter.
///
/// # Errors
/// `Invalid` for one that is computed.
fn replacement_of(replacement: Expr) -> Result<Expr> {
    let mut literal = &replacement;
    while let Expr::Nested(inner) = literal {
        literal = inner.as_ref();
    }
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = literal else {
        let error =
            Error::new(ErrorKind::Invalid, "not supported: a replacement of regexp_replace that is computed");
        return Err(error.with_hint("write it as a text between quotes"));
    };
    let mut own = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('$') => own.push_str("$$"),
                Some(escaped) => own.push(escaped),
                None => {
                    return Err(Error::new(ErrorKind::Invalid, "a replacement that ends with a backslash"));
                }
            },
            '$' => {
                let Some(group) = letters.next().filter(char::is_ascii_digit) else {
                    let error =
                        Error::new(ErrorKind::Invalid, format!("not supported: the replacement '{text}'"));
                    return Err(error.with_hint("a group is $1 to $9, a dollar sign \\\\$"));
                };
                own.push_str(&format!("${{{group}}}"));
            }
            letter => own.push(letter),
        }
    }
    Ok(Expr::value(Value::SingleQuotedString(own)))
}
