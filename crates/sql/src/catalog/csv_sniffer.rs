//! The dialect of a CSV file, told by its first records: what separates and quotes values, which lines are comments or come before the
//! table, and whether the first record is a header.

/// Bytes of a file, decompressed, that are looked at.
pub(super) const SAMPLE_BYTES: usize = 256 << 10;
/// Records of them that are looked at.
const RECORDS_MAX: usize = 1000;
/// Marks between values, as DuckDB has them: of two that do equally well, the first is taken.
const DELIMITERS: [u8; 4] = *b",|;\t";

/// Facts of a file that are known without a look at it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub delimiter: Option<u8>,
    pub has_header: Option<bool>,
    pub quote: Option<u8>,
    pub escape: Mark,
    pub comment: Mark,
    /// Lines before the table.
    pub skipped_lines: Option<usize>,
    /// True if records may lack their last values.
    pub pads: bool,
}

/// A mark that a file may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    /// Told by the file.
    #[default]
    Sniffed,
    Absent,
    Is(u8),
}

impl Mark {
    /// The marks to try; `seen` is one that the file may have.
    fn choices(self, seen: Option<u8>) -> Vec<Option<u8>> {
        match self {
            Self::Is(mark) => vec![Some(mark)],
            Self::Sniffed if seen.is_some() => vec![None, seen],
            Self::Sniffed | Self::Absent => vec![None],
        }
    }

    fn said(self) -> Option<u8> {
        match self {
            Self::Is(mark) => Some(mark),
            Self::Sniffed | Self::Absent => None,
        }
    }
}

/// The dialect of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sniffed {
    pub layout: Layout,
    pub has_header: bool,
    /// Lines before the table.
    pub skipped_lines: usize,
}

/// The marks that tell values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub delimiter: u8,
    pub quote: u8,
    pub escape: Option<u8>,
    pub comment: Option<u8>,
}

impl Sniffed {
    /// True for the dialect of files that we write.
    pub(super) fn is_plain(&self) -> bool {
        let plain = Layout { delimiter: b',', quote: b'"', escape: None, comment: None };
        *self == Self { layout: plain, has_header: true, skipped_lines: 0 }
    }
}

impl Layout {
    /// The layout of a file that does not tell.
    fn of(known: Known) -> Self {
        Self {
            delimiter: known.delimiter.unwrap_or(b','),
            quote: known.quote.unwrap_or(b'"'),
            escape: known.escape.said(),
            comment: known.comment.said(),
        }
    }
}

/// The dialect of a file that begins with `sample`, of which `is_whole` says that nothing follows.
///
/// The layout gives each record as many values, and more than others do; fewer than half of the records may come before the table, if each
/// is one text. The
/// first record is a header unless it fits the other values of each column, some of which are not text, and each column has some. A file that fits no layout has
/// the one that splits most records: its reader names the record that does not fit.
pub(super) fn sniff(sample: &[u8], is_whole: bool, known: Known) -> Sniffed {
    let sample = sample.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(sample);
    let begin = line_begin(sample, known.skipped_lines.unwrap_or(0));
    let table = &sample[begin..];
    let mut best: Option<Reading> = None;
    let mut split = (0, Layout::of(known));
    for layout in layouts(table, known) {
        let reading = Reading::of(table, is_whole, layout);
        if reading.splits > split.0 {
            split = (reading.splits, layout);
        }
        if reading.is_table(known) && best.as_ref().is_none_or(|best| reading.is_better(best)) {
            best = Some(reading);
        }
    }
    // Records of one value are no column if most of them are split otherwise, though not alike.
    let is_column = |best: &Reading| best.values > 1 || 2 * split.0 < best.records.1;
    let (layout, before) = match best.filter(is_column) {
        Some(best) => (best.layout, best.lines_before),
        None => (split.1, 0),
    };
    let table = &table[line_begin(table, before)..];
    let has_header = known.has_header.unwrap_or_else(|| has_header(&records(table, is_whole, layout)));
    Sniffed { layout, has_header, skipped_lines: known.skipped_lines.unwrap_or(0) + before }
}

