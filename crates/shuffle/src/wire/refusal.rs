//! How the failures of a fetch port, which come as text, tell what may pass from what will not: the data that is asked for is
//! not on the worker, or is damaged there.

use crate::error::{Error, Kind};

/// Before the text of what will not pass. At its beginning, where no name in a text can be taken for it, and from where
/// nothing is cut off.
const FINAL: &str = "lost: ";

/// The text for a reader.
pub fn text_of(error: &Error) -> String {
    match error.kind() {
        Kind::NotFound | Kind::Corrupt => format!("{FINAL}{error}"),
        _ => error.to_string(),
    }
}

/// Whether it is in vain to ask the worker again that failed with this text.
pub fn is_final(text: &str) -> bool {
    text.starts_with(FINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_known_from_the_text() {
        for (kind, expected) in [
            (Kind::NotFound, true),
            (Kind::Corrupt, true),
            (Kind::Unavailable, false),
            (Kind::Conflict, false),
            (Kind::ResourceExhausted, false),
        ] {
            let text = text_of(&Error::new(kind, "shuffle lost: 1 cannot be read"));
            assert_eq!(is_final(&text), expected, "{text}");
        }
    }
}
