use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use yeoul_base::ByteSize;
use yeoul_sql::{Options, Session};

use super::{Failure, Row, STOPPED, Stage, single_value};

/// The limit on the process in this act.
const MEMORY: ByteSize = ByteSize::from_mib(512);
const SCALE: &str = "1";
/// How often to look whether the generator is done, or the demo is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A query, and what must come out of it on the data of [`SCALE`].
struct Question {
    what: &'static str,
    sql: &'static str,
    /// The single value of its answer.
    answer: &'static str,
}

/// The generator gives the same rows everywhere; the answers are DuckDB's on the same files.
const QUESTIONS: [Question; 4] = [
    Question {
        what: "count the line items of 1995",
        sql: "SELECT count(*) FROM '{data}/lineitem.parquet' \
              WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1995-12-31'",
        answer: "914963",
    },
    Question {
        what: "revenue of the best nation (joins 4 tables)",
        sql: "SELECT max(revenue) FROM (SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue \
              FROM '{data}/nation.parquet' JOIN '{data}/customer.parquet' ON c_nationkey = n_nationkey \
              JOIN '{data}/orders.parquet' ON o_custkey = c_custkey \
              JOIN '{data}/lineitem.parquet' ON l_orderkey = o_orderkey GROUP BY n_name)",
        answer: "8960205391.8314",
    },
    Question {
        what: "group 6 million rows by 3 columns",
        sql: "SELECT count(*) FROM (SELECT l_partkey, l_suppkey, l_shipdate, sum(l_quantity) AS quantity \
              FROM '{data}/lineitem.parquet' GROUP BY l_partkey, l_suppkey, l_shipdate)",
        answer: "5992194",
    },
    Question {
        what: "sort 6 million rows by 2 columns, number them",
        sql: "SELECT sum(l_orderkey % 1000 * (n % 7)) FROM (SELECT l_orderkey, row_number() OVER \
              (ORDER BY l_extendedprice, l_orderkey, l_linenumber) AS n FROM '{data}/lineitem.parquet')",
        answer: "8992652275",
    },
];

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let data = stage.dir.join("tpch");
    let mut rows = vec![generate(stage, &data)?];
    let options = Options { memory: Some(MEMORY), spill_dir: Some(stage.dir.clone()), ..Options::default() };
    let runtime = yeoul_sql::runtime(&options)?;
    runtime.block_on(stage.unless_stopped(async {
        let session = Session::new(options)?;
        for question in QUESTIONS {
            rows.push(ask(&session, &data, &question).await?);
        }
        Ok(())
    }))?;
    Ok(rows)
}

/// Generates in a process of its own, as a user would: the generator's memory is not the engine's.
fn generate(stage: &Stage, data: &Path) -> Result<Row, Failure> {
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["generate", "tpch", "--scale", SCALE, "--out"])
        .arg(data)
        .stdout(Stdio::null())
        .spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if stage.is_stopped() {
            child.kill()?;
            child.wait()?;
            return Err(STOPPED.into());
        }
        thread::sleep(LOOK_EVERY);
    };
    if !status.success() {
        return Err(format!("generating the data ended with {status}").into());
    }
    let bytes: u64 = std::fs::read_dir(data)?
        .flatten()
        .filter_map(|file| file.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    Ok(Row {
        what: format!("generate TPC-H at scale {SCALE}"),
        result: format!("8 tables, {}", ByteSize::from_bytes(bytes)),
        time: started.elapsed(),
        bounds: String::new(),
    })
}

async fn ask(session: &Session, data: &Path, question: &Question) -> Result<Row, Failure> {
    let started = Instant::now();
    let answer = session.sql(&question.sql.replace("{data}", &data.to_string_lossy())).await?;
    let watch = answer.watch();
    let batches = answer.collect().await?;
    let time = started.elapsed();
    let value = single_value(&batches)?;
    if value != question.answer {
        return Err(format!("{}: expected {}, found {value}", question.what, question.answer).into());
    }
    let spilled = ByteSize::from_bytes(watch.progress().spilled_bytes);
    let peak = session.memory().resident_peak;
    if peak > MEMORY {
        return Err(
            format!("{}: the process used {peak}, more than the {MEMORY} it may", question.what).into()
        );
    }
    let bounds = format!("{peak} of {MEMORY}, spilled {spilled}");
    Ok(Row { what: question.what.to_owned(), result: value, time, bounds })
}
