//! What the Tab key offers, decided from the text and the session's names alone. The editor looks up paths on disk.

use super::command::{Argument, COMMANDS, find};
use super::names::Names;
use super::statement::{Open, Quotes, Splitter};
use crate::Place;

/// The most words that are offered at a time.
const OFFERS_MAX: usize = 200;

/// The SQL keywords that are worth completing, sorted.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "all", "alter", "analyze", "and", "anti", "as", "asc", "between", "bigint", "boolean", "by", "case", "cast",
    "copy", "create", "cross", "cube", "current_date", "current_timestamp", "date", "decimal", "delete", "desc",
    "describe", "distinct", "double", "drop", "else", "end", "except", "exclude", "execute", "exists", "explain",
    "external", "extract", "false", "filter", "first", "float", "following", "format", "from", "full", "group",
    "grouping", "having", "if", "ilike", "in", "inner", "insert", "int", "integer", "intersect", "interval", "into",
    "is", "join", "last", "lateral", "left", "like", "limit", "location", "materialized", "natural", "not", "null",
    "nulls", "offset", "on", "options", "or", "order", "outer", "over", "partition", "partitioned", "preceding",
    "prepare", "qualify", "range", "recursive", "replace", "right", "rollup", "row", "rows", "schema", "select",
    "semi", "set", "sets", "show", "similar", "stored", "table", "tables", "temporary", "then", "timestamp", "to",
    "true", "unbounded", "union", "unnest", "using", "values", "varchar", "view", "when", "where",
];

/// What could stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// Words that replace the text from byte `start` to the cursor.
    Words { start: usize, words: Vec<String> },
    /// A path, whose text so far begins at byte `start`.
    Path { start: usize },
}

/// What could stand at byte `at` of `text`.
pub(super) fn offer(names: &Names, text: &str, at: usize, quotes: Quotes) -> Offer {
    let before = &text[..at];
    if before.trim_start().starts_with('.') {
        return offer_command(names, before);
    }
    let mut splitter = Splitter::new(quotes);
    // A text that the splitter refuses as too long gets no completion.
    if splitter.push(before).is_err() {
        return Offer::Words { start: at, words: Vec::new() };
    }
    match splitter.open() {
        Some(Open::String) => Offer::Path { start: byte_at(before, splitter.opened()) + 1 },
        Some(Open::Comment | Open::DollarQuote) => Offer::Words { start: at, words: Vec::new() },
        _ => offer_sql(names, text, before),
    }
}

fn offer_command(names: &Names, before: &str) -> Offer {
    let indent = before.len() - before.trim_start().len();
    let line = &before[indent..];
    let Some(blank) = line.find(char::is_whitespace) else {
        let words = COMMANDS.iter().map(|command| command.name.to_owned());
        return Offer::Words { start: indent, words: starting_with(line, words) };
    };
    let argument = line[blank..].trim_start();
    let start = before.len() - argument.len();
    let words: Vec<String> = match find(&line[..blank]).map_or(Argument::None, |command| command.argument) {
        Argument::None => Vec::new(),
        Argument::Command => COMMANDS.iter().map(|command| command.name.to_owned()).collect(),
        Argument::Table => names.tables.iter().map(|(table, _)| table.clone()).collect(),
        Argument::Switch => vec!["off".to_owned(), "on".to_owned()],
        Argument::Format => ["csv", "json", "line", "table"].map(str::to_owned).to_vec(),
        Argument::Rows => vec!["all".to_owned()],
        Argument::File => {
            let quote = usize::from(argument.starts_with(['\'', '"']));
            return Offer::Path { start: start + quote };
        }
    };
    Offer::Words { start, words: starting_with(argument, words.into_iter()) }
}

fn offer_sql(names: &Names, text: &str, before: &str) -> Offer {
    let start = before.trim_end_matches(|c: char| is_word(c)).len();
    let prefix = &before[start..];
    let left = before[..start].trim_end_matches('"');
    if let Some(left) = left.strip_suffix('.') {
        let qualifier =
            left[left.trim_end_matches(|c: char| is_word(c) || c == '"').len()..].trim_matches('"');
        return Offer::Words { start, words: qualified(names, text, qualifier, prefix) };
    }
    let previous =
        before[..start].split(|c: char| !is_word(c)).rfind(|word| !word.is_empty()).unwrap_or_default();
    let directly = before[..start].trim_end().ends_with(|c: char| is_word(c));
    let wants_table = ["from", "join", "into", "table", "describe", "update", "view"];
    if directly && wants_table.iter().any(|word| word.eq_ignore_ascii_case(previous)) {
        let tables = names.tables.iter().map(|(table, _)| quoted(table));
        return Offer::Words { start, words: starting_with(prefix, tables) };
    }
    let mentioned = mentioned(names, text);
    let columns = names
        .tables
        .iter()
        .filter(|(table, _)| mentioned.is_empty() || mentioned.contains(&table.as_str()))
        .flat_map(|(_, columns)| columns.iter().map(|column| quoted(column)));
    if prefix.is_empty() {
        let columns: Vec<String> = if mentioned.is_empty() { Vec::new() } else { columns.collect() };
        return Offer::Words { start, words: starting_with("", columns.into_iter()) };
    }
    let upper = prefix.ends_with(|c: char| c.is_ascii_uppercase());
    let keywords =
        KEYWORDS.iter().map(|word| if upper { word.to_ascii_uppercase() } else { (*word).to_owned() });
    let functions = names.functions.iter().map(|function| format!("{function}("));
    let tables = names.tables.iter().map(|(table, _)| quoted(table));
    Offer::Words {
        start,
        words: starting_with(prefix, columns.chain(tables).chain(keywords).chain(functions)),
    }
}

