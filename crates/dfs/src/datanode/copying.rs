//! A replica, read from those of other DataNodes.

use std::collections::VecDeque;
use std::io;

use tracing::warn;

use super::packets::invalid;
use super::patience::Patience;
use super::peer::{BlockName, PeerAddress, PeerReader};
use crate::wire::checksum::Chunking;

/// Bytes that are in memory at a time, if they are whole chunks.
const SLICE_BYTES: usize = 256 << 10;

/// A pass over a block, slice by slice. A source that fails is replaced by the next one, which begins with the slice.
#[derive(Debug)]
pub struct Copying {
    name: BlockName,
    spare: VecDeque<PeerAddress>,
    patience: Patience,
    from: PeerAddress,
    reader: PeerReader,
    chunking: Chunking,
    offset: u64,
    bytes: Vec<u8>,
}

impl Copying {
    /// Begins a pass, with the first source that answers.
    ///
    /// # Errors
    /// None does.
    pub fn begin(name: BlockName, sources: VecDeque<PeerAddress>, patience: Patience) -> io::Result<Self> {
        let mut spare = sources;
        let (from, reader) = open(&mut spare, &name, 0, patience, invalid("a copy without a source"))?;
        let chunking = reader.chunking;
        Ok(Self { name, spare, patience, from, reader, chunking, offset: 0, bytes: Vec::new() })
    }

    /// How the checksums of the block are made.
    pub fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Bytes of the next slice.
    pub fn next_bytes(&self) -> u64 {
        let chunk = self.chunking.bytes_per_checksum();
        let usual = (SLICE_BYTES / chunk).max(1) * chunk;
        (self.name.length - self.offset).min(usual as u64)
    }

    /// Reads the next slice; none after the last one.
    ///
    /// # Errors
    /// No source is left.
    pub fn next_slice(&mut self) -> io::Result<Option<&[u8]>> {
        let length = self.next_bytes();
        if length == 0 {
            return Ok(None);
        }
        self.bytes.resize(usize::try_from(length).expect("a slice fits into memory"), 0);
        while let Err(error) = self.reader.read_exact(&mut self.bytes) {
            warn!(block = %self.name.id, from = self.from.0, %error, "a source fails");
            (self.from, self.reader) = open(&mut self.spare, &self.name, self.offset, self.patience, error)?;
        }
        self.offset += length;
        Ok(Some(&self.bytes))
    }
}

/// Opens the next source that answers; the last error, if none does.
fn open(
    spare: &mut VecDeque<PeerAddress>,
    name: &BlockName,
    offset: u64,
    patience: Patience,
    mut last_error: io::Error,
) -> io::Result<(PeerAddress, PeerReader)> {
    while let Some(address) = spare.pop_front() {
        match PeerReader::open(&address, name, offset, patience.for_one(!spare.is_empty())) {
            Ok(reader) => return Ok((address, reader)),
            Err(error) => {
                warn!(block = %name.id, from = address.0, %error, "a source does not answer");
                last_error = error;
            }
        }
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::test_peer::{SlowPeer, TestPeer, content, name};
    use super::*;

    fn copied(name: BlockName, sources: &[&TestPeer]) -> io::Result<Vec<u8>> {
        let sources = sources.iter().map(|peer| peer.address.clone()).collect();
        copied_from(name, sources, Patience::default())
    }

    fn copied_from(
        name: BlockName,
        sources: VecDeque<PeerAddress>,
        patience: Patience,
    ) -> io::Result<Vec<u8>> {
        let (mut pass, mut all) = (Copying::begin(name, sources, patience)?, Vec::new());
        while let Some(bytes) = pass.next_slice()? {
            all.extend_from_slice(bytes);
        }
        Ok(all)
    }

    #[test]
    fn a_source_that_fails_is_replaced_where_it_failed_and_knows_that_it_is_damaged() {
        let data = content(1, 3 * SLICE_BYTES + 700);
        let [lacks, flipped, cut, whole] =
            [(8, &data), (7, &data), (7, &data), (7, &data)].map(|(id, data)| TestPeer::with(id, data));
        flipped.flip(7, SLICE_BYTES + 5);
        cut.cut(7, 2 * SLICE_BYTES as u64 + 100);
        let name = name(7, data.len());
        assert!(copied(name.clone(), &[&lacks, &flipped, &cut, &whole]).unwrap() == data);
        let damaged = [&lacks, &flipped, &cut, &whole].map(TestPeer::damaged);
        assert_eq!(damaged, [0, 1, 1, 0]);
        let error = copied(name.clone(), &[&flipped, &cut, &lacks]).unwrap_err();
        assert!(error.to_string().contains("is not here"), "{error}");
        assert!(copied(name, &[]).is_err());
    }

    #[test]
    fn a_source_that_hangs_is_left_for_another_one_and_the_last_one_is_waited_for() {
        let data = content(1, 2 * SLICE_BYTES);
        let (whole, late) = (TestPeer::with(7, &data), Duration::from_millis(600));
        let patience = Patience {
            with_spare: Duration::from_millis(150),
            alone: Duration::from_secs(20),
            ..Patience::default()
        };
        for after in [0, 1000] {
            let hanging = SlowPeer::before(&whole, after, Duration::from_secs(600));
            let began = Instant::now();
            let sources = [hanging.address.clone(), whole.address.clone()].into();
            assert!(copied_from(name(7, data.len()), sources, patience).unwrap() == data);
            assert!(hanging.was_asked() && began.elapsed() < Duration::from_secs(10));
        }
        let slow = SlowPeer::before(&whole, 1000, late);
        let began = Instant::now();
        let sources = [slow.address.clone()].into();
        assert!(copied_from(name(7, data.len()), sources, patience).unwrap() == data);
        assert!(began.elapsed() >= late, "it was slow");
    }
}
