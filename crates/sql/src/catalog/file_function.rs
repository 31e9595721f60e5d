//! Calls of functions that read files, as these are read then: the format, and the options that are honoured.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable};
use yeoul_base::ErrorKind;
use yeoul_dialect::{FileCall, FileOption, suggest};

use super::csv_sniffer::{Known, Mark};
use super::files::COMPRESSIONS;
use crate::Error;

/// Options of all functions.
const COMMON: [&str; 3] = ["filename", "hive_partitioning", "union_by_name"];
const OF_CSV: [&str; 19] = [
    "all_varchar",
    "auto_detect",
    "column_names",
    "columns",
    "comment",
    "compression",
    "delim",
    "delimiter",
    "dtypes",
    "escape",
    "header",
    "names",
    "null_padding",
    "nullstr",
    "quote",
    "sample_size",
    "sep",
    "skip",
    "types",
];
const OF_JSON: [&str; 6] = ["auto_detect", "columns", "compression", "format", "records", "sample_size"];

/// A way to read files.
#[derive(Clone, Debug)]
pub(super) struct FileFunction {
    /// The name of DataFusion's file format; that which the names of the files tell, if there is no call.
    pub(super) format: Option<&'static str>,
    /// Facts of CSV files that are known before they are read.
    pub(super) csv: Known,
    pub(super) compression: Compression,
    /// The records from which columns are inferred, if the call says it.
    pub(super) sampled_records: Option<usize>,
    /// Texts that are null; empty ones, if there are none.
    pub(super) null_texts: Vec<String>,
    /// The column with the name of each row's file.
    pub(super) file_column: Option<String>,
    /// False if the names of directories are no columns.
    pub(super) reads_keys: bool,
    /// True if no file has to have all columns.
    pub(super) unites_columns: bool,
    /// All columns, by names and types.
    columns: Option<Vec<(String, String)>>,
    /// Names of the first columns.
    names: Option<Vec<String>>,
    types: Option<Types>,
}

/// The compression of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// That which their names tell.
    ByName,
    /// DataFusion's name of it; `None` for plain files.
    Said(Option<&'static str>),
}

/// Types of columns that a call says.
#[derive(Clone, Debug)]
enum Types {
    Named(Vec<(String, String)>),
    /// Of the first columns.
    Listed(Vec<String>),
    AllText,
}

impl Default for FileFunction {
    fn default() -> Self {
        Self {
            format: None,
            csv: Known::default(),
            compression: Compression::ByName,
            sampled_records: None,
            null_texts: Vec::new(),
            file_column: None,
            reads_keys: true,
            unites_columns: false,
            columns: None,
            names: None,
            types: None,
        }
    }
}

impl FileFunction {
    /// The way that a call asks for.
    ///
    /// # Errors
    /// `Invalid` for an option that is not honoured, and for a value that it cannot have.
    pub(super) fn of(call: &FileCall) -> Result<Self, Error> {
        let (format, own) = match call.function.as_str() {
            function if function.starts_with("read_csv") => ("csv", &OF_CSV[..]),
            function if function.contains("json") => ("json", &OF_JSON[..]),
            _ => ("parquet", &[][..]),
        };
        let mut asked = Self { format: Some(format), ..Self::default() };
        for (name, value) in &call.options {
            let option = Given { function: &call.function, name, value };
            if !own.contains(&name.as_str()) && !COMMON.contains(&name.as_str()) {
                return Err(option.unknown(own));
            }
            asked.honour(&option)?;
        }
        asked.check(call)?;
        Ok(asked)
    }

