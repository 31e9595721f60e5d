//! A reader of Java's serialisation, with limits.

use std::rc::Rc;

use bytes::Bytes;

use super::{
    SC_SERIALIZABLE, SC_WRITE_METHOD, STREAM_HEADER, TC_ARRAY, TC_BLOCKDATA, TC_CLASSDESC, TC_ENDBLOCKDATA,
    TC_ENUM, TC_NULL, TC_OBJECT, TC_REFERENCE, TC_STRING,
};
use crate::wire::cursor::{Cursor, DecodeError, Problem};

const FIRST_HANDLE: i32 = 0x007e_0000;

/// Limits of the reader. A real message has 5 handles, 3 fields a class, and nests 3 deep. A field without a name takes
/// three bytes on the wire and forty here, so fields are limited in total as well as for each class.
const HANDLES_MAX: usize = 256;
const FIELDS_MAX: usize = 32;
const FIELDS_IN_ALL_MAX: usize = 256;
const DEPTH_MAX: usize = 12;

/// A value of a field. Only what the known classes need is kept; the rest is read and dropped.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Int(i32),
    Bool(bool),
    Text(Bytes),
    Bytes(Bytes),
    Object(Fields),
    Dropped,
}

/// An object's class and the values of its fields by name, superclass first.
#[derive(Debug)]
pub(super) struct Fields {
    pub class: Bytes,
    values: Vec<(Bytes, Value)>,
}

impl Fields {
    /// Takes out the value of a field.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.values.iter().position(|(field, _)| field == name.as_bytes())?;
        Some(self.values.swap_remove(index).1)
    }
}

/// What a back reference can point to.
#[derive(Debug, Clone)]
enum Handle {
    Class(Rc<Class>),
    Text(Bytes),
    /// Anything else, and a class until its description has ended.
    Opaque,
}

#[derive(Debug)]
struct Class {
    name: Bytes,
    flags: u8,
    /// Type and name of each.
    fields: Vec<(u8, Bytes)>,
    superclass: Option<Rc<Class>>,
}

/// Reads a stream of one object.
pub(super) struct Reader {
    cursor: Cursor,
    handles: Vec<Handle>,
    /// Number of fields of all classes so far.
    fields: usize,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Self {
        Self { cursor: Cursor::new(bytes), handles: Vec::new(), fields: 0 }
    }

    /// The one object of a stream.
    pub fn stream(&mut self) -> Result<Fields, DecodeError> {
        let magic = self.cursor.i32("java stream header")?;
        if magic != STREAM_HEADER {
            return Err(self.cursor.error("java stream header", Problem::Unexpected(magic.into())));
        }
        match self.value(0)? {
            Value::Object(object) => Ok(object),
            _ => Err(self.malformed("an object")),
        }
    }

    /// The error that what was read is not `object`.
    pub fn malformed(&self, object: &'static str) -> DecodeError {
        self.cursor.error("java object", Problem::Malformed(object))
    }

    /// Assigns the next handle, and returns its index.
    fn assign(&mut self, handle: Handle) -> Result<usize, DecodeError> {
        if self.handles.len() == HANDLES_MAX {
            let problem = Problem::TooLong { found: HANDLES_MAX as u64 + 1, max: HANDLES_MAX as u64 };
            return Err(self.cursor.error("java handles", problem));
        }
        self.handles.push(handle);
        Ok(self.handles.len() - 1)
    }

    fn utf(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        let len = self.cursor.u16(field)?;
        self.cursor.bytes(field, len.into())
    }

    fn reference(&mut self) -> Result<Handle, DecodeError> {
        let handle = self.cursor.i32("java reference")?;
        let index = usize::try_from(i64::from(handle) - i64::from(FIRST_HANDLE)).ok();
        let found = index.and_then(|index| self.handles.get(index)).cloned();
        found.ok_or_else(|| self.cursor.error("java reference", Problem::Unexpected(handle.into())))
    }

    fn unexpected<T>(&self, field: &'static str, tag: u8) -> Result<T, DecodeError> {
        Err(self.cursor.error(field, Problem::Unexpected(tag.into())))
    }

