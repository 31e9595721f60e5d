//! Our own engine as a contestant: the hidden verb `yeoul bench-contestant`.

#[cfg(feature = "cluster")]
mod cluster;
mod place;

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use arrow::ipc::writer::StreamWriter;
use futures::StreamExt;
use yeoul_base::{ByteSize, ErrorKind};
use yeoul_sql::{Options, Session};

pub use self::place::ContestantArgs;
use self::place::Place;
use crate::contest::line_process::LINE_BYTES_MAX;
use crate::contest::protocol::{Dialect, Failed, NullOrder, Open, Opened, Ran, Request, Response, Run};
use crate::error::{Error, Result};

/// DataFusion makes the choices that SQL leaves open as PostgreSQL does.
const DIALECT: Dialect = Dialect { nulls: NullOrder::Last, integer_division: true };

/// Answers requests from stdin on stdout until stdin ends.
///
/// # Errors
/// `Invalid` for a malformed request, `Unavailable` if stdin or stdout fail. A query's error is an answer.
pub fn run(args: &ContestantArgs) -> Result<()> {
    serve(args, io::stdin().lock(), io::stdout().lock())
}

fn serve(args: &ContestantArgs, mut requests: impl BufRead, mut responses: impl Write) -> Result<()> {
    let Some(request) = next_request(&mut requests)? else { return Ok(()) };
    let Request::Open(open) = request else {
        return Err(Error::new(ErrorKind::Invalid, "the first request has to open the tables"));
    };
    let place = match Place::start(args, &open) {
        Ok(place) => place,
        Err(e) => return respond(&mut responses, &unplaced(&e)),
    };
    let options = Options {
        memory: open.memory_bytes.map(ByteSize::from_bytes),
        threads: Some(open.threads),
        spill_dir: Some(open.scratch.clone()),
        ..Options::default()
    };
    let runtime = yeoul_sql::runtime(&options)
        .map_err(|e| Error::new(e.kind(), "cannot start the engine").with_source(e))?;
    let session = match runtime.block_on(open_session(&place, options, &open)) {
        Ok(session) => session,
        Err(e) => return respond(&mut responses, &failed(&e)),
    };
    let version = format!("Yeoul {}", env!("CARGO_PKG_VERSION"));
    let own = Opened { version, pids: vec![std::process::id()], is_limit_of_each: false, dialect: DIALECT };
    respond(&mut responses, &Response::Opened(place.told(own)))?;
    while let Some(request) = next_request(&mut requests)? {
        let Request::Run(run) = request else {
            return Err(Error::new(ErrorKind::Invalid, "the tables are open already"));
        };
        let response = match runtime.block_on(run_query(&session, &run)) {
            Ok(ran) => Response::Ran(ran),
            Err(response) => response,
        };
        respond(&mut responses, &response)?;
    }
    Ok(())
}

async fn open_session(place: &Place, options: Options, open: &Open) -> yeoul_sql::Result<Session> {
    let session = place.session(options)?;
    for table in &open.tables {
        session.sql(&view(&open.data, table)).await?.collect().await?;
    }
    Ok(session)
}

/// The statement that makes a table's file known by its name: a view, so that queries use the same scan as for a file that
/// is named in the query.
fn view(data: &Path, table: &str) -> String {
    let path = data.join(format!("{table}.parquet")).to_string_lossy().replace('\'', "''");
    // Queries write the names unquoted, which makes them lower case.
    let name = table.to_lowercase().replace('"', "\"\"");
    format!("CREATE VIEW \"{name}\" AS SELECT * FROM '{path}'")
}

/// Runs a query to its last row; the error is the response to send.
async fn run_query(session: &Session, run: &Run) -> Result<Ran, Response> {
    let start = Instant::now();
    let mut answer = session.sql(&run.sql).await.map_err(|e| failed(&e))?;
    let mut sink = match &run.save {
        None => None,
        Some(path) => {
            let unsaved = |e| unsaved(path, e);
            let file = File::create(path).map_err(|e| unsaved(e.into()))?;
            Some((StreamWriter::try_new(BufWriter::new(file), &answer.schema()).map_err(unsaved)?, path))
        }
    };
    let mut rows = 0;
    while let Some(batch) = answer.next().await {
        let batch = batch.map_err(|e| failed(&e))?;
        rows += batch.num_rows() as u64;
        if let Some((writer, path)) = &mut sink {
            writer.write(&batch).map_err(|e| unsaved(path, e))?;
        }
    }
    if let Some((writer, path)) = &mut sink {
        writer.finish().map_err(|e| unsaved(path, e))?;
        writer.get_mut().flush().map_err(|e| unsaved(path, e.into()))?;
    }
    let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(Ran { elapsed_ms, rows, notices: answer.notices() })
}

fn failed(error: &yeoul_sql::Error) -> Response {
    Response::Failed(Failed { kind: error.kind().as_str().to_owned(), message: error.to_string() })
}

