//! Patterns of `format` with fields in braces, such as `{}` and `{:>10.2f}`, as in DuckDB.

use yeoul_base::ErrorKind;

use super::percent_pattern::Value;
use crate::{Error, Result};

/// Most characters that the fields of a pattern ask for together, with the digits behind the points of numbers.
const WIDTH_MAX: usize = 1_000;

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BracePattern {
    written: String,
    items: Vec<Item>,
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    /// Place of the value, and how it is written.
    Field(usize, Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Center,
    Right,
}

#[derive(Debug, PartialEq, Eq)]
struct Field {
    fill: char,
    align: Option<Align>,
    /// `+` or a blank before a number that is not negative.
    sign: Option<char>,
    prefix: bool,
    zeros: bool,
    width: usize,
    separator: Option<char>,
    digits: Option<usize>,
    kind: Option<char>,
}

fn refused(pattern: &str, what: &str) -> Error {
    let hint = "fields are such as {}, {1}, {:>10}, {:05d}, {:,} and {:.2f}; printf has %d and %s";
    Error::new(ErrorKind::Invalid, format!("{what}: the pattern '{pattern}'")).with_hint(hint)
}

impl BracePattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// `Invalid` for fields that are none or wider than [`WIDTH_MAX`], and for what are fields in PostgreSQL's patterns: `%s`.
    pub fn parse(pattern: &str) -> Result<Self> {
        let is_of_postgres = |behind: &str| {
            behind.starts_with(|c: char| matches!(c, 's' | 'I' | 'L' | '%' | '-' | '*') || c.is_ascii_digit())
        };
        if pattern.match_indices('%').any(|(at, _)| is_of_postgres(&pattern[at + 1..])) {
            let text = format!(
                "not supported: format with '%' in the pattern '{pattern}', which begins a field in PostgreSQL and none in DuckDB"
            );
            let hint = "printf('%s', x), or format('{}', x)";
            return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint));
        }
        let mut items = Vec::new();
        let mut is_numbered = None;
        let (mut count, mut width) = (0, 0);
        let mut rest = pattern;
        while let Some(at) = rest.find(['{', '}']) {
            push_text(&mut items, &rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                push_text(&mut items, brace);
                rest = behind;
                continue;
            }
            let inner = rest.split_once('}').filter(|_| brace == "{");
            let (inner, behind) = inner.ok_or_else(|| refused(pattern, "a brace stands alone"))?;
            rest = behind;
            let (place, spec) = inner.split_once(':').unwrap_or((inner, ""));
            let has_number = !place.is_empty();
            if *is_numbered.get_or_insert(has_number) != has_number {
                return Err(refused(pattern, "some fields have a number and some none"));
            }
            let place = match has_number {
                true => {
                    let is_number = place.bytes().all(|digit| digit.is_ascii_digit());
                    let number = place.parse().ok().filter(|_| is_number);
                    number.ok_or_else(|| refused(pattern, &format!("'{place}' is no number of a value")))?
                }
                false => count,
            };
            count += 1;
            let field = Field::parse(spec);
            let field =
                field.ok_or_else(|| refused(pattern, &format!("'{spec}' is no way to write a value")))?;
            width += field.width + field.digits.unwrap_or(0);
            if width > WIDTH_MAX {
                return Err(refused(pattern, &format!("its fields have more than {WIDTH_MAX} characters")));
            }
            items.push(Item::Field(place, field));
        }
        push_text(&mut items, rest);
        Ok(Self { written: pattern.to_owned(), items })
    }

    /// The text of values.
    ///
    /// # Errors
    /// `Invalid` for too few values, and for one that a field cannot write.
    pub fn write(&self, values: &[Value<'_>]) -> Result<String> {
        let mut text = String::new();
        for item in &self.items {
            match item {
                Item::Text(part) => text.push_str(part),
                Item::Field(place, field) => {
                    let value = values.get(*place);
                    let value = value.ok_or_else(|| {
                        refused(&self.written, &format!("there is no value {place} for it"))
                    })?;
                    let part = field.write(value.as_float());
                    text.push_str(&part.ok_or_else(|| {
                        refused(&self.written, "a value is of another type than its field")
                    })?);
                }
            }
        }
        Ok(text)
    }
}

fn push_text(items: &mut Vec<Item>, part: &str) {
    match items.last_mut() {
        Some(Item::Text(text)) => text.push_str(part),
        _ if part.is_empty() => {}
        _ => items.push(Item::Text(part.to_owned())),
    }
}

fn align_of(letter: Option<char>) -> Option<Align> {
    match letter? {
        '<' => Some(Align::Left),
        '^' => Some(Align::Center),
        '>' => Some(Align::Right),
        _ => None,
    }
}

