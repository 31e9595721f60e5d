//! Patterns of `printf` and `format_string`, such as `%5d` and `%-10s`: texts of values as C writes them, whose rules DuckDB has, and as
//! Java does, whose rules Spark has.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, Decimal128Type, DecimalType};
use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Most characters that the fields of a pattern ask for together, with the digits behind the points of numbers.
const WIDTH_MAX: usize = 1_000;

/// Digits behind the point that no pattern asks for.
const DIGITS_DEFAULT: usize = 6;

/// Whose rules a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rules {
    C,
    Java,
}

/// A value that a field writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    /// Value times ten to the power of the scale.
    Decimal(i128, i8),
    Single(f32),
    Float(f64),
    Text(&'a str),
}

impl Value<'_> {
    /// A decimal, or a number of single precision, as a DOUBLE, which it is in DuckDB.
    pub fn as_float(self) -> Self {
        match self {
            Self::Decimal(value, scale) => {
                // The text, since a quotient of two doubles is rounded twice.
                Self::Float(decimal_text(value, scale).parse().expect("it is a number"))
            }
            Self::Single(value) => Self::Float(f64::from(value)),
            other => other,
        }
    }
}

fn decimal_text(value: i128, scale: i8) -> String {
    Decimal128Type::format_decimal(value, DECIMAL128_MAX_PRECISION, scale)
}

/// A pattern, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PercentPattern {
    written: String,
    items: Vec<Item>,
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    Field(Field),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Field {
    /// Place of the value, from 0 on.
    place: usize,
    flags: Flags,
    width: usize,
    digits: Option<usize>,
    kind: char,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    left: bool,
    plus: bool,
    blank: bool,
    zeros: bool,
    commas: bool,
    prefix: bool,
    parentheses: bool,
}

impl Flags {
    fn set(&mut self, flag: char) -> bool {
        let place = match flag {
            '-' => &mut self.left,
            '+' => &mut self.plus,
            ' ' => &mut self.blank,
            '0' => &mut self.zeros,
            ',' => &mut self.commas,
            '#' => &mut self.prefix,
            '(' => &mut self.parentheses,
            _ => return false,
        };
        *place = true;
        true
    }

    fn is_of_numbers(self) -> bool {
        self.plus || self.blank || self.zeros || self.commas || self.prefix || self.parentheses
    }
}

impl PercentPattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// `Invalid` for fields that are none, and for wider ones than [`WIDTH_MAX`].
    pub fn parse(pattern: &str) -> Result<Self> {
        let mut items = Vec::new();
        let (mut next_place, mut width) = (0, 0_usize);
        let mut rest = pattern;
        while let Some((before, behind)) = rest.split_once('%') {
            push_text(&mut items, before);
            rest = behind;
            if let Some(behind) = rest.strip_prefix('%') {
                push_text(&mut items, "%");
                rest = behind;
                continue;
            }
            let (field, is_placed, behind) = read_field(rest, next_place)
                .ok_or_else(|| refused(pattern, format!("'%{}' is no field", begin_of(rest))))?;
            rest = behind;
            width = field.digits.unwrap_or(0).saturating_add(field.width).saturating_add(width);
            if width > WIDTH_MAX {
                return Err(refused(pattern, format!("its fields have more than {WIDTH_MAX} characters")));
            }
            if field.kind == 'n' {
                push_text(&mut items, "\n");
                continue;
            }
            next_place += usize::from(!is_placed);
            items.push(Item::Field(field));
        }
        push_text(&mut items, rest);
        Ok(Self { written: pattern.to_owned(), items })
    }

    /// The text of values.
    ///
    /// # Errors
    /// `Invalid` for too few values, and for one that a field cannot write.
    pub fn write(&self, values: &[Value<'_>], rules: Rules) -> Result<String> {
        let mut text = String::new();
        for item in &self.items {
            match item {
                Item::Text(part) => text.push_str(part),
                Item::Field(field) => {
                    let value = values.get(field.place).ok_or_else(|| {
                        refused(&self.written, format!("there is no value {} for it", field.place + 1))
                    })?;
                    let part = field.write(*value, rules);
                    text.push_str(&part.map_err(|what| refused(&self.written, what))?);
                }
            }
        }
        Ok(text)
    }
}

