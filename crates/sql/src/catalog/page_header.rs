//! The header of a Parquet page, as far as it says how large the page is.

/// Nested no deeper than this: the format's own headers nest three times.
const DEPTH_MAX: u8 = 8;

/// The content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// Values, or the numbers of values in the dictionary.
    Data {
        is_by_dictionary: bool,
    },
    Dictionary,
    Other,
}

/// The header of a page: a struct `PageHeader` of parquet.thrift in Thrift's compact protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Bytes of the page once it is decompressed.
    pub(super) uncompressed: u64,
    /// Bytes of the page in the file, after the header.
    pub(super) compressed: u64,
    /// The number of its values, nulls among them; of lists, their items.
    pub(super) values: u64,
    /// Bytes of the header.
    pub(super) length: usize,
}

impl PageHeader {
    /// The header at the begin of `bytes`; `None` if it is not whole or none at all.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut thrift = Compact { bytes, at: 0 };
        let (mut sizes, mut kind, mut values) = ([None, None, None], PageKind::Other, 0);
        let mut field = 0;
        while let Some(kind_of_field) = thrift.next_field(&mut field)? {
            match (field, kind_of_field) {
                (1, I32) => sizes[0] = Some(thrift.zigzag()?),
                (2, I32) => sizes[1] = Some(thrift.zigzag()?),
                (3, I32) => sizes[2] = Some(thrift.zigzag()?),
                (5 | 7 | 8, STRUCT) => {
                    let (count, encoding) = thrift.page(if field == 8 { 4 } else { 2 })?;
                    values = count;
                    kind = match field {
                        7 => PageKind::Dictionary,
                        _ => PageKind::Data { is_by_dictionary: matches!(encoding, 2 | 8) },
                    };
                }
                (_, other) => thrift.skip(other, 0)?,
            }
        }
        let size = |place: usize| sizes[place].and_then(|size| u64::try_from(size).ok());
        sizes[0]?;
        let (uncompressed, compressed) = (size(1)?, size(2)?);
        Some(Self { kind, uncompressed, compressed, values, length: thrift.at })
    }

    /// The headers of the pages in `bytes`, one after the other, up to what is none.
    pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let header = Self::decode(rest)?;
            let page = usize::try_from(header.compressed).ok()?.checked_add(header.length)?;
            rest = rest.get(page..).unwrap_or_default();
            Some(header)
        })
    }
}

/// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The type of the next field, whose number follows from the last one's; `Some(None)` at the end of the struct.
    fn next_field(&mut self, field: &mut i16) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *field = match byte >> 4 {
            0 => i16::try_from(self.zigzag()?).ok()?,
            step => field.checked_add(i16::from(step))?,
        };
        Some(Some(byte & 0xf))
    }

    /// The number of values and the encoding of a `DataPageHeader`, `DictionaryPageHeader` or `DataPageHeaderV2`; the encoding is
    /// the field of this number.
    fn page(&mut self, encoding_field: i16) -> Option<(u64, i64)> {
        let (mut values, mut encoding, mut field) = (0, 0, 0);
        while let Some(kind) = self.next_field(&mut field)? {
            match (field, kind) {
                (1, I32) => values = u64::try_from(self.zigzag()?).ok()?,
                (field, I32) if field == encoding_field => encoding = self.zigzag()?,
                (_, other) => self.skip(other, 1)?,
            }
        }
        Some((values, encoding))
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => self.skip_bytes(1)?,
            I16 | I32 | I64 => {
                self.varint()?;
            }
            DOUBLE => self.skip_bytes(8)?,
            BINARY => {
                let length = self.varint()?;
                self.skip_bytes(usize::try_from(length).ok()?)?;
            }
            LIST | SET => {
                let head = self.byte()?;
                let items = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                for _ in 0..items {
                    // In lists, a truth value is a byte of its own.
                    match head & 0xf {
                        TRUE | FALSE => self.skip_bytes(1)?,
                        item => self.skip(item, depth + 1)?,
                    }
                }
            }
            STRUCT => {
                let mut field = 0;
                while let Some(kind) = self.next_field(&mut field)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn skip_bytes(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count).filter(|end| *end <= self.bytes.len())?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use proptest::prelude::*;

    use super::*;

    /// The bytes of the only column of a file.
    fn column(texts: Vec<String>, version: WriterVersion, has_dictionary: bool) -> Bytes {
        let column: ArrayRef = Arc::new(StringArray::from(texts));
        let batch = RecordBatch::try_from_iter([("t", column)]).unwrap();
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(has_dictionary)
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(100);
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let (start, length) =
            SerializedFileReader::new(file.clone()).unwrap().metadata().row_group(0).column(0).byte_range();
        file.slice(start as usize..(start + length) as usize)
    }

    fn texts() -> Vec<String> {
        (0..1000).map(|n| format!("text {}", n % 50)).collect()
    }

    #[test]
    fn headers_say_what_the_pages_of_a_column_hold() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let pages: Vec<PageHeader> = PageHeader::all(&column(texts(), version, true)).collect();
            let dictionary = pages[0];
            assert_eq!((dictionary.kind, dictionary.values), (PageKind::Dictionary, 50));
            assert_eq!(
                dictionary.uncompressed,
                (0..50).map(|n| 4 + format!("text {n}").len() as u64).sum::<u64>()
            );
            assert_eq!(pages.len(), 11, "{version:?}");
            for page in &pages[1..] {
                assert_eq!((page.kind, page.values), (PageKind::Data { is_by_dictionary: true }, 100));
            }
            let pages: Vec<PageHeader> = PageHeader::all(&column(texts(), version, false)).collect();
            assert!(pages.iter().all(|page| page.kind == PageKind::Data { is_by_dictionary: false }));
            assert_eq!(pages.iter().map(|page| page.values).sum::<u64>(), 1000);
        }
    }

    #[test]
    fn what_is_not_whole_is_no_header() {
        let bytes = column(texts(), WriterVersion::PARQUET_1_0, false);
        let header = PageHeader::decode(&bytes).unwrap();
        for length in 0..header.length {
            assert_eq!(PageHeader::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(PageHeader::decode(&bytes[..header.length]), Some(header));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PageHeader::all(&bytes).count();
        }
    }
}
