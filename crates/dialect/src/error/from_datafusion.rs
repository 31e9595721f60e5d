//! What DataFusion's errors, and those of the crates below it, say to a person: their kind, message, hint and place.

use std::borrow::Cow;
use std::error::Error as StdError;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, Diagnostic, SchemaError};
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;
use rustix::io::Errno;
use url::Url;
use yeoul_base::ErrorKind;

use super::other_names;
use super::syntax_tree::without_tree;
use super::wording::reworded;
use super::{Error, Shortage, TARGET_FULL, is_full};
use crate::{Place, Span, suggest};

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        // Our own errors pass through DataFusion as external ones; they come out as they went in.
        match error {
            DataFusionError::External(source) => match source.downcast::<Self>() {
                Ok(own) => *own,
                Err(source) => Self::describe_external(source.as_ref()).with_source(source),
            },
            DataFusionError::Context(_, source) if holds_own(&source) => Self::from(*source),
            DataFusionError::Diagnostic(diagnostic, source) => {
                Self::from(*source).with_diagnostic(&diagnostic)
            }
            DataFusionError::Collection(mut errors) if !errors.is_empty() => {
                Self::from(errors.swap_remove(0))
            }
            other => Self::describe(&other).with_source(other),
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

fn holds_own(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::External(source) => source.is::<Error>(),
        DataFusionError::Context(_, source) | DataFusionError::Diagnostic(_, source) => holds_own(source),
        _ => false,
    }
}

impl Error {
    fn with_diagnostic(mut self, diagnostic: &Diagnostic) -> Self {
        self.span = self.span.or_else(|| diagnostic.span.map(place_of));
        if self.hint.is_none() {
            self.hint = diagnostic.helps.first().map(|help| help.message.clone());
        }
        self
    }

    /// The kind, message, hint and place of an error of DataFusion, which stays its source.
    fn describe(error: &DataFusionError) -> Self {
        match error {
            DataFusionError::SQL(parser, _) => Self::from_parser(parser),
            DataFusionError::SchemaError(schema, _) => Self::from_schema(schema),
            DataFusionError::Plan(message) => Self::misplaced_subquery(message)
                .unwrap_or_else(|| Self::from_message(ErrorKind::Invalid, &no_signature(message))),
            DataFusionError::Configuration(message) => {
                Self::from_message(ErrorKind::Invalid, message).with_hint("SHOW ALL lists every setting")
            }
            DataFusionError::NotImplemented(message) => Self::not_supported(message),
            DataFusionError::Execution(message) => Self::write_failure(message)
                .or_else(|| Self::refused_null(message))
                .or_else(|| Self::several_values(message))
                .unwrap_or_else(|| Self::from_message(ErrorKind::Invalid, message)),
            DataFusionError::Internal(message) => Self::write_failure(message)
                .unwrap_or_else(|| Self::from_message(ErrorKind::Internal, &error.strip_backtrace())),
            DataFusionError::ResourcesExhausted(message) => {
                Self::from_message(ErrorKind::ResourceExhausted, message)
            }
            DataFusionError::ArrowError(arrow, _) => Self::from_arrow(arrow),
            DataFusionError::ParquetError(parquet) => Self::from_parquet(parquet),
            DataFusionError::ObjectStore(store) => Self::from_store(store),
            DataFusionError::IoError(io) => Self::from_io(io),
            DataFusionError::ExecutionJoin(join) if join.is_cancelled() => {
                Self::new(ErrorKind::Cancelled, "cancelled")
            }
            DataFusionError::ExecutionJoin(join) => {
                Self::new(ErrorKind::Internal, format!("a query task failed: {join}"))
            }
            DataFusionError::Context(context, source) => {
                let inner = Self::describe(source);
                let starts = ["Optimizer rule ", "Invalid (non-executable) plan after "];
                let is_rule = context.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                let tells_who_found_it = is_rule || starts.iter().any(|start| context.starts_with(start));
                if inner.kind != ErrorKind::Internal && tells_who_found_it {
                    return inner; // which rule came upon it says nothing to whoever wrote the statement
                }
                // What DataFusion advises are settings of its own, which a memory limit does not let change.
                let context = context.split(". Consider ").next().unwrap_or(context);
                Self { message: format!("{}: {}", lower_first(first_line(context)), inner.message), ..inner }
            }
            DataFusionError::Diagnostic(diagnostic, source) => {
                Self::describe(source).with_diagnostic(diagnostic)
            }
            DataFusionError::Shared(source) => Self::describe(source),
            DataFusionError::External(source) => Self::describe_external(source.as_ref()),
            DataFusionError::Collection(errors) if !errors.is_empty() => Self::describe(&errors[0]),
            other => Self::from_message(ErrorKind::Internal, &other.strip_backtrace()),
        }
    }

