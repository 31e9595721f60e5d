//! Texts: escapes are what they stand for, and texts beside each other are one.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Writes texts and names without their escapes, each text as one in single quotes.
pub(super) fn translate(tokens: &mut Vec<TokenWithSpan>) {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The place of a text behind which there were only blanks.
    let mut open = None;
    for mut token in std::mem::take(tokens) {
        match &mut token.token {
            Token::SingleQuotedString(text) => *text = unescaped(text, '\''),
            Token::DoubleQuotedString(text) => {
                let text = unescaped(text, '"');
                token.token = Token::SingleQuotedString(text);
            }
            Token::SingleQuotedRawStringLiteral(text) | Token::DoubleQuotedRawStringLiteral(text) => {
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
            Token::Word(Word { value, quote_style: Some('`'), .. }) if is_path(&joined) => {
                let path = value.replace("``", "`");
                joined.truncate(joined.len() - 2);
                token.token = Token::SingleQuotedString(path);
            }
            Token::Word(Word { value, quote_style: quote @ Some('`'), .. }) => {
                // Names have no case; those without quotes are in small letters, too.
                *value = value.replace("``", "`").to_lowercase();
                *quote = Some('"');
            }
            _ => {}
        }
        match (&token.token, open) {
            (Token::SingleQuotedString(text), Some(place)) => {
                let before: &mut TokenWithSpan = &mut joined[place];
                if let Token::SingleQuotedString(whole) = &mut before.token {
                    whole.push_str(text);
                }
                continue;
            }
            (Token::SingleQuotedString(_), None) => open = Some(joined.len()),
            (Token::Whitespace(_), _) => {}
            _ => open = None,
        }
        joined.push(token);
    }
    *tokens = joined;
}

/// True behind `parquet.`, where a name is the path of files.
fn is_path(before: &[TokenWithSpan]) -> bool {
    let [.., TokenWithSpan { token: Token::Word(format), .. }, TokenWithSpan { token: Token::Period, .. }] =
        before
    else {
        return false;
    };
    let formats = ["parquet", "csv", "json"];
    format.quote_style.is_none() && formats.contains(&format.value.to_ascii_lowercase().as_str())
}

/// A text between quotes, whose escapes are Spark's: `\n`, `\u00e9`, `\101`, a doubled quote. Of `\%` and `\_` the backslash
/// stays, for `LIKE`; any other letter stands for itself.
fn unescaped(written: &str, quote: char) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter != '\\' {
            if letter == quote && rest.starts_with(letter) {
                rest = &rest[1..];
            }
            text.push(letter);
            continue;
        }
        let Some(escaped) = rest.chars().next() else {
            text.push('\\');
            break;
        };
        if let Some((code, length)) = code_of(rest) {
            text.push(code);
            rest = &rest[length..];
            continue;
        }
        rest = &rest[escaped.len_utf8()..];
        match escaped {
            '0' => text.push('\0'),
            'b' => text.push('\u{8}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'Z' => text.push('\u{1a}'),
            '%' | '_' => text.extend(['\\', escaped]),
            _ => text.push(escaped),
        }
    }
    text
}

/// The character of an escape by its number, and the length of the escape: `u` with four digits, `U` with eight, three octal ones.
fn code_of(escape: &str) -> Option<(char, usize)> {
    let number = |from: usize, to: usize, radix: u32| {
        let digits =
            escape.get(from..to).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)))?;
        char::from_u32(u32::from_str_radix(digits, radix).ok()?).map(|code| (code, to))
    };
    match escape.as_bytes()[0] {
        b'u' => number(1, 5, 16),
        b'U' => number(1, 9, 16),
        b'0' | b'1' => number(0, 3, 8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::letters;
    use super::*;

    /// The texts and names of a statement.
    fn texts(sql: &str) -> Vec<String> {
        let mut tokens = letters::tokens(sql).unwrap();
        translate(&mut tokens);
        let text = |token: TokenWithSpan| match token.token {
            Token::SingleQuotedString(text) => Some(text),
            Token::Word(word) if word.quote_style.is_some() => Some(format!("name {}", word.value)),
            _ => None,
        };
        tokens.into_iter().filter_map(text).collect()
    }

    #[test]
    fn texts_have_sparks_escapes() {
        for (written, expected) in [
            (r#"'it\'s' , "it's", "say ""hi""" , 'it''s'"#, vec!["it's", "it's", "say \"hi\"", "it's"]),
            (r"'a\tb\nc\\d\q'", vec!["a\tb\nc\\dq"]),
            (r"'\u00e9\U0001F600\101\0'", vec!["é😀A\0"]),
            (r"'10\%\_'", vec![r"10\%\_"]),
            (r#"r'a\nb', R"c\""#, vec![r"a\nb", r"c\"]),
            ("'a' \"b\"\n'c', 'd'", vec!["abc", "d"]),
            ("`a``b`, `C d`", vec!["name a`b", "name c d"]),
            ("parquet.`/tmp/A.parquet`, t.`A`", vec!["/tmp/A.parquet", "name a"]),
            (r#""'" , '"' , "''", '""'"#, vec!["'", "\"", "''", "\"\""]),
        ] {
            assert_eq!(texts(written), expected, "{written}");
        }
    }
}
