//! The instructions that compute sums of products, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod affine;
#[cfg(target_arch = "x86_64")]
mod nibbles;
mod portable;
mod program;
#[cfg(target_arch = "x86_64")]
mod streams;

use std::fmt;
use std::sync::OnceLock;

pub(crate) use program::Program;

use crate::schema::UNITS_MAX;
use program::Pass;

/// A way to compute that this processor has. All give the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(Instructions);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    Portable,
}

impl Kernel {
    /// The kernels of this processor, the fastest first.
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni") {
                found.push(Self(Instructions::Avx512Gfni));
            }
            if is_x86_feature_detected!("avx2") {
                found.push(Self(Instructions::Avx2));
            }
            if is_x86_feature_detected!("ssse3") {
                found.push(Self(Instructions::Ssse3));
            }
        }
        found.push(Self(Instructions::Portable));
        found
    }

    /// The fastest kernel of this processor.
    pub fn fastest() -> Self {
        static FASTEST: OnceLock<Kernel> = OnceLock::new();
        *FASTEST.get_or_init(|| Self::available()[0])
    }

    /// Name of the instructions, for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Gfni => "avx512+gfni",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => "ssse3",
            Instructions::Portable => "portable",
        }
    }

    /// Computes each output as the sum of products that its row of the program asks for.
    ///
    /// # Panics
    /// The numbers of inputs and outputs are not those of the program, or their lengths differ.
    pub(crate) fn run<I: AsRef<[u8]>, O: AsMut<[u8]>>(
        self,
        program: &Program,
        inputs: &[I],
        outputs: &mut [O],
    ) {
        assert_eq!(inputs.len(), program.columns(), "one input for each column");
        assert_eq!(outputs.len(), program.rows(), "one output for each row");
        let mut slices: [&[u8]; UNITS_MAX] = [&[]; UNITS_MAX];
        for (slice, input) in slices.iter_mut().zip(inputs) {
            *slice = input.as_ref();
        }
        let slices = &slices[..inputs.len()];
        let len = slices[0].len();
        assert!(slices.iter().all(|slice| slice.len() == len), "all inputs are of one length");
        let mut rest = outputs;
        for pass in program.passes() {
            let (now, later) = rest.split_at_mut(pass.rows);
            let mut outputs = now.iter_mut().map(AsMut::as_mut);
            let mut rows: [&mut [u8]; program::ROWS_AT_ONCE] =
                std::array::from_fn(|_| outputs.next().unwrap_or_default());
            let rows = &mut rows[..pass.rows];
            assert!(rows.iter().all(|row| row.len() == len), "all outputs are as long as the inputs");
            self.run_pass(pass, slices, rows);
            rest = later;
        }
    }

    fn run_pass(self, pass: &Pass, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let done = match self.0 {
            // SAFETY: a kernel is only found on a processor that has its features; inputs and outputs are those of the pass.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Gfni => unsafe { affine::run(pass, &streams::Streams::new(inputs, outputs)) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { nibbles::run_avx2(pass, &streams::Streams::new(inputs, outputs)) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Ssse3 => unsafe {
                nibbles::run_ssse3(pass, &streams::Streams::new(inputs, outputs))
            },
            Instructions::Portable => 0,
        };
        portable::run(pass, inputs, outputs, done);
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