    /// A message of DataFusion's about a subquery for which it has no join, or none where that stands.
    fn misplaced_subquery(message: &str) -> Option<Self> {
        const CASES: [[&str; 3]; 2] = [
            [
                "Correlated scalar subquery can only be used in Projection, Filter, Aggregate plan nodes",
                "in a window function, JOIN … ON or ORDER BY",
                "compute it as a column of a subquery in FROM, and use that column",
            ],
            [
                "Correlated scalar subquery must be aggregated",
                "as a value, with a LIMIT of several rows or an OFFSET",
                "take the first by ORDER BY … LIMIT 1, or an aggregate such as max(…)",
            ],
        ];
        let [_, where_it_stands, hint] = CASES.into_iter().find(|[said, ..]| message.contains(said))?;
        let what = format!(
            "not supported: a subquery that names a column of the query around it, {where_it_stands}"
        );
        Some(Self::new(ErrorKind::Invalid, what).with_hint(hint))
    }

    /// What DataFusion, and `optimizer/scalar_subqueries`, say of a subquery with more rows than a value has.
    fn several_values(message: &str) -> Option<Self> {
        message.contains("Scalar subquery returned more than one row").then(|| {
            Self::new(ErrorKind::Invalid, "a subquery that stands for a value has more than one row")
                .with_hint("take one of them: max(…), or ORDER BY … LIMIT 1")
        })
    }

    /// A message of DataFusion's disk manager, which names a setting of its own.
    fn spill_limit(message: &str) -> Option<Self> {
        let (_, rest) =
            message.split_once("during the spilling process has exceeded the allowable limit of ")?;
        let limit = rest.split(". ").next().unwrap_or(rest);
        let message = format!("what is spilled has reached its limit of {limit}");
        let error = Self::new(ErrorKind::ResourceExhausted, message).with_shortage(Shortage::SpillDisk);
        Some(error.with_hint("allow more on disk with --spill-limit"))
    }

