//! Syntax trees in DataFusion's errors, which nobody who wrote a statement has to read.

use std::borrow::Cow;

/// Pieces of text that only a syntax tree contains.
const MARKS: [&str; 5] = ["quote_style: ", "Span(", "Identifier(Ident", "ObjectName([", "ValueWithSpan {"];

/// A message in which a syntax tree is only the name of its node, or the word that it is.
pub(super) fn without_tree(message: &str) -> Cow<'_, str> {
    if !MARKS.iter().any(|mark| message.contains(mark)) {
        return Cow::Borrowed(message);
    }
    if let Some((before, _)) = message.split_once("Word(Word {")
        && let Some(word) = quoted(message, "value: ")
    {
        return Cow::Owned(format!("{before}'{word}'"));
    }
    match tree_in(message) {
        Some((start, name)) => Cow::Owned(format!("{}{name}", &message[..start])),
        None => Cow::Borrowed(message),
    }
}

/// The place at which a tree begins, and the name of its node.
fn tree_in(message: &str) -> Option<(usize, &str)> {
    let mut start = None;
    for (at, letter) in message.char_indices() {
        match start {
            None if letter.is_ascii_uppercase() => start = Some(at),
            Some(begin) if !letter.is_ascii_alphanumeric() => {
                if message[at..].starts_with('(') || message[at..].starts_with(" {") {
                    return Some((begin, &message[begin..at]));
                }
                start = None;
            }
            _ => {}
        }
    }
    None
}

/// The text in quotes behind a field's name.
fn quoted<'m>(message: &'m str, field: &str) -> Option<&'m str> {
    message.split_once(field)?.1.strip_prefix('"')?.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_name_of_its_node() {
        for (message, expected) in [
            (
                "Unsupported ast node in sqltorel: RLike { negated: false, expr: Value(ValueWithSpan { value: x",
                "Unsupported ast node in sqltorel: RLike",
            ),
            (
                "Unsupported JOIN operator Semi(Using([ObjectName([Identifier(Ident { value: \"a\"",
                "Unsupported JOIN operator Semi",
            ),
            (
                "No infix parser for token Word(Word { value: \"div\", quote_style: None, keyword: DIV })",
                "No infix parser for token 'div'",
            ),
            ("Invalid function 'f' (Span is no word of it)", "Invalid function 'f' (Span is no word of it)"),
        ] {
            assert_eq!(without_tree(message), expected);
        }
    }
}
