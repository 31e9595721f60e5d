use std::io::{self, Write};

/// Bytes that are gathered before they go to the underlying writer.
const BUFFER_BYTES: usize = 64 << 10;

/// A buffer over the caller's writer that counts bytes and remembers whether the reader has closed the pipe.
///
/// The latter tells a closed pipe from a failure, whatever library error wraps it.
pub(super) struct Sink<'w, W: Write + ?Sized> {
    out: &'w mut W,
    buffer: Vec<u8>,
    bytes: u64,
    closed: bool,
}

impl<'w, W: Write + ?Sized> Sink<'w, W> {
    pub(super) fn new(out: &'w mut W) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER_BYTES), bytes: 0, closed: false }
    }

    /// Bytes that the underlying writer has taken.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the reader has closed the pipe.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = self.out.write_all(bytes);
        self.note(result)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &result {
            self.closed |= error.kind() == io::ErrorKind::BrokenPipe;
        }
        result
    }
}

impl<W: Write + ?Sized> Write for Sink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            let gathered = std::mem::take(&mut self.buffer);
            self.pass_on(&gathered)?;
            self.buffer = gathered;
            self.buffer.clear();
        }
        if bytes.len() >= BUFFER_BYTES {
            self.pass_on(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.buffer);
        self.pass_on(&gathered)?;
        self.buffer = gathered;
        self.buffer.clear();
        let result = self.out.flush();
        self.note(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_writes_arrive_in_order_and_are_counted() {
        let mut out = Vec::new();
        let mut expected = Vec::new();
        let mut sink = Sink::new(&mut out);
        for (index, length) in [1, 70_000, 3, BUFFER_BYTES, BUFFER_BYTES - 1, 2, 0, 5].into_iter().enumerate()
        {
            let piece: Vec<u8> = (0..length).map(|at| (at * 31 + index) as u8).collect();
            sink.write_all(&piece).unwrap();
            expected.extend_from_slice(&piece);
        }
        sink.flush().unwrap();
        assert_eq!(sink.bytes(), expected.len() as u64);
        assert!(!sink.closed());
        assert!(out == expected);
    }

    #[test]
    fn a_closed_pipe_is_remembered_and_other_failures_are_not_taken_for_it() {
        struct Broken(io::ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (kind, closed) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let mut out = Broken(kind);
            let mut sink = Sink::new(&mut out);
            sink.write_all(b"row").unwrap();
            assert_eq!(sink.flush().unwrap_err().kind(), kind);
            assert_eq!(sink.closed(), closed);
        }
    }
}