/// What may follow `qualifier.`: the columns of a table or of its alias, or the tables of a schema.
fn qualified(names: &Names, text: &str, qualifier: &str, prefix: &str) -> Vec<String> {
    let table = names
        .tables
        .iter()
        .find(|(table, _)| table.eq_ignore_ascii_case(qualifier))
        .or_else(|| aliased(names, text, qualifier));
    if let Some((_, columns)) = table {
        return starting_with(prefix, columns.iter().map(|column| quoted(column)));
    }
    let in_schema = names.tables.iter().filter_map(|(table, _)| {
        let (schema, rest) = table.split_once('.')?;
        schema.eq_ignore_ascii_case(qualifier).then(|| quoted(rest))
    });
    starting_with(prefix, in_schema)
}

/// The table that has this alias in `text`: `orders o`, `orders as o`.
fn aliased<'n>(names: &'n Names, text: &str, alias: &str) -> Option<&'n (String, Vec<String>)> {
    let words: Vec<&str> = words(text).collect();
    words.iter().enumerate().filter(|(_, word)| word.eq_ignore_ascii_case(alias)).find_map(|(at, _)| {
        let mut back = words[..at].iter().rev();
        let word = back.next().filter(|word| !word.eq_ignore_ascii_case("as")).or_else(|| back.next())?;
        names.tables.iter().find(|(table, _)| table.eq_ignore_ascii_case(word))
    })
}

/// The tables that `text` names.
fn mentioned<'n>(names: &'n Names, text: &str) -> Vec<&'n str> {
    let words: std::collections::HashSet<String> = words(text).map(str::to_ascii_lowercase).collect();
    let tables = names.tables.iter().map(|(table, _)| table.as_str());
    tables.filter(|table| words.contains(&table.to_ascii_lowercase())).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c) && c != '.').filter(|word| !word.is_empty())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A name as SQL requires it: quoted unless it is plain and lower case.
fn quoted(name: &str) -> String {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if name.split('.').all(plain) || name.starts_with('"') {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn starting_with(prefix: &str, words: impl Iterator<Item = String>) -> Vec<String> {
    let lower = prefix.to_lowercase();
    let mut words: Vec<String> =
        words.filter(|word| word.trim_start_matches('"').to_lowercase().starts_with(&lower)).collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(OFFERS_MAX);
    words
}

/// The byte offset of `place` in `text`.
fn byte_at(text: &str, place: Place) -> usize {
    let mut at = 0;
    for _ in 1..place.line {
        at += text[at..].find('\n').map_or(text.len() - at, |newline| newline + 1);
    }
    at + text[at..].chars().take(place.column as usize - 1).map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let table = |name: &str, columns: &[&str]| {
            (name.to_owned(), columns.iter().map(|c| (*c).to_owned()).collect())
        };
        Names {
            tables: vec![
                table("customer", &["c_custkey", "c_name"]),
                table("orders", &["o_orderkey", "o_custkey", "Odd Name"]),
                table("raw.events", &["at"]),
            ],
            functions: vec!["count".to_owned(), "sum".to_owned()],
        }
    }

    /// The words offered where `|` stands in the text.
    fn words_at(text: &str) -> Vec<String> {
        let at = text.find('|').unwrap();
        match offer(&names(), &text.replace('|', ""), at, Quotes::Own) {
            Offer::Words { words, .. } => words,
            Offer::Path { .. } => vec!["a path".to_owned()],
        }
    }

    #[test]
    fn each_place_gets_the_words_that_fit_there() {
        for (text, expected) in [
            ("select * from |", &["customer", "orders", "raw.events"][..]),
            ("select * from o|", &["orders"]),
            ("select o_| from orders", &["o_custkey", "o_orderkey"]),
            ("select c_| from orders", &[]),
            ("select o.| from orders o", &["\"Odd Name\"", "o_custkey", "o_orderkey"]),
            ("select o.o_c| from customer as c join orders as o", &["o_custkey"]),
            ("select orders.o_o| from orders", &["o_orderkey"]),
            ("select * from raw.|", &["events"]),
            ("sel|", &["select"]),
            ("SEL|", &["SELECT"]),
            ("select cou|", &["count("]),
            ("select 'o|", &["a path"]),
            ("select * from 'data/|", &["a path"]),
            ("select 1 /* fr|", &[]),
            (".mo|", &[".mode"]),
            (".mode |", &["csv", "json", "line", "table"]),
            (".maxrows |", &["all"]),
            (".schema o|", &["orders"]),
            (".read fi|", &["a path"]),
            (".quit |", &[]),
        ] {
            assert_eq!(words_at(text), expected, "{text}");
        }
    }

    #[test]
    fn a_path_begins_after_its_quote_on_any_line() {
        let text = "select 'é',\n  count(*) from 'data/é";
        assert_eq!(
            offer(&names(), text, text.len(), Quotes::Own),
            Offer::Path { start: text.find("data").unwrap() }
        );
        assert_eq!(offer(&names(), ".read 'my", 9, Quotes::Own), Offer::Path { start: 7 });
    }

    #[test]
    fn keywords_are_sorted_and_distinct() {
        assert!(KEYWORDS.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_wide_catalog_is_bounded() {
        let tables = (0..5000).map(|index| (format!("t{index}"), Vec::new())).collect();
        let names = Names { tables, functions: Vec::new() };
        match offer(&names, "select * from t", 15, Quotes::Own) {
            Offer::Words { words, .. } => assert_eq!(words.len(), OFFERS_MAX),
            Offer::Path { .. } => panic!("not a path"),
        }
    }
}
