//! Texts of times.

use yeoul_base::ErrorKind;

use crate::{Error, Result};

/// Refuses the text of a `TIMESTAMP` with a zone, which would be an instant.
///
/// # Errors
/// `Invalid` for such a text.
pub(super) fn check_zone(text: &str) -> Result<()> {
    let text = text.trim_matches('\'').trim();
    let behind_date = text.split_once([' ', 'T']).map_or("", |(_, time)| time);
    if !behind_date.contains(|letter: char| letter.is_alphabetic() || matches!(letter, '+' | '-')) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::Invalid, format!("not supported: a TIMESTAMP with a zone, '{text}'"));
    Err(error.with_hint("TIMESTAMP is a wall clock; write TIMESTAMPTZ for an instant"))
}