    /// A message of DataFusion's writers, which keep the text of what stopped them, or nothing of it.
    fn write_failure(message: &str) -> Option<Self> {
        if message.contains("Error encountered while finalizing writes") {
            return Some(
                Self::new(ErrorKind::Unavailable, "the end of a file could not be written")
                    .with_hint(
                        "is the disk full, the store gone, or a key of PARTITIONED BY too long for a directory's name?",
                    ),
            );
        }
        let cause = message.split_once("Error writing to object store: ")?.1;
        let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].map(|errno| errno.raw_os_error());
        if full.iter().any(|code| cause.contains(&format!("(os error {code})"))) {
            return Some(
                Self::new(ErrorKind::ResourceExhausted, lower_first(cause))
                    .with_shortage(Shortage::TargetDisk)
                    .with_hint(TARGET_FULL),
            );
        }
        Some(Self::new(ErrorKind::Unavailable, lower_first(cause)))
    }

    /// A message of DataFusion's about a row to be written, which counts columns from 0.
    fn refused_null(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once("Invalid batch column at '")?;
        let column: usize = rest.split_once("' has null")?.0.parse().ok()?;
        let what = format!("column {} of a row to be written is null, and there it may not be", column + 1);
        Some(
            Self::new(ErrorKind::Invalid, what)
                .with_hint("filter such rows, or write another value with coalesce(…, …)"),
        )
    }

    fn describe_external(source: &(dyn StdError + Send + Sync + 'static)) -> Self {
        if let Some(own) = source.downcast_ref::<Self>() {
            return Self {
                kind: own.kind,
                message: own.message.clone(),
                hint: own.hint.clone(),
                span: own.span,
                shortage: own.shortage,
                source: None,
            };
        }
        if let Some(datafusion) = source.downcast_ref::<DataFusionError>() {
            return Self::describe(datafusion);
        }
        if let Some(store) = source.downcast_ref::<object_store::Error>() {
            return Self::from_store(store);
        }
        if let Some(io) = source.downcast_ref::<std::io::Error>() {
            return Self::from_io(io);
        }
        Self::new(ErrorKind::Unavailable, chain(source))
    }

    fn from_parser(error: &ParserError) -> Self {
        let message = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply",
        };
        // sqlparser ends its messages with " at Line: 1, Column: 8".
        let (text, span) = match message.rsplit_once(" at Line: ") {
            Some((text, numbers)) => (text, parse_place(numbers)),
            None => (message, None),
        };
        Self::from_message(ErrorKind::Invalid, &format!("syntax error: {}", lower_first(text)))
            .with_span(span)
    }

    fn not_supported(message: &str) -> Self {
        // What DataFusion could not make a join of is there still when it plans the operators.
        const LEFT: &str = "physical plan does not support logical expression ";
        if let Some(left) = lower_first(message).strip_prefix(LEFT) {
            let subqueries =
                ["ScalarSubquery(", "InSubquery(", "Exists(", "SetComparison(", "OuterReferenceColumn("];
            if subqueries.iter().any(|kind| left.starts_with(kind)) {
                let what =
                    "not supported: a subquery here, or one that names a column of the query around it so";
                return Self::new(ErrorKind::Invalid, what).with_hint(
                    "ANY and ALL stand in WHERE; compare with columns of the query around by = in the subquery's WHERE, or join",
                );
            }
        }
        Self::from_message(ErrorKind::Invalid, &format!("not supported: {}", lower_first(message)))
    }

    fn from_schema(error: &SchemaError) -> Self {
        match error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let mut names: Vec<String> = Vec::with_capacity(valid_fields.len());
                for column in valid_fields {
                    if !names.iter().any(|name| name == column.name()) {
                        names.push(column.name().to_owned());
                    }
                }
                let message = format!("there is no column '{}' here", field.flat_name());
                let error = Self::new(ErrorKind::NotFound, message).with_span(span_of(field));
                match suggest::nearest(field.name(), &names) {
                    Some(near) => error.with_hint(format!("did you mean '{near}'?")),
                    None if names.is_empty() => error,
                    None => error.with_hint(format!("the columns are {}", suggest::list(&names))),
                }
            }
            SchemaError::AmbiguousReference { field } => Self::new(
                ErrorKind::Invalid,
                format!("column '{}' is in more than one table", field.flat_name()),
            )
            .with_hint("write the table's name before it: table.column"),
            other => Self::from_message(ErrorKind::Invalid, &other.to_string()),
        }
    }

    fn from_arrow(error: &ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, io) => Self::from_io(io),
            ArrowError::ExternalError(source) => Self::describe_external(source.as_ref()),
            ArrowError::ParseError(message)
            | ArrowError::CsvError(message)
            | ArrowError::JsonError(message) => {
                Self::from_message(ErrorKind::Corrupt, &format!("cannot read the data: {message}"))
            }
            ArrowError::NotYetImplemented(message) => Self::not_supported(message),
            ArrowError::ParquetError(message) | ArrowError::IpcError(message) => {
                Self::from_message(ErrorKind::Corrupt, &format!("the file is damaged: {message}"))
            }
            ArrowError::MemoryError(message) => Self::from_message(ErrorKind::ResourceExhausted, message),
            other => Self::from_message(ErrorKind::Invalid, &other.to_string()),
        }
    }

    fn from_parquet(error: &ParquetError) -> Self {
        match error {
            ParquetError::External(source) => Self::describe_external(source.as_ref()),
            ParquetError::NYI(message) => Self::not_supported(message),
            other => {
                let message = other.to_string();
                let message = message.split_once(": ").map_or(message.as_str(), |(_, text)| text);
                Self::from_message(
                    ErrorKind::Corrupt,
                    &format!("the Parquet file is damaged: {}", lower_first(message)),
                )
                .with_hint("it may be truncated or overwritten; compare its size with the original's")
            }
        }
    }

    fn from_store(error: &object_store::Error) -> Self {
        use object_store::Error as Store;
        match error {
            Store::NotFound { path, .. } => {
                Self::new(ErrorKind::NotFound, format!("there is no file '{path}'"))
            }
            Store::PermissionDenied { path, .. } | Store::Unauthenticated { path, .. } => {
                Self::new(ErrorKind::Denied, format!("no permission for '{path}'"))
            }
            Store::AlreadyExists { path, .. } => {
                Self::new(ErrorKind::Conflict, format!("'{path}' exists already"))
            }
            Store::Generic { source, .. } => {
                let said = chain(source.as_ref());
                match (io_cause(source.as_ref()), server_in(&said)) {
                    (Some(io), Some(server)) => Self::unreachable(server, io).with_credentials_hint(),
                    (Some(io), None) => Self::from_io(io).with_context(&said).in_store(),
                    (None, _) => Self::new(ErrorKind::Unavailable, chain(error)).with_credentials_hint(),
                }
            }
            other => Self::new(ErrorKind::Unavailable, chain(other)),
        }
    }

    /// A server that does not answer, and what the system says of the connection to it.
    fn unreachable(server: &str, io: &std::io::Error) -> Self {
        let why = io.to_string();
        let why = why.split(" (os error ").next().unwrap_or(&why);
        Self::new(ErrorKind::Unavailable, format!("cannot reach {server}: {}", lower_first(why)))
    }

    /// An error of the store at `address`. That of an HDFS whose connection fails does not say where it is.
    pub fn at(address: &Url, error: DataFusionError) -> DataFusionError {
        match io_cause(&error) {
            Some(io) if matches!(address.scheme(), "hdfs" | "viewfs") => {
                let server = &address[url::Position::BeforeScheme..url::Position::BeforePath];
                Self::unreachable(server, io).with_source(error).into()
            }
            _ => error,
        }
    }

    /// Who has no credentials is told that the service for machines of a cloud does not answer.
    fn with_credentials_hint(self) -> Self {
        const METADATA_SERVICE: &str = "169.254.169.254";
        if !self.message.contains(METADATA_SERVICE) {
            return self;
        }
        self.with_hint(
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket; \
             ~/.aws is not read",
        )
    }

    /// A store is written by COPY and INSERT only: what is spilled goes to the disk directly.
    fn in_store(self) -> Self {
        if self.shortage != Some(Shortage::SpillDisk) {
            return self;
        }
        self.with_shortage(Shortage::TargetDisk).with_hint(TARGET_FULL)
    }

    fn with_context(mut self, message: &str) -> Self {
        self.message = lower_first(message);
        self
    }

    fn from_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        if let Some(inner) = error.get_ref() {
            if let Some(inner) = inner.downcast_ref::<DataFusionError>() {
                return Self::describe(inner);
            }
            if let Some(inner) = inner.downcast_ref::<object_store::Error>() {
                return Self::from_store(inner);
            }
        }
        let message = lower_first(&error.to_string());
        if let Some(limit) = Self::spill_limit(&message) {
            return limit;
        }
        match error.kind() {
            _ if is_full(error) => {
                Self::new(ErrorKind::ResourceExhausted, format!("cannot spill to disk: {message}"))
                    .with_hint("free space there, or spill elsewhere with --spill-dir")
                    .with_shortage(Shortage::SpillDisk)
            }
            Io::UnexpectedEof | Io::InvalidData => {
                Self::new(ErrorKind::Corrupt, format!("the data is damaged: {message}"))
            }
            _ => Self::new(ErrorKind::of_io(error), message),
        }
    }

    /// Cleans a message of DataFusion's: no backtrace, lower case, and what it suggests becomes the hint.
    fn from_message(kind: ErrorKind, message: &str) -> Self {
        let message = message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(message);
        // DataFusion takes a call with the wrong types for a defect of its own; what follows is of no use to the person.
        let message = message.split("This issue was likely caused by a bug").next().unwrap_or(message).trim();
        let message = message.strip_prefix("Internal error: ").unwrap_or(message);
        let message = &*without_tree(message);
        let (text, hint) =
            match message.split_once("\nDid you mean ").or_else(|| message.split_once(". Did you mean ")) {
                Some((text, near)) => (text, Some(format!("did you mean {}", near.trim_end_matches('.')))),
                None => (message, None),
            };
        // A message of the system, or of a defect, stays as it is.
        let text = if kind == ErrorKind::Invalid { Cow::Owned(reworded(text)) } else { Cow::Borrowed(text) };
        let error = Self::new(kind, lower_first(text.trim_end_matches('.')));
        let hint = match text.strip_prefix("Invalid function '").and_then(|text| text.split_once('\'')) {
            Some((name, _)) => Some(other_names::hint(name, hint.as_deref().and_then(quoted))),
            None => hint,
        };
        match hint.or_else(|| way_out(message).map(ToOwned::to_owned)) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// The first text in quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('\'').nth(1)
}