    fn honour(&mut self, option: &Given<'_>) -> Result<(), Error> {
        match option.name {
            "delim" | "delimiter" | "sep" => {
                let letter = option.letter()?;
                option.check_first(self.csv.delimiter.replace(letter).is_some(), "a delimiter")?;
            }
            // No value begins with this byte.
            "quote" if option.is_empty() => self.csv.quote = Some(0),
            "quote" => self.csv.quote = Some(option.letter()?),
            "escape" => self.csv.escape = option.mark()?,
            "comment" => self.csv.comment = option.mark()?,
            "header" => self.csv.has_header = Some(option.truth()?),
            "skip" => self.csv.skipped_lines = Some(option.count()?),
            "null_padding" => self.csv.pads = option.truth()?,
            "nullstr" => self.null_texts = option.texts()?,
            "sample_size" if matches!(option.value, FileOption::Text(all) if all == "-1") => {
                self.sampled_records = Some(usize::MAX);
            }
            "sample_size" => self.sampled_records = Some(option.count()?.max(1)),
            "columns" => self.columns = Some(option.named()?),
            "names" | "column_names" => {
                let is_given = self.names.replace(option.texts()?).is_some();
                option.check_first(is_given, "names")?;
            }
            "types" | "dtypes" => {
                let types = match option.value {
                    FileOption::Named(types) => Types::Named(types.clone()),
                    _ => Types::Listed(option.texts()?),
                };
                option.check_first(self.types.replace(types).is_some(), "types")?;
            }
            "all_varchar" => {
                if option.truth()? {
                    option.check_first(self.types.replace(Types::AllText).is_some(), "types")?;
                }
            }
            "compression" => self.compression = option.compression()?,
            "filename" => {
                self.file_column = match option.truth() {
                    Ok(is_asked) => is_asked.then(|| "filename".to_owned()),
                    Err(_) => Some(option.text()?.to_owned()),
                };
            }
            "hive_partitioning" => self.reads_keys = option.truth()?,
            "union_by_name" => self.unites_columns = option.truth()?,
            // Which form JSON has is seen in any case.
            "format" => option.one_of(&["auto", "array", "nd", "newline_delimited", "unstructured"])?,
            "auto_detect" | "records" => option.one_of(&["true", "auto"])?,
            _ => return Err(option.unknown(&[])),
        }
        Ok(())
    }

    /// Refuses options that contradict each other.
    fn check(&mut self, call: &FileCall) -> Result<(), Error> {
        let error = |what: String| Error::new(ErrorKind::Invalid, what);
        let function = &call.function;
        if self.unites_columns && self.format == Some("csv") {
            let what = format!("not supported: the option 'union_by_name' of {function}");
            return Err(
                error(what).with_hint("read the files apart, and put them together with UNION ALL BY NAME")
            );
        }
        if self.columns.is_some() && (self.types.is_some() || self.names.is_some()) {
            return Err(error(format!("{function} is given 'columns' and other names or types")));
        }
        // A quote that is written twice needs no other mark.
        if self.csv.escape == Mark::Is(self.csv.quote.unwrap_or(b'"')) {
            self.csv.escape = Mark::Absent;
        }
        Ok(())
    }

    /// All columns of the files, if the call says them.
    ///
    /// # Errors
    /// `Invalid` for what is no type, and for two columns of one name.
    pub(super) fn columns(&self, state: &SessionState) -> Result<Option<SchemaRef>, Error> {
        let Some(columns) = &self.columns else { return Ok(None) };
        let field = |(name, of): &(String, String)| Ok(Field::new(name, type_of(of, state)?, true));
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, Error>>()?;
        check_names(&fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>())?;
        Ok(Some(Schema::new(fields).into()))
    }

    /// The columns of CSV files with the names and types that the call says.
    ///
    /// # Errors
    /// `Invalid` for a type that CSV files do not have, for more of them than columns, and for the type of a column that is not there.
    pub(super) fn applied(&self, columns: SchemaRef, state: &SessionState) -> Result<SchemaRef, Error> {
        if let Some(told) = self.columns(state)? {
            let (told_count, count) = (told.fields().len(), columns.fields().len());
            if told_count != count {
                let what = format!("'columns' names {told_count}, and there are {count} in the file");
                return Err(Error::new(ErrorKind::Invalid, what));
            }
            told.fields().iter().try_for_each(check_type)?;
            return Ok(told);
        }
        let mut fields: Vec<FieldRef> = columns.fields().iter().cloned().collect();
        let names = self.names.as_deref().unwrap_or_default();
        too_many("names", names.len(), fields.len())?;
        for (field, name) in fields.iter_mut().zip(names) {
            *field = FieldRef::new(field.as_ref().clone().with_name(name));
        }
        check_names(&fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>())?;
        let set = |field: &mut FieldRef, of: DataType| {
            *field = FieldRef::new(field.as_ref().clone().with_data_type(of));
            check_type(field)
        };
        match &self.types {
            None => {}
            Some(Types::AllText) => fields.iter_mut().try_for_each(|field| set(field, DataType::Utf8))?,
            Some(Types::Listed(types)) => {
                too_many("types", types.len(), fields.len())?;
                for (field, of) in fields.iter_mut().zip(types) {
                    set(field, type_of(of, state)?)?;
                }
            }
            Some(Types::Named(types)) => {
                let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
                for (name, of) in types {
                    let at = names.iter().position(|known| known.eq_ignore_ascii_case(name));
                    let Some(at) = at else {
                        let error = Error::new(ErrorKind::Invalid, format!("there is no column '{name}'"));
                        return Err(match suggest::nearest(name, &names) {
                            Some(near) => error.with_hint(format!("did you mean '{near}'?")),
                            None => error,
                        });
                    };
                    set(&mut fields[at], type_of(of, state)?)?;
                }
            }
        }
        Ok(Schema::new_with_metadata(fields.into_iter().collect::<Fields>(), columns.metadata().clone())
            .into())
    }