fn begin_of(text: &str) -> String {
    text.chars().take(4).collect()
}

fn refused(pattern: &str, what: String) -> Error {
    let hint = "fields are such as %d, %5d, %05d, %x of integers, %.2f, %e of DOUBLE, and %s, %-10s of texts; cast values to these";
    Error::new(ErrorKind::Invalid, format!("{what}: the pattern '{pattern}'")).with_hint(hint)
}

fn push_text(items: &mut Vec<Item>, part: &str) {
    match items.last_mut() {
        Some(Item::Text(text)) => text.push_str(part),
        _ if part.is_empty() => {}
        _ => items.push(Item::Text(part.to_owned())),
    }
}

/// The field whose `%` stands before a text, whether it names the place of its value, and what is behind it.
fn read_field(text: &str, next_place: usize) -> Option<(Field, bool, &str)> {
    let mut is_placed = false;
    let mut field = Field { place: next_place, ..Field::default() };
    let mut rest = text;
    if let Some((place, behind)) = number(rest)
        && let Some(behind) = behind.strip_prefix('$')
    {
        // Places are counted from 1 on.
        field.place = place.checked_sub(1)?;
        is_placed = true;
        rest = behind;
    }
    while let Some(flag) = rest.chars().next().filter(|flag| field.flags.set(*flag)) {
        rest = &rest[flag.len_utf8()..];
    }
    if let Some((width, behind)) = number(rest) {
        (field.width, rest) = (width, behind);
    }
    if let Some(behind) = rest.strip_prefix('.') {
        let (digits, behind) = number(behind)?;
        (field.digits, rest) = (Some(digits), behind);
    }
    field.kind = rest.chars().next().filter(|kind| "dixXosSfeEcbBn".contains(*kind))?;
    rest = &rest[1..];
    let is_of_integers = "dixXocn".contains(field.kind);
    // Both refuse a width to the left that is none.
    let is_wrong = (is_of_integers && field.digits.is_some())
        || (field.flags.left && (field.width == 0 || field.flags.zeros))
        || (field.flags.plus && field.flags.blank)
        || (!"dixXofeE".contains(field.kind) && field.flags.is_of_numbers());
    (!is_wrong).then_some((field, is_placed, rest))
}

fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    // A leading zero is a flag.
    if number.starts_with('0') && number.len() > 1 { None } else { Some((number.parse().ok()?, rest)) }
}

impl Field {
    fn write(&self, value: Value<'_>, rules: Rules) -> std::result::Result<String, String> {
        let no_text = |of: &str| Err(format!("{of} cannot be written by %{}", self.kind));
        match (self.kind, value) {
            ('b' | 'B', Value::Null) => Ok(self.padded(self.cased("false"), rules)),
            (_, Value::Null) => Ok(self.padded(self.cut(&self.cased("null"), rules), rules)),
            ('b' | 'B', Value::Bool(value)) if rules == Rules::Java => {
                Ok(self.padded(self.cased(&value.to_string()), rules))
            }
            ('s' | 'S', value) => {
                let text = match value {
                    Value::Text(text) => text.to_owned(),
                    Value::Bool(value) => value.to_string(),
                    Value::Integer(value) => value.to_string(),
                    Value::Decimal(value, scale) => decimal_text(value, scale),
                    Value::Single(_) => return no_text("a FLOAT"),
                    Value::Float(value) => of_java(value),
                    Value::Null => unreachable!("nulls are written above"),
                };
                Ok(self.padded(self.cut(&self.cased(&text), rules), rules))
            }
            ('c', Value::Integer(code)) => {
                let letter =
                    u32::try_from(code).ok().and_then(char::from_u32).filter(|letter| *letter != '\0');
                let letter = letter.ok_or_else(|| format!("{code} is no code of a character"))?;
                Ok(self.padded(letter.to_string(), rules))
            }
            ('i', _) if rules == Rules::Java => Err("%i is no field of Spark's".to_owned()),
            ('d' | 'i', Value::Integer(value) | Value::Decimal(value, 0)) => {
                let digits = value.unsigned_abs().to_string();
                Ok(self.signed(value < 0, &self.grouped(digits)))
            }
            ('x' | 'X' | 'o', Value::Integer(value)) => {
                if value < 0 {
                    return Err(format!(
                        "%{} of {value}, of which systems write more or fewer digits",
                        self.kind
                    ));
                }
                let (prefix, digits) = match self.kind {
                    'o' => ("0", format!("{value:o}")),
                    _ => ("0x", format!("{value:x}")),
                };
                let digits = if self.flags.prefix { format!("{prefix}{digits}") } else { digits };
                if self.flags.commas || self.flags.plus || self.flags.blank || self.flags.parentheses {
                    return no_text("a number with such a flag");
                }
                Ok(self.cased(&self.signed(false, &digits)))
            }
            ('f' | 'e' | 'E', Value::Float(value)) => Ok(self.float(value, rules)),
            ('f' | 'e' | 'E', Value::Single(value)) => Ok(self.float(f64::from(value), rules)),
            ('f' | 'e' | 'E', Value::Decimal(..)) if rules == Rules::C => self.write(value.as_float(), rules),
            (_, Value::Bool(_)) => no_text("a BOOLEAN"),
            (_, Value::Integer(_)) => no_text("an integer"),
            (_, Value::Decimal(..)) => no_text("a DECIMAL"),
            (_, Value::Single(_)) => no_text("a FLOAT"),
            (_, Value::Float(_)) => no_text("a DOUBLE"),
            (_, Value::Text(_)) => no_text("a text"),
        }
    }