/// The letter at the begin of a text, if it is one of these, which is then taken off.
fn flag(text: &mut &str, letters: &[char]) -> Option<char> {
    let found = text.chars().next().filter(|letter| letters.contains(letter))?;
    *text = &text[found.len_utf8()..];
    Some(found)
}

fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok().filter(|number| *number <= WIDTH_MAX)?, rest))
}

impl Field {
    fn parse(spec: &str) -> Option<Self> {
        let mut field = Self {
            fill: ' ',
            align: None,
            sign: None,
            prefix: false,
            zeros: false,
            width: 0,
            separator: None,
            digits: None,
            kind: None,
        };
        let mut rest = spec;
        let mut letters = rest.chars();
        let (first, second) = (letters.next(), letters.next());
        if let (Some(fill), Some(align)) = (first, align_of(second)) {
            (field.fill, field.align) = (fill, Some(align));
            rest = &rest[fill.len_utf8() + 1..];
        } else if let Some(align) = align_of(first) {
            field.align = Some(align);
            rest = &rest[1..];
        }
        field.sign = flag(&mut rest, &['+', '-', ' ']).filter(|sign| *sign != '-');
        field.prefix = flag(&mut rest, &['#']).is_some();
        field.zeros = flag(&mut rest, &['0']).is_some();
        if let Some((width, behind)) = number(rest) {
            (field.width, rest) = (width, behind);
        } else if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        field.separator = flag(&mut rest, &[',', '_']);
        if let Some(behind) = rest.strip_prefix('.') {
            let (digits, behind) = number(behind)?;
            (field.digits, rest) = (Some(digits), behind);
        }
        let mut letters = rest.chars();
        field.kind = letters.next();
        let is_known = field.kind.is_none_or(|kind| "sdxXobfFeE".contains(kind));
        (is_known && letters.next().is_none()).then_some(field)
    }

    /// The text of a value; `None` if it is of another type.
    fn write(&self, value: Value<'_>) -> Option<String> {
        let is_plain = self.sign.is_none() && !self.prefix && !self.zeros && self.separator.is_none();
        match (value, self.kind) {
            (Value::Text(text), None | Some('s')) if is_plain => {
                let text = match self.digits {
                    Some(most) => text.chars().take(most).collect(),
                    None => text.to_owned(),
                };
                Some(self.aligned(text, Align::Left))
            }
            (Value::Bool(value), None | Some('s')) if is_plain && self.digits.is_none() => {
                Some(self.aligned(value.to_string(), Align::Left))
            }
            (Value::Bool(value), Some('d')) => self.integer(i128::from(value), 'd'),
            (Value::Integer(value), kind) => self.integer(value, kind.unwrap_or('d')),
            (Value::Float(value), kind) => self.float(value, kind),
            _ => None,
        }
    }

    fn integer(&self, value: i128, kind: char) -> Option<String> {
        let magnitude = value.unsigned_abs();
        let (prefix, digits) = match kind {
            'd' => ("", magnitude.to_string()),
            'x' => ("0x", format!("{magnitude:x}")),
            'X' => ("0X", format!("{magnitude:X}")),
            'o' => ("0", format!("{magnitude:o}")),
            'b' => ("0b", format!("{magnitude:b}")),
            _ => return None,
        };
        if self.digits.is_some() || (kind != 'd' && self.separator.is_some()) {
            return None;
        }
        let prefix = if self.prefix { prefix } else { "" };
        Some(self.number(value < 0, prefix, &digits))
    }

    fn float(&self, value: f64, kind: Option<char>) -> Option<String> {
        if self.prefix || kind.is_some_and(|kind| !"fFeE".contains(kind)) {
            return None;
        }
        let magnitude = value.abs();
        let digits = if value.is_nan() {
            "nan".to_owned()
        } else if value.is_infinite() {
            "inf".to_owned()
        } else {
            match (kind, self.digits) {
                (Some('f' | 'F'), digits) => format!("{magnitude:.*}", digits.unwrap_or(6)),
                (Some(_), digits) => with_exponent(&format!("{magnitude:.*e}", digits.unwrap_or(6))),
                (None, None) => shortest(magnitude),
                (None, Some(digits)) => significant(magnitude, digits),
            }
        };
        let is_capital = matches!(kind, Some('F' | 'E'));
        let text = self.number(value.is_sign_negative() && !value.is_nan(), "", &digits);
        Some(if is_capital { text.to_uppercase() } else { text })
    }

