//! The columns of JSON files, inferred from their first objects: in the order in which keys come.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::config::JsonOptions;
use futures::TryStreamExt;
use memchr::memchr_iter;
use object_store::{ObjectMeta, ObjectStore};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use yeoul_base::ErrorKind;

use super::files::shown;
use super::json_objects::objects;
use super::records::RecordEnds;
use super::text_bytes::bytes_of;
use super::text_files::SAMPLED_RECORDS;
use super::text_limits::TextLimits;
use crate::Error;

/// Bytes of a table's files that are read for it, unless all objects are asked for.
const SAMPLED_BYTES: usize = 8 << 20;

/// Digits of an integer of 64 bits without a sign.
const UNSIGNED_DIGITS: u8 = 20;

/// The columns of files that form one table.
///
/// # Errors
/// The store's own; `Corrupt` for what is no JSON; `Invalid` for a key whose values have no common type.
pub(super) async fn infer(
    options: &JsonOptions,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
) -> Result<SchemaRef> {
    let mut left = options.schema_infer_max_rec.unwrap_or(SAMPLED_RECORDS);
    let mut bytes_left = if left == usize::MAX { usize::MAX } else { SAMPLED_BYTES };
    let mut schemas = Vec::new();
    for file in files {
        if left == 0 || bytes_left == 0 {
            break;
        }
        let name = shown(file.location.as_ref());
        let (limits, mut ends, mut told) = (TextLimits::of(state), RecordEnds::json(), Told::default());
        let bytes = bytes_of(store.as_ref(), &file.location, options.compression.into()).await?;
        let mut bytes = objects(name, bytes);
        let (mut open, mut lines) = (BytesMut::new(), 0);
        while let Some(mut chunk) = bytes.try_next().await? {
            while let Some(end) = ends.next_end(&chunk).filter(|_| left > 0 && bytes_left > 0) {
                open.extend_from_slice(&chunk[..end]);
                chunk.advance(end);
                told.add(&open).map_err(|error| unread(name, lines, error))?;
                lines += memchr_iter(b'\n', &open).count();
                left -= 1;
                bytes_left = bytes_left.saturating_sub(open.len());
                open.clear();
            }
            if left == 0 || bytes_left == 0 {
                open.clear();
                break;
            }
            limits.check(name, &ends)?;
            open.extend_from_slice(&chunk);
        }
        if !open.trim_ascii().is_empty() {
            told.add(&open).map_err(|error| unread(name, lines, error))?;
            left -= 1;
        }
        schemas.push(Schema::new(told.fields()));
    }
    Ok(Arc::new(Schema::try_merge(schemas)?))
}

/// The error of an object behind some lines of a file.
fn unread(name: &str, lines: usize, source: serde_json::Error) -> Error {
    let kind = if source.is_data() { ErrorKind::Invalid } else { ErrorKind::Corrupt };
    let text = source.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let (line, column) = (lines + source.line(), source.column());
    Error::new(kind, format!("cannot read '{name}': {what} at line {line} column {column}"))
        .with_source(source)
}

/// The kind of a key's values.
#[derive(Debug, Default)]
enum Told {
    /// There was none but nulls.
    #[default]
    Nothing,
    Scalar(Scalars),
    List(Box<Told>),
    Object(Keys),
}

/// The scalars that there were.
#[derive(Clone, Copy, Debug, Default)]
struct Scalars {
    truths: bool,
    integers: bool,
    /// Integers without a sign of which 64 bits with one have no room.
    unsigned: bool,
    numbers: bool,
    texts: bool,
}

#[derive(Debug, Default)]
struct Keys {
    told: Vec<(String, Told)>,
    /// The index in `told` of a key.
    places: HashMap<String, usize>,
}

impl Told {
    /// Adds an object.
    fn add(&mut self, text: &[u8]) -> Result<(), serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        if let Self::Nothing = self {
            *self = Self::Object(Keys::default());
        }
        let Self::Object(keys) = self else { return Ok(()) };
        reader.deserialize_map(ObjectOf(keys))?;
        reader.end()
    }

    fn fields(&self) -> Fields {
        match self {
            Self::Object(keys) => {
                keys.told.iter().map(|(key, told)| Field::new(key, told.data_type(), true)).collect()
            }
            _ => Fields::empty(),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            // A later value is any.
            Self::Nothing => DataType::Utf8,
            Self::Scalar(scalars) => scalars.data_type(),
            Self::List(items) => DataType::new_list(items.data_type(), true),
            Self::Object(_) => DataType::Struct(self.fields()),
        }
    }

    fn scalars(&mut self) -> Option<&mut Scalars> {
        match self {
            Self::Nothing => {
                *self = Self::Scalar(Scalars::default());
                self.scalars()
            }
            Self::Scalar(scalars) => Some(scalars),
            Self::List(items) => items.scalars(),
            Self::Object(_) => None,
        }
    }
}

impl Scalars {
    fn data_type(self) -> DataType {
        match self {
            Self { texts: false, integers: false, unsigned: false, numbers: false, truths: true } => {
                DataType::Boolean
            }
            Self { texts: true, .. } | Self { truths: true, .. } => DataType::Utf8,
            Self { numbers: true, .. } => DataType::Float64,
            Self { unsigned: true, .. } => DataType::Decimal128(UNSIGNED_DIGITS, 0),
            _ => DataType::Int64,
        }
    }
}

