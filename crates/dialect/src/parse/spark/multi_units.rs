//! Intervals of several units: `INTERVAL 1 DAY 2 HOURS` is `INTERVAL '1 DAY 2 HOURS'`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::words;

/// Units in the singular.
const UNITS: [&str; 9] =
    ["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"];

/// Writes the parts of such an interval as one text.
pub(super) fn join(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    for (word, place) in places.iter().enumerate().rev() {
        if !is_word(&tokens[*place].token, "INTERVAL") {
            continue;
        }
        if let Some(text) = places.get(word + 1) {
            leave_out_word(&mut tokens[*text].token);
        }
        let mut parts = Vec::new();
        let mut next = word + 1;
        while let Some((part, behind)) = part_at(next, &places, tokens) {
            parts.push(part);
            next = behind;
        }
        if parts.len() < 2 {
            continue;
        }
        let (first, last) = (places[word + 1], places[next - 1]);
        let text = Token::SingleQuotedString(parts.join(" "));
        let span = tokens[first].span;
        tokens.splice(first..=last, [TokenWithSpan { token: text, span }]);
    }
}

/// Puts the sign of `INTERVAL '-1 02:03' DAY TO MINUTE`, which is that of days and time, before the interval.
pub(super) fn take_signs(tokens: &mut Vec<TokenWithSpan>) {
    let places = words(tokens);
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let mut taken = Vec::new();
    for word in 0..places.len() {
        if !token(word).is_some_and(|token| is_word(token, "INTERVAL")) {
            continue;
        }
        let (sign, text) = match token(word + 1) {
            Some(Token::Minus) => (true, word + 2),
            Some(Token::Plus) => (false, word + 2),
            _ => (false, word + 1),
        };
        let Some(Token::SingleQuotedString(written)) = token(text) else { continue };
        let has_fields = token(text + 2).is_some_and(|token| is_word(token, "TO"));
        let written = written.trim();
        let (own_sign, clock) = match written.strip_prefix('-') {
            Some(clock) => (true, clock),
            None => (false, written.strip_prefix('+').unwrap_or(written)),
        };
        if !has_fields || !(sign || own_sign) || !clock.contains([' ', ':']) {
            continue;
        }
        taken.push((word, text, sign != own_sign, clock.to_owned()));
    }
    for (word, text, is_negative, clock) in taken.into_iter().rev() {
        let (first, last) = (places[word], places[text + 3]);
        let span = tokens[first].span;
        let with = |token: Token| TokenWithSpan { token, span };
        let mut signed = vec![with(Token::LParen)];
        if is_negative {
            signed.push(with(Token::Minus));
        }
        signed.extend([tokens[first].clone(), with(Token::SingleQuotedString(clock))]);
        signed.extend_from_slice(&tokens[places[text] + 1..=last]);
        signed.push(with(Token::RParen));
        tokens.splice(first..=last, signed);
    }
}

/// Leaves out the word that the text of an interval may begin with.
fn leave_out_word(token: &mut Token) {
    if let Token::SingleQuotedString(text) = token
        && let Some((first, rest)) = text.trim().split_once(char::is_whitespace)
        && first.eq_ignore_ascii_case("interval")
    {
        *text = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// A number with its unit, and the word behind it.
fn part_at(word: usize, places: &[usize], tokens: &[TokenWithSpan]) -> Option<(String, usize)> {
    let token = |word: usize| places.get(word).map(|place| &tokens[*place].token);
    let (sign, word) = match token(word)? {
        Token::Minus => ("-", word + 1),
        Token::Plus => ("", word + 1),
        _ => ("", word),
    };
    let number = match token(word)? {
        Token::Number(digits, false) => digits.clone(),
        Token::SingleQuotedString(text) => {
            let text = text.trim();
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if !is_number || digits.is_empty() {
                return None;
            }
            text.to_owned()
        }
        _ => return None,
    };
    let Token::Word(unit) = token(word + 1)? else { return None };
    let name = unit.value.to_ascii_uppercase();
    let is_unit = UNITS.contains(&name.strip_suffix('S').unwrap_or(&name));
    let number = match (sign, number.strip_prefix('-')) {
        ("-", Some(digits)) => digits.to_owned(),
        (sign, _) => format!("{sign}{}", number.trim_start_matches('+')),
    };
    (unit.quote_style.is_none() && is_unit).then(|| (format!("{number} {}", name.to_lowercase()), word + 2))
}

fn is_word(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    #[test]
    fn several_units_are_one_text() {
        for (sql, expected) in [
            ("INTERVAL 10 YEAR 20 MONTH AS i", "INTERVAL '10 year 20 month' AS i"),
            ("interval -1 day '2' hours - '0.5' seconds", "interval '-1 day 2 hours -0.5 seconds'"),
            ("INTERVAL 1 DAY", "INTERVAL 1 DAY"),
            ("INTERVAL ' Interval	1	day'", "INTERVAL '1 day'"),
            ("INTERVAL '1 day'", "INTERVAL '1 day'"),
            ("INTERVAL 1 DAY - 2", "INTERVAL 1 DAY - 2"),
            ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
            ("a.interval, 1 day", "a.interval, 1 day"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            join(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{sql}");
        }
    }

    #[test]
    fn a_sign_is_that_of_the_whole_interval() {
        for (sql, expected) in [
            ("INTERVAL '-1 02:03' DAY TO MINUTE", "(-INTERVAL'1 02:03' DAY TO MINUTE)"),
            ("interval -'-1 2:3:4.5' day to second + 1", "(interval'1 2:3:4.5' day to second) + 1"),
            ("INTERVAL -'10:11' HOUR TO MINUTE", "(-INTERVAL'10:11' HOUR TO MINUTE)"),
            ("INTERVAL '-1' DAY", "INTERVAL '-1' DAY"),
            ("INTERVAL '1 02:03' DAY TO MINUTE", "INTERVAL '1 02:03' DAY TO MINUTE"),
            ("INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '-1-2' YEAR TO MONTH"),
        ] {
            let mut tokens = letters::tokens(sql).unwrap();
            take_signs(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text, expected, "{sql}");
        }
    }
}
