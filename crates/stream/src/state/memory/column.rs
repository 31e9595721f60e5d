use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use crate::error::{Error, ErrorKind, Result, computing};

/// Values of one column of a bucket, which change in place.
#[derive(Debug, Clone)]
pub(super) enum ValueColumn {
    /// Numbers and times: as many bytes for each.
    Fixed { width: usize, bytes: Vec<u8>, is_valid: Vec<bool> },
    /// Everything else, each in Arrow's row format.
    Encoded { cells: Vec<Box<[u8]>>, bytes: usize },
}

/// What a column holds, and how it is read and written.
#[derive(Debug)]
pub(super) struct ColumnKind {
    data_type: DataType,
    width: Option<usize>,
    converter: RowConverter,
}

/// Values of a batch of keys on their way into columns.
pub(super) enum Incoming {
    Fixed { data: ArrayData, width: usize },
    Encoded(arrow::row::Rows),
}

/// Values of some keys on their way out of columns.
pub(super) enum Gathering<'a> {
    Fixed { kind: &'a ColumnKind, bytes: MutableBuffer, is_valid: Vec<bool> },
    Encoded { kind: &'a ColumnKind, cells: Vec<&'a [u8]> },
}

impl ColumnKind {
    pub fn new(data_type: &DataType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]).map_err(computing)?;
        Ok(Self { data_type: data_type.clone(), width: data_type.primitive_width(), converter })
    }

    pub fn empty(&self) -> ValueColumn {
        match self.width {
            Some(width) => ValueColumn::Fixed { width, bytes: Vec::new(), is_valid: Vec::new() },
            None => ValueColumn::Encoded { cells: Vec::new(), bytes: 0 },
        }
    }

    pub fn incoming(&self, values: &ArrayRef) -> Result<Incoming> {
        if *values.data_type() != self.data_type {
            let text =
                format!("a column of state is {}, its new values are {}", self.data_type, values.data_type());
            return Err(Error::new(ErrorKind::Internal, text));
        }
        Ok(match self.width {
            Some(width) => Incoming::Fixed { data: values.to_data(), width },
            None => {
                let rows = self.converter.convert_columns(std::slice::from_ref(values)).map_err(computing)?;
                Incoming::Encoded(rows)
            }
        })
    }

    pub fn gathering(&self, capacity: usize) -> Gathering<'_> {
        match self.width {
            Some(width) => Gathering::Fixed {
                kind: self,
                bytes: MutableBuffer::with_capacity(capacity * width),
                is_valid: Vec::with_capacity(capacity),
            },
            None => Gathering::Encoded { kind: self, cells: Vec::with_capacity(capacity) },
        }
    }
}

impl ValueColumn {
    /// Gives a slot a value; the slot is the next one or one that is there.
    pub fn set(&mut self, slot: usize, from: &Incoming, row: usize) {
        match (self, from) {
            (Self::Fixed { width, bytes, is_valid }, Incoming::Fixed { data, width: incoming }) => {
                assert_eq!(width, incoming, "a column keeps its type");
                if slot == is_valid.len() {
                    is_valid.push(false);
                    bytes.resize(bytes.len() + *width, 0);
                }
                is_valid[slot] = data.is_valid(row);
                let at = (data.offset() + row) * *width;
                let value = &data.buffers()[0].as_slice()[at..at + *width];
                bytes[slot * *width..(slot + 1) * *width].copy_from_slice(value);
            }
            (Self::Encoded { cells, bytes }, Incoming::Encoded(rows)) => {
                let value = rows.row(row);
                *bytes += value.data().len();
                if slot == cells.len() {
                    cells.push(value.data().into());
                } else {
                    *bytes -= cells[slot].len();
                    cells[slot] = value.data().into();
                }
            }
            _ => unreachable!("a column keeps its type"),
        }
    }

    /// Adds a slot with the value of a slot of another column of the same kind.
    pub fn push_from(&mut self, from: &Self, slot: usize) {
        match (self, from) {
            (
                Self::Fixed { width, bytes, is_valid },
                Self::Fixed { bytes: values, is_valid: are_valid, .. },
            ) => {
                bytes.extend_from_slice(&values[slot * *width..(slot + 1) * *width]);
                is_valid.push(are_valid[slot]);
            }
            (Self::Encoded { cells, bytes }, Self::Encoded { cells: values, .. }) => {
                *bytes += values[slot].len();
                cells.push(values[slot].clone());
            }
            _ => unreachable!("a column keeps its type"),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Fixed { bytes, is_valid, .. } => bytes.capacity() + is_valid.capacity(),
            Self::Encoded { cells, bytes } => bytes + cells.capacity() * size_of::<Box<[u8]>>(),
        }
    }
}

impl<'a> Gathering<'a> {
    /// Adds the value of a slot.
    pub fn push(&mut self, column: &'a ValueColumn, slot: usize) {
        match (self, column) {
            (
                Self::Fixed { bytes: out, is_valid: out_valid, .. },
                ValueColumn::Fixed { width, bytes, is_valid },
            ) => {
                out.extend_from_slice(&bytes[slot * width..(slot + 1) * width]);
                out_valid.push(is_valid[slot]);
            }
            (Self::Encoded { cells: out, .. }, ValueColumn::Encoded { cells, .. }) => out.push(&cells[slot]),
            _ => unreachable!("a column keeps its type"),
        }
    }

    pub fn finish(self) -> Result<ArrayRef> {
        match self {
            Self::Fixed { kind, bytes, is_valid } => {
                let nulls = if is_valid.iter().all(|is_valid| *is_valid) {
                    None
                } else {
                    Some(NullBuffer::new(BooleanBuffer::from(is_valid.as_slice())))
                };
                let data = ArrayData::builder(kind.data_type.clone())
                    .len(is_valid.len())
                    .add_buffer(bytes.into())
                    .nulls(nulls)
                    .build()
                    .map_err(computing)?;
                Ok(make_array(data))
            }
            Self::Encoded { kind, cells } => {
                let parser = kind.converter.parser();
                let rows: Vec<_> = cells.into_iter().map(|cell| parser.parse(cell)).collect();
                let mut columns = kind.converter.convert_rows(rows).map_err(computing)?;
                Ok(columns.pop().expect("a converter of one column gives one"))
            }
        }
    }
}
