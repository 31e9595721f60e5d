//! Ports of the command line.

/// Reads a port of the command line.
pub fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("expected a port, a number from 0 to {}", u16::MAX))
}
