//! A deduplication, a join of two streams and a running count by keys on one core, from batches of Arrow: without a broker, without a disk.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::operators::Operators;
use yeoul_stream::parse_job;
use yeoul_stream::plan::Query;
use yeoul_stream::state::MemoryShare;

use crate::findings::{Bar, Finding, Unit};

/// Records of a run over all streams, of a batch, and of a second of event time in each stream.
const RECORDS: i64 = 4_000_000;
const BATCH_RECORDS: i64 = 8192;
const RECORDS_PER_SECOND: i64 = 100_000;
/// Keys of the state function.
const STATE_KEYS: i64 = 50_000;
/// Batches of each stream between two ends of batches, as ticks bring them.
const BATCHES_TO_TICK: i64 = 4;
/// Millions of records a second on one core: as much as Kafka gives a process in JSON.
const RATE_MIN: f64 = 0.2;

/// Deduplicates records of which each fifth is a repeat, within the watermark, so many times.
///
/// # Errors
/// `DataLoss` if another number of rows comes out.
pub fn measure_deduplication(rounds: usize) -> Result<Finding> {
    let query = "SELECT DISTINCT WITHIN WATERMARK ON (value) value FROM a";
    let batches = batches(RECORDS, |record| record - i64::from(record % 5 == 4))?;
    let expected = batches.len() as i64 * BATCH_RECORDS * 4 / 5;
    measure("deduplication within the watermark, 20 % repeats", query, &[&batches], expected, rounds)
}

/// Joins two streams of the same keys within five seconds, each record with one of the other.
///
/// # Errors
/// As [`measure_deduplication`].
pub fn measure_join(rounds: usize) -> Result<Finding> {
    let query = "SELECT a.value, b.timestamp AS other FROM a JOIN b ON a.value = b.value \
                 AND b.timestamp BETWEEN a.timestamp AND a.timestamp + INTERVAL '5' SECOND";
    let batches = batches(RECORDS / 2, |record| record)?;
    let expected = batches.len() as i64 * BATCH_RECORDS;
    measure("join of two streams within 5 s", query, &[&batches, &batches], expected, rounds)
}

/// Counts records of fifty thousand keys by a state function with a timeout.
///
/// # Errors
/// As [`measure_deduplication`].
pub fn measure_keyed_state(rounds: usize) -> Result<Finding> {
    let query = "SELECT value, count FROM running_count(TABLE a PARTITION BY value, time => DESCRIPTOR(timestamp), \
                 timeout => INTERVAL '30' SECOND) EMIT UPDATES";
    let batches = batches(RECORDS, |record| record % STATE_KEYS)?;
    let expected = batches.len() as i64 * BATCH_RECORDS;
    measure("running count of 50,000 keys with timeouts", query, &[&batches], expected, rounds)
}

fn measure(
    what: &str,
    select: &str,
    streams: &[&[RecordBatch]],
    expected: i64,
    rounds: usize,
) -> Result<Finding> {
    let mut ours = Vec::new();
    for _ in 0..rounds {
        let mut operators = Operators::of_new_query(&query(select)?, &MemoryShare::default())?;
        let started = Instant::now();
        let (mut out, mut records) = (0_i64, 0_usize);
        let mut count = |rows: RecordBatch| {
            out += rows.num_rows() as i64;
            Ok(())
        };
        for number in 0..streams[0].len() {
            for (stream, batches) in streams.iter().enumerate() {
                records += batches[number].num_rows();
                operators.push_from(stream, &batches[number], &mut count)?;
            }
            if number as i64 % BATCHES_TO_TICK == BATCHES_TO_TICK - 1 {
                operators.end_batch_into(&mut count)?;
            }
        }
        ours.push(records as f64 / 1e6 / started.elapsed().as_secs_f64());
        // A repeat at the end of a batch of records may be the first of the next one's numbers.
        if (out - expected).abs() > streams[0].len() as i64 {
            let text = format!("{what}: {out} rows came out, expected {expected}");
            return Err(Error::new(ErrorKind::DataLoss, text));
        }
    }
    let name = format!("{what} from Arrow batches, one core").into();
    let bar = Bar::MedianAtLeast(RATE_MIN);
    Ok(Finding { name, unit: Unit::MillionsPerSecond, bytes: None, ours, peer: "", peers: Vec::new(), bar })
}

fn query(select: &str) -> Result<Query> {
    let stream = |name: &str| {
        format!(
            "CREATE STREAM {name} (WATERMARK FOR timestamp AS timestamp - INTERVAL '10' SECOND) \
             WITH ('connector' = 'rate', 'rowsPerSecond' = '1');"
        )
    };
    let (a, b) = (stream("a"), stream("b"));
    let job =
        format!("{a} {b} CREATE SINK nowhere WITH ('connector' = 'noop'); INSERT INTO nowhere {select}");
    Ok(parse_job(&job)?.pop().expect("the job has one query"))
}

/// Batches of records with their times and these values.
fn batches(records: i64, value: impl Fn(i64) -> i64) -> Result<Vec<RecordBatch>> {
    let schema = query("SELECT value FROM a")?.stream_schema;
    let made = (0..records / BATCH_RECORDS).map(|number| {
        let records = number * BATCH_RECORDS..(number + 1) * BATCH_RECORDS;
        let times = records.clone().map(|record| record * 1_000_000 / RECORDS_PER_SECOND);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("+00:00");
        let values = Int64Array::from_iter_values(records.map(&value));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(times), Arc::new(values)])
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    });
    made.collect()
}
