//! Calls of functions that read files, `read_csv('a.csv', delim = ';')`: they are tables whose name is the call.

use std::fmt;

/// A call of a function that reads files, as the name of a table holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// Name of the function, in small letters.
    pub function: String,
    /// Paths, globs or addresses of the files, at least one.
    pub paths: Vec<String>,
    /// Names of options in small letters, and their values, in the order in which they were written.
    pub options: Vec<(String, FileOption)>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOption {
    /// A text, or a number or truth value as text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// Texts by name, such as types of columns.
    Named(Vec<(String, String)>),
}

/// The functions of DuckDB that read files, or tell of them.
pub(crate) const FUNCTIONS: [&str; 13] = [
    "glob",
    "parquet_file_metadata",
    "parquet_kv_metadata",
    "parquet_metadata",
    "parquet_scan",
    "parquet_schema",
    "read_csv",
    "read_csv_auto",
    "read_json",
    "read_json_auto",
    "read_ndjson",
    "read_ndjson_auto",
    "read_parquet",
];

impl FileCall {
    /// The name of the table: `read_csv(['a.csv'], delim => ';')`, with a quote in a text written twice.
    pub fn name(&self) -> String {
        let mut name = format!("{}({}", self.function, FileOption::List(self.paths.clone()));
        for (option, value) in &self.options {
            name += &format!(", {option} => {value}");
        }
        name + ")"
    }

    /// The call that the name of a table is; `None` for other names.
    pub fn of_name(name: &str) -> Option<Self> {
        let (function, rest) = name.split_once('(')?;
        if !FUNCTIONS.contains(&function) {
            return None;
        }
        let (FileOption::List(paths), mut rest) = value_of(rest)? else { return None };
        let mut options = Vec::new();
        while rest != ")" {
            let (option, value) = rest.strip_prefix(", ")?.split_once(" => ")?;
            let (value, left) = value_of(value)?;
            options.push((option.to_owned(), value));
            rest = left;
        }
        let call = Self { function: function.to_owned(), paths, options };
        (!call.paths.is_empty()).then_some(call)
    }
}

impl fmt::Display for FileOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Named(texts) => {
                let named = |(name, text): &(String, String)| format!("{}: {}", quoted(name), quoted(text));
                let texts: Vec<String> = texts.iter().map(named).collect();
                write!(f, "{{{}}}", texts.join(", "))
            }
        }
    }
}

/// The value at the begin, and what follows it.
fn value_of(written: &str) -> Option<(FileOption, &str)> {
    if let Some(mut rest) = written.strip_prefix('[') {
        let mut texts = Vec::new();
        while !rest.starts_with(']') {
            rest = if texts.is_empty() { rest } else { rest.strip_prefix(", ")? };
            let (text, left) = text_of(rest)?;
            texts.push(text);
            rest = left;
        }
        return Some((FileOption::List(texts), &rest[1..]));
    }
    if let Some(mut rest) = written.strip_prefix('{') {
        let mut texts = Vec::new();
        while !rest.starts_with('}') {
            rest = if texts.is_empty() { rest } else { rest.strip_prefix(", ")? };
            let (name, left) = text_of(rest)?;
            let (text, left) = text_of(left.strip_prefix(": ")?)?;
            texts.push((name, text));
            rest = left;
        }
        return Some((FileOption::Named(texts), &rest[1..]));
    }
    let (text, rest) = text_of(written)?;
    Some((FileOption::Text(text), rest))
}

/// The text in quotes at the begin, and what follows it.
fn text_of(written: &str) -> Option<(String, &str)> {
    let mut rest = written.strip_prefix('\'')?;
    let mut text = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        text.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                text.push('\'');
                rest = after;
            }
            None => return Some((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_call_is_read_back_from_its_name() {
        let text = |text: &str| FileOption::Text(text.to_owned());
        let named = vec![("it's".to_owned(), "INT".to_owned()), ("}, '".to_owned(), String::new())];
        for (paths, options) in [
            (texts(&["a.csv"]), vec![]),
            (
                texts(&["it's, delim => ')'", "b]"]),
                vec![("delim", text(";")), ("quote", text("'")), ("escape", text("''"))],
            ),
            (texts(&[""]), vec![("header", text("true")), ("names", FileOption::List(texts(&["a", "'"])))]),
            (texts(&["a"]), vec![("types", FileOption::Named(named)), ("nullstr", FileOption::List(vec![]))]),
        ] {
            let options = options.into_iter().map(|(key, value)| (key.to_owned(), value));
            let call = FileCall { function: "read_csv".to_owned(), paths, options: options.collect() };
            assert_eq!(FileCall::of_name(&call.name()), Some(call));
        }
        for other in [
            "a.csv",
            "read_csv",
            "read_csv(",
            "read_csv(['a",
            "read_csv(['a']",
            "read_csv('a')",
            "read_csv([])",
            "f(['a'])",
            "read_csv(['a']) x",
            "read_csv(['a'], x => ['b' 'c'])",
        ] {
            assert_eq!(FileCall::of_name(other), None, "{other}");
        }
    }
}
