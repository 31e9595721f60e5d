//! Formats of numbers as Spark has them, such as `S$99,999.99`: texts are read and written by them.

use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Digits of a decimal.
const DIGITS_MAX: usize = 38;

/// A run of digits, or the separator between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Digits {
        count: usize,
        /// True for a run that begins with 0 before the point: as many digits, and not fewer.
        is_exact: bool,
    },
    Separator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Group(Vec<Part>),
    Point,
    Dollar,
    /// `S`: a plus or a minus.
    Sign,
    /// `MI`: a minus.
    Minus,
    /// `<` of a negative number.
    Open,
    /// `>` of a negative number.
    Close,
}

impl Token {
    /// The places of a kind of tokens in a format, in their order.
    const fn is_in_slot(&self, slot: usize) -> bool {
        match self {
            Self::Open => slot == 0,
            Self::Sign | Self::Minus => slot == 1 || slot == 7,
            Self::Dollar => slot == 2 || slot == 6,
            Self::Group(_) => slot == 3 || slot == 5,
            Self::Point => slot == 4,
            Self::Close => slot == 7,
        }
    }
}

/// A format, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberFormat {
    tokens: Vec<Token>,
    /// Digits before and behind the point.
    digits: [usize; 2],
}

/// Slots of tokens, as in [`Token::is_in_slot`].
const SLOTS: usize = 8;

