//! The objects of a JSON file, whatever stands between them: one a line, several a line, one over many lines, or all in an array.

use bytes::{Bytes, BytesMut};
use datafusion::common::Result;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use yeoul_base::ErrorKind;

use super::text_bytes::bytes_of;
use crate::Error;

/// The part of a file in which its form is seen.
const FORM_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The bytes of a file, in which spaces stand for a byte order mark, and for the brackets and commas of an array around its objects.
pub(super) fn objects(
    name: &str,
    bytes: BoxStream<'static, Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes>> {
    let mut array = Array::default();
    let name = name.to_owned();
    let ends = futures::stream::once(async { Ok(None) });
    let chunks = bytes.map_ok(Some).chain(ends);
    let opened = chunks.map(move |chunk: Result<Option<Bytes>>| match chunk? {
        Some(chunk) => array.opened(&name, chunk),
        None if array.is_open() => {
            let error = Error::new(ErrorKind::Corrupt, format!("the array that begins '{name}' has no end"));
            Err(error.with_hint("the file may be cut").into())
        }
        None => Ok(Bytes::new()),
    });
    opened.try_filter(|chunk| std::future::ready(!chunk.is_empty())).boxed()
}

/// The place of the next byte in an array of objects.
#[derive(Debug, Default)]
struct Array {
    place: Place,
    /// The braces and brackets that are open within it.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    FileStart,
    /// There is no array around the objects.
    Plain,
    Within,
    End,
}

impl Array {
    fn is_open(&self) -> bool {
        self.place == Place::Within
    }

    fn opened(&mut self, name: &str, chunk: Bytes) -> Result<Bytes> {
        if matches!(self.place, Place::Plain) {
            return Ok(chunk);
        }
        let mut open = BytesMut::from(&chunk[..]);
        let mut begin = 0;
        if self.place == Place::FileStart {
            let is_space = |byte: &u8| byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte);
            begin = open.iter().position(|byte| !is_space(byte)).unwrap_or(open.len());
            open[..begin].fill(b' ');
            if open.get(begin).is_some_and(|byte| *byte != b'[') {
                self.place = Place::Plain;
                return Ok(open.freeze());
            }
        }
        for byte in &mut open[begin..] {
            self.step(name, byte)?;
        }
        Ok(open.freeze())
    }

    fn step(&mut self, name: &str, byte: &mut u8) -> Result<()> {
        if std::mem::take(&mut self.is_escaped) {
            return Ok(());
        }
        match (self.place, *byte) {
            (Place::FileStart, b'[') => {
                self.place = Place::Within;
                *byte = b' ';
            }
            (Place::Within, b'"') => self.in_text = !self.in_text,
            (Place::Within, b'\\') if self.in_text => self.is_escaped = true,
            (Place::Within, _) if self.in_text => {}
            (Place::Within, b'{' | b'[') => self.depth += 1,
            (Place::Within, b']') if self.depth == 0 => {
                self.place = Place::End;
                *byte = b' ';
            }
            (Place::Within, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            (Place::Within, b',') if self.depth == 0 => *byte = b' ',
            (Place::End, other) if !other.is_ascii_whitespace() => {
                let what = format!("something follows the array that begins '{name}'");
                return Err(Error::new(ErrorKind::Corrupt, what).into());
            }
            _ => {}
        }
        Ok(())
    }
}

/// True if the first object of a file ends on its first line: then its lines can be read apart.
///
/// # Errors
/// The store's own.
pub(super) async fn has_lines(
    store: &dyn ObjectStore,
    file: &ObjectMeta,
    compression: FileCompressionType,
) -> Result<bool> {
    let mut bytes = bytes_of(store, &file.location, compression).await?;
    let mut begin = Vec::new();
    while begin.len() < FORM_BYTES {
        match bytes.try_next().await? {
            Some(chunk) => begin.extend_from_slice(&chunk),
            None => break,
        }
    }
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begin).trim_ascii_start();
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.first() != Some(&b'[') && (line.len() == begin.len() || is_whole(line)))
}

/// True if all braces that a line opens are closed on it.
fn is_whole(line: &[u8]) -> bool {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in line {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match byte {
            b'"' => in_text = !in_text,
            b'\\' => is_escaped = in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth == 0 && !in_text
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn opened(text: &str, length: usize) -> Result<String> {
        let chunks: Vec<Result<Bytes>> =
            text.as_bytes().chunks(length).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let chunks: Vec<Bytes> = objects("f", futures::stream::iter(chunks).boxed()).try_collect().await?;
        Ok(String::from_utf8(chunks.concat()).unwrap())
    }

    #[tokio::test]
    async fn the_array_around_objects_is_left_out_however_the_bytes_are_cut() {
        for (text, expected) in [
            ("[{\"a\": [1, 2]}, {\"b\": \"],\\\"\"}]\n", " {\"a\": [1, 2]}  {\"b\": \"],\\\"\"} \n"),
            (" \n[\n{}\n]", "   \n{}\n "),
            ("\u{feff}[{}]", "    {} "),
            ("\u{feff}{}\n", "   {}\n"),
            ("[]", "  "),
            ("{\"a\": [1, 2]}\n{}\n", "{\"a\": [1, 2]}\n{}\n"),
            ("", ""),
        ] {
            for length in 1..=text.len().max(1) {
                assert_eq!(opened(text, length).await.unwrap(), expected, "{text} by {length}");
            }
        }
    }

    #[tokio::test]
    async fn an_array_that_does_not_end_or_ends_early_is_damaged() {
        for text in ["[{\"a\": 1}", "[", "[{}] {}", "[{}],"] {
            for length in 1..=text.len() {
                let error = Error::from(opened(text, length).await.unwrap_err());
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{text} by {length}: {error}");
            }
        }
    }

    #[test]
    fn a_line_is_whole_if_what_it_opens_is_closed() {
        for (line, expected) in [
            (r#"{"a": {"b": "{"}}"#, true),
            (r#"{"a": "\"{"} {"a": 1}"#, true),
            ("{", false),
            (r#"{"a": "}"#, false),
            ("", true),
        ] {
            assert_eq!(is_whole(line.as_bytes()), expected, "{line}");
        }
    }
}
