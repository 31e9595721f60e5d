use bytes::Bytes;
use yeoul_base::{Error, ErrorKind, Result, SplitMix};
use yeoul_dfs::client::{FileSystem, NewFile};

/// Bytes that are written at a time, a multiple of eight.
const PIECE_BYTES: usize = 1 << 20;

/// A file that an act writes, and knows again when it reads it.
pub trait Contents {
    /// Name of the file.
    fn name(&self) -> &'static str;

    /// Writes the file, whose path is `path` on `files`; returns once all of it is acknowledged.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&self, files: &FileSystem, path: &str) -> impl Future<Output = Result<()>>;

    /// Reads the file, and compares it with what was written: what to show of it.
    ///
    /// # Errors
    /// `DataLoss` if something is missing or wrong; it cannot be read.
    fn check(&self, files: &FileSystem, path: &str) -> impl Future<Output = Result<String>>;
}

/// Bytes of no repetition.
#[derive(Clone, Copy, Debug)]
pub struct PlainBytes {
    /// Pieces of 1 MiB.
    pub pieces: u64,
}

impl PlainBytes {
    /// A piece of the file: bytes that no other piece has.
    fn piece(number: u64) -> Vec<u8> {
        let mut random = SplitMix::new(number);
        (0..PIECE_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
    }
}

impl Contents for PlainBytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    async fn write(&self, files: &FileSystem, path: &str) -> Result<()> {
        let mut writer = files.create(path, NewFile { mode: 0o644, may_replace: false }).await?;
        for number in 0..self.pieces {
            writer.write(Bytes::from(Self::piece(number))).await?;
        }
        writer.close().await
    }

    async fn check(&self, files: &FileSystem, path: &str) -> Result<String> {
        let (mut number, mut expected) = (0, Vec::new());
        let reader = files.open(path).await?;
        let read = reader.read_all(|mut bytes| {
            while !bytes.is_empty() {
                if expected.is_empty() {
                    expected = Self::piece(number);
                    number += 1;
                }
                let length = bytes.len().min(expected.len());
                if bytes[..length] != expected[..length] {
                    let message = format!("a byte of piece {} is not as it was written", number - 1);
                    return Err(Error::new(ErrorKind::DataLoss, message));
                }
                expected.drain(..length);
                bytes = &bytes[length..];
            }
            Ok(())
        });
        let bytes = read.await?;
        if bytes != self.pieces * PIECE_BYTES as u64 {
            let message = format!("{bytes} bytes of {} pieces are there", self.pieces);
            return Err(Error::new(ErrorKind::DataLoss, message));
        }
        Ok("every byte as it was written".to_owned())
    }
}
