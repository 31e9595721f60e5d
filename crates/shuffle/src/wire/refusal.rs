//! What a fetch port says of data that it will never have: its failures come as text, and most of them may pass.

/// Said of a shuffle or a location that is not on a worker.
pub const NOT_HERE: &str = "is not here";

/// Said of a batch whose bytes on disk are not what was written.
pub const DAMAGED: &str = "does not match its checksum";

/// Whether it is in vain to ask the worker again that failed with this text.
pub fn is_final(text: &str) -> bool {
    [NOT_HERE, DAMAGED].iter().any(|said| text.contains(said))
}