/// The byte at which the line behind some lines begins.
fn line_begin(bytes: &[u8], lines: usize) -> usize {
    let mut begin = 0;
    for _ in 0..lines {
        match bytes[begin..].iter().position(|byte| *byte == b'\n') {
            Some(end) => begin += end + 1,
            None => return bytes.len(),
        }
    }
    begin
}

/// The layouts that a file may have, the likely ones first: quotes and marks that do not occur are not tried.
fn layouts(sample: &[u8], known: Known) -> Vec<Layout> {
    let begins = |mark: u8| sample.split(|byte| *byte == b'\n').any(|line| line.first() == Some(&mark));
    let comments = known.comment.choices(begins(b'#').then_some(b'#'));
    let quotes = match known.quote {
        Some(quote) => vec![quote],
        None if sample.contains(&b'\'') => vec![b'"', b'\''],
        None => vec![b'"'],
    };
    let mut layouts = Vec::new();
    for comment in comments {
        for quote in &quotes {
            let escapes = sample.windows(2).any(|two| two == [b'\\', *quote]);
            for escape in known.escape.choices(escapes.then_some(b'\\')) {
                let delimiters = match known.delimiter {
                    Some(delimiter) => vec![delimiter],
                    None => {
                        let occurs = |delimiter: &u8| *delimiter == b',' || sample.contains(delimiter);
                        DELIMITERS.into_iter().filter(occurs).collect()
                    }
                };
                let layout = |delimiter| Layout { delimiter, quote: *quote, escape, comment };
                layouts.extend(delimiters.into_iter().map(layout));
            }
        }
    }
    layouts
}

/// A sample as a layout has it.
struct Reading {
    layout: Layout,
    /// The number of values of each record of the table.
    values: usize,
    /// The lines before its first record.
    lines_before: usize,
    /// The records before the table, and those of it.
    records: (usize, usize),
    /// The records that have more than one value.
    splits: usize,
    /// The values in quotes.
    quoted: usize,
    /// True if each quote that ends a value stands at its end.
    is_well_formed: bool,
    /// True if all records before the table are titles.
    has_titles: bool,
}

impl Reading {
    fn of(sample: &[u8], is_whole: bool, layout: Layout) -> Self {
        let mut reading = Self {
            layout,
            values: 0,
            lines_before: 0,
            records: (0, 0),
            splits: 0,
            quoted: 0,
            is_well_formed: true,
            has_titles: true,
        };
        let mut are_titles = true;
        let mut splitter = Splitter::new(sample, is_whole, layout);
        while let Some(record) = splitter.next(None) {
            if record.values != reading.values {
                reading.records = (reading.records.0 + reading.records.1, 0);
                (reading.values, reading.lines_before) = (record.values, record.line);
                reading.has_titles = are_titles;
            }
            reading.records.1 += 1;
            reading.splits += usize::from(record.values > 1);
            reading.quoted += record.quoted;
            reading.is_well_formed &= record.is_well_formed;
            are_titles &= record.is_title;
        }
        if reading.records.0 == 0 {
            reading.lines_before = 0;
        }
        reading
    }

    /// True if the records, but for some before them, are those of a table.
    fn is_table(&self, known: Known) -> bool {
        let (before, within) = self.records;
        // A mark of quotes that is none is a letter.
        let is_quote = self.layout.quote == b'"' || known.quote.is_some() || self.quoted > 0;
        // Rows that lack values, or have more than others, are no titles.
        let may_skip = known.skipped_lines.is_none() && !known.pads && self.has_titles;
        self.is_well_formed && is_quote && (before == 0 || may_skip && self.values > 1 && before < within)
    }

    /// True if it makes more of the same sample.
    fn is_better(&self, other: &Self) -> bool {
        // Lines that may be rows are no comments.
        let of = |reading: &Self| {
            (reading.values > 1, reading.layout.comment.is_none(), reading.records.0 == 0, reading.values)
        };
        match of(self).cmp(&of(other)) {
            std::cmp::Ordering::Equal => {
                // Both split alike: quotes that stand around values are no part of them.
                other.quoted == 0 && 2 * self.quoted >= self.records.1.max(1) && self.layout.quote != b'"'
            }
            order => order.is_gt(),
        }
    }
}

/// Kinds of values that are told apart for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number,
    Truth,
    Time,
    Text,
}