    fn cased(&self, text: &str) -> String {
        if self.kind.is_ascii_uppercase() { text.to_uppercase() } else { text.to_owned() }
    }

    /// As many characters as the pattern allows.
    fn cut(&self, text: &str, rules: Rules) -> String {
        let Some(most) = self.digits else { return text.to_owned() };
        let mut count = 0;
        let fits = |letter: &char| {
            count += letters(*letter, rules);
            count <= most
        };
        text.chars().take_while(fits).collect()
    }

    fn padded(&self, text: String, rules: Rules) -> String {
        let count = text.chars().map(|letter| letters(letter, rules)).sum();
        let blanks = " ".repeat(self.width.saturating_sub(count));
        if self.flags.left { text + &blanks } else { blanks + &text }
    }

    fn grouped(&self, digits: String) -> String {
        if !self.flags.commas {
            return digits;
        }
        let whole = digits.find('.').unwrap_or(digits.len());
        let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
        for (place, letter) in digits.chars().enumerate() {
            if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(letter);
        }
        text
    }

    /// Digits with their sign, as wide as the field.
    fn signed(&self, is_negative: bool, digits: &str) -> String {
        let (before, behind) = match is_negative {
            true if self.flags.parentheses => ("(", ")"),
            true => ("-", ""),
            false if self.flags.plus => ("+", ""),
            false if self.flags.blank => (" ", ""),
            false => ("", ""),
        };
        let filled = self.width.saturating_sub(before.len() + digits.len() + behind.len());
        if self.flags.zeros && digits.starts_with(|first: char| first.is_ascii_digit()) {
            let (prefix, digits) = match digits.strip_prefix("0x") {
                Some(rest) => ("0x", rest),
                None => ("", digits),
            };
            return format!("{before}{prefix}{}{digits}{behind}", "0".repeat(filled));
        }
        let text = format!("{before}{digits}{behind}");
        if self.flags.left { text + &" ".repeat(filled) } else { " ".repeat(filled) + &text }
    }

    fn float(&self, value: f64, rules: Rules) -> String {
        if !value.is_finite() {
            let (nan, infinite) = match rules {
                Rules::C => ("nan", "inf"),
                Rules::Java => ("NaN", "Infinity"),
            };
            return match value.is_nan() {
                true => self.padded(nan.to_owned(), rules),
                false => self.cased_of_float(&self.signed(value < 0.0, infinite)),
            };
        }
        let places = self.digits.unwrap_or(DIGITS_DEFAULT);
        let magnitude = value.abs();
        let digits = match (self.kind, rules) {
            ('f', Rules::C) => format!("{magnitude:.places$}"),
            ('f', Rules::Java) => rounded(magnitude, places),
            (_, Rules::C) => with_exponent(&format!("{magnitude:.places$e}")),
            (_, Rules::Java) => with_exponent(&rounded_with_exponent(magnitude, places)),
        };
        let digits = if self.flags.prefix && places == 0 { digits + "." } else { digits };
        let digits = if self.kind == 'f' { self.grouped(digits) } else { digits };
        self.cased_of_float(&self.signed(value.is_sign_negative(), &digits))
    }

