//! Encoding by a schema, and reconstruction of what is lost.

use crate::error::CodeError;
use crate::kernel::{Kernel, Program};
use crate::matrix::Matrix;
use crate::schema::Schema;
use crate::units::{UnitIndex, UnitSet};

/// Encodes by a schema and plans reconstructions. Cheap to share: it is read only.
#[derive(Clone, Debug)]
pub struct Coder {
    schema: Schema,
    kernel: Kernel,
    full: Matrix,
    parity: Program,
}

impl Coder {
    /// A coder that uses the fastest kernel of this processor.
    pub fn new(schema: Schema) -> Self {
        Self::with_kernel(schema, Kernel::fastest())
    }

    /// A coder that uses the given kernel.
    pub fn with_kernel(schema: Schema, kernel: Kernel) -> Self {
        let parity = Program::new(&schema.parity_matrix());
        Self { schema, kernel, full: schema.full_matrix(), parity }
    }

    /// The schema.
    pub fn schema(&self) -> Schema {
        self.schema
    }

    /// Computes the parity units from the data units, all of one length. A cell that a stripe does not fill counts as
    /// zeros to its end: pass them.
    ///
    /// # Panics
    /// The numbers of units are not those of the schema, or their lengths differ.
    pub fn encode<D: AsRef<[u8]>, P: AsMut<[u8]>>(&self, data: &[D], parity: &mut [P]) {
        self.kernel.run(&self.parity, data, parity);
    }

    /// Plans how to compute the units `wanted` from those that are `available`.
    ///
    /// # Errors
    /// - `DataLoss`: fewer units are available than the schema has data units.
    /// - `Invalid`: a unit is in both sets, or the schema does not have it.
    pub fn reconstruction(&self, available: UnitSet, wanted: UnitSet) -> Result<Reconstruction, CodeError> {
        let schema = self.schema;
        let is_known = available.union(wanted).without(UnitSet::first(schema.units())).is_empty();
        if !is_known || !available.intersection(wanted).is_empty() {
            return Err(CodeError::Units { schema, available, wanted });
        }
        let sources: Vec<UnitIndex> = available.iter().take(schema.data_units()).collect();
        if sources.len() < schema.data_units() {
            return Err(CodeError::TooFewUnits { schema, available, wanted });
        }
        let rows = |units: &mut dyn Iterator<Item = UnitIndex>| {
            self.full.select(units.map(|unit| usize::from(unit.0)))
        };
        let data = rows(&mut sources.iter().copied())
            .inverse()
            .expect("any rows of the full matrix, as many as data units, are independent");
        let program = Program::new(&rows(&mut wanted.iter()).times(&data));
        Ok(Reconstruction { kernel: self.kernel, sources, targets: wanted.iter().collect(), program })
    }
}

/// A planned reconstruction: which units it reads, which it gives, and how.
#[derive(Clone, Debug)]
pub struct Reconstruction {
    kernel: Kernel,
    sources: Vec<UnitIndex>,
    targets: Vec<UnitIndex>,
    program: Program,
}

impl Reconstruction {
    /// The units to read, in the order in which [`Self::run`] takes them: as many as the schema has data units.
    pub fn sources(&self) -> &[UnitIndex] {
        &self.sources
    }

    /// The units that are computed, in the order in which [`Self::run`] gives them.
    pub fn targets(&self) -> &[UnitIndex] {
        &self.targets
    }

    /// Computes one slice of each target from the same slice of each source.
    ///
    /// # Panics
    /// The numbers of sources and targets are not those of the plan, or their lengths differ.
    pub fn run<S: AsRef<[u8]>, T: AsMut<[u8]>>(&self, sources: &[S], targets: &mut [T]) {
        self.kernel.run(&self.program, sources, targets);
    }
}