    /// A regular expression for the texts that are null.
    pub(super) fn null_regex(&self) -> Option<String> {
        let texts: Vec<String> = self.null_texts.iter().map(|text| regex::escape(text)).collect();
        (!texts.is_empty()).then(|| format!("^(?:{})$", texts.join("|")))
    }
}

/// One option of a call.
struct Given<'a> {
    function: &'a str,
    name: &'a str,
    value: &'a FileOption,
}

impl Given<'_> {
    fn text(&self) -> Result<&str, Error> {
        match self.value {
            FileOption::Text(text) => Ok(text),
            _ => Err(self.bad("one value")),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self.value, FileOption::Text(text) if text.is_empty())
    }

    fn texts(&self) -> Result<Vec<String>, Error> {
        match self.value {
            FileOption::Text(text) => Ok(vec![text.clone()]),
            FileOption::List(texts) => Ok(texts.clone()),
            FileOption::Named(_) => Err(self.bad("a list of texts")),
        }
    }

    fn named(&self) -> Result<Vec<(String, String)>, Error> {
        match self.value {
            FileOption::Named(texts) if !texts.is_empty() => Ok(texts.clone()),
            _ => Err(self.bad("{'name': 'type', …}")),
        }
    }

    fn letter(&self) -> Result<u8, Error> {
        let text = self.text()?;
        match text.as_bytes() {
            [letter] => Ok(*letter),
            _ if text == "\\t" => Ok(b'\t'),
            _ => Err(self.bad("one letter of ASCII")),
        }
    }

    /// A mark; none for an empty text.
    fn mark(&self) -> Result<Mark, Error> {
        if self.is_empty() { Ok(Mark::Absent) } else { self.letter().map(Mark::Is) }
    }

    fn truth(&self) -> Result<bool, Error> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.bad("true or false")),
        }
    }

    fn count(&self) -> Result<usize, Error> {
        self.text()?.parse().map_err(|_| self.bad("a number of at least 0"))
    }

    fn one_of(&self, known: &[&str]) -> Result<(), Error> {
        if known.contains(&self.text()?.to_ascii_lowercase().as_str()) {
            return Ok(());
        }
        Err(self.bad(&format!("one of {}", known.join(", "))))
    }

    fn compression(&self) -> Result<Compression, Error> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "auto" | "auto_detect" => Ok(Compression::ByName),
            "none" | "uncompressed" => Ok(Compression::Said(None)),
            named => {
                let known =
                    COMPRESSIONS.iter().find(|(extension, name)| named == *extension || named == *name);
                let (_, name) = known.ok_or_else(|| self.bad("auto, none, gzip, zstd, bzip2 or xz"))?;
                Ok(Compression::Said(Some(name)))
            }
        }
    }

    /// Refuses what another option has given already.
    fn check_first(&self, is_given: bool, what: &str) -> Result<(), Error> {
        if !is_given {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, format!("{} is given {what} twice", self.function)))
    }

    fn unknown(&self, own: &[&str]) -> Error {
        let what = format!("not supported: the option '{}' of {}", self.name, self.function);
        let mut known: Vec<&str> = own.iter().chain(&COMMON).copied().collect();
        known.sort_unstable();
        Error::new(ErrorKind::Invalid, what).with_hint(format!("its options are {}", known.join(", ")))
    }

    fn bad(&self, expected: &str) -> Error {
        let Self { function, name, value } = self;
        Error::new(
            ErrorKind::Invalid,
            format!("the option '{name}' of {function} is {expected}, not {value}"),
        )
    }
}

fn too_many(option: &str, said: usize, columns: usize) -> Result<(), Error> {
    if said <= columns {
        return Ok(());
    }
    let what = format!("'{option}' has {said} elements, and there are {columns} columns in the file");
    Err(Error::new(ErrorKind::Invalid, what))
}

