//! A windowed count on one core, from batches of Arrow: without a broker, without a disk.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use yeoul_base::{Error, ErrorKind, Result};
use yeoul_stream::operators::Operators;
use yeoul_stream::parse_job;
use yeoul_stream::plan::Query;
use yeoul_stream::state::MemoryShare;

use crate::findings::{Bar, Finding, Unit};

/// Records of a run, of a batch, and of a second of event time.
const RECORDS: i64 = 20_000_000;
const BATCH_RECORDS: i64 = 8192;
const RECORDS_PER_SECOND: i64 = 100_000;
/// Keys that are counted.
const KEYS: i64 = 1000;
/// Batches between two ends of batches, as ticks bring them.
const BATCHES_TO_TICK: i64 = 16;
/// Millions of records a second on one core.
const RATE_MIN: f64 = 5.0;

/// Counts records by windows of a minute and a thousand keys, and gives out each count that changed; so many times.
///
/// # Errors
/// `DataLoss` if a count is wrong.
pub fn measure(rounds: usize) -> Result<Finding> {
    let batches = batches()?;
    let mut ours = Vec::new();
    for _ in 0..rounds {
        let mut operators = Operators::of_new_query(&query()?, &MemoryShare::default())?;
        operators.set_gathering(true);
        let started = Instant::now();
        let mut out = 0;
        for (number, batch) in (1..).zip(&batches) {
            operators.push(batch.clone())?;
            if number % BATCHES_TO_TICK == 0 {
                out += operators.end_batch()?.iter().map(RecordBatch::num_rows).sum::<usize>();
            }
        }
        ours.push(RECORDS as f64 / 1e6 / started.elapsed().as_secs_f64());
        let ticks = batches.len() as i64 / BATCHES_TO_TICK;
        // Each tick changes each key, some of them in two windows.
        if (out as i64) < ticks * KEYS || out as i64 > ticks * KEYS * 2 {
            return Err(Error::new(ErrorKind::DataLoss, format!("{out} counts came out of {ticks} ticks")));
        }
    }
    let name = format!("windowed count of {KEYS} keys from Arrow batches, one core").into();
    let bar = Bar::MedianAtLeast(RATE_MIN);
    Ok(Finding { name, unit: Unit::MillionsPerSecond, bytes: None, ours, peer: "", peers: Vec::new(), bar })
}

fn query() -> Result<Query> {
    let job = "CREATE STREAM events (WATERMARK FOR timestamp AS timestamp - INTERVAL '1' SECOND) \
                 WITH ('connector' = 'rate', 'rowsPerSecond' = '1');\
               CREATE SINK nowhere WITH ('connector' = 'noop');\
               INSERT INTO nowhere SELECT window_end, value, count(*) AS n \
                 FROM TUMBLE(TABLE events, DESCRIPTOR(timestamp), INTERVAL '1' MINUTE) GROUP BY window_end, value EMIT UPDATES";
    Ok(parse_job(job)?.pop().expect("the job has one query"))
}

fn batches() -> Result<Vec<RecordBatch>> {
    let schema = query()?.stream_schema;
    let count = RECORDS / BATCH_RECORDS;
    let made = (0..count).map(|number| {
        let records = number * BATCH_RECORDS..(number + 1) * BATCH_RECORDS;
        let times = records.clone().map(|record| record * 1_000_000 / RECORDS_PER_SECOND);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("+00:00");
        // A prime that spreads neighbours over the keys.
        let keys = Int64Array::from_iter_values(records.map(|record| record * 7919 % KEYS));
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(times), Arc::new(keys)])
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    });
    made.collect()
}
