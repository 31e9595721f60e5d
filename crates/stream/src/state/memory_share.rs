use std::sync::Arc;

use yeoul_base::ByteSize;
use yeoul_memory::ProcessMemory;

use crate::error::{Error, ErrorKind, Result};

/// Memory of the process that state may grow into: what is left below `--memory`.
#[derive(Debug, Clone, Default)]
pub struct MemoryShare {
    process: Option<Arc<ProcessMemory>>,
}

impl MemoryShare {
    /// What is left while the whole process keeps below a limit.
    ///
    /// # Errors
    /// If the system has no thread to watch the process.
    pub fn below(limit: ByteSize) -> Result<Self> {
        Ok(Self { process: Some(ProcessMemory::watch(Some(limit.as_usize()))?) })
    }

    /// Asks for bytes before they are taken.
    ///
    /// # Errors
    /// `ResourceExhausted` if they are not there.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        let mut free = process.free();
        if bytes > free {
            process.reclaim();
            free = process.free();
        }
        if bytes <= free {
            process.granted(bytes);
            return Ok(());
        }
        process.refused(bytes);
        let promise = process.promise().map_or(0, |promise| promise as u64);
        let text = format!(
            "the state needs {} more, and {} are left of --memory {}",
            ByteSize::from_bytes(bytes as u64),
            ByteSize::from_bytes(free as u64),
            ByteSize::from_bytes(promise)
        );
        Err(Error::new(ErrorKind::ResourceExhausted, text).with_hint(
            "give it more --memory; a shorter delay of the watermark or smaller windows need less",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        MemoryShare::default().grow(usize::MAX).unwrap();
        let share = MemoryShare::below(ByteSize::from_bytes(1 << 40)).unwrap();
        share.grow(1 << 20).unwrap();
        let error = share.grow(1 << 40).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
        assert!(
            error.to_string().contains("--memory 1.0 TiB") || error.to_string().contains("--memory 1 TiB"),
            "{error}"
        );
    }
}
