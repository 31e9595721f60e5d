//! The file system's act: a Parquet file that SQL writes and reads, or, in a build without SQL, a file of plain bytes.

#[cfg(not(feature = "sql"))]
mod plain;
#[cfg(feature = "sql")]
mod rows;

use yeoul_base::ByteSize;
use yeoul_bench::dfs::act::{Outcome, Script, run as read_after_a_kill};

#[cfg(not(feature = "sql"))]
use self::plain as file;
#[cfg(feature = "sql")]
use self::rows as file;
use super::{Failure, Row, Stage};

/// Copies of a block that HDFS keeps if a directory is not erasure-coded.
const COPIES: u64 = 3;

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let (script, dir) = (Script::default(), stage.dir.join("dfs"));
    let step = |line: &str| eprintln!("  {line}");
    // Made and dropped outside of the servers' runtime, as it may have one of its own.
    let contents = file::contents()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let act = async { Ok(read_after_a_kill(&dir, &script, &contents, step).await?) };
    let outcome = runtime.block_on(stage.unless_stopped(act))?;
    Ok(rows_of(&script, &outcome))
}

fn rows_of(script: &Script, outcome: &Outcome) -> Vec<Row> {
    let Script { datanodes, killed, policy } = *script;
    let Outcome {
        bytes, bytes_on_disks, write, read, repair, read_again, ref found, killed: ref lost, ..
    } = *outcome;
    let size = ByteSize::from_bytes;
    vec![
        Row {
            what: format!("write {} to {datanodes} DataNodes, {policy}", file::WHAT),
            result: format!("{}, {} on disk", size(bytes), size(bytes_on_disks)),
            time: write,
            bounds: format!("{COPIES} copies would take {}", size(COPIES * bytes)),
        },
        Row {
            what: format!("{} after {killed} of them were killed", file::READ),
            result: found.clone(),
            time: read,
            bounds: format!(
                "{} of {} internal blocks were on the killed ones",
                lost.units, lost.units_before
            ),
        },
        Row {
            what: "make anew what they had, on others".to_owned(),
            result: format!("{} internal blocks", lost.units),
            time: repair,
            bounds: "begins after 10 s; HDFS: 10.5 min".to_owned(),
        },
        Row {
            what: format!("{} after {killed} more were killed", file::READ),
            result: found.clone(),
            time: read_again,
            bounds: format!("{} of {} internal blocks again", outcome.units_killed_again, lost.units_before),
        },
    ]
}