fn has_header(records: &[Vec<Vec<u8>>]) -> bool {
    let Some((first, others)) = records.split_first() else { return true };
    if others.is_empty() {
        return first.iter().all(|value| matches!(kind(value), None | Some(Value::Text)));
    }
    let mut are_texts = true;
    for (column, name) in first.iter().enumerate() {
        let mut values = others.iter().filter_map(|record| kind(record.get(column)?));
        let Some(one) = values.next() else {
            // A name without values.
            if others.len() > 1 && kind(name).is_some() {
                return true;
            }
            continue;
        };
        if one == Value::Text || values.any(|other| other != one) {
            continue;
        }
        are_texts = false;
        if kind(name).is_some_and(|kind| kind != one) {
            return true;
        }
    }
    are_texts
}

/// The kind of a value; `None` for a null.
fn kind(value: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(value);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let is_time = || {
        let bytes = text.as_bytes();
        bytes.len() >= 10
            && bytes[..10].iter().enumerate().all(|(at, byte)| match at {
                4 | 7 => *byte == b'-' || *byte == b'/',
                _ => byte.is_ascii_digit(),
            })
    };
    Some(if text.parse::<f64>().is_ok_and(f64::is_finite) {
        Value::Number
    } else if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        Value::Truth
    } else if is_time() {
        Value::Time
    } else {
        Value::Text
    })
}

/// The values of the first records.
fn records(sample: &[u8], is_whole: bool, layout: Layout) -> Vec<Vec<Vec<u8>>> {
    let (mut splitter, mut records) = (Splitter::new(sample, is_whole, layout), Vec::new());
    let mut values = Vec::new();
    while splitter.next(Some(&mut values)).is_some() {
        records.push(std::mem::take(&mut values));
    }
    records
}

/// The records of a sample, without empty lines and comments. The last record is left out unless the file ends with it.
struct Splitter<'a> {
    rest: &'a [u8],
    is_whole: bool,
    layout: Layout,
    records: usize,
    /// The lines up to `rest`.
    line: usize,
}

struct Record {
    /// The lines before it.
    line: usize,
    values: usize,
    quoted: usize,
    is_well_formed: bool,
    /// True for one value that is a text.
    is_title: bool,
}

impl<'a> Splitter<'a> {
    fn new(sample: &'a [u8], is_whole: bool, layout: Layout) -> Self {
        Self { rest: sample, is_whole, layout, records: 0, line: 0 }
    }

    /// The next record, whose values come into `values`.
    fn next(&mut self, mut values: Option<&mut Vec<Vec<u8>>>) -> Option<Record> {
        while !self.rest.is_empty() && self.records < RECORDS_MAX {
            if self.layout.comment == Some(self.rest[0]) {
                let end = self.rest.iter().position(|byte| *byte == b'\n');
                self.pass(end.map_or(self.rest.len(), |end| end + 1));
                continue;
            }
            let (mut record, length, is_ended, is_empty) =
                record(self.rest, self.layout, values.as_deref_mut());
            record.line = self.line;
            record.is_title = record.values == 1 && kind(&self.rest[..length]) == Some(Value::Text);
            self.pass(length);
            if !is_empty && (is_ended || self.is_whole) {
                self.records += 1;
                return Some(record);
            }
            if let Some(values) = values.as_deref_mut() {
                values.clear();
            }
        }
        None
    }

    fn pass(&mut self, length: usize) {
        let (passed, rest) = self.rest.split_at(length);
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.rest = rest;
    }
}