    fn number(&self, is_negative: bool, prefix: &str, digits: &str) -> String {
        let sign = match (is_negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(_)) => " ",
            (false, None) => "",
        };
        let digits = self.grouped(digits);
        let is_finite = digits.starts_with(|first: char| first.is_ascii_digit());
        if self.zeros && self.align.is_none() && is_finite {
            let count = sign.len() + prefix.len() + digits.len();
            return format!("{sign}{prefix}{}{digits}", "0".repeat(self.width.saturating_sub(count)));
        }
        self.aligned(format!("{sign}{prefix}{digits}"), Align::Right)
    }

    fn grouped(&self, digits: &str) -> String {
        let Some(separator) = self.separator else { return digits.to_owned() };
        let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
        let mut text = String::new();
        for (place, letter) in digits.chars().enumerate() {
            if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
                text.push(separator);
            }
            text.push(letter);
        }
        text
    }

    fn aligned(&self, text: String, default: Align) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let before = match self.align.unwrap_or(default) {
            Align::Left => 0,
            Align::Center => missing / 2,
            Align::Right => missing,
        };
        let fill = |count: usize| String::from(self.fill).repeat(count);
        format!("{}{text}{}", fill(before), fill(missing - before))
    }
}

fn with_exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The shortest digits that are a number, with an exponent if it is very large or small.
fn shortest(magnitude: f64) -> String {
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        let text = magnitude.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    with_exponent(&format!("{magnitude:e}"))
}

/// So many digits of a number, without zeros at their end, as C's `%g`.
fn significant(magnitude: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let text = format!("{magnitude:.*e}", digits - 1);
    let (_, exponent) = text.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent >= -4 && exponent < digits as i32 {
        let places = (digits as i32 - 1 - exponent) as usize;
        return without_zeros(&format!("{magnitude:.places$}"));
    }
    let (mantissa, _) = text.split_once('e').expect("it has an exponent");
    with_exponent(&format!("{}e{exponent}", without_zeros(mantissa)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, values: &[Value<'_>]) -> Result<String> {
        BracePattern::parse(pattern)?.write(values)
    }

    /// Answers of DuckDB 1.5.
    #[test]
    fn texts_are_those_of_duckdb() {
        use Value::{Bool, Decimal, Float, Integer, Text};
        for (pattern, values, expected) in [
            ("{} {}", &[Integer(1), Text("a")][..], "1 a"),
            ("{1} {0}", &[Integer(1), Text("a")], "a 1"),
            (
                "{:5d}|{:<5}|{:>5}|{:^5}",
                &[Integer(1), Integer(2), Integer(3), Integer(4)],
                "    1|2    |    3|  4  ",
            ),
            ("{:,}", &[Integer(1_234_567)], "1,234,567"),
            ("{:_}", &[Integer(1_234_567)], "1_234_567"),
            ("{:,}", &[Float(1_234_567.5)], "1,234,567.5"),
            ("{:05.2f}", &[Float(3.1426)], "03.14"),
            ("{}", &[Float(1.5)], "1.5"),
            ("{}", &[Float(1.0)], "1.0"),
            ("{}", &[Float(1e20)], "1e+20"),
            ("{}", &[Float(1e-5)], "1e-05"),
            ("{}", &[Decimal(150, 2)], "1.5"),
            ("{{}}", &[], "{}"),
            ("{}% {}", &[Integer(5), Bool(true)], "5% true"),
            ("{:d}", &[Bool(true)], "1"),
            ("{:x} {:#X} {:08b}", &[Integer(255), Integer(255), Integer(5)], "ff 0XFF 00000101"),
            ("{:e}", &[Float(12_345.678)], "1.234568e+04"),
            ("{:*^9}", &[Text("mid")], "***mid***"),
            ("{:+d}", &[Integer(5)], "+5"),
            ("{:.3}", &[Text("abcdef")], "abc"),
            ("{:.3}", &[Float(3.1426)], "3.14"),
            ("{:.3}", &[Float(31_415.9)], "3.14e+04"),
            ("{}", &[Float(f64::NAN)], "nan"),
            ("{:>3}", &[Text("é")], "  é"),
        ] {
            assert_eq!(text(pattern, values).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn what_no_field_can_write_is_refused() {
        let wide = format!("{{:{}}}", WIDTH_MAX + 1);
        for pattern in ["{", "}", "{} {1}", "{a}", "{:q}", "%s", "{} %1$s", "100%%", &wide] {
            assert!(BracePattern::parse(pattern).is_err(), "{pattern}");
        }
        for (pattern, value) in [
            ("{:d}", Value::Text("a")),
            ("{:s}", Value::Integer(1)),
            ("{:d}", Value::Float(1.5)),
            ("{1}", Value::Null),
        ] {
            assert!(text(pattern, &[value]).is_err(), "{pattern}");
        }
    }
}