fn place_of(span: datafusion::common::Span) -> Span {
    let place = Place { line: span.start.line, column: span.start.column };
    let chars =
        if span.end.line == span.start.line { span.end.column.saturating_sub(span.start.column) } else { 1 };
    Span { place, chars: chars.max(1) }
}

/// What to do about a message of DataFusion's that advises nothing.
fn way_out(message: &str) -> Option<&'static str> {
    let begins = |start: &str| message.to_ascii_lowercase().starts_with(start);
    if begins("there is no registered file format") {
        return Some(
            "say what it is: COPY … TO '…' STORED AS CSV (or JSON, PARQUET, ARROW) \
             OPTIONS ('delimiter' '…', 'compression' 'gzip')",
        );
    }
    begins("table function 'read_").then_some("a file is a table by itself: FROM 'file.parquet'")
}

fn span_of(column: &Column) -> Option<Span> {
    column.spans().first().map(place_of)
}

/// Reads `1, Column: 8`.
fn parse_place(numbers: &str) -> Option<Span> {
    let (line, column) = numbers.split_once(", Column: ")?;
    let column = column.trim().trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(Span { place: Place { line: line.trim().parse().ok()?, column }, chars: 1 })
}

fn io_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a std::io::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return Some(io);
        }
        cause = error.source();
    }
    None
}

