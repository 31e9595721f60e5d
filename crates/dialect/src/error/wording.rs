//! DataFusion's words in errors that a person reads: types as SQL calls them, and what is wrong without who found it out.

use std::borrow::Cow;

use datafusion::arrow::datatypes::DataType;

use crate::types::type_name;

/// What introduces a message, and says nothing to whoever wrote the statement.
const STARTS: [&str; 8] = [
    "Error during planning: ",
    "Execution error: ",
    "Internal error: ",
    "External error: ",
    "Arrow error: ",
    "Cast error: ",
    "Compute error: ",
    "Invalid argument error: ",
];

/// A message in SQL's words.
pub(super) fn reworded(message: &str) -> String {
    let message =
        message.split(". No function matches the given name and argument types").next().unwrap_or(message);
    let message = message.trim_end_matches('.');
    let message = own_words(message).unwrap_or_else(|| without_start(message).into());
    with_type_names(&once_received(&message))
}

/// Those messages that DataFusion puts together from parts of its own.
fn own_words(message: &str) -> Option<Cow<'_, str>> {
    let message = without_start(message);
    if let Some(rest) = message.strip_prefix("Function '")
        && let Some((name, cause)) = rest.split_once("' user-defined coercion failed with: ")
    {
        let cause = without_start(cause);
        let is_own = cause.starts_with("not supported: ") || cause.contains(name);
        return Some(if is_own { cause.into() } else { format!("function '{name}': {cause}").into() });
    }
    if let Some(rest) = message.strip_prefix("Failed to coerce arguments to satisfy a call to '")
        && let Some((name, rest)) = rest.split_once("' function: coercion from ")
        && let Some((types, _)) = rest.split_once(" to the signature ")
    {
        return Some(format!("function '{name}' does not take ({types})").into());
    }
    for (start, middle) in [("Cannot cast string '", "' to value of "), ("Can't cast value ", " to type ")] {
        if let Some(rest) = message.strip_prefix(start)
            && let Some((value, kind)) = rest.rsplit_once(middle)
        {
            let kind = kind.trim_end_matches(" type");
            let quote = if start.ends_with('\'') { "'" } else { "" };
            return Some(format!("cannot cast {quote}{value}{quote} to {kind}").into());
        }
    }
    if let Some(operation) = message.strip_prefix("Cannot coerce arithmetic expression ")
        && let Some((operation, _)) = operation.rsplit_once(" to valid types")
    {
        return Some(format!("there is no {operation}").into());
    }
    None
}

fn without_start(message: &str) -> &str {
    match STARTS.iter().find_map(|start| message.strip_prefix(start)) {
        Some(rest) => without_start(rest),
        None => message,
    }
}

/// `received String (DataType: Utf8)` as `received Utf8`.
fn once_received(message: &str) -> Cow<'_, str> {
    let Some((before, rest)) = message.split_once(" (DataType: ") else { return message.into() };
    let Some(((head, _), kind)) = before.rsplit_once(" received ").zip(rest.strip_suffix(')')) else {
        return message.into();
    };
    format!("{head} received {kind}").into()
}

/// A message with SQL's names of types; what stands in quotes is somebody's own text.
fn with_type_names(message: &str) -> String {
    let mut written = String::with_capacity(message.len());
    let mut rest = message;
    let mut last = ' ';
    while let Some(first) = rest.chars().next() {
        let starts_word = !last.is_alphanumeric() && last != '_';
        if first == '\''
            && starts_word
            && let Some(end) = rest[1..].find('\'')
        {
            written.push_str(&rest[..end + 2]);
            rest = &rest[end + 2..];
            last = '\'';
            continue;
        }
        if first.is_ascii_uppercase()
            && starts_word
            && let Some((kind, length)) = type_at(rest)
        {
            written.push_str(&type_name(&kind));
            rest = &rest[length..];
            last = 'a';
            continue;
        }
        written.push(first);
        rest = &rest[first.len_utf8()..];
        last = first;
    }
    written
}

/// The type with which a text begins, as Arrow writes it, and its length.
fn type_at(text: &str) -> Option<(DataType, usize)> {
    let word = text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len());
    if !text[word..].starts_with('(') {
        // These are words of English, too.
        let is_word = matches!(&text[..word], "Null" | "Boolean" | "Binary");
        let kind = text[..word].parse().ok()?;
        return (!is_word).then_some((kind, word));
    }
    let mut depth = 0_usize;
    for (at, letter) in text[word..].char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let length = word + at + 1;
            return Some((text[..length].parse().ok()?, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_sql() {
        for (message, expected) in [
            (
                "Cannot coerce arithmetic expression Int64 + Utf8 to valid types",
                "there is no BIGINT + VARCHAR",
            ),
            (
                "Cannot coerce arithmetic expression List(Int64) + Int64 to valid types",
                "there is no BIGINT[] + BIGINT",
            ),
            (
                "Cast error: Cannot cast string '2024-13-01' to value of Date32 type",
                "cannot cast '2024-13-01' to DATE",
            ),
            ("Cast error: Can't cast value 1e20 to type Int32", "cannot cast 1e20 to INTEGER"),
            (
                "Execution error: Function 'max' user-defined coercion failed with: Execution error: min/max was called \
                 with 2 arguments. It requires only 1.. No function matches the given name and argument types \
                 'max(Int64, Int64)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tmax(UserDefined)",
                "min/max was called with 2 arguments. It requires only 1",
            ),
            (
                "Failed to coerce arguments to satisfy a call to 'array_length' function: coercion from Int64, \
                 Timestamp(µs, \"UTC\") to the signature OneOf(ArraySignature(array)) failed",
                "function 'array_length' does not take (BIGINT, TIMESTAMP WITH TIME ZONE)",
            ),
            (
                "function 'sum' requires Decimal, but received String (DataType: Utf8)",
                "function 'sum' requires Decimal, but received VARCHAR",
            ),
            (
                "unsupported CAST from Interval(MonthDayNano) to Float64",
                "unsupported CAST from INTERVAL to DOUBLE",
            ),
            (
                "there is no table 'Int64' of Int64s, which isn't Utf8",
                "there is no table 'Int64' of Int64s, which isn't VARCHAR",
            ),
            ("Null values and a Struct(", "Null values and a Struct("),
            ("not a List(Foo) here", "not a List(Foo) here"),
        ] {
            assert_eq!(reworded(message), expected);
        }
    }
}
