//! The ends of records in the bytes of CSV and JSON files, told without decoding them.

use datafusion::common::config::CsvOptions;
use memchr::{memchr, memchr2};

/// Finds where records end, however the bytes are cut into chunks.
#[derive(Clone, Debug)]
pub(super) struct RecordEnds {
    layout: Layout,
    /// The line of the byte that comes next, from 1.
    line: u64,
    /// The bytes of the record that has begun.
    open_bytes: usize,
}

#[derive(Clone, Debug)]
enum Layout {
    Csv(Csv),
    Json {
        depth: usize,
        in_text: bool,
        is_escaped: bool,
        /// True behind a part of a value that has not ended.
        is_open: bool,
    },
}

/// RFC 4180 as `csv-core` reads it: a quote opens a value only at its beginning.
#[derive(Clone, Debug)]
struct Csv {
    delimiter: u8,
    quote: u8,
    escape: Option<u8>,
    comment: Option<u8>,
    terminator: Option<u8>,
    place: Place,
    /// The line of the last quote that opened a value.
    quote_line: u64,
    /// True if the byte before is a backslash.
    is_behind_backslash: bool,
    /// The line of the first quote that stands behind a backslash within a value, and does not end it.
    escaped_line: Option<u64>,
    is_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    RecordStart,
    ValueStart,
    Value,
    Quoted,
    Escaped,
    /// After a quote within quotes, which ends the value unless another one follows.
    QuoteInQuotes,
    Comment,
}

