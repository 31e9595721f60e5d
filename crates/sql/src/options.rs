use std::path::PathBuf;

use yeoul_base::{ByteSize, ErrorKind};
use yeoul_dialect::settings::System;

use crate::{Error, Result};

/// The options of a [`Session`](crate::Session). The default is what a person at a terminal wants: all cores, no memory limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The promise about the whole process: its resident set size (RSS) stays at or below this. `None` promises nothing.
    pub memory: Option<ByteSize>,
    /// Threads that execute queries, and partitions per operator; `None` takes the machine's cores.
    pub threads: Option<usize>,
    /// Where operators spill; `None` takes the system's temporary directory.
    pub spill_dir: Option<PathBuf>,
    /// The most that spilled data may hold on disk at a time.
    pub spill_limit: ByteSize,
    /// The system whose statements it takes.
    pub dialect: System,
    /// Engine settings (`datafusion.…` keys) that win over Yeoul's defaults, in order.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// The default of [`spill_limit`](Self::spill_limit): 100 GiB, as DataFusion has it.
    pub const SPILL_LIMIT: ByteSize = ByteSize::from_gib(100);
    /// The smallest [`memory`](Self::memory) with which a session starts: the program itself takes about 60 MiB, and two
    /// partitions of a sort reserve 10 MiB each before the first row.
    pub const MEMORY_MIN: ByteSize = ByteSize::from_mib(128);
    /// The most [`threads`](Self::threads): above it, plans cost more than they gain.
    pub const THREADS_MAX: usize = 1024;

    /// Refuses options with which no session starts.
    ///
    /// # Errors
    /// `Invalid` for less memory than [`MEMORY_MIN`](Self::MEMORY_MIN), and for no thread or more than
    /// [`THREADS_MAX`](Self::THREADS_MAX).
    pub fn check(&self) -> Result<()> {
        if let Some(memory) = self.memory.filter(|memory| *memory < Self::MEMORY_MIN) {
            let what = format!("a memory limit of {memory} is too small to start");
            let hint = format!("--memory takes {} and more", Self::MEMORY_MIN);
            return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint));
        }
        if let Some(threads) = self.threads.filter(|threads| !(1..=Self::THREADS_MAX).contains(threads)) {
            let what = format!("{threads} threads are out of range");
            let hint = format!("--threads takes 1 to {}", Self::THREADS_MAX);
            return Err(Error::new(ErrorKind::Invalid, what).with_hint(hint));
        }
        Ok(())
    }

    /// The number of threads to use on this machine.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: None,
            threads: None,
            spill_dir: None,
            spill_limit: Self::SPILL_LIMIT,
            dialect: System::default(),
            settings: Vec::new(),
        }
    }
}
