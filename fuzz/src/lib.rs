//! What every fuzz target promises: no panic, no hang (libFuzzer's `-timeout`), and no more memory than twice the bytes
//! received plus 64 KiB.

/// Bytes that a decoder may use beside twice what it has received.
const SLACK: u64 = 64 * 1024;

/// Runs a decoder over `received` bytes, and fails if at any moment it holds more memory than it may.
pub fn bounded(received: usize, decode: impl FnOnce()) {
    bounded_by(2, received, decode);
}

/// The same with another factor, for decoders that are not ours.
pub fn bounded_by(factor: u64, received: usize, decode: impl FnOnce()) {
    let used = allocation_counter::measure(decode);
    let max = factor * received as u64 + SLACK;
    assert!(used.bytes_max <= max, "{} bytes held for {received} received, the most is {max}", used.bytes_max);
}