impl NumberFormat {
    /// Takes a format apart.
    ///
    /// # Errors
    /// `Invalid` for what is none.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let refused = |what: &str| {
            Error::new(ErrorKind::Invalid, format!("'{text}' is no format of numbers: {what}"))
                .with_hint("a format has 0 and 9 for digits, as in 'S$99,999.99', '0999MI' or '9.99PR'")
        };
        let mut tokens: Vec<Token> = Vec::new();
        let mut is_behind_point = false;
        let mut rest = text.chars().peekable();
        let add = |tokens: &mut Vec<Token>, part: Part| match tokens.last_mut() {
            Some(Token::Group(parts)) => parts.push(part),
            _ => tokens.push(Token::Group(vec![part])),
        };
        while let Some(letter) = rest.next() {
            match letter {
                '0' | '9' => {
                    let mut count = 1;
                    while rest.next_if(|next| matches!(next, '0' | '9')).is_some() {
                        count += 1;
                    }
                    let is_exact = letter == '0' && !is_behind_point;
                    add(&mut tokens, Part::Digits { count, is_exact });
                }
                ',' | 'G' => add(&mut tokens, Part::Separator),
                '.' | 'D' => {
                    is_behind_point = true;
                    tokens.push(Token::Point);
                }
                '$' => tokens.push(Token::Dollar),
                'S' => tokens.push(Token::Sign),
                'M' if rest.next_if_eq(&'I').is_some() => tokens.push(Token::Minus),
                'P' if rest.next_if_eq(&'R').is_some() => {
                    tokens.insert(0, Token::Open);
                    tokens.push(Token::Close);
                }
                letter => return Err(refused(&format!("it has '{letter}'"))),
            }
        }
        let mut slot = 0;
        for token in &tokens {
            while slot < SLOTS && !token.is_in_slot(slot) {
                slot += 1;
            }
            if slot == SLOTS {
                return Err(refused("a part of it is not where it may be, or there twice"));
            }
            slot += 1;
        }
        let has_twice = |one: &Token| tokens.iter().filter(|token| *token == one).count() > 1;
        if [Token::Sign, Token::Minus, Token::Dollar].iter().any(has_twice) {
            return Err(refused("a sign is there twice"));
        }
        let mut digits = [0, 0];
        let mut side = 0;
        for token in &tokens {
            match token {
                Token::Point => side = 1,
                Token::Group(parts) => {
                    let is_separator = |part: Option<&Part>| part == Some(&Part::Separator);
                    let pairs = parts.windows(2).any(|pair| pair == [Part::Separator, Part::Separator]);
                    if is_separator(parts.first()) || is_separator(parts.last()) || pairs {
                        return Err(refused("a comma stands between digits"));
                    }
                    if side == 1 && parts.contains(&Part::Separator) {
                        return Err(refused("there is no comma behind the point"));
                    }
                    digits[side] += parts.iter().map(Part::count).sum::<usize>();
                }
                _ => {}
            }
        }
        let first_digit = tokens.iter().position(|token| matches!(token, Token::Group(_)));
        let dollar = tokens.iter().position(|token| *token == Token::Dollar);
        match (first_digit, dollar) {
            (None, _) => return Err(refused("it has no digit")),
            (Some(digit), Some(dollar)) if digit < dollar => {
                return Err(refused("the dollar sign stands before the digits"));
            }
            _ => {}
        }
        if digits[0] + digits[1] > DIGITS_MAX {
            return Err(refused("it has more than 38 digits"));
        }
        Ok(Self { tokens, digits })
    }

    /// Digits of the decimal of a text, and those behind its point.
    pub(super) fn precision_and_scale(&self) -> (u8, i8) {
        let small = |count: usize| u8::try_from(count).unwrap_or(38);
        (small(self.digits[0] + self.digits[1]), small(self.digits[1]).cast_signed())
    }

    /// The number of a text, with the scale of the format; `None` if it does not fit.
    pub(super) fn read(&self, text: &str) -> Option<i128> {
        let letters: Vec<char> = text.chars().collect();
        let mut at = 0;
        let mut found = [String::new(), String::new()];
        let (mut is_behind_point, mut is_negative, mut is_open, mut is_closed) = (false, false, false, false);
        for token in &self.tokens {
            let next = letters.get(at).copied();
            match (token, next) {
                (Token::Group(parts), _) => {
                    at = read_group(parts, &letters, at, &mut found[usize::from(is_behind_point)])?;
                }
                (Token::Point, Some('.')) => {
                    is_behind_point = true;
                    at += 1;
                }
                (Token::Dollar, Some('$')) | (Token::Sign, Some('+')) => at += 1,
                (Token::Dollar, Some(_)) => return None,
                (Token::Sign | Token::Minus, Some('-')) => {
                    is_negative = !is_negative;
                    at += 1;
                }
                (Token::Open, Some('<')) => {
                    is_open = true;
                    at += 1;
                }
                (Token::Close, Some('>')) => {
                    if !is_open {
                        return None;
                    }
                    (is_closed, is_negative) = (true, !is_negative);
                    at += 1;
                }
                _ => {}
            }
        }
        let [before, behind] = &found;
        if at < letters.len() || is_open != is_closed || before.is_empty() && behind.is_empty() {
            return None;
        }
        let zeros = self.digits[1].checked_sub(behind.len())?;
        let number: i128 = format!("0{before}{behind}{}", "0".repeat(zeros)).parse().ok()?;
        Some(if is_negative { -number } else { number })
    }

    /// The text of a number; `#` in the places of digits where it does not fit.
    pub(super) fn write(&self, value: i128, scale: i8) -> String {
        let is_negative = value < 0;
        let places = usize::from(scale.unsigned_abs());
        let digits = value.unsigned_abs().to_string();
        let (whole, fraction) = if scale > 0 {
            let digits = format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            (whole.to_owned(), fraction.to_owned())
        } else {
            (format!("{digits}{}", "0".repeat(places)), String::new())
        };
        let [before, behind] = self.digits;
        let (mut whole, mut fraction) =
            (whole.trim_start_matches('0').to_owned(), fraction.trim_end_matches('0').to_owned());
        if whole.len() > before || fraction.len() > behind {
            (whole, fraction) = ("#".repeat(before), "#".repeat(behind));
        }
        let mut whole = format!("{whole:>before$}").into_bytes().into_iter();
        let mut fraction = format!("{fraction:0<behind$}").into_bytes().into_iter();
        let mut text: Vec<u8> = Vec::new();
        let mut is_behind_point = false;
        for token in &self.tokens {
            match token {
                Token::Group(parts) => {
                    for part in parts {
                        match part {
                            Part::Digits { count, .. } if is_behind_point => {
                                text.extend(fraction.by_ref().take(*count));
                            }
                            Part::Digits { count, is_exact } => {
                                for digit in whole.by_ref().take(*count) {
                                    match digit {
                                        b' ' if *is_exact => text.push(b'0'),
                                        b' ' => push_space(&mut text),
                                        digit => text.push(digit),
                                    }
                                }
                            }
                            Part::Separator if text.last().is_some_and(u8::is_ascii_digit) => text.push(b','),
                            Part::Separator => push_space(&mut text),
                        }
                    }
                }
                Token::Point => {
                    if let Some(last @ b' ') = text.last_mut() {
                        *last = b'0';
                    }
                    text.push(b'.');
                    is_behind_point = true;
                }
                Token::Dollar => text.push(b'$'),
                Token::Sign => {
                    strip_point(&mut text);
                    push_before_spaces(&mut text, if is_negative { b'-' } else { b'+' });
                }
                Token::Minus if is_negative => {
                    strip_point(&mut text);
                    push_before_spaces(&mut text, b'-');
                }
                Token::Minus => text.push(b' '),
                Token::Open if is_negative => text.push(b'<'),
                Token::Open => {}
                Token::Close => {
                    strip_point(&mut text);
                    if is_negative {
                        push_before_spaces(&mut text, b'>');
                    } else {
                        text.extend_from_slice(b"  ");
                    }
                }
            }
        }
        strip_point(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        if matches!(text.as_str(), "" | "+" | "-") { "0".to_owned() } else { text }
    }
}