fn check_names(names: &[&str]) -> Result<(), Error> {
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => {
            Err(Error::new(ErrorKind::Invalid, format!("two columns have the name '{twice}'")))
        }
        None => Ok(()),
    }
}

/// Refuses a type of which CSV files have no values.
fn check_type(field: &FieldRef) -> Result<(), Error> {
    let of = field.data_type();
    let is_text = matches!(of, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
    let is_read = is_text || of.is_numeric() || of.is_temporal() || *of == DataType::Boolean;
    if is_read && !matches!(of, DataType::Interval(_) | DataType::Duration(_)) {
        return Ok(());
    }
    let of = yeoul_dialect::type_name(of);
    let what = format!("not supported: values of {of} in CSV files, as of column '{}'", field.name());
    Err(Error::new(ErrorKind::Invalid, what).with_hint("read it as VARCHAR and convert it in the query"))
}

/// The type that a text is the name of.
fn type_of(text: &str, state: &SessionState) -> Result<DataType, Error> {
    let bad = || Error::new(ErrorKind::Invalid, format!("'{text}' is no type"));
    let none = DFSchema::empty();
    let cast = state.create_logical_expr(&format!("CAST(NULL AS {text})"), &none);
    match cast.map_err(|source| bad().with_source(source))? {
        cast @ Expr::Cast(_) => Ok(cast.get_type(&none)?),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(function: &str, options: &[(&str, &str)]) -> Result<FileFunction, Error> {
        let option =
            |(name, value): &(&str, &str)| ((*name).to_owned(), FileOption::Text((*value).to_owned()));
        FileFunction::of(&FileCall {
            function: function.to_owned(),
            paths: vec!["a".to_owned()],
            options: options.iter().map(option).collect(),
        })
    }

    #[test]
    fn options_are_read_as_duckdb_writes_them() {
        let csv =
            asked("read_csv", &[("sep", "\\t"), ("header", "1"), ("skip", "2"), ("quote", "")]).unwrap();
        assert_eq!((csv.csv.delimiter, csv.csv.has_header), (Some(b'\t'), Some(true)));
        assert_eq!((csv.csv.skipped_lines, csv.csv.quote), (Some(2), Some(0)));
        assert_eq!(
            asked("read_csv", &[("compression", "zstd")]).unwrap().compression,
            Compression::Said(Some("zstd"))
        );
        assert_eq!(
            asked("read_csv", &[("compression", "none")]).unwrap().compression,
            Compression::Said(None)
        );
        assert_eq!(asked("read_json", &[("sample_size", "-1")]).unwrap().sampled_records, Some(usize::MAX));
        assert_eq!(asked("read_csv", &[("nullstr", "N.A")]).unwrap().null_regex().unwrap(), "^(?:N\\.A)$");
        let column = |value| asked("read_parquet", &[("filename", value)]).unwrap().file_column;
        assert_eq!(column("true").as_deref(), Some("filename"));
        assert_eq!(column("false"), None);
        assert_eq!(column("path").as_deref(), Some("path"));
    }

    #[test]
    fn an_option_that_is_not_honoured_is_refused() {
        for (function, option, value, what) in [
            ("read_csv", "ignore_errors", "true", "'ignore_errors' of read_csv"),
            ("read_csv", "delim", "||", "one letter"),
            ("read_csv", "header", "maybe", "true or false"),
            ("read_csv", "skip", "-1", "at least 0"),
            ("read_csv", "auto_detect", "false", "one of true"),
            ("read_csv", "union_by_name", "true", "'union_by_name' of read_csv"),
            ("read_csv", "compression", "rar", "zstd"),
            ("read_parquet", "header", "true", "'header' of read_parquet"),
            ("read_json", "format", "xml", "newline_delimited"),
            ("read_json", "columns", "a", "'name': 'type'"),
        ] {
            let error = asked(function, &[(option, value)]).unwrap_err().to_string();
            assert!(error.contains(what), "{option}: {error}");
        }
        for (one, other, what) in [
            (("sep", ","), ("delim", ";"), "a delimiter twice"),
            (("types", "INT"), ("dtypes", "TEXT"), "types twice"),
            (("dtypes", "INT"), ("all_varchar", "true"), "types twice"),
            (("all_varchar", "true"), ("types", "INT"), "types twice"),
            (("names", "a"), ("column_names", "b"), "names twice"),
        ] {
            let error = asked("read_csv", &[one, other]).unwrap_err().to_string();
            assert!(error.contains(what), "{one:?} {other:?}: {error}");
        }
    }
}
