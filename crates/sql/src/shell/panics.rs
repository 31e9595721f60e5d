//! The subject of a panic. Decoders of files panic on damaged ones, which is no fault of the statement.

use std::any::Any;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};

use yeoul_base::ErrorKind;

use crate::Error;

/// The source file of the last panic.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Crates that decode files and do nothing else.
const DECODERS: [&str; 9] = [
    "/parquet-",
    "/arrow-ipc-",
    "/arrow-data-",
    "/arrow-buffer-",
    "/flatbuffers-",
    "/brotli",
    "/snap-",
    "/lz4",
    "/datafusion-datasource-",
];

/// Notes where a panic was. To be called by the panic hook of a process that runs statements.
pub fn note_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| place.file().to_owned());
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = place;
}

/// The error for a panic that ended a statement.
pub(super) fn defect(panic: &(dyn Any + Send)) -> Error {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let place = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    explained(text.unwrap_or("no message"), place.as_deref())
}

fn explained(text: &str, place: Option<&str>) -> Error {
    if text == "offset overflow" {
        let what =
            "the values of one batch have more than 2 GiB, which is the most that a column of texts has";
        return Error::new(ErrorKind::ResourceExhausted, what)
            .with_hint("fewer rows in a batch may do: SET datafusion.execution.batch_size = 64");
    }
    if place.is_some_and(|place| DECODERS.iter().any(|decoder| place.contains(decoder))) {
        let what = format!("a file that the statement reads is damaged: {text}");
        return Error::new(ErrorKind::Corrupt, what)
            .with_hint("it may be truncated or overwritten; compare its size with the original's");
    }
    Error::new(ErrorKind::Internal, format!("the statement failed in an unforeseen way: {text}"))
        .with_hint("please report it (RUST_BACKTRACE=1 shows where it was)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_damaged_file_and_others_are_faults_of_ours() {
        let kind = |place| explained("range end", place).kind();
        assert_eq!(kind(Some("/registry/src/index/arrow-ipc-59.3.2/src/reader.rs")), ErrorKind::Corrupt);
        assert_eq!(kind(Some("/registry/src/index/parquet-59.3.2/src/x.rs")), ErrorKind::Corrupt);
        assert_eq!(kind(Some("/registry/src/index/datafusion-expr-55.2.0/src/x.rs")), ErrorKind::Internal);
        assert_eq!(kind(None), ErrorKind::Internal);
        let error = explained("offset overflow", Some("/registry/src/index/arrow-buffer-59.3.2/src/x.rs"));
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    }
}
