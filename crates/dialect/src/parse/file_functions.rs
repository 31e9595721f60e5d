//! Functions that read files in a `FROM`, as in DuckDB: `FROM read_csv('a.csv', delim = ';')`.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DictionaryField, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableFactor,
    UnaryOperator, Value,
};
use yeoul_base::ErrorKind;

use crate::file_call::{FUNCTIONS, FileCall, FileOption};
use crate::{Error, Result};

/// Functions of DuckDB about files that have no counterpart.
const OTHERS: [&str; 7] = [
    "parquet_bloom_probe",
    "read_blob",
    "read_json_objects",
    "read_json_objects_auto",
    "read_ndjson_objects",
    "read_text",
    "sniff_csv",
];

/// Writes such a call as a table by the name of the call.
///
/// # Errors
/// `Invalid` for arguments that are no texts, numbers, truth values or lists and structs of them, and for functions that are not here.
pub(super) fn name_table(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { name, args: args @ Some(_), .. } = factor else { return Ok(()) };
    let Some(called) = args.as_ref().filter(|called| called.settings.is_none()) else { return Ok(()) };
    let [part] = name.0.as_slice() else { return Ok(()) };
    let Some(function) = part.as_ident().map(|name| name.value.to_ascii_lowercase()) else { return Ok(()) };
    if OTHERS.contains(&function.as_str()) {
        return Err(Error::new(ErrorKind::Invalid, format!("not supported: the table function {function}"))
            .with_hint(format!("files are read by {}", FUNCTIONS.join(", "))));
    }
    if !FUNCTIONS.contains(&function.as_str()) {
        return Ok(());
    }
    let call = call_of(function, &called.args)?;
    *args = None;
    *name = ObjectName::from(vec![Ident::with_quote('"', call.name())]);
    Ok(())
}

fn call_of(function: String, args: &[FunctionArg]) -> Result<FileCall> {
    let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(files)), options)) = args.split_first() else {
        let what = format!("the first argument of {function} is the path of a file");
        return Err(Error::new(ErrorKind::Invalid, what).with_hint(format!("{function}('file')")));
    };
    let paths = match value_of(files) {
        Some(FileOption::Text(path)) => vec![path],
        Some(FileOption::List(paths)) if !paths.is_empty() => paths,
        _ => {
            let what = format!(
                "not supported: {function} of {files}, which is not a path in quotes or a list of them"
            );
            return Err(
                Error::new(ErrorKind::Invalid, what).with_hint("a glob names several files: 'dir/*.csv'")
            );
        }
    };
    let mut read: Vec<(String, FileOption)> = Vec::with_capacity(options.len());
    for option in options {
        let (name, value) = option_of(&function, option)?;
        if read.iter().any(|(known, _)| *known == name) {
            return Err(Error::new(ErrorKind::Invalid, format!("{function} is given '{name}' twice")));
        }
        read.push((name, value));
    }
    Ok(FileCall { function, paths, options: read })
}

/// The name and the value of an argument: `name = value`, `name => value`, `name := value`.
fn option_of(function: &str, written: &FunctionArg) -> Result<(String, FileOption)> {
    let (name, value) = match written {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name, value),
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), ..
        } => (name, value),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq | BinaryOperator::Assignment,
            right,
        })) if let Expr::Identifier(name) = left.as_ref() => (name, right.as_ref()),
        other => {
            let what = format!("'{other}' is no option of {function}");
            return Err(Error::new(ErrorKind::Invalid, what).with_hint("an option is name = value"));
        }
    };
    let name = name.value.to_ascii_lowercase();
    match value_of(value) {
        Some(value) => Ok((name, value)),
        None => {
            let what = format!("not supported: the option '{name}' of {function} with the value {value}");
            Err(Error::new(ErrorKind::Invalid, what))
        }
    }
}

/// The value that an expression is; `None` for one that would have to be computed.
fn value_of(written: &Expr) -> Option<FileOption> {
    match written {
        Expr::Array(list) => list.elem.iter().map(text_of).collect::<Option<Vec<_>>>().map(FileOption::List),
        Expr::Dictionary(fields) => {
            let named = |field: &DictionaryField| Some((field.key.value.clone(), text_of(&field.value)?));
            fields.iter().map(named).collect::<Option<Vec<_>>>().map(FileOption::Named)
        }
        other => text_of(other).map(FileOption::Text),
    }
}

fn text_of(written: &Expr) -> Option<String> {
    match written {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            Value::Boolean(is_true) => Some(is_true.to_string()),
            Value::Number(number, _) => Some(number.to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => text_of(expr).map(|number| format!("-{number}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::tests::{meant, not_meant};

    #[test]
    fn a_call_is_a_table_by_its_name() {
        for (written, expected) in [
            ("SELECT * FROM read_parquet('a')", r#"SELECT * FROM "read_parquet(['a'])""#),
            ("SELECT * FROM read_parquet(['a', 'b'])", r#"SELECT * FROM "read_parquet(['a', 'b'])""#),
            (
                "SELECT * FROM READ_CSV('it''s', Delim = ';') AS t",
                r#"SELECT * FROM "read_csv(['it''s'], delim => ';')" AS t"#,
            ),
            (
                "SELECT * FROM read_csv('a', header => true, sample_size = -1)",
                r#"SELECT * FROM "read_csv(['a'], header => 'true', sample_size => '-1')""#,
            ),
            (
                "SELECT * FROM read_csv('a', names := ['x'], types = {'y': 'INT'})",
                r#"SELECT * FROM "read_csv(['a'], names => ['x'], types => {'y': 'INT'})""#,
            ),
            ("SELECT * FROM range(3)", "SELECT * FROM range(3)"),
        ] {
            assert_eq!(meant(written), expected, "{written}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_its_name() {
        for (written, expected) in [
            ("SELECT * FROM read_csv(x)", "read_csv of x"),
            ("SELECT * FROM read_csv([])", "read_csv of []"),
            ("SELECT * FROM read_csv()", "the path of a file"),
            ("SELECT * FROM read_csv('a', 'b')", "'b'"),
            ("SELECT * FROM read_csv('a', types = {'a': [1]})", "'types'"),
            ("SELECT * FROM read_csv('a', delim = ';', DELIM = ',')", "'delim' twice"),
            ("SELECT * FROM read_blob('a')", "read_blob"),
        ] {
            let error = not_meant(written).to_string();
            assert!(error.contains(expected), "{written}: {error}");
        }
    }
}