/// The first record, its length in bytes, whether a line break ends it, and whether it is an empty line. Its values come into `into`.
fn record(bytes: &[u8], layout: Layout, mut into: Option<&mut Vec<Vec<u8>>>) -> (Record, usize, bool, bool) {
    let mut record = Record { line: 0, values: 1, quoted: 0, is_well_formed: true, is_title: false };
    let mut value = Vec::new();
    let (mut is_begin, mut is_quoted, mut is_behind_quote) = (true, false, false);
    let keeps = into.is_some();
    let mut keep = |value: &mut Vec<u8>| {
        if let Some(values) = into.as_deref_mut() {
            values.push(std::mem::take(value));
        }
    };
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let next = bytes.get(at + 1).copied();
        at += 1;
        if is_quoted {
            let is_escape = layout.escape == Some(byte) && next.is_some();
            if is_escape || byte == layout.quote && next == Some(layout.quote) {
                value.extend(next.filter(|_| keeps));
                at += 1;
            } else if byte == layout.quote {
                (is_quoted, is_behind_quote) = (false, true);
            } else if keeps {
                value.push(byte);
            }
        } else if is_begin && byte == layout.quote {
            (is_begin, is_quoted) = (false, true);
            record.quoted += 1;
        } else if byte == layout.delimiter {
            keep(&mut value);
            record.values += 1;
            (is_begin, is_behind_quote) = (true, false);
        } else if byte == b'\n' || byte == b'\r' {
            let is_empty = at == 1;
            at += usize::from(byte == b'\r' && next == Some(b'\n'));
            keep(&mut value);
            return (record, at, true, is_empty);
        } else {
            record.is_well_formed &= !is_behind_quote;
            is_begin = false;
            if keeps {
                value.push(byte);
            }
        }
    }
    record.is_well_formed &= !is_quoted;
    keep(&mut value);
    (record, at, false, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_file_begins_with_it_has_a_dialect(
            letters in prop::collection::vec(prop::sample::select(b"ab1,;|\t\"'\\#\r\n\xEF".to_vec()), 0..80),
            is_whole: bool,
            pads: bool,
        ) {
            let sniffed = sniff(&letters, is_whole, Known { pads, ..Known::default() });
            let lines = letters.iter().filter(|letter| **letter == b'\n').count();
            prop_assert!(sniffed.skipped_lines <= lines);
            // What is told stays so when it is said.
            let Layout { delimiter, quote, escape, comment } = sniffed.layout;
            let known = Known {
                delimiter: Some(delimiter),
                has_header: Some(sniffed.has_header),
                quote: Some(quote),
                escape: escape.map_or(Mark::Absent, Mark::Is),
                comment: comment.map_or(Mark::Absent, Mark::Is),
                skipped_lines: Some(sniffed.skipped_lines),
                pads,
            };
            prop_assert_eq!(sniff(&letters, is_whole, known).skipped_lines, sniffed.skipped_lines);
        }
    }

    fn whole(sample: &str) -> Sniffed {
        sniff(sample.as_bytes(), true, Known::default())
    }

    #[test]
    fn delimiter_and_header_are_told_by_the_records() {
        for (sample, delimiter, has_header) in [
            ("a,b\n1,2\n", b',', true),
            ("a;b\n1,5;2,5\n", b';', true),
            ("a\tb\n\"x\ty\"\tz\n", b'\t', true),
            ("1|2|\n3|4|\n", b'|', false),
            ("x,1\ny,2\n", b',', false),
            ("2024-01-01,x\r\n2024-01-02,y\r\n", b',', false),
            ("\u{feff}n\n1\n", b',', true),
            ("n\n\n1\n", b',', true),
            ("1,2\n", b',', false),
            ("a,b\n", b',', true),
            ("1,\n2,3\n", b',', false),
            ("x,2020,2021\ny,1.5,\nz,2.5,\n", b',', true),
            ("x,y\nz,w\n", b',', true),
            ("a,b\nx,\"1;2\n3\"\n", b',', true),
            ("name,when\nx,2024-01-02\n", b',', true),
            // One column of prose.
            ("name\nx; y\nz\nw\n", b',', true),
            // Two do equally well.
            ("a,b|c\n1,2|3\n", b',', true),
            ("", b',', true),
        ] {
            let sniffed = whole(sample);
            assert_eq!(
                (sniffed.layout.delimiter, sniffed.has_header, sniffed.skipped_lines),
                (delimiter, has_header, 0),
                "{sample}"
            );
        }
    }

    #[test]
    fn quotes_escapes_and_comments_are_told_by_the_records() {
        let layout = |delimiter, quote, escape, comment| Layout { delimiter, quote, escape, comment };
        for (sample, expected) in [
            ("'a';'b'\n'x;y';'1'\n", layout(b';', b'\'', None, None)),
            ("a,b\n'tis,1\nx,2\n", layout(b',', b'"', None, None)),
            ("a,b\n\"it's\",'1'\n\"x\",'2'\n", layout(b',', b'"', None, None)),
            ("a,b\n\"say \\\"hi, you\\\"\",1\nx,2\n", layout(b',', b'"', Some(b'\\'), None)),
            ("a,b\n\"C:\\\",1\nx,2\n", layout(b',', b'"', None, None)),
            ("a,b\n1,2\n# more, and, more\n3,4\n", layout(b',', b'"', None, Some(b'#'))),
            ("#a,b\n1,2\n", layout(b',', b'"', None, None)),
        ] {
            assert_eq!(whole(sample).layout, expected, "{sample}");
        }
    }

    #[test]
    fn lines_before_the_table_are_skipped() {
        for (sample, skipped) in [
            ("Report\na\tb\n1\t2\n", 1),
            ("Sales, 2024\n\nfor \"us\"\na;b\n1;2\n3;4\n5;6\n", 3),
            ("# said, and said\na;b\n1;2\n", 1),
            ("150,4,setosa\n5.1,3.5,0\n", 0),
            ("one\ntwo\nthree, four\n", 0),
            // Rows, and no titles.
            ("a,b\n1,2\n3,4,5\n4,5,6\n7,8,9\n", 0),
            ("1\n2,3\n4,5\n6,7\n", 0),
        ] {
            assert_eq!(whole(sample).skipped_lines, skipped, "{sample}");
        }
        let known = Known { skipped_lines: Some(2), ..Known::default() };
        let sniffed = sniff(b"x;y;z\n1;2;3\nn\n4\n", true, known);
        assert_eq!((sniffed.skipped_lines, sniffed.has_header), (2, true));
        assert_eq!(sniffed.layout.delimiter, b',');
    }

    #[test]
    fn a_record_that_the_sample_cuts_does_not_count() {
        let sniffed = sniff(b"a;b\n1;2\n3", false, Known::default());
        assert_eq!((sniffed.layout.delimiter, sniffed.has_header), (b';', true));
        let sniffed = sniff(b"a;b\n1;2\n3;\"4", false, Known::default());
        assert_eq!(sniffed.layout.delimiter, b';');
    }

    #[test]
    fn records_of_unequal_length_have_the_layout_that_splits_most() {
        for (sample, delimiter) in [("a;b\n1;2;3\n1;2\n1\n", b';'), ("a,b\n1,2,3\n1,2\n4\n", b',')] {
            let sniffed = whole(sample);
            assert_eq!((sniffed.layout.delimiter, sniffed.skipped_lines), (delimiter, 0), "{sample}");
        }
        let known = Known { pads: true, ..Known::default() };
        let sniffed = sniff(b"a;b;c\n1;2\n3\n", true, known);
        assert_eq!((sniffed.layout.delimiter, sniffed.skipped_lines), (b';', 0));
    }

    #[test]
    fn what_is_known_is_not_told() {
        let known = Known {
            delimiter: Some(b'|'),
            has_header: Some(false),
            quote: Some(b'\''),
            escape: Mark::Is(b'^'),
            comment: Mark::Is(b'%'),
            ..Known::default()
        };
        let layout = Layout { delimiter: b'|', quote: b'\'', escape: Some(b'^'), comment: Some(b'%') };
        let sniffed = sniff(b"a,b|c\n1,2|3\n", true, known);
        assert_eq!(sniffed, Sniffed { layout, has_header: false, skipped_lines: 0 });
    }

    #[test]
    fn a_mark_that_is_said_to_be_none_is_none() {
        let commented = b"n,m\n1,2\n# x\n3,4\n";
        assert_eq!(sniff(commented, true, Known::default()).layout.comment, Some(b'#'));
        let known = Known { comment: Mark::Absent, ..Known::default() };
        assert_eq!(sniff(commented, true, known).layout.comment, None);
        let escaped = b"n,m\n1,\"a\\\"b\"\n2,\"c\"\n";
        assert_eq!(sniff(escaped, true, Known::default()).layout.escape, Some(b'\\'));
        let known = Known { escape: Mark::Absent, ..Known::default() };
        assert_eq!(sniff(escaped, true, known).layout.escape, None);
    }
}