impl Csv {
    /// The place of the last byte of a record. Adds the line breaks up to there.
    fn next_end(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if let Some(end) = self.end_of_plain(&bytes[at..]) {
                *line += u64::from(bytes[at + end] == b'\n');
                return Some(at + end);
            }
            if self.place == Place::Value {
                // Nothing happens within a value until it ends: most bytes of a file are passed over here.
                let (delimiter, terminator) = (self.delimiter, self.terminator.unwrap_or(b'\n'));
                let goes_on =
                    |byte: &u8| *byte != delimiter && *byte != terminator && !matches!(*byte, b'\n' | b'\r');
                at += bytes[at..].iter().take_while(|byte| goes_on(byte)).count();
                if at == bytes.len() {
                    break;
                }
            }
            let byte = bytes[at];
            let is_end = self.step(byte, *line);
            *line += u64::from(byte == b'\n');
            if is_end {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// The end of a record that begins with these bytes, has no quote, and ends with its line: most do.
    fn end_of_plain(&self, bytes: &[u8]) -> Option<usize> {
        if self.place != Place::RecordStart || self.is_first || self.terminator.is_some() {
            return None;
        }
        let end = memchr2(b'\n', b'\r', bytes)?;
        let record = &bytes[..end];
        let is_plain = memchr(self.quote, record).is_none() && record.first().copied() != self.comment;
        (is_plain || end == 0).then_some(end)
    }

    /// True if a record ends with this byte.
    fn step(&mut self, byte: u8, line: u64) -> bool {
        let is_end = match self.terminator {
            Some(terminator) => byte == terminator,
            None => matches!(byte, b'\n' | b'\r'),
        };
        let is_first = std::mem::take(&mut self.is_first);
        let behind_quote = self.place == Place::QuoteInQuotes;
        if behind_quote && self.is_behind_backslash && !is_end && byte != self.quote && byte != self.delimiter
        {
            self.escaped_line = self.escaped_line.or(Some(line));
        }
        if !(self.place == Place::Quoted && byte == self.quote) {
            self.is_behind_backslash = self.escape.is_none() && byte == b'\\';
        }
        self.place = match self.place {
            Place::Quoted if byte == self.quote => Place::QuoteInQuotes,
            Place::Quoted if Some(byte) == self.escape => Place::Escaped,
            Place::Quoted | Place::Escaped => Place::Quoted,
            Place::QuoteInQuotes if byte == self.quote => Place::Quoted,
            Place::Comment if byte == b'\n' => Place::RecordStart,
            Place::Comment => Place::Comment,
            _ if is_end => {
                self.place = Place::RecordStart;
                return true;
            }
            Place::RecordStart if Some(byte) == self.comment => Place::Comment,
            // A byte order mark comes before the first record.
            Place::RecordStart if is_first && matches!(byte, 0xEF | 0xBB | 0xBF) => {
                self.is_first = true;
                Place::RecordStart
            }
            Place::RecordStart | Place::ValueStart if byte == self.quote => {
                self.quote_line = line;
                Place::Quoted
            }
            _ if byte == self.delimiter => Place::ValueStart,
            _ => Place::Value,
        };
        false
    }
}

impl RecordEnds {
    /// The records of a CSV file.
    pub(super) fn csv(options: &CsvOptions) -> Self {
        let csv = Csv {
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            comment: options.comment,
            terminator: options.terminator,
            place: Place::RecordStart,
            quote_line: 0,
            is_behind_backslash: false,
            escaped_line: None,
            is_first: true,
        };
        Self { layout: Layout::Csv(csv), line: 1, open_bytes: 0 }
    }

    /// The records behind some lines of a file.
    pub(super) fn behind(self, lines: usize) -> Self {
        Self { line: self.line + lines as u64, ..self }
    }

    /// The records of a JSON file: objects, wherever they stand.
    pub(super) fn json() -> Self {
        let layout = Layout::Json { depth: 0, in_text: false, is_escaped: false, is_open: false };
        Self { layout, line: 1, open_bytes: 0 }
    }

    /// The number of these bytes, which follow those seen before, that belong to records up to the next end. `None` if no
    /// record ends in them.
    pub(super) fn next_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let end = match &mut self.layout {
            Layout::Csv(csv) => csv.next_end(bytes, &mut self.line),
            Layout::Json { depth, in_text, is_escaped, is_open } => bytes.iter().position(|&byte| {
                self.line += u64::from(byte == b'\n');
                if std::mem::take(is_escaped) {
                    return false;
                }
                let was_open = *is_open;
                *is_open |= !byte.is_ascii_whitespace();
                let is_end = match byte {
                    b'"' => {
                        *in_text = !*in_text;
                        false
                    }
                    b'\\' => {
                        *is_escaped = *in_text;
                        false
                    }
                    b'{' | b'[' if !*in_text => {
                        *depth += 1;
                        false
                    }
                    b'}' | b']' if !*in_text => {
                        *depth = depth.saturating_sub(1);
                        *depth == 0
                    }
                    // What is no object ends with its line.
                    b'\n' => *depth == 0 && !*in_text && was_open,
                    _ => false,
                };
                *is_open &= !is_end;
                is_end
            }),
        };
        if let Some(end) = end {
            self.open_bytes = 0;
            return Some(end + 1);
        }
        self.open_bytes += bytes.len();
        None
    }

    /// The line on which a quote opened that was not closed by the last byte seen.
    pub(super) fn open_quote(&self) -> Option<u64> {
        match &self.layout {
            Layout::Csv(csv) if matches!(csv.place, Place::Quoted | Place::Escaped) => Some(csv.quote_line),
            _ => None,
        }
    }

    /// The line of a quote that is escaped by a backslash, as Spark and MySQL write it, though no option says so: what follows would be cut
    /// off, or be another value.
    pub(super) fn escaped_quote(&self) -> Option<u64> {
        match &self.layout {
            Layout::Csv(csv) => csv.escaped_line,
            Layout::Json { .. } => None,
        }
    }

    /// The size of the record that has begun and not ended, and the line of the last byte seen.
    pub(super) fn open_record(&self) -> (usize, u64) {
        (self.open_bytes, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(mut records: RecordEnds, text: &str, chunk: usize) -> (Vec<usize>, Option<u64>) {
        let ends = ends_of(&mut records, text, chunk);
        (ends, records.open_quote())
    }

    fn ends_of(records: &mut RecordEnds, text: &str, chunk: usize) -> Vec<usize> {
        let (mut ends, mut seen) = (Vec::new(), 0);
        for mut bytes in text.as_bytes().chunks(chunk) {
            while let Some(end) = records.next_end(bytes) {
                seen += end;
                ends.push(seen);
                bytes = &bytes[end..];
            }
            seen += bytes.len();
        }
        ends
    }

    #[test]
    fn records_end_where_a_parser_ends_them_however_they_are_cut() {
        let plain = CsvOptions::default();
        let escaped = CsvOptions { escape: Some(b'\\'), ..plain.clone() };
        let commented = CsvOptions { comment: Some(b'#'), ..plain.clone() };
        for (options, text, expected) in [
            (&plain, "a,b\n1,\"x\ny\"\n2,z\n", (vec![4, 12, 16], None)),
            (&plain, "1,\"x\"\"\n\"\n2\n", (vec![9, 11], None)),
            (&plain, "1,5\" pipe\n2\n", (vec![10, 12], None)),
            (&plain, "1,\\\"\n2\n", (vec![5, 7], None)),
            (&plain, "a\n\n\"b\nc", (vec![2, 3], Some(3))),
            (&plain, "\u{feff}\"a\nb\"\n", (vec![9], None)),
            (&escaped, "\"a\\\"\nb\"\n", (vec![8], None)),
            (&commented, "# it \"s\n\"a\n\"\n", (vec![13], None)),
        ] {
            for chunk in 1..=text.len() {
                assert_eq!(ends(RecordEnds::csv(options), text, chunk), expected, "{text:?} by {chunk}");
            }
        }
        let escaped_line = |options: &CsvOptions, text: &str| {
            let mut records = RecordEnds::csv(options);
            ends_of(&mut records, text, 1);
            records.escaped_quote()
        };
        for (options, text, expected) in [
            (&plain, "1\n\"say \\\"hi\\\"\",2\n", Some(2)),
            (&plain, "\"C:\\\",\"\\\"\n\"{\"\"a\"\":\"\"x\\\"\"y\"\"}\"\n", None),
            (&plain, "a\\\"b,\"x\"\n", None),
            (&escaped, "\"say \\\"hi\\\"\"\n", None),
        ] {
            assert_eq!(escaped_line(options, text), expected, "{text}");
        }
        // What is no object ends with its line.
        let json = "1\n \n{}{}\n";
        for chunk in 1..=json.len() {
            assert_eq!(ends(RecordEnds::json(), json, chunk), (vec![2, 6, 8], None), "by {chunk}");
        }
        let json = "{\"a\": \"{\\\"\"}\n{\n\"b\": [1\n]}\n";
        for chunk in 1..=json.len() {
            assert_eq!(ends(RecordEnds::json(), json, chunk), (vec![12, 25], None), "by {chunk}");
        }
    }
}