impl Part {
    const fn count(&self) -> usize {
        match self {
            Self::Digits { count, .. } => *count,
            Self::Separator => 0,
        }
    }
}

/// Reads the digits of a group from a place on; the place behind them, or `None` if they are others than the group has.
fn read_group(parts: &[Part], letters: &[char], from: usize, digits: &mut String) -> Option<usize> {
    let mut at = from;
    // Digits between commas, from the left.
    let mut sizes = vec![0_usize];
    while let Some(letter) = letters.get(at) {
        match letter {
            letter if letter.is_whitespace() => {}
            letter if letter.is_ascii_digit() => {
                *sizes.last_mut()? += 1;
                digits.push(*letter);
            }
            ',' => sizes.push(0),
            _ => break,
        }
        at += 1;
    }
    let expected: Vec<&Part> = parts.iter().filter(|part| **part != Part::Separator).collect();
    if sizes.len() > expected.len() {
        return None;
    }
    let found = sizes.into_iter().rev().chain(std::iter::repeat(0));
    let fits = expected.into_iter().rev().zip(found).all(|(part, found)| match part {
        Part::Digits { count, is_exact: true } => found == *count,
        part => found <= part.count(),
    });
    fits.then_some(at)
}

/// Adds a space, before the sign that is there.
fn push_space(text: &mut Vec<u8>) {
    let place = text.iter().rposition(|byte| !matches!(byte, b'+' | b'-' | b'<')).map_or(0, |at| at + 1);
    text.insert(place, b' ');
}

/// Adds a sign, before the spaces that are there. The first byte stays where it is.
fn push_before_spaces(text: &mut Vec<u8>, sign: u8) {
    let place = text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    text.insert(place, sign);
}

/// A point with nothing behind it is a space.
fn strip_point(text: &mut [u8]) {
    if let Some(point) = text.iter().position(|byte| *byte == b'.')
        && text.get(point + 1).is_none_or(|next| *next == b' ')
    {
        text[point] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Spark 4.
    #[test]
    fn texts_are_read_by_formats() {
        for (text, format, expected) in [
            ("454", "000", Some(454)),
            ("454.2", "000.0", Some(4542)),
            ("12,454", "00,000", Some(12_454)),
            ("$78.12", "$00.00", Some(7_812)),
            ("-454", "S000", Some(-454)),
            ("12,454.8-", "00,000.9MI", Some(-124_548)),
            ("<00,454.8>", "00,000.9PR", Some(-4_548)),
            ("0.00001-", "9.999999S", Some(-10)),
            (".0", "99999999.99999999", Some(0)),
            ("0", "99.99", Some(0)),
            ("34,50", "999,99", Some(3_450)),
            ("45", "000", None),
            ("1,2,3", "9,9", None),
            ("x", "9", None),
            (" ", "9", None),
            ("<1", "9PR", None),
        ] {
            assert_eq!(NumberFormat::parse(format).unwrap().read(text), expected, "{text} by {format}");
        }
    }

    /// The answers are those of Spark 4.
    #[test]
    fn numbers_are_written_by_formats() {
        for (value, scale, format, expected) in [
            (7_812, 2, "$99.99", "$78.12"),
            (11_111, 2, "99.9", "##.#"),
            (124_548, 1, "99,999.9S", "12,454.8+"),
            (123, 0, "9G999G999", "      123"),
            (-123, 0, "99999PR", "  <123>"),
            (-456, 0, "99999.999PR", "  <456.000>"),
            (-123, 0, "99999S", "  123-"),
            (-456, 0, "S99999", "  -456"),
            (456, 0, "MI9999", "  456"),
            (123, 0, "S0999", "+0123"),
            (0, 10, "9999.999S", "   0.000+"),
        ] {
            assert_eq!(
                NumberFormat::parse(format).unwrap().write(value, scale),
                expected,
                "{value} by {format}"
            );
        }
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for format in ["", "S", "x", "9,", ",9", "9,,9", "9.9,9", "9.9.9", "SS9", "9$", "$$9", "9S9", "9PRPR"]
        {
            assert!(NumberFormat::parse(format).unwrap_err().hint().is_some(), "{format}");
        }
    }
}