    fn cased_of_float(&self, text: &str) -> String {
        if self.kind == 'E' { text.to_uppercase() } else { text.to_owned() }
    }
}

/// Characters that a letter counts for.
fn letters(letter: char, rules: Rules) -> usize {
    match rules {
        Rules::C => 1,
        Rules::Java => letter.len_utf16(),
    }
}

/// An exponent has a sign and two digits.
fn with_exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The shortest digits that are this number and no other, and its exponent: `0.d1d2d3… * 10^exponent`.
fn shortest(magnitude: f64) -> (Vec<u8>, i32) {
    let text = format!("{magnitude:e}");
    let (digits, exponent) = text.split_once('e').expect("it has an exponent");
    let digits = digits.bytes().filter(|digit| *digit != b'.').map(|digit| digit - b'0').collect();
    (digits, exponent.parse::<i32>().expect("it is a number") + 1)
}

/// Digits cut to so many, the last one rounded half up, and whether all of them were nines.
fn half_up(mut digits: Vec<u8>, count: usize) -> (Vec<u8>, bool) {
    let up = digits.get(count).is_some_and(|digit| *digit >= 5);
    digits.truncate(count);
    if up {
        for digit in digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return (digits, false);
            }
            *digit = 0;
        }
        digits.insert(0, 1);
        return (digits, true);
    }
    (digits, false)
}

/// A number as Java rounds it: the shortest digits that are it, half up.
fn rounded(magnitude: f64, places: usize) -> String {
    let (mut digits, mut exponent) = shortest(magnitude);
    if exponent < 0 {
        // Leading zeros, as far as they may be seen.
        let zeros = (exponent.unsigned_abs() as usize).min(places + 1);
        digits.splice(0..0, std::iter::repeat_n(0, zeros));
        exponent = 0;
    }
    let (mut digits, carried) = half_up(digits, exponent as usize + places);
    let whole = exponent as usize + usize::from(carried);
    digits.resize(whole + places, 0);
    let letters: String = digits.iter().map(|digit| char::from(digit + b'0')).collect();
    let (before, behind) = letters.split_at(whole);
    let before = if before.is_empty() { "0" } else { before };
    if places == 0 { before.to_owned() } else { format!("{before}.{behind}") }
}

fn rounded_with_exponent(magnitude: f64, places: usize) -> String {
    let (digits, exponent) = shortest(magnitude);
    let (mut digits, carried) = half_up(digits, places + 1);
    let exponent = if magnitude == 0.0 { 0 } else { exponent - 1 + i32::from(carried) };
    digits.resize(places + 1, 0);
    let letters: String = digits.iter().map(|digit| char::from(digit + b'0')).collect();
    let (first, behind) = letters.split_at(1);
    if places == 0 { format!("{first}e{exponent}") } else { format!("{first}.{behind}e{exponent}") }
}