/// An error and its causes in one line, without those that the line before repeats.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = lower_first(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// The server of the address in an error of HTTP: `error performing GET http://host:1/bucket/key in 2 s - …`.
fn server_in(text: &str) -> Option<&str> {
    let is_address = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    let address = text.split_whitespace().find(is_address)?;
    let host = address.find("://")? + 3;
    let end = address[host..].find(['/', '?', ')']).map_or(address.len(), |end| host + end);
    Some(&address[..end])
}

/// Of the errors for each signature of a function that a call fits none of, the first, with what any of them requires.
fn no_signature(message: &str) -> Cow<'_, str> {
    const EACH: &str = "Error during planning: ";
    let Some((_, errors)) = message.split_once(" failed to match any signature, errors: ") else {
        return message.into();
    };
    let mut errors =
        errors.split(EACH).map(|error| error.trim_end_matches([',', '.'])).filter(|error| !error.is_empty());
    let first = errors.next().unwrap_or(message);
    let Some((call, rest)) = first.split_once(" requires ") else { return first.into() };
    let Some((required, received)) = rest.split_once(", but received ") else { return first.into() };
    let mut types = vec![required];
    for error in errors {
        let Some((_, rest)) = error.split_once(" requires ") else { continue };
        match rest.split_once(", but received ") {
            Some((also, _)) if !types.contains(&also) => types.push(also),
            _ => {}
        }
    }
    let required = match types.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => required.to_owned(),
    };
    format!("{call} requires {required}, but received {received}").into()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Lowers the first letter of a sentence, but not of a name: `SQL`, `HTTP`, `HashJoinInput[0]`.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    let is_name = chars.as_str().chars().take_while(|c| c.is_alphanumeric()).any(char::is_uppercase);
    if is_name { text.to_owned() } else { first.to_lowercase().chain(chars).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_keeps_its_place_and_loses_it_from_its_text() {
        let parser = ParserError::ParserError(
            "Expected: an expression, found: FROM at Line: 3, Column: 12".to_owned(),
        );
        let error = Error::from(DataFusionError::SQL(Box::new(parser), None));
        assert_eq!(error.to_string(), "syntax error: expected: an expression, found: FROM");
        assert_eq!(error.span(), Some(Span { place: Place { line: 3, column: 12 }, chars: 1 }));
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_full_disk_is_told_from_want_of_memory_and_where_it_is() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let store = || object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(full()) };
        let written = "Error writing to object store: Unable to copy data to file: No space left on device (os error 28)";
        let spilled = "The used disk space during the spilling process has exceeded the allowable limit of 1 MB. Please try \
            increasing the config: `datafusion.runtime.max_temp_directory_size`.";
        for (error, shortage, hint) in [
            (DataFusionError::IoError(full()), Shortage::SpillDisk, "--spill-dir"),
            (ArrowError::IoError(String::new(), full()).into(), Shortage::SpillDisk, "--spill-dir"),
            (DataFusionError::IoError(std::io::Error::other(spilled)), Shortage::SpillDisk, "--spill-limit"),
            (DataFusionError::Execution(written.into()), Shortage::TargetDisk, "another disk"),
            (DataFusionError::ObjectStore(Box::new(store())), Shortage::TargetDisk, "another disk"),
            (DataFusionError::IoError(store().into()), Shortage::TargetDisk, "another disk"),
            (DataFusionError::External(Box::new(store())), Shortage::TargetDisk, "another disk"),
            (DataFusionError::External(Box::new(full())), Shortage::SpillDisk, "--spill-dir"),
            (
                ParquetError::External(Box::new(std::io::Error::from(store()))).into(),
                Shortage::TargetDisk,
                "another disk",
            ),
        ] {
            let error = Error::from(error);
            assert_eq!(error.shortage(), Some(shortage), "{error}");
            assert!(error.hint().is_some_and(|text| text.contains(hint)), "{error}: {:?}", error.hint());
            assert!(!error.to_string().contains("datafusion"), "{error}");
        }
        let memory = Error::from(DataFusionError::ResourcesExhausted("no more".to_owned()));
        assert_eq!((memory.shortage(), memory.hint()), (Some(Shortage::Memory), None));
    }

    #[test]
    fn the_name_of_an_operator_is_no_word_that_begins_a_sentence() {
        for (text, lowered) in [
            ("HashJoinInput[0] holds 3 MB", "HashJoinInput[0] holds 3 MB"),
            ("SQL is not understood", "SQL is not understood"),
            ("The file ORDERS", "the file ORDERS"),
            ("A file", "a file"),
            ("", ""),
        ] {
            assert_eq!(lower_first(text), lowered);
        }
    }

    #[test]
    fn a_write_that_failed_without_a_cause_is_no_defect() {
        let text = "Error encountered while finalizing writes! Partial results may have been written to ObjectStore!";
        let error = Error::from(DataFusionError::Internal(text.to_owned()));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.hint().is_some_and(|hint| hint.contains("PARTITIONED BY")), "{error}");
        assert!(!error.to_string().contains('!'), "{error}");
    }

    #[test]
    fn what_a_format_lacks_is_not_supported_and_no_damage() {
        let error = Error::from(DataFusionError::from(ParquetError::NYI("An interval".to_owned())));
        assert_eq!(error.to_string(), "not supported: an interval");
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Invalid, None));
    }

    #[test]
    fn a_server_that_does_not_answer_is_named() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Said(&'static str, #[source] std::io::Error);
        let refused = |said| {
            let source =
                Box::new(Said(said, std::io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error())));
            DataFusionError::ObjectStore(Box::new(object_store::Error::Generic { store: "any", source }))
        };
        let http =
            "Error performing HEAD http://127.0.0.1:1/x.parquet in 2.05s, after 10 retries - HTTP error";
        let error = Error::from(refused(http));
        assert_eq!(error.to_string(), "cannot reach http://127.0.0.1:1: connection refused");
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Unavailable, None));
        let cloud = "Error performing PUT http://169.254.169.254/latest/api/token in 1 ms - HTTP error";
        assert!(Error::from(refused(cloud)).hint().is_some());
        let hdfs = || refused("IO error occurred while communicating with HDFS");
        let at = |address: &str| Error::from(Error::at(&Url::parse(address).unwrap(), hdfs())).to_string();
        assert_eq!(at("hdfs://host:9000/x"), "cannot reach hdfs://host:9000: connection refused");
        assert!(!at("file:///x").contains("reach"));
    }

    #[test]
    fn what_a_function_takes_is_told_once() {
        let told = |text: &str| Error::from(DataFusionError::Plan(text.to_owned())).to_string();
        assert_eq!(
            told(
                "Function 'sum' failed to match any signature, errors: Error during planning: Function 'sum' requires \
                 Decimal, but received String (DataType: Utf8).,Error during planning: Function 'sum' requires Int64, but \
                 received String (DataType: Utf8).,Error during planning: Function 'sum' requires Interval, but received \
                 String (DataType: Utf8)."
            ),
            "function 'sum' requires Decimal, BIGINT or Interval, but received VARCHAR"
        );
        assert_eq!(
            told(
                "Function 'sum' failed to match any signature, errors: Error during planning: Function 'sum' expects 1 \
                 arguments but received 2,Error during planning: Function 'sum' expects 1 arguments but received 2"
            ),
            "function 'sum' expects 1 arguments but received 2"
        );
        assert_eq!(told("Function 'f' is odd"), "function 'f' is odd");
    }

    #[test]
    fn our_own_errors_come_out_of_datafusion_as_they_went_in() {
        let own = || Error::new(ErrorKind::NotFound, "there is no file 'x'").with_hint("look again");
        let wrapped = DataFusionError::from(own()).context("planning");
        let shared = DataFusionError::Shared(std::sync::Arc::new(DataFusionError::from(own())));
        for error in [wrapped, shared] {
            let error = Error::from(error);
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::NotFound, "there is no file 'x'")
            );
            assert_eq!(error.hint(), Some("look again"));
        }
    }
}
