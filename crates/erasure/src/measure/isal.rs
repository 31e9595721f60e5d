//! Intel's ISA-L, loaded at run time from where the system has it.

use std::ffi::c_int;
use std::fmt;

use libloading::Library;

use crate::schema::Schema;
use crate::units::UnitSet;

/// The names under which Debian's packages `libisal2` and `libisal-dev` install the library.
const NAMES: [&str; 2] = ["libisal.so.2", "libisal.so"];

/// Bytes of the tables that ISA-L makes of one coefficient (`ec_init_tables`: 32 * k * rows).
const TABLE_BYTES: usize = 32;

type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *const u8, *const *mut u8);

/// The library's coder for one matrix: parity from data, or lost units from those that are left.
pub struct Isal {
    encode_data: EncodeData,
    tables: Vec<u8>,
    columns: usize,
    rows: usize,
    // Last, so that it outlives the function in it.
    _library: Library,
}

/// Why ISA-L cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot load ISA-L as {names}: {0}", names = NAMES.join(" or "))]
pub struct IsalError(#[from] libloading::Error);

impl Isal {
    /// The library's way to the units `wanted` from the first of those that are `available`: with all data units, it encodes.
    ///
    /// # Errors
    /// The library is not installed, or lacks a function.
    ///
    /// # Panics
    /// Too few units are available.
    pub fn reconstruction(schema: Schema, available: UnitSet, wanted: UnitSet) -> Result<Self, IsalError> {
        let full = schema.full_matrix();
        let sources = available.iter().take(schema.data_units()).map(|unit| usize::from(unit.0));
        let data = full.select(sources).inverse().expect("enough units are available");
        Self::new(&full.select(wanted.iter().map(|unit| usize::from(unit.0))).times(&data))
    }

    fn new(matrix: &crate::matrix::Matrix) -> Result<Self, IsalError> {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        // SAFETY: ISA-L runs no code when it is loaded that asks for anything.
        let load = |name: &str| unsafe { Library::new(name) };
        let library = load(NAMES[0]).or_else(|_| load(NAMES[1]))?;
        // SAFETY: these are the functions' types in ISA-L's `erasure_code.h`, all of version 2.
        let (init_tables, encode_data) = unsafe {
            (
                *library.get::<InitTables>(b"ec_init_tables\0")?,
                *library.get::<EncodeData>(b"ec_encode_data\0")?,
            )
        };
        let coefficients: Vec<u8> = (0..rows).flat_map(|row| matrix.row(row).iter().copied()).collect();
        let mut tables = vec![0; TABLE_BYTES * rows * columns];
        // SAFETY: the function reads `rows * columns` bytes and writes `TABLE_BYTES` for each of them.
        unsafe {
            init_tables(columns as c_int, rows as c_int, coefficients.as_ptr(), tables.as_mut_ptr());
        }
        Ok(Self { encode_data, tables, columns, rows, _library: library })
    }

    /// Computes the outputs from the inputs, all of one length.
    ///
    /// # Panics
    /// The numbers of inputs and outputs are not those of the matrix, or their lengths differ.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!((inputs.len(), outputs.len()), (self.columns, self.rows), "the streams of the matrix");
        let len = inputs[0].len();
        assert!(inputs.iter().all(|input| input.len() == len), "all inputs are of one length");
        assert!(outputs.iter().all(|output| output.len() == len), "all outputs are as long as the inputs");
        let len = c_int::try_from(len).expect("ISA-L takes at most 2 GiB");
        let inputs: Vec<*const u8> = inputs.iter().map(|input| input.as_ptr()).collect();
        let outputs: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        // SAFETY: the function reads `len` bytes of each input, and the tables, and writes `len` bytes of each output.
        unsafe {
            (self.encode_data)(
                len,
                self.columns as c_int,
                self.rows as c_int,
                self.tables.as_ptr(),
                inputs.as_ptr(),
                outputs.as_ptr(),
            );
        }
    }
}

impl fmt::Debug for Isal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isal")
            .field("columns", &self.columns)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