fn unplaced(error: &Error) -> Response {
    Response::Failed(Failed { kind: error.kind().as_str().to_owned(), message: error.to_string() })
}

fn unsaved(path: &Path, error: arrow::error::ArrowError) -> Response {
    let message = format!("cannot save the answer to {}: {error}", path.display());
    Response::Failed(Failed { kind: ErrorKind::Unavailable.as_str().to_owned(), message })
}

fn next_request(requests: &mut impl BufRead) -> Result<Option<Request>> {
    let mut line = String::new();
    let read = requests.by_ref().take(LINE_BYTES_MAX as u64).read_line(&mut line);
    match read.map_err(|e| Error::io("read", Path::new("stdin"), e))? {
        0 => Ok(None),
        _ => serde_json::from_str(&line)
            .map(Some)
            .map_err(|e| Error::new(ErrorKind::Invalid, "a line on stdin is no request").with_source(e)),
    }
}

fn respond(responses: &mut impl Write, response: &Response) -> Result<()> {
    let mut line = serde_json::to_string(response).expect("a response has only text keys and finite numbers");
    line.push('\n');
    let write = responses.write_all(line.as_bytes()).and_then(|()| responses.flush());
    write.map_err(|e| Error::io("write to", Path::new("stdout"), e))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tempfile::TempDir;

    use super::*;
    use crate::compare::Answer;
    use crate::generate::{self, Suite};

    /// The responses to the requests.
    fn answers(lines: &[Request]) -> Vec<Response> {
        let text: Vec<_> = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        let mut out = Vec::new();
        serve(&ContestantArgs::default(), text.concat().as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn query(sql: &str, save: Option<&Path>) -> Request {
        Request::Run(Run { sql: sql.to_owned(), save: save.map(Into::into), dialect: None })
    }

    #[test]
    fn queries_are_answered_counted_and_saved() {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        let options =
            generate::Options { progress: false, ..generate::Options::new(Suite::TpcH, 0.001, &data) };
        generate::generate(&options, &AtomicBool::new(false)).unwrap();
        let saved = directory.path().join("saved.arrow");
        let open = Request::Open(Open {
            data,
            tables: vec!["region".to_owned()],
            threads: 1,
            memory_bytes: None,
            scratch: directory.path().into(),
        });
        let sql = "select r_name, r_regionkey from region where r_regionkey > 2 order by r_regionkey desc";
        let responses =
            answers(&[open, query(sql, Some(&saved)), query("select nothing", None), query(sql, None)]);
        assert!(matches!(&responses[0], Response::Opened(opened) if opened.version.starts_with("Yeoul ")));
        assert!(matches!(&responses[1], Response::Ran(ran) if ran.rows == 2));
        assert!(matches!(&responses[2], Response::Failed(_)), "{:?}", responses[2]);
        assert!(matches!(&responses[3], Response::Ran(ran) if ran.rows == 2 && ran.elapsed_ms > 0.0));
        let answer = Answer::read(&saved).unwrap();
        assert_eq!((answer.rows, answer.show_row(0).as_str()), (2, "(\"MIDDLE EAST\", 4)"));
    }

    #[test]
    fn tables_are_views_of_files_whatever_their_names() {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("it's data");
        std::fs::create_dir(&data).unwrap();
        let options = Options::default();
        let runtime = yeoul_sql::runtime(&options).unwrap();
        runtime.block_on(async {
            let session = Session::new(options).unwrap();
            let path = data.join("Table-1.parquet").to_string_lossy().replace('\'', "''");
            session.sql(&format!("COPY (SELECT 7 AS n) TO '{path}'")).await.unwrap().collect().await.unwrap();
        });
        let open = |table: &str| {
            Request::Open(Open {
                data: data.clone(),
                tables: vec![table.to_owned()],
                threads: 1,
                memory_bytes: None,
                scratch: directory.path().into(),
            })
        };
        let saved = directory.path().join("saved.arrow");
        let sql = "select n, definition like '%Table-1.parquet%' from \"table-1\", information_schema.views";
        let responses = answers(&[open("Table-1"), query(sql, Some(&saved))]);
        assert!(matches!(&responses[1], Response::Ran(ran) if ran.rows == 1), "{responses:?}");
        assert_eq!(Answer::read(&saved).unwrap().show_row(0), "(7, true)");
        let Response::Failed(failed) = &answers(&[open("none")])[0] else { panic!("there is no such file") };
        assert_eq!(failed.kind, "not_found");
    }

    #[test]
    fn a_query_before_the_tables_is_refused() {
        let none = ContestantArgs::default();
        let line = serde_json::to_string(&query("select 1", None)).unwrap();
        assert_eq!(serve(&none, line.as_bytes(), Vec::new()).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(serve(&none, &b"nonsense\n"[..], Vec::new()).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