    /// Reads a tag and its value.
    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let tag = self.cursor.u8("java tag")?;
        self.tagged(tag, depth)
    }

    fn tagged(&mut self, tag: u8, depth: usize) -> Result<Value, DecodeError> {
        if depth > DEPTH_MAX {
            let problem = Problem::TooLong { found: depth as u64, max: DEPTH_MAX as u64 };
            return Err(self.cursor.error("java nesting", problem));
        }
        match tag {
            TC_NULL => Ok(Value::Null),
            TC_REFERENCE => Ok(match self.reference()? {
                Handle::Text(text) => Value::Text(text),
                Handle::Class(_) | Handle::Opaque => Value::Dropped,
            }),
            TC_STRING => {
                let text = self.utf("java string")?;
                self.assign(Handle::Text(text.clone()))?;
                Ok(Value::Text(text))
            }
            TC_OBJECT => self.object(depth),
            TC_ARRAY => self.array(depth),
            TC_ENUM => {
                self.class(depth)?;
                self.assign(Handle::Opaque)?;
                self.value(depth + 1)?; // the constant's name
                Ok(Value::Dropped)
            }
            TC_CLASSDESC => {
                self.described_class(depth)?;
                Ok(Value::Dropped)
            }
            other => self.unexpected("java tag", other),
        }
    }

    /// A class description, new or referred to; `None` for null.
    fn class(&mut self, depth: usize) -> Result<Option<Rc<Class>>, DecodeError> {
        match self.cursor.u8("java class tag")? {
            TC_NULL => Ok(None),
            TC_REFERENCE => match self.reference()? {
                Handle::Class(class) => Ok(Some(class)),
                Handle::Text(_) | Handle::Opaque => {
                    Err(self.cursor.error("java reference", Problem::Malformed("a class")))
                }
            },
            TC_CLASSDESC => self.described_class(depth).map(Some),
            other => self.unexpected("java class tag", other),
        }
    }

    fn described_class(&mut self, depth: usize) -> Result<Rc<Class>, DecodeError> {
        if depth > DEPTH_MAX {
            let problem = Problem::TooLong { found: depth as u64, max: DEPTH_MAX as u64 };
            return Err(self.cursor.error("java nesting", problem));
        }
        let name = self.utf("java class name")?;
        self.cursor.i64("java serial version")?;
        let index = self.assign(Handle::Opaque)?;
        let flags = self.cursor.u8("java class flags")?;
        let count = usize::from(self.cursor.u16("java field count")?);
        let max = FIELDS_MAX.min(FIELDS_IN_ALL_MAX - self.fields);
        if count > max {
            let problem = Problem::TooLong { found: count as u64, max: max as u64 };
            return Err(self.cursor.error("java field count", problem));
        }
        self.fields += count;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = self.cursor.u8("java field type")?;
            let field = self.utf("java field name")?;
            if matches!(kind, b'L' | b'[') {
                self.value(depth + 1)?; // the field's type, a string
            }
            fields.push((kind, field));
        }
        self.annotation(depth)?;
        let superclass = self.class(depth + 1)?;
        // A class may not be its own ancestor: its description is complete only from here on.
        let class = Rc::new(Class { name, flags, fields, superclass });
        self.handles[index] = Handle::Class(Rc::clone(&class));
        Ok(class)
    }

    /// Skips what a class writes besides its fields, to the end mark.
    fn annotation(&mut self, depth: usize) -> Result<(), DecodeError> {
        loop {
            match self.cursor.u8("java annotation")? {
                TC_ENDBLOCKDATA => return Ok(()),
                TC_BLOCKDATA => {
                    let len = self.cursor.u8("java block length")?;
                    self.cursor.bytes("java block", len.into())?;
                }
                tag => {
                    self.tagged(tag, depth + 1)?;
                }
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let Some(class) = self.class(depth)? else { return Err(self.malformed("a class")) };
        self.assign(Handle::Opaque)?;
        // A superclass writes its fields before its subclasses.
        let mut chain: Vec<&Class> =
            std::iter::successors(Some(&*class), |class| class.superclass.as_deref()).collect();
        chain.reverse();
        let mut values = Vec::new();
        for class in chain {
            if class.flags & SC_SERIALIZABLE == 0 {
                return Err(self.cursor.error("java class flags", Problem::Unexpected(class.flags.into())));
            }
            for (kind, field) in &class.fields {
                let value = self.field(*kind, depth)?;
                // No known class needs the fields of nested objects, or more fields than this.
                if depth == 0 && values.len() < FIELDS_MAX {
                    values.push((field.clone(), value));
                }
            }
            if class.flags & SC_WRITE_METHOD != 0 {
                self.annotation(depth)?;
            }
        }
        Ok(Value::Object(Fields { class: class.name.clone(), values }))
    }

    fn field(&mut self, kind: u8, depth: usize) -> Result<Value, DecodeError> {
        match kind {
            b'I' => Ok(Value::Int(self.cursor.i32("java int")?)),
            b'Z' => Ok(Value::Bool(self.cursor.u8("java boolean")? != 0)),
            b'B' => self.cursor.u8("java byte").map(|_| Value::Dropped),
            b'C' | b'S' => self.cursor.u16("java short").map(|_| Value::Dropped),
            b'F' => self.cursor.i32("java float").map(|_| Value::Dropped),
            b'J' | b'D' => self.cursor.i64("java long").map(|_| Value::Dropped),
            b'L' | b'[' => self.value(depth + 1),
            other => self.unexpected("java field type", other),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let Some(class) = self.class(depth)? else {
            return Err(self.cursor.error("java array", Problem::Malformed("a class")));
        };
        self.assign(Handle::Opaque)?;
        let element = class.name.get(1).copied().unwrap_or_default();
        let count = self.cursor.count("java array length", 1)?;
        if class.name == "[B" {
            return Ok(Value::Bytes(self.cursor.bytes("java array", count)?));
        }
        for _ in 0..count {
            self.field(element, depth)?;
        }
        Ok(Value::Dropped)
    }
}
