//! The name of an application's folder on a worker's disk. An application's id is arbitrary text: other bytes than these are
//! written as `%XX`, in hexadecimal, so that a name can be decoded and stays within its directory:
//!
//! - ASCII letters, digits, `_` and `-`;
//! - `.`, unless it is the first byte;
//! - but no byte of an id that is the name of one of the directory's [own files](OWN_FILES).

use crate::ids::{ApplicationId, ShuffleKey};

/// The name of the file that is locked.
pub const LOCK: &str = "lock";
/// The name of the file that probes write.
pub const PROBE: &str = "probe";
/// The files that the directory itself has beside the folders of applications.
const OWN_FILES: [&str; 2] = [LOCK, PROBE];

/// The longest name, in bytes; file systems take 255.
pub const LEN_MAX: usize = 200;

/// Why no worker can store a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    /// The name of its application would be empty or too long.
    #[error(
        "an application's id has 1 to {LEN_MAX} bytes, where each that is no letter, digit, `_`, `-` or `.` counts as three"
    )]
    Application,
    /// Its number is negative.
    #[error("a shuffle's number is not negative")]
    Shuffle,
}

/// The name of an application's folder.
pub fn encode(application: &ApplicationId) -> String {
    let mut name = String::with_capacity(len(application));
    for (byte, is_plain) in bytes(application) {
        if is_plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name
}

/// The application that a folder's name stands for, if it can be such a name.
pub fn decode(name: &str) -> Option<ApplicationId> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*byte);
        }
    }
    let name = String::from_utf8(bytes).ok().filter(|name| !name.is_empty())?;
    Some(name.into())
}

/// The length of the name.
fn len(application: &ApplicationId) -> usize {
    bytes(application).map(|(_, is_plain)| if is_plain { 1 } else { "%XX".len() }).sum()
}

/// The bytes of an id, and whether each stands for itself.
fn bytes(application: &ApplicationId) -> impl Iterator<Item = (u8, bool)> {
    let is_taken = OWN_FILES.contains(&application.as_str());
    application.as_str().bytes().enumerate().map(move |(at, byte)| {
        let is_plain =
            byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || (byte == b'.' && at > 0);
        (byte, is_plain && !is_taken)
    })
}

impl ApplicationId {
    /// Checks that workers can store its shuffles.
    ///
    /// # Errors
    /// Its name on a disk would be empty or too long.
    pub fn check_storable(&self) -> Result<(), NotStorable> {
        match len(self) {
            1..=LEN_MAX => Ok(()),
            _ => Err(NotStorable::Application),
        }
    }
}

impl ShuffleKey {
    /// Checks that workers can store it.
    ///
    /// # Errors
    /// As for [`ApplicationId::check_storable`], or its number is negative.
    pub fn check_storable(&self) -> Result<(), NotStorable> {
        self.application.check_storable()?;
        if self.shuffle.0 < 0 { Err(NotStorable::Shuffle) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_file_system() {
        for (id, name) in [
            ("application_17_0001", "application_17_0001"),
            ("..", "%2E."),
            ("a/b", "a%2Fb"),
            ("spark-é%2F", "spark-%C3%A9%252F"),
            (".hidden", "%2Ehidden"),
            ("a b", "a%20b"),
            ("lock", "%6C%6F%63%6B"),
            ("probe", "%70%72%6F%62%65"),
            ("probes", "probes"),
        ] {
            let application = ApplicationId::from(id);
            assert_eq!((encode(&application).as_str(), len(&application)), (name, name.len()));
            assert_eq!(decode(name), Some(application));
        }
        assert_eq!(["a%", "a%zz", ""].map(decode), [None, None, None]);
    }

    #[test]
    fn what_cannot_be_stored_is_told_apart() {
        for (id, number, expected) in [
            ("a".repeat(200), 0, Ok(())),
            ("a".repeat(201), 0, Err(NotStorable::Application)),
            ("é".repeat(33), 0, Ok(())),
            ("é".repeat(34), -1, Err(NotStorable::Application)),
            (String::new(), 0, Err(NotStorable::Application)),
            ("a".to_owned(), -1, Err(NotStorable::Shuffle)),
        ] {
            assert_eq!(ShuffleKey::new(id, number).check_storable(), expected);
        }
    }
}
