//! Errors that cross from an executor to the client of its job, as the text that Ballista carries.

use ballista_core::error::BallistaError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use serde::{Deserialize, Serialize};
use yeoul_base::ErrorKind;
use yeoul_dialect::Error;
use yeoul_dialect::error::Shortage;

/// Mark before the error itself in such a text.
const MARK: &str = "yeoul-error:";
/// End of the error.
const END: char = ';';

/// Words of Ballista for a task that could not be written by the scheduler or read by an executor. The reason stays in their logs.
const UNREADABLE_TASK: &str = "could not be prepared or was rejected";

#[derive(Serialize, Deserialize)]
struct Sent {
    kind: String,
    text: String,
    hint: Option<String>,
}

/// The error of a task as Ballista is to carry it. Those that it has an answer to, a read that failed and a disk, stay as they are.
pub(crate) fn sent(error: DataFusionError) -> DataFusionError {
    let sent = match own(&error) {
        Some(error) => Sent::of(error),
        None => match arrows(&error) {
            Some(arrow) => Sent::of(&Error::from(DataFusionError::from(arrow))),
            None if is_ballistas(&error) => return error,
            None => Sent::of(&Error::from(error)),
        },
    };
    // Ballista escapes quotes, how often is up to it.
    let text = STANDARD.encode(serde_json::to_vec(&sent).expect("texts are texts"));
    DataFusionError::Execution(format!("{MARK}{text}{END}"))
}

impl Sent {
    fn of(error: &Error) -> Self {
        Self {
            kind: error.kind().as_str().to_owned(),
            text: error.to_string(),
            hint: error.hint().map(str::to_owned),
        }
    }
}

/// True of the error of a task that has had too little memory.
pub(crate) fn is_short_of_memory(error: &DataFusionError) -> bool {
    match own(error) {
        Some(error) => error.shortage() == Some(Shortage::Memory),
        None => match error.find_root() {
            DataFusionError::External(inner) => match inner.downcast_ref::<BallistaError>() {
                Some(BallistaError::DataFusionError(error)) => is_short_of_memory(error),
                _ => false,
            },
            root => matches!(root, DataFusionError::ResourcesExhausted(_)),
        },
    }
}

/// The error of ours in one, however often it is wrapped.
fn own(error: &DataFusionError) -> Option<&Error> {
    let DataFusionError::External(inner) = error.find_root() else { return None };
    match inner.downcast_ref::<BallistaError>() {
        Some(BallistaError::DataFusionError(error)) => own(error),
        Some(_) => None,
        None => inner.downcast_ref::<Error>(),
    }
}

/// The error of Arrow in one of Ballista's.
fn arrows(error: &DataFusionError) -> Option<ArrowError> {
    let DataFusionError::External(inner) = error.find_root() else { return None };
    match inner.downcast_ref::<BallistaError>()? {
        BallistaError::DataFusionError(error) => arrows(error),
        BallistaError::ArrowError(error) => Some(match error.as_ref() {
            ArrowError::DivideByZero => ArrowError::DivideByZero,
            ArrowError::ArithmeticOverflow(text) => ArrowError::ArithmeticOverflow(text.clone()),
            ArrowError::CastError(text) => ArrowError::CastError(text.clone()),
            ArrowError::ParseError(text) => ArrowError::ParseError(text.clone()),
            ArrowError::InvalidArgumentError(text) => ArrowError::InvalidArgumentError(text.clone()),
            ArrowError::ComputeError(text) => ArrowError::ComputeError(text.clone()),
            // Its disk and its messages are what Ballista has an answer to.
            ArrowError::IoError(..) | ArrowError::IpcError(_) => return None,
            other => ArrowError::ComputeError(other.to_string()),
        }),
        _ => None,
    }
}

fn is_ballistas(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::IoError(_) => true,
        DataFusionError::External(inner) => match inner.downcast_ref::<BallistaError>() {
            Some(BallistaError::DataFusionError(error)) => is_ballistas(error),
            inner => inner.is_some(),
        },
        _ => false,
    }
}

/// The error of a failed job, from what Ballista says of it.
pub(crate) fn received(text: &str) -> Error {
    let sent = text.split_once(MARK).and_then(|(_, behind)| behind.split_once(END)).and_then(|(sent, _)| {
        let sent: Sent = serde_json::from_slice(&STANDARD.decode(sent).ok()?).ok()?;
        Some(sent)
    });
    match sent {
        Some(Sent { kind, text, hint }) => {
            let error = Error::new(ErrorKind::named(&kind).unwrap_or(ErrorKind::Internal), text);
            match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        }
        None => {
            let error =
                Error::new(ErrorKind::Unavailable, format!("the cluster could not run the query: {text}"));
            match text.contains(UNREADABLE_TASK) {
                true => error.with_hint("the log of the executor, or of the scheduler, has the reason"),
                false => error,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_arrives_with_its_kind_and_hint() {
        let left = || Error::new(ErrorKind::ResourceExhausted, "no \"memory\"\nleft").with_hint("take more");
        // Ballista tells it as programs do, and tells that again.
        let carried = format!("Job x failed: {:?}, and more", format!("{:?}", sent(left().into())));
        let (arrived, left) = (received(&carried), left());
        assert_eq!(
            (arrived.kind(), arrived.to_string(), arrived.hint()),
            (left.kind(), left.to_string(), left.hint())
        );
        assert_eq!(received("all is lost").kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn an_error_of_arrow_says_what_it_says_in_one_process() {
        let zero = BallistaError::ArrowError(Box::new(ArrowError::DivideByZero)).into_datafusion();
        let zero = BallistaError::DataFusionError(Box::new(DataFusionError::Shared(Arc::new(zero))));
        let alone = Error::from(DataFusionError::from(ArrowError::DivideByZero));
        let arrived = received(&sent(zero.into_datafusion()).to_string());
        assert_eq!((arrived.kind(), arrived.to_string()), (alone.kind(), alone.to_string()));
    }

    #[test]
    fn what_ballista_has_an_answer_to_stays_as_it_is() {
        let lost = BallistaError::FetchFailed("e".to_owned(), 1, 2, "gone".to_owned()).into_datafusion();
        let wrapped = sent(DataFusionError::Context("while reading".to_owned(), Box::new(lost)));
        assert!(
            matches!(wrapped.find_root(), DataFusionError::External(inner) if inner.is::<BallistaError>())
        );
    }
}
