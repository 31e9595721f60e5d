use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The format of an answer. Parsed from and printed as its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A table for people, fitted to the terminal.
    Table,
    /// RFC 4180 with a header line.
    Csv,
    /// One JSON object per line.
    Json,
    /// A line `column = value` for each value, and an empty line between rows.
    Line,
    /// One Parquet file.
    Parquet,
    /// One Arrow IPC stream.
    Arrow,
}

impl Format {
    /// All formats, in the order in which help lists them.
    pub const ALL: [Self; 6] = [Self::Table, Self::Csv, Self::Json, Self::Line, Self::Parquet, Self::Arrow];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Line => "line",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// The format that a file's extension stands for.
    pub fn of_file(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ending.as_str() {
            "csv" => Self::Csv,
            "json" | "jsonl" | "ndjson" => Self::Json,
            "parquet" | "parq" => Self::Parquet,
            "arrow" | "ipc" => Self::Arrow,
            _ => return None,
        })
    }

    /// Whether it is text: only such a format may go to a terminal.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Table | Self::Csv | Self::Json | Self::Line)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text is not a [`Format`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format '{given}': expected one of table, csv, json, line, parquet, arrow")]
pub struct UnknownFormat {
    given: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownFormat { given: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_tells_a_format() {
        let told = |name: &str| Format::of_file(Path::new(name));
        assert_eq!([told("a.CSV"), told("d.x/a.jsonl")], [Some(Format::Csv), Some(Format::Json)]);
        assert_eq!([told("a.parquet"), told("a.arrow")], [Some(Format::Parquet), Some(Format::Arrow)]);
        assert_eq!([told("a.txt"), told("csv"), told("/dev/stdout")], [None, None, None]);
    }

    #[test]
    fn every_format_reads_back_by_its_name_and_the_error_lists_them_all() {
        let error = "yaml".parse::<Format>().unwrap_err().to_string();
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert_eq!(format.to_string().to_uppercase().parse(), Ok(format));
            assert!(error.contains(format.name()), "{error}");
        }
    }
}
