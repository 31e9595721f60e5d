use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;

use super::statement::Span;
use crate::output::ProgressSource;

/// All that the shell knows of the engine behind it.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Its errors.
    type Error: Diagnose;

    /// Plans one statement and starts it. Dropping the future, or the answer's stream, cancels it.
    ///
    /// # Errors
    /// When the statement is wrong, or cannot be started.
    async fn run(&self, sql: &str) -> Result<Answer<Self::Error>, Self::Error>;

    /// The tables and views of the session, sorted by name.
    ///
    /// # Errors
    /// When a catalog cannot be read.
    async fn tables(&self) -> Result<Vec<TableName>, Self::Error>;

    /// The columns of a table, a view, or a file, in their order.
    ///
    /// # Errors
    /// When there is no such table, or it cannot be read.
    async fn columns(&self, table: &str) -> Result<Vec<ColumnInfo>, Self::Error>;

    /// The names of all functions, for completion.
    fn functions(&self) -> Vec<String>;

    /// What the memory limit is, what is in use, and by whom: lines of text for a person.
    fn memory_report(&self) -> String;
}

/// An error that can tell a person more than its message, which by itself says all that went wrong.
pub trait Diagnose: Error + Send + Sync + 'static {
    /// What to do about it, in a few words: `did you mean 'price'?`
    fn hint(&self) -> Option<String> {
        None
    }

    /// Which part of the statement it is about.
    fn span(&self) -> Option<Span> {
        None
    }
}

/// A statement that has been started.
pub struct Answer<E> {
    /// The columns of the answer; none for a statement that has no answer, such as `CREATE VIEW`.
    pub schema: SchemaRef,
    /// The rows. The statement is done when the stream has ended.
    pub batches: BoxStream<'static, Result<RecordBatch, E>>,
    /// How far it has come, if that is known.
    pub progress: Option<Arc<dyn ProgressSource>>,
    /// What the engine wants the user to know while it runs.
    pub notices: Option<Arc<Notices>>,
}

/// A name in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// The name as a statement would write it, with its schema unless that is the default.
    pub name: String,
    /// `table` or `view`.
    pub kind: &'static str,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type, in the words of SQL or of Arrow.
    pub data_type: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

/// Lines from the engine to the user, from any thread, in order. Bounded: what is past the limit is dropped.
#[derive(Debug, Default)]
pub struct Notices(Mutex<Vec<String>>);

impl Notices {
    /// The most notices that wait to be shown.
    pub const WAITING_MAX: usize = 64;

    /// Adds a notice.
    pub fn push(&self, notice: impl Into<String>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < Self::WAITING_MAX {
            waiting.push(notice.into());
        }
    }

    /// Takes the notices that wait.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