/// Reads one value of a key.
struct ValueOf<'a>(&'a mut Told);

impl<'de> DeserializeSeed<'de> for ValueOf<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl ValueOf<'_> {
    fn scalar<E: serde::de::Error>(self, mark: impl FnOnce(&mut Scalars)) -> Result<(), E> {
        let scalars = self.0.scalars();
        mark(scalars.ok_or_else(|| E::custom("a key has objects and other values"))?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for ValueOf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.scalar(|scalars| scalars.truths = true)
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.scalar(|scalars| scalars.integers = true)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let is_signed = i64::try_from(value).is_ok();
        self.scalar(|scalars| *(if is_signed { &mut scalars.integers } else { &mut scalars.unsigned }) = true)
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.scalar(|scalars| scalars.numbers = true)
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.scalar(|scalars| scalars.texts = true)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let items = match self.0 {
            Told::List(items) => items,
            Told::Object(_) => return Err(A::Error::custom("a key has objects and other values")),
            told => {
                // A scalar beside lists is read as a list of it.
                *told = Told::List(Box::new(std::mem::take(told)));
                let Told::List(items) = told else { return Ok(()) };
                items
            }
        };
        while list.next_element_seed(ValueOf(items))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        if let Told::Nothing = self.0 {
            *self.0 = Told::Object(Keys::default());
        }
        match self.0 {
            Told::Object(keys) => ObjectOf(keys).visit_map(object),
            _ => Err(A::Error::custom("a key has objects and other values")),
        }
    }
}

/// Reads an object.
struct ObjectOf<'a>(&'a mut Keys);

impl<'de> Visitor<'de> for ObjectOf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Keys { told, places } = self.0;
        let mut next = 0;
        while let Some(key) = object.next_key::<String>()? {
            // Most objects have the same keys in the same order.
            let place = match told.get(next) {
                Some((known, _)) if *known == key => next,
                _ => *places.entry(key.clone()).or_insert(told.len()),
            };
            if place == told.len() {
                told.push((key, Told::Nothing));
            }
            object.next_value_seed(ValueOf(&mut told[place].1))?;
            next = place + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(objects: &[&str]) -> Result<String, serde_json::Error> {
        let mut told = Told::default();
        for object in objects {
            told.add(object.as_bytes())?;
        }
        let field = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
        Ok(told.fields().iter().map(field).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn columns_come_in_the_order_of_the_keys() {
        assert_eq!(
            told(&[r#"{"b": 1, "a": 2}"#, r#"{"a": 1, "c": true}"#]).unwrap(),
            "b Int64, a Int64, c Boolean"
        );
        assert_eq!(told(&[]).unwrap(), "");
    }

    #[test]
    fn a_type_has_room_for_all_values() {
        for (values, expected) in [
            (&["1", "-2"][..], "Int64"),
            (&["1", "null"], "Int64"),
            (&["1", "2.5"], "Float64"),
            (&["1", "18446744073709551615"], "Decimal128(20, 0)"),
            (&["18446744073709551615", "0.5"], "Float64"),
            (&["true", "false"], "Boolean"),
            (&["true", "1"], "Utf8"),
            (&["1", "\"x\""], "Utf8"),
            (&["null"], "Utf8"),
        ] {
            let objects: Vec<String> = values.iter().map(|value| format!("{{\"a\": {value}}}")).collect();
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            assert_eq!(told(&objects).unwrap(), format!("a {expected}"), "{values:?}");
        }
    }

    #[test]
    fn lists_and_objects_have_the_types_of_their_values() {
        let both =
            told(&[r#"{"a": [{"x": 1}, {"y": []}], "b": {}}"#, r#"{"b": {"z": [1, 2.5]}, "c": [[1]]}"#]);
        let item = |of: &DataType| DataType::new_list(of.clone(), true);
        let parts = |parts: &[(&str, DataType)]| {
            DataType::Struct(parts.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect())
        };
        let a = item(&parts(&[("x", DataType::Int64), ("y", item(&DataType::Utf8))]));
        let b = parts(&[("z", item(&DataType::Float64))]);
        let c = item(&item(&DataType::Int64));
        assert_eq!(both.unwrap(), format!("a {a}, b {b}, c {c}"));
        assert_eq!(told(&[r#"{"a": 1}"#, r#"{"a": [2]}"#]).unwrap(), format!("a {}", item(&DataType::Int64)));
    }

    #[test]
    fn what_is_no_object_or_of_no_common_type_is_an_error() {
        for object in ["1", "[1]", "\"x\"", "{\"a\": 1", "{\"a\": 1} 2", "{a: 1}"] {
            assert!(told(&[object]).is_err(), "{object}");
        }
        for objects in [[r#"{"a": {}}"#, r#"{"a": 1}"#], [r#"{"a": [1]}"#, r#"{"a": {}}"#]] {
            let error = told(&objects).unwrap_err();
            assert!(error.is_data() && error.to_string().contains("objects and other"), "{error}");
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(told(&[&deep]).is_err());
    }
}
