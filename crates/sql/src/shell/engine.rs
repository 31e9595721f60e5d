use std::error::Error;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;
use yeoul_base::Report;

use crate::output::ProgressSource;
use crate::{Place, Span};

/// The shell's view of the engine.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The engine's error type.
    type Error: Diagnose;

    /// Plans one statement and starts it. Dropping the future, or the answer's stream, cancels it.
    ///
    /// # Errors
    /// If the statement is wrong, or cannot be started.
    async fn run(&self, sql: &str) -> Result<Answer<Self::Error>, Self::Error>;

    /// The tables and views of the session, sorted by name.
    ///
    /// # Errors
    /// If a catalog cannot be read.
    async fn tables(&self) -> Result<Vec<String>, Self::Error>;

    /// The columns of a table, a view, or a file, in their order.
    ///
    /// # Errors
    /// If there is no such table, or it cannot be read.
    async fn columns(&self, table: &str) -> Result<Vec<ColumnInfo>, Self::Error>;

    /// The jobs of the place where statements run, a row each.
    ///
    /// # Errors
    /// If nobody there tells.
    async fn jobs(&self) -> Result<RecordBatch, Self::Error>;

    /// The names of all functions, for completion.
    fn functions(&self) -> Vec<String>;

    /// The memory limit, what is in use, and by whom: lines of text for a person.
    fn memory_report(&self) -> String;
}

/// An error with a hint and a place for the user. Its message alone says everything that went wrong.
pub trait Diagnose: Error + Send + Sync + 'static {
    /// What to do about it, in a few words: `did you mean 'price'?`
    fn hint(&self) -> Option<String> {
        None
    }

    /// The part of the statement that the error is about.
    fn span(&self) -> Option<Span> {
        None
    }

    /// The report for an error about `sql`, which starts at `start` of the script `name`. It omits the chain of causes,
    /// which are internal to the engine: the message says everything.
    fn report(&self, sql: &str, name: Option<&str>, start: Place) -> Report
    where
        Self: Sized,
    {
        let report = Report::new(self.to_string()).hint(self.hint());
        match self.span() {
            Some(span) => report.at(sql, span, name, start),
            None => report,
        }
    }
}

/// A statement that has been started.
pub struct Answer<E> {
    /// The columns of the answer; none for a statement that has no answer, such as `CREATE VIEW`.
    pub schema: SchemaRef,
    /// Whether it is the answer of `EXPLAIN`: plans as texts of several lines.
    pub is_plan: bool,
    /// The rows. The statement is done when the stream has ended.
    pub batches: BoxStream<'static, Result<RecordBatch, E>>,
    /// A handle to watch it while it runs.
    pub watch: Option<Arc<dyn Watched>>,
}

/// A running statement, seen from outside.
pub trait Watched: ProgressSource {
    /// All notices so far, in order: what the user should know although nothing failed.
    fn notices(&self) -> Vec<String>;
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: String,
}