/// A number as Java writes it.
fn of_java(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    let (digits, exponent) = text.split_once('E').expect("it has an exponent");
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(pattern: &str, values: &[Value<'_>]) -> [String; 2] {
        let pattern = PercentPattern::parse(pattern).unwrap();
        [Rules::C, Rules::Java].map(|rules| pattern.write(values, rules).unwrap())
    }

    /// Answers of DuckDB 1.5 and Java 17.
    #[test]
    fn most_texts_are_the_same_in_both() {
        use Value::{Float, Integer, Text};
        for (pattern, value, expected) in [
            ("%d|%1$5d|%1$-5d|%1$05d|%1$+d|% 1$d", Integer(42), ""),
            ("[%5d]", Integer(42), "[   42]"),
            ("[%-5d]", Integer(42), "[42   ]"),
            ("[%05d]", Integer(-42), "[-0042]"),
            ("%+d", Integer(42), "+42"),
            ("% d", Integer(5), " 5"),
            ("%,d", Integer(1_234_567), "1,234,567"),
            ("%,d", Integer(-123), "-123"),
            ("%x", Integer(255), "ff"),
            ("%#X", Integer(255), "0XFF"),
            ("%#06x", Integer(255), "0x00ff"),
            ("%o", Integer(8), "10"),
            ("%c", Integer(65), "A"),
            ("%d", Integer(i128::MAX), "170141183460469231731687303715884105727"),
            ("%.2f", Float(3.1426), "3.14"),
            ("%10.3f|", Float(2.5), "     2.500|"),
            ("%010.2f", Float(-3.1426), "-000003.14"),
            ("%f", Float(1.5), "1.500000"),
            ("%.0f", Float(1.5), "2"),
            ("%.1f", Float(0.0), "0.0"),
            ("%.2f", Float(-0.001), "-0.00"),
            ("%.2f", Float(0.999), "1.00"),
            ("%.1f", Float(99.96), "100.0"),
            ("%.3f", Float(0.00049), "0.000"),
            ("%.3f", Float(0.00051), "0.001"),
            ("%,.2f", Float(1_234_567.891), "1,234,567.89"),
            ("%e", Float(12_345.678), "1.234568e+04"),
            ("%.0e", Float(0.0), "0e+00"),
            ("%.2E", Float(9.999e-10), "1.00E-09"),
            ("%s", Text("abc"), "abc"),
            ("%6s|%1$-6s|%1$.2s", Text("abc"), "   abc|abc   |ab"),
            ("%5s", Text("é"), "    é"),
            ("100%%", Text(""), "100%"),
            ("%s%n", Text("a"), "a\n"),
        ] {
            if expected.is_empty() {
                assert!(PercentPattern::parse(pattern).is_err(), "{pattern}");
            } else {
                assert_eq!(both(pattern, &[value]), [expected, expected], "{pattern}");
            }
        }
        assert_eq!(both("%2$s %1$d %s", &[Integer(1), Text("a")])[0], "a 1 1");
    }

    #[test]
    fn where_they_differ_each_has_its_own() {
        use Value::{Float, Null, Text};
        for (pattern, value, c, java) in [
            ("%.2f", Float(1.005), "1.00", "1.01"),
            ("%.0f", Float(0.5), "0", "1"),
            ("%.0f", Float(2.5), "2", "3"),
            ("%-7.1f|", Float(2.25), "2.2    |", "2.3    |"),
            ("%.20f", Float(0.1), "0.10000000000000000555", "0.10000000000000000000"),
            ("%f", Float(f64::NAN), "nan", "NaN"),
            ("%f", Float(f64::NEG_INFINITY), "-inf", "-Infinity"),
            ("%3s", Text("🦆"), "  🦆", " 🦆"),
            ("%6d", Null, "  null", "  null"),
            ("%.2f", Null, "nu", "nu"),
        ] {
            assert_eq!(both(pattern, &[value]), [c, java], "{pattern} of {value:?}");
        }
        for (value, text) in [
            (1.5, "1.5"),
            (100.0, "100.0"),
            (1e10, "1.0E10"),
            (1.25e-5, "1.25E-5"),
            (9_999_999.0, "9999999.0"),
            (-1e7, "-1.0E7"),
            (0.001, "0.001"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(of_java(value), text);
        }
    }

    #[test]
    fn what_no_field_can_write_is_refused() {
        let wide = format!("%{}d", WIDTH_MAX + 1);
        for pattern in [
            "%",
            "%q",
            "%5",
            "%-d",
            "%.d",
            "%05s",
            "%.2d",
            "%0$d",
            "%-05d",
            "%+ d",
            "%*d",
            "%99999999999999999999d",
            &wide,
        ] {
            assert!(PercentPattern::parse(pattern).is_err(), "{pattern}");
        }
        for (pattern, value) in [
            ("%d", Value::Float(1.5)),
            ("%d", Value::Text("a")),
            ("%f", Value::Integer(1)),
            ("%x", Value::Integer(-1)),
            ("%c", Value::Text("A")),
            ("%c", Value::Integer(0xd800)),
            ("%d", Value::Bool(true)),
            ("%2$d", Value::Integer(1)),
        ] {
            let pattern = PercentPattern::parse(pattern).unwrap();
            assert!(
                pattern.write(&[value], Rules::C).is_err() && pattern.write(&[value], Rules::Java).is_err()
            );
        }
    }
}
